//! Accepts connections, a bounded number at a time.

use super::{
    connection::Connection,
    places::{Holder, Places},
    unix,
};
use crate::{
    access::{Cohort, UnixPeer},
    config::Role,
};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    time::{Instant, Sleep, sleep},
};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long to wait if accepting fails, such as when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

/// Shortest time between two log lines about refused connections.
const WARNING: Duration = Duration::from_secs(60);

/// A socket that connections are accepted from.
pub(super) trait Accept: Unpin {
    type Io;
    /// What is known about the other end.
    type Peer: Clone + Send + Sync + 'static;
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;
    /// Whom a connection counts for.
    fn holder(&self, io: &Self::Io) -> Holder;
    /// Who is at the other end.
    fn peer(&self, io: &Self::Io) -> Self::Peer;
}

impl Accept for unix::ListeningSocket {
    type Io = UnixStream;
    type Peer = UnixPeer;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }

    fn holder(&self, stream: &UnixStream) -> Holder {
        let Ok(peer) = stream.peer_cred() else { return Holder::Unknown };
        // At a socket without admins root counts as an ordinary user: it gets none of the places kept for root.
        match &self.further {
            Some(socket) if socket.max_role < Role::Admin => Holder::User(peer.uid()),
            _ => Holder::user(peer.uid()),
        }
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

    fn holder(&self, stream: &TcpStream) -> Holder {
        stream.peer_addr().map_or(Holder::Unknown, |peer| Holder::Address(peer.ip()))
    }

    fn peer(&self, stream: &TcpStream) -> TcpConnectInfo {
        stream.connect_info()
    }
}

/// The cohort that a peer is one of, by the grants that are in force.
pub(super) type CohortOf<P> = Arc<dyn Fn(&P) -> Option<Cohort> + Send + Sync>;

/// The connections of some listeners. The stream never ends; the listeners are closed when it is dropped.
pub(super) struct Incoming<L: Accept> {
    listeners: Vec<L>,
    places: Places,
    cohort_of: CohortOf<L::Peer>,
    warned: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<L: Accept> Incoming<L> {
    pub(super) fn new(listeners: Vec<L>, most: usize, cohort_of: CohortOf<L::Peer>) -> Self {
        Self { listeners, places: Places::new(most), cohort_of, warned: None, pause: None }
    }

    /// A connection beyond the bound is closed, so that its client learns of it.
    fn admit(&mut self, index: usize, io: L::Io) -> Option<Connection<L::Io, L::Peer>> {
        let listener = &self.listeners[index];
        let (holder, peer) = (listener.holder(&io), listener.peer(&io));
        let cohort = (self.cohort_of)(&peer);
        let place = self.places.take(holder, cohort);
        if place.is_none() && self.warned.is_none_or(|warned| warned.elapsed() > WARNING) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                ?holder,
                ?cohort,
                "too many connections at a time; more of this client are closed until some end"
            );
        }
        place.map(|place| Connection::new(io, peer, place))
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
