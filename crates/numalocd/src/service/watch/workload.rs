//! Workloads and their changes.

use super::{Watch, stopping};
use crate::dispatch::{Refusal, WorkloadChange, WorkloadChanges};
use std::{collections::VecDeque, future::Future};
use tokio::sync::watch::Receiver;

/// All workloads and then their changes, or the changes after a number. They are read as the client takes them.
#[derive(Debug)]
pub struct WorkloadWatch<R> {
    read: R,
    last: Receiver<u64>,
    seen: u64,
    /// Changes up to this number make up the list at the start, which leaves out removed workloads. 0: there is no list.
    listed: u64,
    /// The last change before the watch. Once that has been told, the client has caught up.
    begin: u64,
    is_caught_up: bool,
    token: String,
    changes: VecDeque<(u64, WorkloadChange, String)>,
}

impl<R> WorkloadWatch<R> {
    /// `read` gives the changes after a number; `last` has the number of the last change. The watch starts after change
    /// `after`; `None`: with a list of all workloads.
    pub fn new(mut last: Receiver<u64>, after: Option<u64>, read: R) -> Self {
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
    fn pop(&mut self) -> Option<(WorkloadChange, String)> {
        let is_news = |(number, change, _): &(u64, WorkloadChange, String)| {
            *number > self.listed || matches!(change, WorkloadChange::Present(_))
        };
        while let Some(next) = self.changes.pop_front() {
            if is_news(&next) {
                return Some((next.1, next.2));
            }
        }
        None
    }
}

impl<R, F> Watch for WorkloadWatch<R>
where
    R: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = Result<WorkloadChanges, Refusal>> + Send,
{
    type Answer = (WorkloadChange, String);

    async fn next(&mut self) -> Option<Result<Self::Answer, Refusal>> {
        loop {
            if let Some(change) = self.pop() {
                return Some(Ok(change));
            }
            let is_begun = !self.token.is_empty();
            if is_begun && !self.is_caught_up && self.seen >= self.begin {
                self.is_caught_up = true;
                return Some(Ok((WorkloadChange::CaughtUp, self.token.clone())));
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
