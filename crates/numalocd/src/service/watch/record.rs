//! Sends all records of a kind and then their changes.

use super::{Watch, stopping};
use crate::{
    dispatch::{Begin, RecordChange, RecordChanges},
    refusal::Refusal,
};
use numaloc_api::v1;
use std::{collections::VecDeque, future::Future};
use tokio::sync::watch::Receiver;

/// All records and then their changes, or the changes after a number. They are read as the client takes them.
#[derive(Debug)]
pub struct RecordWatch<R, T, K> {
    read: R,
    last: Receiver<u64>,
    seen: u64,
    /// Changes up to this number make up the list at the start, which leaves out removed workloads. 0: there is no list.
    listed: u64,
    /// The last change before the watch. Once that has been told, the client has caught up.
    begin: u64,
    is_caught_up: bool,
    token: String,
    changes: VecDeque<(u64, RecordChange<T, K>, String)>,
}

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

    /// The next change that has been read and is to be told.
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
    T: Send + 'static,
    K: Send + 'static,
{
    type Answer = (RecordChange<T, K>, String);

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

/// A change as an answer has it: what it is, and the record, or only its name, if it is about one.
pub fn told<T, K, M>(
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
