//! Serves HTTP/1.1: the metrics of the daemon and of the node agent, and the page of `numalocctl web`. [`accept`] bounds the number of
//! connections, [`converse`] the time of each. What a request is answered is the caller's.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod patient;
mod places;

use crate::patient::Patient;
use http::{HeaderValue, header};
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    convert::Infallible,
    future::poll_fn,
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinSet, yield_now},
    time::sleep,
};

pub use http::{Method, Response, StatusCode};
pub use hyper::body::{Bytes, Incoming};
pub use places::{Place, Places};

/// A request, of which the body has not been read.
pub type Request = http::Request<Incoming>;
/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// The content type of text for people.
pub const PLAIN: &str = "text/plain; charset=utf-8";
/// The content type of metrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Pause after a failed accept. Most failures, such as a lack of file descriptors, pass without intervention.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time for the head of a request, from the connection or the last answer on.
    pub head: Duration,
    /// Time for the client to read an answer: an unread one holds memory.
    pub answer: Duration,
    /// Whether further requests may follow the first one.
    pub keep_alive: bool,
}

impl Limits {
    /// For metrics: each connection serves one request.
    pub const METRICS: Self =
        Self { head: Duration::from_secs(5), answer: Duration::from_secs(10), keep_alive: false };
}

/// Serves each connection that `next` gives by a task, until `stop` is true or its sender is gone. From then on nothing is accepted, and
/// the tasks are awaited: [`converse`] ends if it has the same `stop`.
pub async fn accept<S, F: Future<Output = ()> + Send + 'static>(
    next: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    places: Arc<Places>,
    mut stop: watch::Receiver<bool>,
    serve: impl Fn(S, Arc<Place>) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = poll_fn(&next) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        // Forget the connections that have ended.
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok(stream) => {
                let place = Arc::new(places.take());
                let (number, served) = (place.number(), serve(stream, place.clone()));
                let task = connections.spawn(async move {
                    served.await;
                    drop(place);
                });
                places.served_by(number, task);
                // New connections are read before others may take the place.
                yield_now().await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for HTTP");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(next);
    // Not join_all(), which panics for a connection that had to make room.
    while connections.join_next().await.is_some() {}
}

/// As [`accept`], of the connections of a TCP listener.
pub async fn accept_tcp<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
    serve: impl Fn(TcpStream, Arc<Place>) -> F,
) {
    let next = move |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(of, _)| of);
    accept(next, places, stop, serve).await;
}

/// Answers the requests of a connection. Once `stop` is true or its sender is gone, the request under way is the last. Errors concern
/// only this client, so they are ignored.
pub async fn converse<A: Future<Output = Answer>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    limits: Limits,
    mut stop: watch::Receiver<bool>,
    answer: impl Fn(Request) -> A,
) {
    let service = service_fn(|request| {
        let answered = answer(request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(limits.keep_alive)
        .serve_connection(TokioIo::new(Patient::new(stream, limits.answer)), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// An answer with a body of this content type.
pub fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests;
