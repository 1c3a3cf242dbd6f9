//! Streams events, stored ones first, from a given number on.

use super::{Watch, stopping};
use crate::{refusal::Refusal, store::Weight};
use numaloc_api::{encoded::Encoded, value::Event};
use std::{collections::VecDeque, future::Future};
use tokio::sync::watch::Receiver;

/// Number of events that are read at a time. They are held until the client has taken them.
pub const AT_ONCE: usize = 100;

/// Stored events after a number, then new ones. They are read from the store as the client takes them.
#[derive(Debug)]
pub struct EventWatch<R> {
    read: R,
    last: Receiver<u64>,
    seen: u64,
    events: VecDeque<Encoded<Event>>,
}

impl<R> EventWatch<R> {
    /// `read` gives events after a number, and the number of the last event it looked at. `last` has the number of the
    /// last event there is. The watch starts after event `after`; `None`: with the next new one.
    pub fn new(mut last: Receiver<u64>, after: Option<u64>, read: R) -> Self {
        let now = *last.borrow();
        last.mark_changed();
        Self { read, last, seen: after.unwrap_or(now), events: VecDeque::new() }
    }
}

impl<R, F> Watch for EventWatch<R>
where
    R: FnMut(u64) -> F + Send + 'static,
    F: Future<Output = Result<(Vec<Encoded<Event>>, u64), Refusal>> + Send,
{
    type Answer = Encoded<Event>;

    async fn next(&mut self) -> Option<Result<Encoded<Event>, Refusal>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            let last = *self.last.borrow_and_update();
            if self.seen < last {
                match (self.read)(self.seen).await {
                    // If reading gets no further, the next event is waited for.
                    Ok((_, seen)) if seen <= self.seen => {}
                    Ok((events, seen)) => {
                        (self.events, self.seen) = (events.into(), seen);
                        continue;
                    }
                    Err(refusal) => return Some(Err(refusal)),
                }
            }
            if self.last.changed().await.is_err() {
                return Some(Err(stopping()));
            }
        }
    }

    fn kept(&self) -> usize {
        self.events.iter().map(Weight::weight).sum()
    }
}
