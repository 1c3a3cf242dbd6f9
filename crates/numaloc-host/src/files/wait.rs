//! Waits that can be ended.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Shortest and longest time until a wait notices that it is to stop. Each time it wakes up costs some CPU time, so long waits notice later.
const NAPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

/// The time until a wait of this length notices that it is to stop.
fn nap(time: Duration) -> Duration {
    (time / 100).clamp(NAPS[0], NAPS[1])
}

/// Waits for `time`, or until `stop` returns true.
pub fn wait(time: Duration, stop: &dyn Fn() -> bool) {
    let (begin, nap) = (Instant::now(), nap(time));
    while !stop()
        && let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
    {
        thread::sleep(left.min(nap));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_waits_wake_up_seldom() {
        let naps =
            [100, 1_000, 10_000, 60_000].map(|ms| nap(Duration::from_millis(ms)).as_millis());
        assert_eq!(naps, [5, 10, 100, 500]);
    }
}
