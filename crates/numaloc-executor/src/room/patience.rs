//! The time that a worker waits for room that others make.

use std::time::{Duration, Instant};

/// Time for which free memory may fail to grow before a node counts as full.
const PATIENCE: Duration = Duration::from_millis(500);
/// Least number of looks of the worker by then. Where it gets little CPU time, kswapd most often gets little as well,
/// and makes nothing free for a while. With time enough, a worker looks about this often in half of [`PATIENCE`].
const LOOKS: u32 = 200;
/// After this long without growth a call takes the little that is above the floor. kswapd may sleep then: only an allocation that finds
/// no zone of the node above its low watermark wakes it (mm/page_alloc.c, `get_page_from_freelist`). Others may have taken memory until
/// the rest was too little for a call, and of two zones one may be below its min watermark while the other keeps kswapd asleep.
const NUDGE: Duration = Duration::from_millis(50);
/// The longest that a worker waits for one call's room in all. Memory that others free looks like kswapd's work, and others
/// may take it, too.
const LONGEST: Duration = Duration::from_secs(10);
/// Free memory has grown if it rose by this many bytes in all. Memory that others took meanwhile does not count
/// against it.
const RISE: u64 = 1 << 20;

/// Whether a node's kswapd still makes memory free. Another run may take each time what has become free: then free memory goes up
/// and down, never above what it was at the beginning, and kswapd is still at work. So all rises are added up.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    free_bytes: u64,
    risen_bytes: u64,
    /// When free memory has grown last, and the looks at it since.
    since: Instant,
    looks: u32,
    begin: Instant,
}

impl Patience {
    /// Begins to wait, with so much free.
    pub fn new(free_bytes: u64, now: Instant) -> Self {
        Self { free_bytes, risen_bytes: 0, since: now, looks: 0, begin: now }
    }

    /// Whether kswapd may have to be woken.
    pub fn is_quiet(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= NUDGE
    }

    /// Whether to wait on, with so much free by now.
    pub fn lasts(&mut self, free_bytes: u64, now: Instant) -> bool {
        self.risen_bytes += free_bytes.saturating_sub(self.free_bytes);
        self.free_bytes = free_bytes;
        if self.risen_bytes >= RISE {
            (self.risen_bytes, self.since, self.looks) = (0, now, 0);
        }
        self.looks += 1;
        let waited = |since| now.saturating_duration_since(since);
        let is_patient = waited(self.since) < PATIENCE || self.looks < LOOKS;
        is_patient && waited(self.begin) < LONGEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_begins_again_when_memory_becomes_free() {
        let begin = Instant::now();
        let mut patience = Patience::new(9 * RISE, begin);
        patience.looks = LOOKS;
        assert!(patience.lasts(9 * RISE, begin + PATIENCE / 2));
        assert!(patience.lasts(10 * RISE, begin + PATIENCE));
        patience.looks = LOOKS;
        assert!(patience.lasts(5 * RISE, begin + PATIENCE * 3 / 2));
        assert!(!patience.lasts(5 * RISE + 1, begin + PATIENCE * 2), "that is nothing");
        assert!(patience.is_quiet(begin + PATIENCE * 2) && !patience.is_quiet(begin + PATIENCE));
    }

    #[test]
    fn a_worker_that_could_look_a_few_times_only_waits_longer() {
        let begin = Instant::now();
        let mut patience = Patience::new(0, begin);
        let each = LONGEST / (2 * LOOKS);
        let looks = (1..).take_while(|look| patience.lasts(0, begin + each * *look)).count();
        assert_eq!(looks as u32, LOOKS - 1);
        let mut starved = Patience::new(0, begin);
        assert!(!starved.lasts(0, begin + LONGEST), "not forever");
    }

    #[test]
    fn patience_does_not_end_because_others_take_freed_memory() {
        let begin = Instant::now();
        let mut patience = Patience::new(8 * RISE, begin);
        let step = PATIENCE / 2;
        for round in 1..10 {
            let free = if round % 2 == 0 { 8 * RISE } else { 0 };
            assert!(patience.lasts(free, begin + step * round), "{round}");
        }
        let mut greedy = Patience::new(0, begin);
        let steps = LONGEST.div_duration_f64(step) as u32;
        let lasts =
            (1..=steps).all(|round| greedy.lasts(u64::from(round) * RISE, begin + step * round));
        assert!(!lasts, "it ends at last");
    }
}
