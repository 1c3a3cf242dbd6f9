//! The time for which a broken watch is retried.

use std::time::Duration;
use tokio::time::{Instant, sleep};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Growing pauses between attempts, until the time for attempts is over.
#[derive(Debug)]
pub struct Backoff {
    bound: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    /// Allows attempts for the time `bound`.
    pub fn new(bound: Duration) -> Self {
        Self { bound, since: None, pause: FIRST_PAUSE }
    }
    /// An attempt has succeeded: the next break begins with new time and a short pause.
    pub fn restore(&mut self) {
        *self = Self::new(self.bound);
    }
    /// Whether this is the first break since the last success.
    pub fn is_fresh(&self) -> bool {
        self.since.is_none()
    }
    /// Waits before the next attempt. Returns `false` if the time is over.
    pub async fn wait(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.bound {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_and_begins_anew() {
        let mut patience = Backoff::new(Duration::from_secs(30));
        for _ in 0..2 {
            let start = Instant::now();
            assert!(patience.is_fresh());
            while patience.wait().await {
                assert!(!patience.is_fresh());
            }
            let took = start.elapsed();
            assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(33), "{took:?}");
            patience.restore();
        }
    }
}
