//! A connection: it holds a place among those that are allowed, and has to begin to speak soon.

use super::places::Place;
use crate::access::UnixPeer;
use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::net::{TcpStream, UnixStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long a client may take to send the bytes below. Later, HTTP/2 pings find those that are gone.
const OPENING: Duration = Duration::from_secs(10);
/// The preface of HTTP/2. With TLS, whose handshake has a time limit of its own, any bytes.
const OPENING_BYTES: usize = 24;

/// Anything that bytes are exchanged over.
pub(super) struct Connection<T> {
    io: T,
    opening: Option<Opening>,
    _place: Place,
}

struct Opening {
    deadline: Pin<Box<Sleep>>,
    missing: usize,
}

impl<T> Connection<T> {
    pub(super) fn new(io: T, place: Place) -> Self {
        let opening = Opening { deadline: Box::pin(sleep(OPENING)), missing: OPENING_BYTES };
        Self { io, opening: Some(opening), _place: place }
    }
}

/// Something of which it is known who is at the other end.
pub(super) trait Known {
    type Peer: Clone + Send + Sync + 'static;
    fn peer(&self) -> Self::Peer;
}

impl Known for UnixStream {
    type Peer = UnixPeer;
    fn peer(&self) -> UnixPeer {
        UnixPeer::of(self)
    }
}

impl Known for TcpStream {
    type Peer = TcpConnectInfo;
    fn peer(&self) -> TcpConnectInfo {
        self.connect_info()
    }
}

impl<T: Known> Connected for Connection<T> {
    type ConnectInfo = T::Peer;

    fn connect_info(&self) -> T::Peer {
        self.io.peer()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Connection<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(opening) = &mut self.opening
            && opening.deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        if let Some(opening) = &mut self.opening {
            opening.missing = opening.missing.saturating_sub(read);
            if opening.missing == 0 {
                self.opening = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Connection<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
