//! Accepts connections, so many at a time.

use super::{connection::Connection, unix};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    sync::Semaphore,
    time::{Sleep, sleep},
};
use tokio_stream::Stream;

/// How long to wait when no connection can be accepted, such as when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

/// Accepts connections.
pub(super) trait Accept: Unpin {
    type Io;
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Io>>;
}

impl Accept for unix::Socket {
    type Io = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
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
}

/// Connections of some listeners. It never ends; the listeners are closed when it is dropped.
pub(super) struct Incoming<L> {
    listeners: Vec<L>,
    places: Arc<Semaphore>,
    is_full: bool,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<L> Incoming<L> {
    pub(super) fn new(listeners: Vec<L>, most: usize) -> Self {
        Self { listeners, places: Arc::new(Semaphore::new(most)), is_full: false, pause: None }
    }

    /// A connection too many is closed, so that its client learns of it.
    fn admit<T>(&mut self, io: T) -> Option<Connection<T>> {
        let place = self.places.clone().try_acquire_owned().ok();
        if place.is_none() && !self.is_full {
            tracing::warn!("too many connections at a time; more are closed until some end");
        }
        self.is_full = place.is_none();
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
