//! Where memory is, read again and again.

use super::Watch;
use crate::refusal::Refusal;
use std::{future::Future, time::Duration};
use tokio::time::{Instant, sleep_until};

/// Readings at an interval. The first is made at once. Each later one is made when the interval has passed since the
/// reading before, or later if the client has not taken that one yet.
#[derive(Debug)]
pub struct LocalityWatch<R> {
    read: R,
    interval: Duration,
    due: Instant,
}

impl<R> LocalityWatch<R> {
    /// The readings that `read` gives, from now on.
    pub fn new(interval: Duration, read: R) -> Self {
        Self { read, interval, due: Instant::now() }
    }
}

impl<R, F, T> Watch for LocalityWatch<R>
where
    R: FnMut() -> F + Send + 'static,
    F: Future<Output = Result<T, Refusal>> + Send,
    T: Send + 'static,
{
    type Answer = T;

    async fn next(&mut self) -> Option<Result<T, Refusal>> {
        sleep_until(self.due).await;
        let answer = (self.read)().await;
        self.due = Instant::now() + self.interval;
        Some(answer)
    }
}
