//! The gRPC server on open sockets.

use super::{Listeners, handshakes::Secured, incoming::Incoming};
use crate::access::{Cohort, UnixPeer};
use http::{Request, Response};
use hyper::body::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tonic::{
    body::Body,
    codegen::StdError,
    service::Routes,
    transport::{self, Server, server::Router},
};
use tower::{Layer, Service};

/// Most connections at the same time, for Unix sockets and for TCP sockets each.
const CONNECTIONS: usize = 1024;
/// Most calls at the same time in one connection.
const CALLS: u32 = 1024;
/// HTTP/2 flow-control windows: how many bytes a client may send in one call, and in all calls of its connection, before they are
/// read. The daemon may have to hold as much for each client. Most requests are smaller. Larger ones take some more round trips.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 128 << 10;
/// A client that has sent nothing for this long is sent an HTTP/2 ping.
const PING: Duration = Duration::from_secs(30);
/// How long the client may take to answer the ping.
const PONG: Duration = Duration::from_secs(20);

/// Why serving has ended too early.
#[derive(Debug, thiserror::Error)]
#[error("the gRPC server has failed: {0}")]
pub struct ServeError(#[from] transport::Error);

/// Serves the services that `router` adds to a server, once for each kind of socket, until `shutdown` ends. From then on nothing
/// is accepted any more, the sockets that this daemon made are removed, and open calls are awaited. To bound that wait, end the
/// streams or drop this future. Users at Unix sockets share places with those of the cohort that `cohort_of` puts them in.
///
/// The extensions of a request say who calls and hold what closes the connection: `Via<UnixPeer>` at a Unix socket,
/// `TlsConnectInfo<Via<TcpConnectInfo>>` with TLS, only `Via<TcpConnectInfo>` without TLS (see [`Via`](crate::access::Via)).
///
/// # Errors
/// The server fails.
pub async fn serve<L, B>(
    listeners: Listeners,
    router: impl Fn(Server) -> Router<L>,
    cohort_of: impl Fn(&UnixPeer) -> Option<Cohort> + Send + Sync + 'static,
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
    let Listeners { unix, tcp, keys } = listeners;
    let (stop, stopped) = watch::channel(());
    let until_stop = || {
        let mut stopped = stopped.clone();
        // An error means that the sender is gone, which is the end, too.
        async move { drop(stopped.changed().await) }
    };
    let of_unix = async {
        let incoming = Incoming::new(unix, CONNECTIONS, Arc::new(cohort_of));
        router(server()).serve_with_incoming_shutdown(incoming, until_stop()).await
    };
    let of_tcp = async {
        if tcp.is_empty() {
            return Ok(());
        }
        let incoming = Incoming::new(tcp, CONNECTIONS, Arc::new(|_: &_| None));
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

fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .max_concurrent_streams(CALLS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}
