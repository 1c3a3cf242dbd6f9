//! The streams alone: slow clients, clients that leave, and a daemon that stops. tokio's clock is paused: it jumps
//! ahead when all tasks wait.

mod event;
mod job;
mod live;
mod locality;
mod record;

use super::*;
use crate::accounts::{Accounts, Client, Resource};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tokio_stream::StreamExt;
use tonic::Code;

/// The context of a stream besides its watch.
struct Around {
    accounts: Accounts,
    stop: watch::Sender<bool>,
}

impl Around {
    fn new() -> Self {
        Self { accounts: Accounts::default(), stop: watch::Sender::new(false) }
    }

    fn stream<W: Watch>(&self, watch: W) -> BoxStream<W::Answer> {
        let client = Client { name: "uid:1".to_owned(), cohort: None };
        let watching = self.accounts.watch(&client).unwrap();
        stream(watch, self.stop.subscribe(), watching)
    }
}

/// Whether the stream has no answer for a whole day of the paused clock.
async fn is_silent<T>(answers: &mut BoxStream<T>) -> bool {
    timeout(Duration::from_secs(24 * 3600), answers.next()).await.is_err()
}

/// The code that the stream ends with.
async fn end<T>(answers: &mut BoxStream<T>) -> Code {
    let status = answers.next().await.expect("an error").err().expect("an error");
    assert!(answers.next().await.is_none(), "an answer after the error");
    status.code()
}

/// Counts up to the second number. Panics instead of counting on from 13.
struct WatchCount(u32, u32);

impl Watch for WatchCount {
    type Answer = u32;

    async fn next(&mut self) -> Option<Result<u32, Refusal>> {
        assert_ne!(self.0, 13, "this panic belongs to the test");
        self.0 += 1;
        (self.0 <= self.1).then_some(Ok(self.0))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_or_is_dropped_counts_no_more() {
    let around = Around::new();
    let mut ends = around.stream(WatchCount(0, 2));
    let dropped = around.stream(WatchCount(0, 2));
    assert_eq!(around.accounts.held(Resource::Watches), 2);
    drop(dropped);
    assert_eq!(around.accounts.held(Resource::Watches), 1);
    let all: Vec<_> = (&mut ends).map(Result::unwrap).collect().await;
    assert_eq!(all, [1, 2]);
    assert!(ends.next().await.is_none());
    assert_eq!(around.accounts.held(Resource::Watches), 0);
}

/// Keeps more with each answer.
struct Hoard(usize);

impl Watch for Hoard {
    type Answer = usize;

    async fn next(&mut self) -> Option<Result<usize, Refusal>> {
        self.0 += 1;
        Some(Ok(self.0))
    }

    fn kept(&self) -> usize {
        self.0 << 20
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_keeps_too_much_ends_and_gives_it_back() {
    let around = Around::new();
    let mut answers = around.stream(Hoard(0));
    for expected in 1..=16 {
        assert_eq!(answers.next().await.unwrap().unwrap(), expected);
        assert_eq!(around.accounts.held(Resource::Kept), expected << 20);
    }
    assert_eq!(end(&mut answers).await, Code::ResourceExhausted);
    assert_eq!(around.accounts.held(Resource::Kept), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_its_stream_with_internal() {
    let around = Around::new();
    let mut answers = around.stream(WatchCount(12, 99));
    assert_eq!(answers.next().await.unwrap().unwrap(), 13);
    assert_eq!(end(&mut answers).await, Code::Internal);
    assert_eq!(around.accounts.held(Resource::Watches), 0);
}

#[tokio::test(start_paused = true)]
async fn all_streams_end_when_the_daemon_stops() {
    let around = Around::new();
    let mut busy = around.stream(WatchCount(0, u32::MAX));
    let mut idle = around.stream(LocalityWatch::new(Duration::MAX / 4, async || Ok(1)));
    assert!(busy.next().await.unwrap().is_ok() && idle.next().await.unwrap().is_ok());
    around.stop.send(true).unwrap();
    assert_eq!(end(&mut busy).await, Code::Unavailable);
    assert_eq!(end(&mut idle).await, Code::Unavailable);
    // They also end if the sender is dropped without having said stop.
    let Around { accounts, stop } = Around::new();
    let around = Around { accounts, stop };
    let mut idle = around.stream(LocalityWatch::new(Duration::MAX / 4, async || Ok(1)));
    assert!(idle.next().await.unwrap().is_ok());
    drop(around.stop);
    assert_eq!(end(&mut idle).await, Code::Unavailable);
}

/// The next answer, and how long it took.
async fn wait<T>(answers: &mut BoxStream<T>) -> (T, Duration) {
    let start = Instant::now();
    let answer = answers.next().await.expect("no end").expect("no error");
    (answer, start.elapsed())
}
