//! Limits on bytes per second. [`Rate`] is pure: the time is passed in, as the time since some fixed moment.

use numaloc_core::page_size;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Longest time that the largest batch may take at the rate. A caller that comes late may still use as much of the
/// time before, so that the time of its last call, and the time to wake up, are not lost.
const SLICE: Duration = Duration::from_millis(100);

const NANOS: u128 = 1_000_000_000;

/// A token bucket that starts out empty and holds one batch. Bytes are paid for before they move, first come, first served. So,
/// counted from the start, never more bytes move than the rate allows. In any other stretch of time it is at most one batch more.
#[derive(Debug)]
pub struct Rate {
    bytes_per_second: u128,
    /// The time until which the rate is used up, in nanoseconds times bytes per second, so that nothing is rounded.
    taken: u128,
}

impl Rate {
    /// A rate of this many bytes per second, at least one.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: u128::from(bytes_per_second.max(1)), taken: 0 }
    }

    /// The largest batch to be passed at once, unless a single folio is larger.
    pub fn batch_bytes(&self) -> u64 {
        let bytes = self.bytes_per_second * SLICE.as_nanos() / NANOS;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(page_size())
    }

    /// Uses up the time that `bytes` need. Returns from when on they may move.
    pub fn take(&mut self, now: Duration, bytes: u64) -> Duration {
        let earliest = now.saturating_sub(SLICE).as_nanos().saturating_mul(self.bytes_per_second);
        let begin = self.taken.max(earliest);
        self.taken = begin.saturating_add(u128::from(bytes) * NANOS);
        let nanos = self.taken.div_ceil(self.bytes_per_second);
        let second = u64::try_from(nanos / NANOS).unwrap_or(u64::MAX);
        Duration::new(second, (nanos % NANOS) as u32)
    }
}

/// A rate that several runs can share. It has a clock of its own.
#[derive(Debug)]
pub struct SharedRate {
    rate: Mutex<Rate>,
    batch_bytes: u64,
    begin: Instant,
}

impl SharedRate {
    /// A rate of this many bytes per second, at least one, from now on.
    pub fn new(bytes_per_second: u64) -> Self {
        let rate = Rate::new(bytes_per_second);
        Self { batch_bytes: rate.batch_bytes(), rate: Mutex::new(rate), begin: Instant::now() }
    }

    /// The largest batch to be passed at once, unless a single folio is larger.
    pub(crate) fn batch_bytes(&self) -> u64 {
        self.batch_bytes
    }

    /// Uses up the time that `bytes` need, for a call or to hold back the runs that share the rate. Returns how long to wait before
    /// they may move.
    pub fn take(&self, bytes: u64) -> Duration {
        let mut rate = self.rate.lock();
        let now = self.begin.elapsed();
        rate.take(now, bytes).saturating_sub(now)
    }
}

/// Two are equal if they are the same bucket; to have the same rate is not enough.
impl PartialEq for SharedRate {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for SharedRate {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const SECOND: Duration = Duration::from_secs(1);

    /// Threads on a simulated clock. Each takes a batch, waits until it may begin, is busy for a while, and comes again. Returns
    /// for each batch when it began, and its bytes.
    fn run(rate: &mut Rate, workers: usize, batches: &[(u64, Duration)]) -> Vec<(Duration, u64)> {
        let mut free = vec![Duration::ZERO; workers];
        let mut begun = Vec::new();
        for &(bytes, busy) in batches {
            let worker = free.iter_mut().min().expect("a worker");
            let begin = rate.take(*worker, bytes).max(*worker);
            *worker = begin + busy;
            begun.push((begin, bytes));
        }
        begun
    }

    fn bytes_in(rate: u64, time: Duration) -> u128 {
        u128::from(rate) * time.as_nanos() / NANOS
    }

    fn anything() -> impl Strategy<Value = (u64, usize, Vec<(u64, u64)>)> {
        let rate = prop_oneof![1..100u64, 4096..1u64 << 20, 1u64 << 20..1 << 40];
        (rate, 1..5usize, vec((1..1u64 << 32, 0..300_000_000u64), 1..60))
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_has_more_than_a_batch_too_many((rate, workers, batches) in anything()) {
            let mut bucket = Rate::new(rate);
            let largest = bucket.batch_bytes();
            let folio = 2 << 20;
            let batches: Vec<_> = batches
                .into_iter()
                .map(|(bytes, busy)| (bytes % largest.max(folio) + 1, Duration::from_nanos(busy)))
                .collect();
            let begun = run(&mut bucket, workers, &batches);
            let most = batches.iter().map(|batch| batch.0).max().unwrap_or(0).max(largest);
            for from in 0..begun.len() {
                let mut sum = 0;
                for &(at, bytes) in &begun[from..] {
                    sum += u128::from(bytes);
                    let allowed = bytes_in(rate, at.saturating_sub(begun[from].0)) + 1;
                    prop_assert!(sum <= allowed + u128::from(most), "{sum} in {allowed}");
                }
            }
            let sum: u128 = begun.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
            let end = begun.iter().map(|&(at, _)| at).max().unwrap_or(SECOND);
            prop_assert!(sum <= bytes_in(rate, end), "more than the rate from the start on");
        }

        #[test]
        fn who_is_busy_for_less_than_a_batch_takes_gets_the_whole_rate(
            rate in 40_960..1u64 << 40,
            workers in 1..5usize,
            busy in vec(0..99u64, 10..200),
        ) {
            let mut bucket = Rate::new(rate);
            let bytes = bucket.batch_bytes();
            let late = |&ms: &u64| (bytes, Duration::from_millis(ms));
            let batches: Vec<_> = busy.iter().map(late).collect();
            let begun = run(&mut bucket, workers, &batches);
            let exact = u128::from(bytes) * batches.len() as u128 * NANOS / u128::from(rate);
            let last = begun.last().expect("some").0.as_nanos();
            // The last batch may have been late, but by no more than a slice.
            prop_assert!(last >= exact && last - exact <= SLICE.as_nanos(), "{last} and not {exact}");
        }

        #[test]
        fn it_always_ends((rate, _, batches) in anything()) {
            let mut bucket = Rate::new(rate);
            let mut before = Duration::ZERO;
            for (bytes, _) in batches {
                let begin = bucket.take(Duration::ZERO, bytes);
                prop_assert!(begin > before);
                let took = (begin - before).as_nanos() * u128::from(rate);
                prop_assert!(took.abs_diff(u128::from(bytes) * NANOS) <= u128::from(rate));
                before = begin;
            }
        }
    }

    #[test]
    fn a_second_holds_exactly_the_rate() {
        for rate in [4096, 40_961, 1 << 20, 3_000_000_019] {
            let mut bucket = Rate::new(rate);
            let (mut left, mut now) = (rate, Duration::ZERO);
            while left > 0 {
                let bytes = left.min(bucket.batch_bytes());
                now = bucket.take(now, bytes);
                left -= bytes;
            }
            assert_eq!(now, SECOND, "{rate}");
        }
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut slow = Rate::new(0);
        assert_eq!(slow.batch_bytes(), page_size());
        assert_eq!(slow.take(Duration::ZERO, 2), 2 * SECOND);
        assert!(slow.take(Duration::MAX, u64::MAX) > SECOND);
        let mut fast = Rate::new(u64::MAX);
        assert_eq!(fast.take(SECOND, u64::MAX), 2 * SECOND - SLICE);
        assert!(fast.take(Duration::MAX, 1) > SECOND);
    }

    #[test]
    fn unused_time_is_not_saved_up() {
        let mut bucket = Rate::new(1000);
        let late = 60 * SECOND;
        assert_eq!(bucket.take(late, 100), late);
        assert_eq!(bucket.take(late, 100), late + SLICE);
    }
}
