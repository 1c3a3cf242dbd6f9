//! Gaps between reads of a page map, for others that want the memory's lock.
//!
//! For each page table the kernel takes mmap_lock and releases it again at once (fs/proc/task_mmu.c, `pagemap_read`). A thread that
//! waits to map memory is woken then, and most often finds that the reader has the lock again: readers may go before a writer that
//! has just been woken, until it has waited for 4 ms (kernel/locking/rwsem.c, `rwsem_try_write_lock`, RWSEM_WAIT_TIMEOUT). A reader
//! that sleeps now and then lets it in.

use crate::files::pagemap::table_pages;
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Time of reading without a gap. Only the time in the calls counts, during which the kernel may hold the lock: what a scanner does with the
/// entries, and how many calls it makes, is of no matter to others.
const READ: Duration = Duration::from_micros(100);
/// The same before the first gap: some 16 MiB of base pages. A process with less memory is read without any gap. A thread that wants to
/// map waits no longer for all of it than the kernel lets readers go before it (4 ms).
const FIRST: Duration = Duration::from_micros(500);
/// Shortest gap. The kernel makes it some 50 µs longer (prctl(2), PR_SET_TIMERSLACK).
const GAP: Duration = Duration::from_micros(30);
/// Page tables whose entries are read at most at a time, if there are to be gaps.
const TABLES: usize = 2;

/// When to leave a gap.
#[derive(Debug)]
pub struct Gaps {
    /// Time of reading until the next one. `None`: there are none.
    until: Option<Duration>,
}

impl Gaps {
    /// Others want the lock as well.
    pub fn some() -> Self {
        Self { until: Some(FIRST) }
    }

    /// Reading without gaps, for a result as soon as possible.
    pub fn none() -> Self {
        Self { until: None }
    }

    /// Number of entries to read at a time, of up to `pages`.
    pub fn pages(&self, pages: usize) -> usize {
        if self.until.is_some() { pages.min(TABLES * table_pages()) } else { pages }
    }

    /// Makes a call that takes the lock, and counts its time.
    pub fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let Some(until) = &mut self.until else { return call() };
        let begin = Instant::now();
        let result = call();
        *until = until.saturating_sub(begin.elapsed());
        result
    }

    /// Leaves a gap, if it is time. To be called after each read.
    pub fn leave(&mut self) {
        if let Some(until) = self.until.as_mut().filter(|until| until.is_zero()) {
            sleep(GAP);
            *until = READ;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_that_can_wait_leave_gaps() {
        assert_eq!(
            (Gaps::some().pages(4096), Gaps::some().pages(512)),
            (TABLES * table_pages(), 512)
        );
        assert_eq!(Gaps::none().pages(4096), 4096);
        let mut fast = Gaps::none();
        assert_eq!(fast.count(|| 7), 7);
        fast.leave();
        assert_eq!(fast.until, None, "no time is taken");
    }

    #[test]
    fn a_gap_follows_the_time_of_the_reads_and_not_what_lies_between_them() {
        let little = Duration::from_nanos(1);
        let mut gaps = Gaps { until: Some(little) };
        gaps.leave();
        assert_eq!(gaps.until, Some(little), "it is not time yet");
        gaps.count(|| sleep(GAP));
        assert_eq!(gaps.until, Some(Duration::ZERO));
        let begin = Instant::now();
        gaps.leave();
        assert!(begin.elapsed() >= GAP, "it has slept");
        assert_eq!(gaps.until, Some(READ));
    }

    #[test]
    fn the_first_gap_comes_later_than_the_others() {
        let mut gaps = Gaps::some();
        gaps.count(|| sleep(GAP));
        let left = gaps.until.expect("there are gaps");
        assert!(left <= FIRST - GAP && FIRST > 4 * READ, "{left:?}");
    }
}
