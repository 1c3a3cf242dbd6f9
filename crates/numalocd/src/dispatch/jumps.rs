//! Whether the wall clock can be trusted with what is deleted by age.

use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The wall clock has jumped if it is ahead of the time that has passed by more than this.
const JUMP: Duration = Duration::from_secs(3600);
/// For so long after a jump nothing is deleted by age: enough to set a wrong clock right.
const HOLD: Duration = Duration::from_secs(24 * 3600);

/// Compares the wall clock with the time that has passed.
#[derive(Debug, Default)]
pub struct Jumps {
    /// Both clocks when they were compared last.
    seen: Option<(SystemTime, Instant)>,
    /// Until when nothing is deleted by age.
    until: Option<Instant>,
}

impl Jumps {
    /// Whether nothing is to be deleted by age now, because the wall clock has been set forward lately. One that is set
    /// back again ends that.
    pub fn hold(&mut self, wall: SystemTime, now: Instant) -> bool {
        if let Some((wall_before, before)) = self.seen.replace((wall, now)) {
            let expected = wall_before + now.saturating_duration_since(before);
            let is_far =
                |ahead: Result<Duration, _>| ahead.is_ok_and(|ahead: Duration| ahead > JUMP);
            if is_far(wall.duration_since(expected)) {
                tracing::warn!(
                    hours = HOLD.as_secs() / 3600,
                    "the system's clock was set forward by more than an hour: nothing is deleted by its age (retention.age) for now; \
                     set the clock right if it is wrong"
                );
                self.until = Some(now + HOLD);
            } else if is_far(expected.duration_since(wall)) {
                self.until = None;
            }
        }
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_forward_deletes_nothing_for_a_day() {
        let (wall, now) = (SystemTime::UNIX_EPOCH, Instant::now());
        let hour = |hours: u64| Duration::from_secs(3600 * hours);
        let mut jumps = Jumps::default();
        let mut at = |passed: u64, shown: u64| jumps.hold(wall + hour(shown), now + hour(passed));
        // From 1970 to the present, when the time has come by the network.
        assert!(!at(0, 0) && !at(1, 1) && !at(2, 3), "an hour is not a jump");
        let years = 50 * 366 * 24;
        assert!(at(3, years) && at(4, years + 1) && at(26, years + 23));
        assert!(!at(27, years + 24), "a day is over");
        // It is wrong, and then set right.
        assert!(at(28, 2 * years) && at(29, 2 * years + 1));
        assert!(!at(30, years + 27));
    }
}
