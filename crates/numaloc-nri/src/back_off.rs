//! How long to wait before something is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Waits that double.
#[derive(Debug)]
pub struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl BackOff {
    /// The next wait: 100 ms, then twice as long each time, up to 30 s.
    pub fn wait(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (2 * wait).min(LONGEST);
        wait
    }

    /// It has worked: begin anew.
    pub fn reset(&mut self) {
        *self = Self::default();
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
        back_off.reset();
        assert_eq!(back_off.wait().as_millis(), 100);
    }
}
