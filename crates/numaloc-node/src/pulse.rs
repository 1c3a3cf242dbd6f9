//! Shows that a keeper continues.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// When a keeper last continued.
#[derive(Debug)]
pub struct Pulse(Mutex<Instant>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Pulse {
    /// It continues.
    pub fn beat(&self) {
        *self.0.lock() = Instant::now();
    }

    /// The time since it last continued.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(*self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_beat_is_as_old_as_the_last_one() {
        let pulse = Pulse::default();
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(pulse.age(Instant::now()), Duration::from_secs(5));
        pulse.beat();
        assert_eq!(pulse.age(Instant::now()), Duration::ZERO);
    }
}
