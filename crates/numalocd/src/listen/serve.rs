//! The gRPC server on open sockets.

use super::{
    Listeners,
    handshakes::Secured,
    incoming::{Charged, Incoming},
};
use crate::{
    access::Access,
    accounts::{Client, Resource},
};
use http::{Request, Response};
use hyper::body::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tonic::{
    body::Body,
    codegen::StdError,
    service::Routes,
    transport::{
        self, Server,
        server::{Router, TcpConnectInfo},
    },
};
use tower::{Layer, Service};

/// Most calls at the same time in one connection.
const CALLS: u32 = 1024;
/// HTTP/2 flow-control windows: how many bytes a client may send in one call, and in all calls of its connection,
/// before they are read. The daemon may have to hold as much for each client. Most requests are smaller. Larger ones
/// take some more round trips.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 128 << 10;
/// A client that has sent nothing for this long is sent an HTTP/2 ping.
const PING: Duration = Duration::from_secs(30);
/// Time that the client may take to answer the ping.
const PONG: Duration = Duration::from_secs(20);

/// The reason why serving has ended too early.
#[derive(Debug, thiserror::Error)]
#[error("the gRPC server has failed: {0}")]
pub struct ServeError(#[from] transport::Error);

/// Serves the services that `router` adds to a server, once for each kind of socket, until `shutdown` ends. From then
/// on nothing is accepted any more, the sockets that this daemon made are removed, and open calls are awaited. To bound
/// that wait, end the streams or drop this future. Connections are charged to the accounts of `access`: at a Unix
/// socket to the client that calls there, at a TCP socket, whose client is not known yet, to its address.
///
/// The extensions of a request say who calls and hold what closes the connection: `Via<UnixPeer>` at a Unix socket,
/// `TlsConnectInfo<Via<TcpConnectInfo>>` with TLS, only `Via<TcpConnectInfo>` without TLS (see
/// [`Via`](crate::access::Via)).
///
/// # Errors
/// The server fails.
pub async fn serve<L, B>(
    listeners: Listeners,
    router: impl Fn(Server) -> Router<L>,
    access: &Access,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError>
where
    L: Layer<Routes>,
    L::Service: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send,
    <L::Service as Service<Request<Body>>>::Error: Into<StdError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    let Listeners { unix, tcp, keys, .. } = listeners;
    let (stop, stopped) = watch::channel(());
    let until_stop = || {
        let mut stopped = stopped.clone();
        // An error means that the sender is gone, which is the end, too.
        async move { drop(stopped.changed().await) }
    };
    let of_unix = async {
        let (accounts, access) = (access.accounts().clone(), access.clone());
        let client_of = Arc::new(move |peer: &_| access.client_of(peer));
        let as_a = Resource::Connections;
        let incoming = Incoming::new(unix, Charged { accounts, as_a, client_of });
        router(server()).serve_with_incoming_shutdown(incoming, until_stop()).await
    };
    let of_tcp = async {
        if tcp.is_empty() {
            return Ok(());
        }
        let (accounts, as_a) = (access.accounts().clone(), Resource::RemoteConnections);
        let incoming = Incoming::new(tcp, Charged { accounts, as_a, client_of: Arc::new(address) });
        let router = router(server());
        match keys {
            None => router.serve_with_incoming_shutdown(incoming, until_stop()).await,
            Some(keys) => {
                let incoming = Secured::new(incoming, keys);
                router.serve_with_incoming_shutdown(incoming, until_stop()).await
            }
        }
    };
    let stopping = async {
        shutdown.await;
        stop.send_replace(());
        Ok(())
    };
    tokio::try_join!(of_unix, of_tcp, stopping)?;
    Ok(())
}

/// Whom a TCP connection counts for until its client has shown a certificate, and after that.
fn address(peer: &TcpConnectInfo) -> Client {
    let name = peer.remote_addr().map_or_else(|| "unknown".to_owned(), |at| at.ip().to_string());
    Client { name, cohort: None }
}

fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .max_concurrent_streams(CALLS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}
