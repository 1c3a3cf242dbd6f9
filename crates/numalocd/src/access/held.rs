//! Answers, as long as the daemon has to keep them.

use super::lines::{Kind, Turn};
use hyper::body::{Bytes, Frame, SizeHint};
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::oneshot;
use tonic::{Status, body::Body};

/// An answer whose call counts until its bytes have been written to the connection, or given up: what a client does not take
/// stays here, whatever window it has opened for it. Of a call that goes on, the next message is made only then.
pub(super) fn held(body: Body, turn: Turn, kind: Kind) -> Body {
    let one_by_one = kind.goes_on();
    Body::new(Held { body, turn: Arc::new(turn), written: None, one_by_one })
}

struct Held {
    body: Body,
    turn: Arc<Turn>,
    /// Ends when the message before has been written.
    written: Option<oneshot::Receiver<Infallible>>,
    one_by_one: bool,
}

/// Bytes of an answer, until they have been written.
struct Kept {
    bytes: Bytes,
    _turn: Arc<Turn>,
    _written: Option<oneshot::Sender<Infallible>>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    fn keep(&mut self, bytes: Bytes) -> Bytes {
        let (_written, written) = self.one_by_one.then(oneshot::channel).unzip();
        self.written = written;
        Bytes::from_owner(Kept { bytes, _turn: self.turn.clone(), _written })
    }
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Some(written) = &mut self.written {
            // Nothing is sent: it ends when the other side is dropped.
            let _ = ready!(Pin::new(written).poll(context));
            self.written = None;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let keep = |frame: Frame<Bytes>| frame.map_data(|bytes| self.keep(bytes));
        Poll::Ready(frame.map(|frame| frame.map(keep)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
