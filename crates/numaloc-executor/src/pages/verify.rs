//! Verification: where folios are after a call. Pure: the function that reads the places is passed in.

use crate::pages::row::Row;
use numaloc_core::{NodeId, number, page_size};
use numaloc_host::PageLocation;
use std::{iter, ops::Range};

/// Where the base pages of some folios were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub arrived_bytes: u64,
    /// Bytes that are no longer mapped.
    pub absent_bytes: u64,
    /// Addresses of base pages that are elsewhere. For a single folio that is elsewhere as a whole, only the address of its head.
    pub elsewhere: Vec<u64>,
    /// Bytes whose place could not be read.
    pub unread_bytes: u64,
}

impl Verified {
    /// `all` are the addresses that were looked at. Gives the addresses that are on the target. Gives none if some
    /// pages are no longer mapped, because it is not known which.
    pub fn arrived(&self, all: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let known = self.absent_bytes == 0 && self.arrived_bytes > 0;
        let starts =
            iter::once(all.start).chain(self.elsewhere.iter().map(|page| page + page_size()));
        let ends = self.elsewhere.iter().copied().chain(iter::once(all.end));
        let between = starts.zip(ends).map(|(start, end)| start..end);
        between.filter(move |range| known && !range.is_empty())
    }
}

/// Pages between two folios that are read too, because that is cheaper than to begin a new read.
const GAP: u64 = 64;
/// Most pages to read at a time.
const SPAN: u64 = 4096;

/// Base pages of a row that are looked at, or believed, together.
const PIECE: u64 = 64;
/// One in this many pieces is looked at.
const SAMPLE: u64 = 64;
/// Base pages of a call from which on a sample is enough: with fewer pages, to look at all takes no longer than the call itself varies.
pub const SAMPLED_FROM: u64 = 8 * PIECE;

/// Looks at a sample of rows of base pages that a call has reported on `to`, and returns whether all of these pages are there: one in
/// [`SAMPLE`] pieces, and at least one, which `first` chooses. `locate` as for [`verify`].
///
/// The kernel writes a status once it has moved a page list as a whole (mm/migrate.c, `do_pages_move`, `move_pages_and_store_status`),
/// so it is believed where the sample agrees. A page that was freed during the call counts as moved then, if the sample misses
/// all such pages.
pub fn sample<E>(
    rows: &[Row],
    to: NodeId,
    first: u64,
    mut locate: impl FnMut(u64, usize, &mut Vec<PageLocation>) -> Result<(), E>,
) -> bool {
    let all: u64 = rows.iter().map(|row| row.count.div_ceil(PIECE)).sum();
    let first = first % SAMPLE.min(all.max(1));
    let (mut piece, mut places) = (0, Vec::new());
    let mut is_there = |address: u64, pages: u64| {
        let is_looked_at = piece % SAMPLE == first;
        piece += 1;
        if !is_looked_at {
            return true;
        }
        places.clear();
        let located = locate(address, number::index(pages), &mut places);
        located.is_ok() && places.iter().all(|place| *place == PageLocation::On(to))
    };
    rows.iter().all(|row| {
        let mut starts = (0..row.count).step_by(number::index(PIECE));
        starts.all(|start| {
            is_there(row.first.address + start * page_size(), PIECE.min(row.count - start))
        })
    })
}

/// Looks at all pages of some folios, in the order given; near ones are read together. `locate` takes an address and a number of
/// base pages and gives their places. Even a folio that the call reported as moved is looked at page by page: between scan and
/// call it may have been split, or unmapped in part. Returns what was seen, each with its folios (a row of base pages, or one
/// larger folio), and the first error.
pub fn verify<E>(
    rows: &[Row],
    to: NodeId,
    mut locate: impl FnMut(u64, usize, &mut Vec<PageLocation>) -> Result<(), E>,
) -> (Vec<(Row, Verified)>, Option<E>) {
    let pieces = pieces(rows);
    let mut results = Vec::with_capacity(pieces.len());
    let (mut places, mut failed) = (Vec::new(), None);
    let mut begin = 0;
    while let Some(first) = pieces.get(begin) {
        let start = first.first.address;
        let mut end = start + pages(first) * page_size();
        let mut next = begin + 1;
        while let Some(piece) = pieces.get(next) {
            let address = piece.first.address;
            let next_end = address + pages(piece) * page_size();
            let is_near = address >= end && address <= end + GAP * page_size();
            if !is_near || next_end > start + SPAN * page_size() {
                break;
            }
            (end, next) = (next_end, next + 1);
        }
        places.clear();
        let located = locate(start, number::index((end - start) / page_size()), &mut places);
        for &row in &pieces[begin..next] {
            let at = number::index((row.first.address - start) / page_size());
            let verified = match &located {
                Ok(()) => verify_row(row, &places[at..at + number::index(pages(&row))], to),
                Err(_) => Verified { unread_bytes: row.bytes(), ..Verified::default() },
            };
            results.push((row, verified));
        }
        failed = failed.or(located.err());
        begin = next;
    }
    (results, failed)
}

/// Number of places that are read for a row. hugetlb pages have one each: they are never split or unmapped in part.
fn pages(row: &Row) -> u64 {
    if row.first.hugetlb_bytes.is_some() { row.count } else { row.bytes() / page_size() }
}

/// Divides rows into pieces: base pages into rows of at most [`SPAN`] pages, other folios one by one.
fn pieces(rows: &[Row]) -> Vec<Row> {
    let mut pieces = Vec::with_capacity(rows.len());
    for &row in rows {
        if row.first.bytes > page_size() {
            pieces.extend(row.folios().map(Row::from));
        } else {
            let mut rest = row;
            while rest.count > SPAN {
                pieces.push(rest.split_off(SPAN));
            }
            pieces.push(rest);
        }
    }
    pieces
}

fn verify_row(row: Row, places: &[PageLocation], to: NodeId) -> Verified {
    let page_bytes = row.bytes() / places.len() as u64;
    let mut verified = Verified::default();
    for (index, place) in places.iter().enumerate() {
        match place {
            PageLocation::On(node) if *node == to => verified.arrived_bytes += page_bytes,
            PageLocation::Absent => verified.absent_bytes += page_bytes,
            PageLocation::On(_) | PageLocation::Unknown => {
                verified.elsewhere.push(row.first.address + index as u64 * page_bytes)
            }
        }
    }
    if row.count == 1 && verified.elsewhere.len() == places.len() {
        verified.elsewhere.truncate(1);
    }
    verified
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::folio::Folio;
    use numaloc_core::pmd_size;

    const HOME: PageLocation = PageLocation::On(NodeId(0));
    const AWAY: PageLocation = PageLocation::On(NodeId(1));

    #[test]
    fn each_page_of_a_row_is_where_it_is() {
        let row = Row { first: Folio::sample(0x10000, page_size()), count: 6 };
        let seen = verify_row(
            row,
            &[HOME, HOME, AWAY, PageLocation::Absent, HOME, PageLocation::Unknown],
            NodeId(0),
        );
        assert_eq!((seen.arrived_bytes, seen.absent_bytes), (3 * page_size(), page_size()));
        assert_eq!(seen.elsewhere, [0x12000, 0x15000]);
        let seen = verify_row(row, &[HOME, AWAY, HOME, HOME, AWAY, HOME], NodeId(0));
        let (start, end) = (0x10000, 0x16000);
        let arrived = [start..start + page_size(), 0x12000..0x14000, 0x15000..end];
        assert_eq!(seen.arrived(start..end).collect::<Vec<_>>(), arrived);
    }

    #[test]
    fn a_huge_page_is_one_until_a_part_of_it_went() {
        let row = Row::from(Folio::sample(pmd_size(), pmd_size()));
        assert_eq!(verify_row(row, &[HOME; 512], NodeId(0)).arrived_bytes, pmd_size());
        assert_eq!(verify_row(row, &[AWAY; 512], NodeId(0)).elsewhere, [pmd_size()]);
        let mut places = [AWAY; 512];
        places[1] = HOME;
        let seen = verify_row(row, &places, NodeId(0));
        assert_eq!((seen.arrived_bytes, seen.elsewhere.len()), (page_size(), 511));
    }

    #[test]
    fn base_pages_go_by_the_span_and_others_one_by_one() {
        let hugetlb =
            Folio { hugetlb_bytes: Some(pmd_size()), ..Folio::sample(96 * pmd_size(), pmd_size()) };
        let rows = [
            Row { first: Folio::sample(0, page_size()), count: SPAN + 1 },
            Row { first: Folio::sample(64 * pmd_size(), pmd_size()), count: 2 },
            Row { first: hugetlb, count: 2 },
        ];
        let of = |row: &Row| (row.first.address, row.count, pages(row));
        assert_eq!(
            pieces(&rows).iter().map(of).collect::<Vec<_>>(),
            [
                (0, SPAN, SPAN),
                (SPAN * page_size(), 1, 1),
                (64 * pmd_size(), 1, 512),
                (65 * pmd_size(), 1, 512),
                (96 * pmd_size(), 1, 1),
                (97 * pmd_size(), 1, 1)
            ]
        );
    }

    /// The pages that are looked at of rows of so many pages, and whether all of them are there.
    fn sampled(
        counts: &[u64],
        first: u64,
        place: impl Fn(u64) -> PageLocation,
    ) -> (Vec<u64>, bool) {
        let row = |(index, &count): (usize, &u64)| {
            let address = index as u64 * 1024 * pmd_size();
            Row { first: Folio::sample(address, page_size()), count }
        };
        let rows: Vec<Row> = counts.iter().enumerate().map(row).collect();
        let mut looked_at = Vec::new();
        let are_there = sample(&rows, NodeId(0), first, |address, pages, places| {
            let pages = (0..pages as u64).map(|page| address / page_size() + page);
            places.extend(pages.clone().map(&place));
            looked_at.extend(pages);
            Ok::<_, ()>(())
        });
        (looked_at, are_there)
    }

    #[test]
    fn a_sample_is_one_piece_in_64_and_in_turns_each() {
        let pages = 2 * SAMPLE * PIECE + 7;
        let mut all = Vec::new();
        for first in 0..SAMPLE {
            let (looked_at, are_there) = sampled(&[pages], first, |_| HOME);
            assert!(are_there && (2..=3).contains(&(looked_at.len() as u64).div_ceil(PIECE)));
            all.extend(looked_at);
        }
        all.sort_unstable();
        assert_eq!(all, (0..pages).collect::<Vec<_>>());
        assert_eq!(sampled(&[2; 128], 5, |_| HOME).0.len(), 4, "of short rows as many in 64");
        for first in 0..200 {
            let looked_at = sampled(&[SAMPLED_FROM], first, |_| HOME).0;
            assert_eq!(looked_at.len() as u64, PIECE, "at least one piece of each call");
        }
    }

    #[test]
    fn a_page_of_the_sample_that_is_not_there_speaks_against_all() {
        let count = [SAMPLED_FROM];
        let seen = sampled(&count, 5, |_| HOME).0[17];
        for place in [AWAY, PageLocation::Absent, PageLocation::Unknown] {
            let one = |page| if page == seen { place } else { HOME };
            assert!(!sampled(&count, 5, one).1, "{place:?}");
            assert!(sampled(&count, 6, one).1, "another sample misses it");
        }
        let row = [Row { first: Folio::sample(0, page_size()), count: SAMPLED_FROM }];
        assert!(!sample(&row, NodeId(0), 0, |_, _, _| Err("no")), "what cannot be read");
    }

    #[test]
    fn what_could_not_be_read_has_neither_arrived_nor_vanished() {
        let rows = [0, SPAN * page_size(), 4 * SPAN * page_size()]
            .map(|address| Folio::sample(address, page_size()).into());
        let (seen, failed) = verify(&rows, NodeId(0), |address, pages, places| {
            places.resize(pages, HOME);
            if address == SPAN * page_size() { Err("no") } else { Ok(()) }
        });
        let bytes = |(_, seen): &(Row, Verified)| (seen.arrived_bytes, seen.unread_bytes);
        assert_eq!(
            seen.iter().map(bytes).collect::<Vec<_>>(),
            [(page_size(), 0), (0, page_size()), (page_size(), 0)]
        );
        assert_eq!(failed, Some("no"));
        let Verified { absent_bytes, elsewhere, .. } = &seen[1].1;
        assert_eq!((*absent_bytes, elsewhere.len()), (0, 0));
    }
}
