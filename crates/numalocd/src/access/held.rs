//! Keeps a call counted as long as the daemon holds bytes of its answer.

use super::{
    Hangup,
    lines::{CallKind, Turn},
    standing::Standing,
    whole::Charge,
};
use crate::refusal::Refusal;
use http::HeaderMap;
use hyper::body::{Bytes, Frame, SizeHint};
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};
use tonic::{Status, body::Body};

/// Wraps an answer so that its call keeps its turn until all bytes have been written to the connection or dropped. An
/// answer that a client does not take stays in memory here, however large a flow-control window it has opened. A call
/// that continues (a stream) makes its next message only when the message before has been written, and waits for that
/// as long as its client likes: its bytes are charged with `charge` meanwhile. It ends when its caller loses its
/// `standing`, or has the most bytes under way that it may. Each piece of any other answer waits no longer than
/// `patience` says.
pub(super) fn held(
    body: Body,
    turn: Turn,
    kind: CallKind,
    patience: Option<SendTimeout>,
    standing: Standing,
    charge: Option<Charge>,
) -> Body {
    let one_by_one = kind.goes_on();
    let standing = one_by_one.then_some(standing);
    Body::new(HeldAnswer {
        body,
        turn: Arc::new(turn),
        written: None,
        one_by_one,
        patience,
        standing,
        charge,
    })
}

/// Longest time that a piece of an answer waits for its client to take it. After that the whole connection is closed,
/// because the bytes of one call that HTTP/2 already has cannot be taken back.
#[derive(Clone, Debug)]
pub(super) struct SendTimeout {
    pub limit: Duration,
    /// The caller, for the log.
    pub caller: String,
    /// Closes the whole connection once the limit has passed.
    pub hangup: Hangup,
}

impl SendTimeout {
    /// Closes the connection if `written` does not end in time. Does not wait itself.
    fn wait(&self, written: oneshot::Receiver<Infallible>) {
        let Self { limit, caller, hangup } = self.clone();
        tokio::spawn(async move {
            // Nothing is ever sent here: the channel ends when its sender is dropped with the bytes.
            if timeout(limit, written).await.is_err() {
                tracing::debug!(caller, "a connection is closed: its client takes no answers");
                hangup.now();
            }
        });
    }
}

struct HeldAnswer {
    body: Body,
    turn: Arc<Turn>,
    /// Ends when the previous message has been written.
    written: Option<oneshot::Receiver<Infallible>>,
    one_by_one: bool,
    patience: Option<SendTimeout>,
    /// `None`: the answer does not depend on it any more.
    standing: Option<Standing>,
    /// The charge of a call that continues. Its request counts as long as this lives.
    charge: Option<Charge>,
}

/// Bytes of an answer that have not been written yet.
struct UnwrittenBytes {
    bytes: Bytes,
    charge: Option<Charge>,
    _turn: Arc<Turn>,
    _written: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for UnwrittenBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for UnwrittenBytes {
    fn drop(&mut self) {
        if let Some(charge) = &self.charge {
            charge.shrink(self.bytes.len());
        }
    }
}

impl HeldAnswer {
    /// # Errors
    /// [`Refusal::Quota`]: the client has too many bytes under way.
    fn keep(&mut self, bytes: Bytes) -> Result<Bytes, Refusal> {
        let charge = self.charge.clone().filter(|_| self.one_by_one);
        charge.iter().try_for_each(|charge| charge.grow(bytes.len()))?;
        let (_written, written) = oneshot::channel();
        if self.one_by_one {
            self.written = Some(written);
        } else if let Some(patience) = &self.patience {
            patience.wait(written);
        }
        let _turn = self.turn.clone();
        Ok(Bytes::from_owner(UnwrittenBytes { bytes, charge, _turn, _written }))
    }

    /// The end of the stream with this status. The source of the answers is dropped.
    fn end(&mut self, refusal: Refusal) -> Result<Frame<Bytes>, Status> {
        (self.body, self.standing, self.written) = (Body::empty(), None, None);
        let mut trailers = HeaderMap::new();
        Status::from(refusal).add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

impl hyper::body::Body for HeldAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(standing) = &mut self.standing
            && let Poll::Ready(refusal) = standing.poll_lost(context)
        {
            return Poll::Ready(Some(self.end(refusal)));
        }
        if let Some(written) = &mut self.written {
            // Nothing is ever sent: the receiver ends when the sender is dropped.
            let _ = ready!(Pin::new(written).poll(context));
            self.written = None;
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            end => return Poll::Ready(end),
        };
        let frame = match frame.into_data() {
            Ok(bytes) => match self.keep(bytes) {
                Ok(bytes) => Ok(Frame::data(bytes)),
                Err(refusal) => self.end(refusal),
            },
            Err(trailers) => Ok(trailers),
        };
        Poll::Ready(Some(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
