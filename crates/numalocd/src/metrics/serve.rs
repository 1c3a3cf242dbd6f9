//! Serves metrics by HTTP: in plain text to all users of this machine, and with TLS to clients that have a role.

use super::Metrics;
use crate::{
    access::{Grants, Peer},
    config::Config,
    tls::{Keys, Protocol},
};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::VecDeque, convert::Infallible, io, net::SocketAddr, pin::pin, sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

/// The content type of the answer to `GET /metrics`.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Most connections at a time. A further one takes the place of the oldest: an answer takes milliseconds, so what is
/// open for long is a client that keeps others out.
const MAX_CONNECTIONS: usize = 16;
/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a request and its answer: a client that does not read the answer blocks others.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept. Most failures, such as a lack of file descriptors, pass without intervention.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The reason why metrics are not served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsServeError {
    /// The address can be reached from elsewhere.
    #[error(
        "metrics would be served to everybody at {0}: add [listen.tls], or listen at a loopback address such as 127.0.0.1"
    )]
    NotLoopback(SocketAddr),
    /// The listener's address cannot be found out.
    #[error("cannot serve metrics: {0}")]
    Io(#[from] io::Error),
}

/// Keeps out clients that may not read.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The server's keys, and the authority for client certificates.
    pub keys: Keys,
    /// The configuration with the grants.
    pub config: watch::Receiver<Arc<Config>>,
}

/// Answers `GET /metrics` until `stop` is true or its sender is gone; requests under way are answered first. Each
/// connection serves one request. With an `admission` the connection uses TLS, and only clients with a role get the
/// metrics. Without one it is plain HTTP.
///
/// # Errors
/// The address is not a loopback address, and no admission is given.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    admission: Option<Admission>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), MetricsServeError> {
    let address = listener.local_addr()?;
    if admission.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(MetricsServeError::NotLoopback(address));
    }
    let mut connections = JoinSet::new();
    // In the order in which they came.
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        // Forget the connections that have ended.
        while connections.try_join_next().is_some() {}
        open.retain(|connection| !connection.is_finished());
        match accepted {
            Ok((stream, _)) => {
                if open.len() >= MAX_CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let connection = let_in(stream, metrics.clone(), admission.clone(), stop.clone());
                open.push_back(connections.spawn(connection));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // Not join_all(), which panics for a connection that had to make room.
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Serves one connection, from its handshake on.
async fn let_in(
    stream: TcpStream,
    metrics: Metrics,
    admission: Option<Admission>,
    mut stop: watch::Receiver<bool>,
) {
    let Some(Admission { keys, config }) = admission else {
        return answer(stream, metrics, true, stop).await;
    };
    let shaken = tokio::select! {
        shaken = keys.accept(Protocol::Http, stream) => shaken,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match shaken {
        Ok(stream) => {
            let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates().unwrap_or(&[]));
            let may_read = Grants::from(&**config.borrow()).caller(&peer).is_some();
            answer(stream, metrics, may_read, stop).await;
        }
        Err(error) => tracing::debug!(%error, "a TLS handshake for metrics has failed"),
    }
}

/// Serves the request of a connection. Errors concern only its client, so they are ignored.
async fn answer<T: AsyncRead + AsyncWrite + Unpin>(
    stream: T,
    metrics: Metrics,
    may_read: bool,
    mut stop: watch::Receiver<bool>,
) {
    let service =
        service_fn(async |request| Ok::<_, Infallible>(respond(&request, &metrics, may_read)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = async {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    };
    let _ = timeout(CONNECTION_TIMEOUT, served).await;
}

fn respond(
    request: &Request<Incoming>,
    metrics: &Metrics,
    may_read: bool,
) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    let (status, kind, text) = match (request.uri().path(), request.method()) {
        _ if !may_read => {
            let why = "no grant in the daemon's configuration names your certificate\n";
            (StatusCode::FORBIDDEN, plain, why.to_owned())
        }
        ("/metrics", &Method::GET) => (StatusCode::OK, CONTENT_TYPE, metrics.text()),
        ("/metrics", _) => (StatusCode::METHOD_NOT_ALLOWED, plain, "only GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, plain, "metrics are at /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(header::ALLOW, header::HeaderValue::from_static("GET"));
    }
    response
}
