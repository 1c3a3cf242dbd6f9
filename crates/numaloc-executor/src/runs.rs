//! Runs: what the kernel takes from the application at once, within one call. Pure.
//!
//! `do_pages_move` (mm/migrate.c) queues pages until one cannot be queued, and then moves what it has. From 6.3 on it takes
//! the mappings of up to 512 queued base pages away together before it copies the first of them, so whoever writes at
//! random soon waits for such a run, and then for the next. Shorter runs let it work on, and cost little; shorter calls
//! would, too, but each has its price (mm/swap.c, `lru_cache_disable`).

use crate::{row::Row, verdict::Verdict};
use numaloc_core::PAGE;

/// An address in the kernel's half, where no process has a mapping: it cannot be queued, and ends a run.
const STOP: u64 = !(PAGE - 1);

/// What to pass to a call for these folios: their addresses, and stops between runs of at most `run_bytes`, unless one folio
/// has more. `None`: no stops.
pub fn addresses(rows: &[Row], run_bytes: Option<u64>) -> Vec<u64> {
    let most = run_bytes.unwrap_or(u64::MAX);
    let mut addresses = Vec::with_capacity(rows.iter().map(|row| row.count as usize).sum());
    let mut run = 0;
    for folio in rows.iter().flat_map(|row| row.folios()) {
        if run > 0 && folio.bytes > most - run {
            addresses.push(STOP);
            run = 0;
        }
        addresses.push(folio.address);
        run = most.min(run + folio.bytes);
    }
    addresses
}

/// The verdicts on folios alone, of those on all `addresses` of a call.
pub fn on_folios(addresses: &[u64], verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let verdicts = verdicts.into_iter().zip(addresses);
    verdicts.filter(|&(_, &address)| address != STOP).map(|(verdict, _)| verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{folio::Folio, row::push, verdict::verdicts};
    use nix::libc::EFAULT;
    use numaloc_core::{HUGE, NodeId};
    use numaloc_sys::UNWRITTEN;
    use proptest::{collection::vec, prelude::*, sample::select};

    #[test]
    fn runs_end_where_they_would_be_too_long() {
        let folios =
            [(0x1000, PAGE), (0x2000, PAGE), (0x3000, PAGE), (HUGE, HUGE), (2 * HUGE, PAGE)];
        let folios = folios.map(|(address, bytes)| Row::from(Folio::sample(address, bytes)));
        let pass = |run_bytes| addresses(&folios, run_bytes);
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
        let addresses = addresses(&folios, Some(PAGE));
        // The stop's own status is written before its run is moved.
        let statuses = [0, -EFAULT, UNWRITTEN, -EFAULT, UNWRITTEN];
        assert_eq!(
            on_folios(&addresses, verdicts(&statuses)),
            [Verdict::On(NodeId(0)), Verdict::Tried, Verdict::Untried]
        );
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
            let passed = addresses(&rows, Some(most));
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
