//! Serves metrics by HTTP: in plain text to all users of this machine, and with TLS to clients that have a role.

use super::Metrics;
use crate::{
    access::{Grants, Peer},
    config::Config,
    tls::{Keys, Protocol},
};
use http::{HeaderValue, header};
use numaloc_http::{
    Answer, Limits, Method, OPENMETRICS, PLAIN, Places, Request, StatusCode, accept_tcp, converse,
    whole,
};
use std::{future::ready, io, net::SocketAddr, sync::Arc};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// Most connections at a time. A further one takes the place of the oldest: an answer takes milliseconds, so what is
/// open for long is a client that keeps others out.
const MAX_CONNECTIONS: usize = 16;

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
    stop: watch::Receiver<bool>,
) -> Result<(), MetricsServeError> {
    let address = listener.local_addr()?;
    if admission.is_none() && !address.ip().to_canonical().is_loopback() {
        return Err(MetricsServeError::NotLoopback(address));
    }
    let serve = |stream, _| let_in(stream, metrics.clone(), admission.clone(), stop.clone());
    accept_tcp(listener, Places::new(MAX_CONNECTIONS, 0), stop.clone(), serve).await;
    Ok(())
}

/// Serves one connection, from its handshake on.
async fn let_in(
    stream: TcpStream,
    metrics: Metrics,
    admission: Option<Admission>,
    mut stop: watch::Receiver<bool>,
) {
    let limits = Limits::METRICS;
    let Some(Admission { keys, config }) = admission else {
        let answer = |request| ready(respond(&request, &metrics, true));
        return converse(stream, limits, stop, answer).await;
    };
    let shaken = tokio::select! {
        shaken = keys.accept(Protocol::Http, stream) => shaken,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match shaken {
        Ok(stream) => {
            let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates().unwrap_or(&[]));
            let may_read = Grants::from(&**config.borrow()).caller(&peer).is_some();
            let answer = |request| ready(respond(&request, &metrics, may_read));
            converse(stream, limits, stop, answer).await;
        }
        Err(error) => tracing::debug!(%error, "a TLS handshake for metrics has failed"),
    }
}

fn respond(request: &Request, metrics: &Metrics, may_read: bool) -> Answer {
    match (request.uri().path(), request.method()) {
        _ if !may_read => {
            let why = "no grant in the daemon's configuration names your certificate\n";
            whole(StatusCode::FORBIDDEN, PLAIN, why)
        }
        ("/metrics", &Method::GET) => whole(StatusCode::OK, OPENMETRICS, metrics.text()),
        ("/metrics", _) => {
            let mut refused = whole(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n");
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            refused
        }
        _ => whole(StatusCode::NOT_FOUND, PLAIN, "metrics are at /metrics\n"),
    }
}
