//! Accepts connections, up to the number at a time that the accounts of their clients allow.

use super::{connection::Connection, unix};
use crate::{
    access::UnixPeer,
    accounts::{Accounts, Client, Resource},
    log::LineRate,
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Pause after accepting has failed, for example because the process is out of file descriptors.
const PAUSE: Duration = Duration::from_millis(200);

/// A socket that connections are accepted from.
pub(super) trait Accept: Unpin {
    type Io;
    /// The description of the other end.
    type Peer: Clone + Send + Sync + 'static;
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;
    fn peer(&self, io: &Self::Io) -> Self::Peer;
}

impl Accept for unix::ListeningSocket {
    type Io = UnixStream;
    type Peer = UnixPeer;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }

    fn peer(&self, stream: &UnixStream) -> UnixPeer {
        UnixPeer::of(stream, self.further.clone())
    }
}

impl Accept for TcpListener {
    type Io = TcpStream;
    type Peer = TcpConnectInfo;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let (stream, _) = ready!(self.poll_accept(cx))?;
        // An error means that the connection is gone. Reading from it will find that out.
        let _ = stream.set_nodelay(true);
        Poll::Ready(Ok(stream))
    }

    fn peer(&self, stream: &TcpStream) -> TcpConnectInfo {
        stream.connect_info()
    }
}

/// Whom the connection of a peer counts for, by the grants that are in force.
pub(super) type ClientOf<P> = Arc<dyn Fn(&P) -> Client + Send + Sync>;

/// The account that connections are charged to.
pub(super) struct Charged<P> {
    pub accounts: Accounts,
    /// The kind of connection that is charged.
    pub as_a: Resource,
    pub client_of: ClientOf<P>,
}

/// The connections of some listeners. The stream never ends; the listeners are closed when it is dropped.
pub(super) struct Incoming<L: Accept> {
    listeners: Vec<L>,
    charged: Charged<L::Peer>,
    warnings: LineRate,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<L: Accept> Incoming<L> {
    pub(super) fn new(listeners: Vec<L>, charged: Charged<L::Peer>) -> Self {
        Self { listeners, charged, warnings: LineRate::default(), pause: None }
    }

    /// A connection beyond the bound is closed, so that its client learns of it.
    fn admit(&mut self, index: usize, io: L::Io) -> Option<Connection<L::Io, L::Peer>> {
        let peer = self.listeners[index].peer(&io);
        let Charged { accounts, as_a, client_of } = &self.charged;
        match accounts.take(&client_of(&peer), *as_a, 1) {
            Ok(place) => Some(Connection::new(io, peer, place)),
            Err(refusal) => {
                if let Some(connections) = self.warnings.count(1, Instant::now()) {
                    tracing::warn!(%refusal, connections, "a connection is closed, and more of this client until some end");
                }
                None
            }
        }
    }
}

impl<L: Accept> Stream for Incoming<L> {
    type Item = io::Result<Connection<L::Io, L::Peer>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        'accept: loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(cx));
                this.pause = None;
            }
            for index in 0..this.listeners.len() {
                match this.listeners[index].poll_accept(cx) {
                    Poll::Ready(Ok(io)) => {
                        let admitted = this.admit(index, io);
                        // Next time the other listeners are asked first.
                        this.listeners.rotate_left(index + 1);
                        match admitted {
                            Some(connection) => return Poll::Ready(Some(Ok(connection))),
                            None => continue 'accept,
                        }
                    }
                    Poll::Ready(Err(error)) => {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        this.pause = Some(Box::pin(sleep(PAUSE)));
                        continue 'accept;
                    }
                    Poll::Pending => {}
                }
            }
            return Poll::Pending;
        }
    }
}
