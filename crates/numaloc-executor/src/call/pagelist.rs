//! Page lists: the folios that the kernel takes from the application at once, within one call. Pure.
//!
//! `do_pages_move` (mm/migrate.c) queues pages in its list `pagelist` until it meets one that it cannot queue, and then moves the
//! list. From 6.3 on it unmaps up to 512 queued base pages together before it copies the first. An application that writes at
//! random addresses soon waits for such a page list, and then for the next one. With shorter page lists it can continue in
//! between, at little cost. Shorter calls would have the same effect, but each call has a fixed price (mm/swap.c,
//! `lru_cache_disable`).

use crate::pages::{folio::Folio, row::Row};
use numaloc_core::{SMALLEST_PAGE, number, page_size};

/// An address in the kernel's half, where no process has a mapping. The kernel cannot queue it, so it ends a page list.
const STOP: u64 = !(SMALLEST_PAGE - 1);

/// The length of page lists. A page list with a page that cannot be moved ends the call. Where there are many such
/// pages, short page lists would need a call each, so page lists become longer there.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    pace: Option<u64>,
    now: Option<u64>,
}

impl Length {
    /// Begins with the profile's page list length; `None`: no limit.
    pub fn new(list_bytes: Option<u64>) -> Self {
        Self { pace: list_bytes, now: list_bytes }
    }

    /// Most bytes of a page list in the next call, whose first folio is `first`. `None`: no limit. Folios that failed before all
    /// go into one page list, because they are likely to fail again.
    pub fn bytes(&self, first: &Folio) -> Option<u64> {
        self.now.filter(|_| first.attempts == 0)
    }

    /// Doubles the page lists after a call that ended early. Restores the first length after a call that did not.
    pub fn learn(&mut self, ended_early: bool) {
        let longer = self.now.map(|bytes| bytes.saturating_mul(2));
        self.now = if ended_early { longer } else { self.pace };
    }
}

/// The addresses of one call.
#[derive(Debug)]
pub struct Pagelists {
    /// Addresses of the folios, with a stop between page lists.
    pub addresses: Vec<u64>,
    /// For each stop: how many folios come before it.
    stops: Vec<usize>,
}

impl Pagelists {
    /// Makes page lists of at most `list_bytes`; one folio may be larger. `None`: one page list.
    pub fn new(rows: &[Row], list_bytes: Option<u64>) -> Self {
        let most = list_bytes.unwrap_or(u64::MAX);
        let folios = rows.iter().map(|row| number::index(row.count)).sum();
        let (mut addresses, mut stops) = (Vec::with_capacity(folios), Vec::new());
        let mut list = 0;
        for folio in rows.iter().flat_map(|row| row.folios()) {
            if list > 0 && folio.bytes > most - list {
                stops.push(addresses.len() - stops.len());
                addresses.push(STOP);
                list = 0;
            }
            addresses.push(folio.address);
            list = most.min(list + folio.bytes);
        }
        Self { addresses, stops }
    }

    /// Number of folios that are passed, each by one address.
    pub fn folios(&self) -> usize {
        self.addresses.len() - self.stops.len()
    }

    /// The index in `addresses` of the folio with this number.
    pub fn place(&self, folio: usize) -> usize {
        folio + self.stops.partition_point(|&before| before <= folio)
    }
}

/// Addresses of base pages, with a stop after each `list_bytes`. `None`: one page list.
pub fn cut(addresses: &[u64], list_bytes: Option<u64>) -> Vec<u64> {
    let pages = list_bytes.map_or(usize::MAX, |bytes| number::index((bytes / page_size()).max(1)));
    addresses.chunks(pages).collect::<Vec<_>>().join(&STOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call::page_status::{CallStatuses, PageStatus},
        pages::row::push,
    };
    use nix::libc::EFAULT;
    use numaloc_core::{NodeId, pmd_size};
    use numaloc_sys::UNWRITTEN;
    use proptest::{collection::vec, prelude::*, sample::select};

    #[test]
    fn base_pages_are_cut_by_their_number() {
        assert_eq!(cut(&[1, 2, 3], Some(2 * page_size())), [1, 2, STOP, 3]);
        assert_eq!(cut(&[1, 2, 3], None), [1, 2, 3]);
        assert!(cut(&[], Some(1)).is_empty());
    }

    #[test]
    fn page_lists_end_where_they_would_be_too_long() {
        let folios = [
            (0x1000, page_size()),
            (0x2000, page_size()),
            (0x3000, page_size()),
            (pmd_size(), pmd_size()),
            (2 * pmd_size(), page_size()),
        ];
        let folios = folios.map(|(address, bytes)| Row::from(Folio::sample(address, bytes)));
        let pass = |list_bytes| Pagelists::new(&folios, list_bytes).addresses;
        assert_eq!(pass(None), [0x1000, 0x2000, 0x3000, pmd_size(), 2 * pmd_size()]);
        assert_eq!(
            pass(Some(2 * page_size())),
            [0x1000, 0x2000, STOP, 0x3000, STOP, pmd_size(), STOP, 2 * pmd_size()],
            "a folio that is longer is a page list of its own"
        );
    }

    #[test]
    fn a_failed_page_list_is_the_tried_one() {
        let folios =
            [0x1000, 0x2000, 0x3000].map(|address| Row::from(Folio::sample(address, page_size())));
        let pagelists = Pagelists::new(&folios, Some(page_size()));
        // The kernel writes the stop's own status before it moves the page list.
        let call_statuses = CallStatuses::new(vec![0, -EFAULT, UNWRITTEN, -EFAULT, UNWRITTEN]);
        assert_eq!(
            [0, 1, 2].map(|folio| call_statuses.get(pagelists.place(folio))),
            [PageStatus::On(NodeId(0)), PageStatus::Tried, PageStatus::Untried]
        );
    }

    #[test]
    fn page_lists_grow_while_calls_end_early() {
        let mut length = Length::new(Some(2 * page_size()));
        let fresh = Folio::sample(0, page_size());
        let failed = Folio { attempts: 1, ..fresh };
        assert_eq!((length.bytes(&fresh), length.bytes(&failed)), (Some(2 * page_size()), None));
        length.learn(true);
        length.learn(true);
        assert_eq!(length.bytes(&fresh), Some(8 * page_size()));
        length.learn(false);
        assert_eq!(length.bytes(&fresh), Some(2 * page_size()));
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
            sizes in vec(select(vec![page_size(), 16 * page_size(), pmd_size()]), 0..200),
            list_pages in 1..600u64,
        ) {
            let mut address = 0;
            let next = |bytes: u64| {
                address += bytes;
                Folio::sample(address, bytes)
            };
            let folios: Vec<Folio> = sizes.into_iter().map(next).collect();
            let most = list_pages * page_size();
            let mut rows = Vec::new();
            folios.iter().for_each(|&folio| push(&mut rows, folio));
            let pagelists = Pagelists::new(&rows, Some(most));
            for (index, folio) in folios.iter().enumerate() {
                prop_assert_eq!(pagelists.addresses[pagelists.place(index)], folio.address);
            }
            let passed = pagelists.addresses;
            let mut left = folios.iter();
            let mut before = 0;
            for list in passed.split(|&address| address == STOP) {
                let folios: Vec<&Folio> = left.by_ref().take(list.len()).collect();
                prop_assert!(folios.iter().map(|folio| folio.address).eq(list.iter().copied()));
                let bytes: u64 = folios.iter().map(|folio| folio.bytes).sum();
                prop_assert!(bytes <= most || list.len() == 1);
                prop_assert!(before == 0 || before + folios[0].bytes > most);
                before = bytes;
            }
            prop_assert_eq!(left.next(), None);
        }
    }
}
