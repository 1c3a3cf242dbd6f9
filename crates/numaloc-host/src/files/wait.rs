//! Waits that can be ended.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Longest time until a wait notices that it is to stop.
const NAP: Duration = Duration::from_millis(5);

/// Waits for `time`, or until `stop` returns true.
pub fn wait(time: Duration, stop: &dyn Fn() -> bool) {
    let begin = Instant::now();
    while !stop()
        && let Some(left) = time.checked_sub(begin.elapsed()).filter(|left| !left.is_zero())
    {
        thread::sleep(left.min(NAP));
    }
}
