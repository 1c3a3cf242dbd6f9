//! Gaps between reads of a page map, for others that want the memory's lock.
//!
//! For each page table the kernel takes mmap_lock and releases it again at once (fs/proc/task_mmu.c, `pagemap_read`). A thread that
//! waits to map memory is woken then, and most often finds that the reader has the lock again: readers may go before a writer that
//! has just been woken, until it has waited for 4 ms (kernel/locking/rwsem.c, `rwsem_try_write_lock`, RWSEM_WAIT_TIMEOUT). A reader
//! that sleeps now and then lets it in.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// Time of reading without a gap.
const READ: Duration = Duration::from_micros(100);
/// Shortest gap. The kernel makes it some 50 µs longer (prctl(2), PR_SET_TIMERSLACK).
const GAP: Duration = Duration::from_micros(30);
/// Most entries of a read, if there are to be gaps: two page tables.
const PAGES: usize = 1024;

/// When to leave a gap.
#[derive(Debug)]
pub struct Gaps {
    /// The end of the last one. `None`: there are none.
    since: Option<Instant>,
}

impl Gaps {
    /// Others want the lock as well.
    pub fn some() -> Self {
        Self { since: Some(Instant::now()) }
    }

    /// Reading without gaps, for a result as soon as possible.
    pub fn none() -> Self {
        Self { since: None }
    }

    /// Number of entries to read at a time, of up to `pages`.
    pub fn pages(&self, pages: usize) -> usize {
        if self.since.is_some() { pages.min(PAGES) } else { pages }
    }

    /// Leaves a gap, if it is time. To be called after each read.
    pub fn leave(&mut self) {
        if let Some(since) = &mut self.since
            && since.elapsed() >= READ
        {
            sleep(GAP);
            *since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_looks_that_can_wait_leave_gaps() {
        assert_eq!((Gaps::some().pages(4096), Gaps::some().pages(512)), (PAGES, 512));
        assert_eq!(Gaps::none().pages(4096), 4096);
        let begin = Instant::now();
        // An hour from now, so that no wait of this test counts as reading.
        let later = begin + Duration::from_secs(3600);
        let [mut long_ago, mut just_now] =
            [begin - READ, later].map(|since| Gaps { since: Some(since) });
        long_ago.leave();
        just_now.leave();
        assert!(long_ago.since.is_some_and(|since| since >= begin + GAP), "it has slept");
        assert_eq!(just_now.since, Some(later));
    }
}
