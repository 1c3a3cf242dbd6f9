//! A connection. It is charged to its client, and its client has to send its first bytes soon. It can be closed from
//! outside ([`Hangup`]).

use crate::{
    access::{Hangup, Via},
    accounts::HeldShare,
};
use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
    time::{Sleep, sleep},
};
use tonic::transport::server::Connected;

/// Time that a client may take to send the bytes below. Later, HTTP/2 pings find clients that are gone.
const OPENING: Duration = Duration::from_secs(10);
/// Length of the HTTP/2 preface. With TLS these are any bytes; its handshake has a time limit of its own.
const OPENING_BYTES: usize = 24;

/// A byte stream, and who is at its other end.
pub(super) struct Connection<T, P> {
    io: T,
    via: Via<P>,
    /// Ready when the client hangs up.
    hung_up: oneshot::Receiver<()>,
    has_ended: bool,
    opening: Option<Opening>,
    _place: HeldShare,
}

struct Opening {
    deadline: Pin<Box<Sleep>>,
    missing: usize,
}

impl<T, P> Connection<T, P> {
    pub(super) fn new(io: T, peer: P, place: HeldShare) -> Self {
        let opening = Opening { deadline: Box::pin(sleep(OPENING)), missing: OPENING_BYTES };
        let (hangup, hung_up) = Hangup::pair();
        let via = Via { peer, hangup };
        Self { io, via, hung_up, has_ended: false, opening: Some(opening), _place: place }
    }

    /// Fails when the client has hung up, and wakes the task when that happens.
    fn go_on(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        // It may not be asked again once it was ready.
        self.has_ended = self.has_ended || Pin::new(&mut self.hung_up).poll(cx).is_ready();
        if self.has_ended { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl<T, P: Clone + Send + Sync + 'static> Connected for Connection<T, P> {
    type ConnectInfo = Via<P>;

    fn connect_info(&self) -> Via<P> {
        self.via.clone()
    }
}

impl<T: AsyncRead + Unpin, P: Unpin> AsyncRead for Connection<T, P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.go_on(cx)?;
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

impl<T: AsyncWrite + Unpin, P: Unpin> AsyncWrite for Connection<T, P> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.go_on(cx)?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.go_on(cx)?;
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
