//! The wait before a retry.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);
/// Work that has run for this long counts as successful: after a later failure it is soon retried.
const GOOD: Duration = Duration::from_secs(60);

/// Pauses between attempts, each twice as long as the one before, up to a bound.
#[derive(Debug)]
pub struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl BackOff {
    /// The next wait: 100 ms, then twice as long each time, up to 30 s.
    fn wait(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (2 * wait).min(LONGEST);
        wait
    }

    /// The next wait, after what had lasted for so long has failed. A good time begins again.
    pub fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= GOOD {
            *self = Self::default();
        }
        self.wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_begin_anew() {
        let mut back_off = BackOff::default();
        let waits: Vec<_> = (0..11).map(|_| back_off.wait().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(back_off.after(GOOD / 2).as_millis(), 30000);
        assert_eq!(back_off.after(GOOD).as_millis(), 100);
    }
}
