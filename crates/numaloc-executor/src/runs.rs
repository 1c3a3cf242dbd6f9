//! Runs: the folios that the kernel takes from the application at once, within one call. Pure.
//!
//! `do_pages_move` (mm/migrate.c) queues pages until it meets one that it cannot queue, and then moves the queue. From 6.3 on it
//! unmaps up to 512 queued base pages together before it copies the first. An application that writes at random addresses soon
//! waits for such a run, and then for the next one. With shorter runs it can continue in between, at little cost. Shorter calls
//! would have the same effect, but each call has a fixed price (mm/swap.c, `lru_cache_disable`).

use crate::{folio::Folio, row::Row};
use numaloc_core::PAGE;

/// An address in the kernel's half, where no process has a mapping. The kernel cannot queue it, so it ends a run.
const STOP: u64 = !(PAGE - 1);

/// How long runs are. A run with a page that cannot be moved ends the call. Where there are many such pages, short runs would
/// need a call each, so runs become longer there.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    pace: Option<u64>,
    now: Option<u64>,
}

impl Length {
    /// Begins with the profile's run length; `None`: no limit.
    pub fn new(run_bytes: Option<u64>) -> Self {
        Self { pace: run_bytes, now: run_bytes }
    }

    /// Most bytes of a run in the next call, whose first folio is `first`. `None`: no limit. Folios that failed before all go
    /// into one run, because they are likely to fail again.
    pub fn bytes(&self, first: &Folio) -> Option<u64> {
        self.now.filter(|_| first.attempts == 0)
    }

    /// Doubles the runs after a call that ended early. Restores the first length after a call that did not.
    pub fn learn(&mut self, ended_early: bool) {
        let longer = self.now.map(|bytes| bytes.saturating_mul(2));
        self.now = if ended_early { longer } else { self.pace };
    }
}

/// The addresses of one call.
#[derive(Debug)]
pub struct Runs {
    /// Addresses of the folios, with a stop between runs.
    pub addresses: Vec<u64>,
    /// For each stop: how many folios come before it.
    stops: Vec<usize>,
}

impl Runs {
    /// Makes runs of at most `run_bytes`; one folio may be larger. `None`: one run.
    pub fn new(rows: &[Row], run_bytes: Option<u64>) -> Self {
        let most = run_bytes.unwrap_or(u64::MAX);
        let folios = rows.iter().map(|row| row.count as usize).sum();
        let (mut addresses, mut stops) = (Vec::with_capacity(folios), Vec::new());
        let mut run = 0;
        for folio in rows.iter().flat_map(|row| row.folios()) {
            if run > 0 && folio.bytes > most - run {
                stops.push(addresses.len() - stops.len());
                addresses.push(STOP);
                run = 0;
            }
            addresses.push(folio.address);
            run = most.min(run + folio.bytes);
        }
        Self { addresses, stops }
    }

    /// The index in `addresses` of the folio with this number.
    pub fn place(&self, folio: usize) -> usize {
        folio + self.stops.partition_point(|&before| before <= folio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        row::push,
        verdict::{Verdict, Verdicts},
    };
    use nix::libc::EFAULT;
    use numaloc_core::{HUGE, NodeId};
    use numaloc_sys::UNWRITTEN;
    use proptest::{collection::vec, prelude::*, sample::select};

    #[test]
    fn runs_end_where_they_would_be_too_long() {
        let folios =
            [(0x1000, PAGE), (0x2000, PAGE), (0x3000, PAGE), (HUGE, HUGE), (2 * HUGE, PAGE)];
        let folios = folios.map(|(address, bytes)| Row::from(Folio::sample(address, bytes)));
        let pass = |run_bytes| Runs::new(&folios, run_bytes).addresses;
        assert_eq!(pass(None), [0x1000, 0x2000, 0x3000, HUGE, 2 * HUGE]);
        assert_eq!(
            pass(Some(2 * PAGE)),
            [0x1000, 0x2000, STOP, 0x3000, STOP, HUGE, STOP, 2 * HUGE],
            "a folio that is longer is a run of its own"
        );
    }

    #[test]
    fn a_failed_run_is_the_tried_one() {
        let folios =
            [0x1000, 0x2000, 0x3000].map(|address| Row::from(Folio::sample(address, PAGE)));
        let runs = Runs::new(&folios, Some(PAGE));
        // The kernel writes the stop's own status before it moves the run.
        let verdicts = Verdicts::new(vec![0, -EFAULT, UNWRITTEN, -EFAULT, UNWRITTEN]);
        assert_eq!(
            [0, 1, 2].map(|folio| verdicts.get(runs.place(folio))),
            [Verdict::On(NodeId(0)), Verdict::Tried, Verdict::Untried]
        );
    }

    #[test]
    fn runs_grow_while_calls_end_early() {
        let mut length = Length::new(Some(2 * PAGE));
        let fresh = Folio::sample(0, PAGE);
        let failed = Folio { attempts: 1, ..fresh };
        assert_eq!((length.bytes(&fresh), length.bytes(&failed)), (Some(2 * PAGE), None));
        length.learn(true);
        length.learn(true);
        assert_eq!(length.bytes(&fresh), Some(8 * PAGE));
        length.learn(false);
        assert_eq!(length.bytes(&fresh), Some(2 * PAGE));
        let mut long = Length::new(Some(u64::MAX));
        long.learn(true);
        assert_eq!(long.bytes(&fresh), Some(u64::MAX));
        let mut none = Length::new(None);
        none.learn(true);
        assert_eq!(none.bytes(&fresh), None);
    }

    proptest! {
        #[test]
        fn all_folios_are_passed_in_order_and_no_stop_is_in_vain(
            sizes in vec(select(vec![PAGE, 16 * PAGE, HUGE]), 0..200),
            run_pages in 1..600u64,
        ) {
            let mut address = 0;
            let next = |bytes: u64| {
                address += bytes;
                Folio::sample(address, bytes)
            };
            let folios: Vec<Folio> = sizes.into_iter().map(next).collect();
            let most = run_pages * PAGE;
            let mut rows = Vec::new();
            folios.iter().for_each(|&folio| push(&mut rows, folio));
            let runs = Runs::new(&rows, Some(most));
            for (index, folio) in folios.iter().enumerate() {
                prop_assert_eq!(runs.addresses[runs.place(index)], folio.address);
            }
            let passed = runs.addresses;
            let mut left = folios.iter();
            let mut before = 0;
            for run in passed.split(|&address| address == STOP) {
                let folios: Vec<&Folio> = left.by_ref().take(run.len()).collect();
                prop_assert!(folios.iter().map(|folio| folio.address).eq(run.iter().copied()));
                let bytes: u64 = folios.iter().map(|folio| folio.bytes).sum();
                prop_assert!(bytes <= most || run.len() == 1);
                prop_assert!(before == 0 || before + folios[0].bytes > most);
                before = bytes;
            }
            prop_assert_eq!(left.next(), None);
        }
    }
}
