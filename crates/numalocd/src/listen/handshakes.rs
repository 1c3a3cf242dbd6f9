//! TLS handshakes, done concurrently, so that a slow client blocks no other.

use super::{connection::Connection, incoming::Incoming};
use crate::tls::{Keys, Protocol};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tonic::transport::server::TcpConnectInfo;

type Plain = Connection<TcpStream, TcpConnectInfo>;

/// Connections whose clients have presented a valid certificate. Each handshake uses the keys that are loaded when it
/// begins.
pub(super) struct Secured {
    incoming: Incoming<TcpListener>,
    keys: Keys,
    handshakes: JoinSet<io::Result<TlsStream<Plain>>>,
}

impl Secured {
    pub(super) fn new(incoming: Incoming<TcpListener>, keys: Keys) -> Self {
        Self { incoming, keys, handshakes: JoinSet::new() }
    }
}

impl Stream for Secured {
    type Item = io::Result<TlsStream<Plain>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match this.handshakes.poll_join_next(cx) {
                Poll::Ready(Some(Ok(Ok(stream)))) => return Poll::Ready(Some(Ok(stream))),
                Poll::Ready(Some(Ok(Err(error)))) => {
                    tracing::debug!(%error, "a TLS handshake has failed");
                    continue;
                }
                Poll::Ready(Some(Err(_))) => continue,
                Poll::Ready(None) | Poll::Pending => {}
            }
            match ready!(Pin::new(&mut this.incoming).poll_next(cx)) {
                Some(Ok(connection)) => {
                    let keys = this.keys.clone();
                    let handshake = async move { keys.accept(Protocol::Grpc, connection).await };
                    this.handshakes.spawn(handshake);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
