//! Accepts connections, so many at a time.

use super::{
    connection::Connection,
    places::{Holder, Places},
    unix,
};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    time::{Instant, Sleep, sleep},
};
use tokio_stream::Stream;

/// How long to wait when no connection can be accepted, such as when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

/// How often it is logged at most that connections are refused.
const WARNING: Duration = Duration::from_secs(60);

/// Accepts connections.
pub(super) trait Accept: Unpin {
    type Io;
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;
    /// Who is at the other end.
    fn holder(io: &Self::Io) -> Holder;
}

impl Accept for unix::Socket {
    type Io = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }

    fn holder(stream: &UnixStream) -> Holder {
        stream.peer_cred().map_or(Holder::Unknown, |peer| Holder::user(peer.uid()))
    }
}

impl Accept for TcpListener {
    type Io = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let (stream, _) = ready!(self.poll_accept(cx))?;
        // A connection that is gone already is found out when it is read.
        let _ = stream.set_nodelay(true);
        Poll::Ready(Ok(stream))
    }

    fn holder(stream: &TcpStream) -> Holder {
        stream.peer_addr().map_or(Holder::Unknown, |peer| Holder::Address(peer.ip()))
    }
}

/// Connections of some listeners. It never ends; the listeners are closed when it is dropped.
pub(super) struct Incoming<L> {
    listeners: Vec<L>,
    places: Places,
    warned: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<L: Accept> Incoming<L> {
    pub(super) fn new(listeners: Vec<L>, most: usize) -> Self {
        Self { listeners, places: Places::new(most), warned: None, pause: None }
    }

    /// A connection too many is closed, so that its client learns of it.
    fn admit(&mut self, io: L::Io) -> Option<Connection<L::Io>> {
        let holder = L::holder(&io);
        let place = self.places.take(holder);
        if place.is_none() && self.warned.is_none_or(|warned| warned.elapsed() > WARNING) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                ?holder,
                "too many connections at a time; more of this client are closed until some end"
            );
        }
        place.map(|place| Connection::new(io, place))
    }
}

impl<L: Accept> Stream for Incoming<L> {
    type Item = io::Result<Connection<L::Io>>;

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
                        // The others get their turn first the next time.
                        this.listeners.rotate_left(index + 1);
                        match this.admit(io) {
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
