//! Answers, as long as the daemon has to keep them.

use super::{
    Hangup,
    lines::{Kind, Turn},
};
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

/// An answer whose call counts until its bytes have been written to the connection, or given up: what a client does not take
/// stays here, whatever window it has opened for it. Of a call that goes on, the next message is made only then, and waits for
/// as long as its client likes. Of others each piece waits no longer than `patience`.
pub(super) fn held(body: Body, turn: Turn, kind: Kind, patience: Option<Patience>) -> Body {
    let one_by_one = kind.goes_on();
    Body::new(Held { body, turn: Arc::new(turn), written: None, one_by_one, patience })
}

/// How long what is sent waits for its client to take it. Then the connection is closed, since of a call alone nothing can be
/// taken back once the connection has it.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// So long.
    pub limit: Duration,
    /// Who calls.
    pub caller: String,
    /// The connection.
    pub hangup: Hangup,
}

impl Patience {
    /// Waits beside the connection until `written` ends.
    fn wait(&self, written: oneshot::Receiver<Infallible>) {
        let Self { limit, caller, hangup } = self.clone();
        tokio::spawn(async move {
            // Nothing is sent: it ends when the other side is dropped.
            if timeout(limit, written).await.is_err() {
                tracing::debug!(caller, "a connection is closed: its client takes no answers");
                hangup.now();
            }
        });
    }
}

struct Held {
    body: Body,
    turn: Arc<Turn>,
    /// Ends when the message before has been written.
    written: Option<oneshot::Receiver<Infallible>>,
    one_by_one: bool,
    patience: Option<Patience>,
}

/// Bytes of an answer, until they have been written.
struct Kept {
    bytes: Bytes,
    _turn: Arc<Turn>,
    _written: oneshot::Sender<Infallible>,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    fn keep(&mut self, bytes: Bytes) -> Bytes {
        let (_written, written) = oneshot::channel();
        if self.one_by_one {
            self.written = Some(written);
        } else if let Some(patience) = &self.patience {
            patience.wait(written);
        }
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
