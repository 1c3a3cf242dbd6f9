//! Calls that stream answers. Each answer is made when the client takes it. Nothing runs or queues up between two
//! answers. So a slow client costs what an idle one does, and a client that leaves frees everything with its stream.

mod event;
mod job;
mod locality;
mod record;

pub use event::{AT_ONCE, EventWatch};
pub use job::JobWatch;
pub use locality::LocalityWatch;
pub use record::watch_records;
#[cfg(test)]
use record::{RecordWatch, records};

use crate::{accounts::Watching, refusal::Refusal, service::caught::caught};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::sync::watch::Receiver;
use tokio_stream::Stream;
use tonic::{Status, codegen::BoxStream};

/// Something that a client watches.
pub trait Watch: Send + 'static {
    /// The message that the stream consists of.
    type Answer: Send + 'static;

    /// The next answer, once there is one; `None`: no more will come. Called again after an answer, never after an
    /// error or the end.
    fn next(&mut self) -> impl Future<Output = Option<Result<Self::Answer, Refusal>>> + Send;

    /// About how many bytes it keeps until its next answer has been taken, besides its request: charged to its client.
    fn kept(&self) -> usize {
        0
    }
}

/// The answers of `watch`, until it ends or fails. If the daemon stops, the stream ends with UNAVAILABLE.
pub fn stream<W: Watch>(
    watch: W,
    stop: Receiver<bool>,
    watching: Watching,
) -> BoxStream<W::Answer> {
    let open = OpenWatch { watch, stop, watching };
    Box::pin(Answers { turn: Some(Box::pin(turn(open))) })
}

/// Waits until the daemon stops.
pub async fn stopped(stop: &mut Receiver<bool>) {
    // A dropped sender counts as a stop, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The refusal of calls while the daemon is stopping.
pub fn stopping() -> Refusal {
    Refusal::Unavailable {
        message: "the daemon is stopping: call again when it is back".to_owned(),
    }
}

struct OpenWatch<W> {
    watch: W,
    stop: Receiver<bool>,
    watching: Watching,
}

/// The making of one answer, which gives back what the next one is made from; `None`: the end.
type NextAnswer<W> = Pin<
    Box<dyn Future<Output = Option<(Result<<W as Watch>::Answer, Refusal>, OpenWatch<W>)>> + Send>,
>;

async fn turn<W: Watch>(
    mut open: OpenWatch<W>,
) -> Option<(Result<W::Answer, Refusal>, OpenWatch<W>)> {
    let answer = tokio::select! {
        biased;
        () = stopped(&mut open.stop) => Some(Err(stopping())),
        answer = caught(open.watch.next()) => answer.unwrap_or_else(|bug| Some(Err(bug))),
    };
    let kept = open.watch.kept();
    // A client that lets too much stand can begin again, by its token or after the last event that it has.
    answer.map(|answer| (answer.and_then(|answer| open.watching.keep(kept).map(|()| answer)), open))
}

struct Answers<W: Watch> {
    turn: Option<NextAnswer<W>>,
}

impl<W: Watch> Stream for Answers<W> {
    type Item = Result<W::Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(turn) = &mut self.turn else { return Poll::Ready(None) };
        let done = ready!(turn.as_mut().poll(context));
        self.turn = None;
        let Some((answer, open)) = done else { return Poll::Ready(None) };
        if answer.is_ok() {
            self.turn = Some(Box::pin(self::turn(open)));
        }
        Poll::Ready(Some(answer.map_err(Status::from)))
    }
}

#[cfg(test)]
mod tests;
