//! Sends all records of a kind and then their changes.

use super::{AT_ONCE, Watch, stopping, stream};
use crate::{
    access::Caller,
    dispatch::{Begin, Handle, Listable, RecordChange, RecordChanges},
    refusal::Refusal,
    service::Parts,
    store::Weight,
};
use numaloc_api::{v1, value::WatchOf};
use std::{collections::VecDeque, future::Future};
use tokio::sync::watch::Receiver;
use tokio_stream::StreamExt;
use tonic::{Response, Status, codegen::BoxStream};

/// All records and then their changes, or the changes after a number. They are read as the client takes them.
#[derive(Debug)]
pub struct RecordWatch<R, T, K> {
    read: R,
    last: Receiver<u64>,
    seen: u64,
    /// Changes up to this number make up the list at the start, which leaves out removed workloads. 0: without a list.
    listed: u64,
    /// The last change before the watch. Once that has been sent, the client has caught up.
    begin: u64,
    is_caught_up: bool,
    token: String,
    changes: VecDeque<(u64, RecordChange<T, K>, String)>,
}

/// Bytes of a change besides its record.
const CHANGE: usize = 128;

impl<R, T, K> RecordWatch<R, T, K> {
    /// `read` gives the changes after a number. The watch begins as `begin` says.
    pub fn new<F>(Begin { mut last, after }: Begin, read: R) -> Self
    where
        R: FnMut(u64) -> F,
        F: Future<Output = Result<RecordChanges<T, K>, Refusal>>,
    {
        let begin = *last.borrow();
        last.mark_changed();
        Self {
            read,
            last,
            seen: after.unwrap_or(0),
            listed: if after.is_none() { begin } else { 0 },
            begin,
            is_caught_up: false,
            token: String::new(),
            changes: VecDeque::new(),
        }
    }

    /// The next change that has been read and is to be sent.
    fn pop(&mut self) -> Option<(RecordChange<T, K>, String)> {
        let is_news = |(number, change, _): &(u64, RecordChange<T, K>, String)| {
            *number > self.listed || matches!(change, RecordChange::Present(_))
        };
        while let Some(next) = self.changes.pop_front() {
            if is_news(&next) {
                return Some((next.1, next.2));
            }
        }
        None
    }
}

impl<R, F, T, K> Watch for RecordWatch<R, T, K>
where
    R: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = Result<RecordChanges<T, K>, Refusal>> + Send,
    T: Weight + Send + 'static,
    K: Send + 'static,
{
    type Answer = (RecordChange<T, K>, String);

    fn kept(&self) -> usize {
        let one = |(_, change, _): &(u64, RecordChange<T, K>, String)| match change {
            RecordChange::Present(record) => CHANGE + record.weight(),
            RecordChange::Removed(_) | RecordChange::CaughtUp => CHANGE,
        };
        self.changes.iter().map(one).sum()
    }

    async fn next(&mut self) -> Option<Result<Self::Answer, Refusal>> {
        loop {
            if let Some(change) = self.pop() {
                return Some(Ok(change));
            }
            let is_begun = !self.token.is_empty();
            if is_begun && !self.is_caught_up && self.seen >= self.begin {
                self.is_caught_up = true;
                return Some(Ok((RecordChange::CaughtUp, self.token.clone())));
            }
            let last = *self.last.borrow_and_update();
            if self.seen < last || !is_begun {
                let read = match (self.read)(self.seen).await {
                    Ok(read) => read,
                    Err(refusal) => return Some(Err(refusal)),
                };
                // If reading gets no further, the next change is waited for.
                let is_further = read.seen > self.seen || !is_begun;
                self.seen = self.seen.max(read.seen);
                (self.changes, self.token) = (read.changes.into(), read.token);
                if is_further {
                    continue;
                }
            }
            if self.last.changed().await.is_err() {
                return Some(Err(stopping()));
            }
        }
    }
}

/// Watches the records of a kind that match a filter.
///
/// # Errors
/// [`Refusal::ResumeToken`]: not all changes after it are known.
pub async fn records<R: Listable>(
    handle: Handle,
    asked: WatchOf<R::Filter>,
) -> Result<impl Watch<Answer = (RecordChange<R::Shown, R::Id>, String)>, Refusal>
where
    R::Filter: Clone,
{
    let WatchOf { filter, resume_token } = asked;
    let begin = handle.begin_watch::<R>(resume_token).await?;
    Ok(RecordWatch::new(begin, move |after| {
        let (handle, filter) = (handle.clone(), filter.clone());
        async move { handle.changes_after::<R>(filter, after, AT_ONCE).await }
    }))
}

/// The stream that answers a request to watch records of a kind. `present` makes an answer's record of one that is
/// there, `removed` of the id of another.
///
/// # Errors
/// Those of [`records`], and the caller watches too much.
pub async fn watch_records<R: Listable, M: 'static, A: 'static>(
    parts: &Parts,
    caller: &Caller,
    asked: WatchOf<R::Filter>,
    present: fn(R::Shown) -> M,
    removed: fn(R::Id) -> M,
    answer: fn(v1::RecordChange, Option<M>, String) -> A,
) -> Result<Response<BoxStream<A>>, Status>
where
    R::Filter: Clone,
{
    let counted = parts.accounts.watch(&caller.client())?;
    let watch = records::<R>(parts.handle.clone(), asked).await?;
    let answers = stream(watch, parts.stop.clone(), counted).map(move |next| {
        let (change, resume_token) = next?;
        let (change, record) = told(change, present, removed);
        Ok(answer(change, record, resume_token))
    });
    Ok(Response::new(Box::pin(answers)))
}

/// A change as an answer has it: what it is, and the record, or only its name, if it is about one.
fn told<T, K, M>(
    change: RecordChange<T, K>,
    present: impl FnOnce(T) -> M,
    removed: impl FnOnce(K) -> M,
) -> (v1::RecordChange, Option<M>) {
    match change {
        RecordChange::Present(record) => (v1::RecordChange::Present, Some(present(record))),
        RecordChange::Removed(id) => (v1::RecordChange::Removed, Some(removed(id))),
        RecordChange::CaughtUp => (v1::RecordChange::CaughtUp, None),
    }
}
