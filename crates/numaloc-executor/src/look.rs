//! The second look: where folios are after a call.

use crate::{row::Row, verdict::Verdict};
use numaloc_core::{NodeId, PAGE};
use numaloc_host::{AddressSpace, Place, Scanner};
use std::{iter, ops::Range};

/// Where the base pages of some folios were seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// Bytes on the target.
    pub arrived_bytes: u64,
    /// Bytes that are mapped no more.
    pub absent_bytes: u64,
    /// Addresses of base pages that are elsewhere; one, the head's, for a folio of which none arrived or vanished.
    pub elsewhere: Vec<u64>,
}

impl Sighting {
    /// Which of the addresses that were looked at are on the target; none of them where some are mapped no more, for nobody
    /// knows which.
    pub fn arrived(&self, all: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let known = self.absent_bytes == 0 && self.arrived_bytes > 0;
        let starts = iter::once(all.start).chain(self.elsewhere.iter().map(|page| page + PAGE));
        let ends = self.elsewhere.iter().copied().chain(iter::once(all.end));
        let between = starts.zip(ends).map(|(start, end)| start..end);
        between.filter(move |range| known && !range.is_empty())
    }
}

/// Pages between two folios that it is cheaper to read over than to begin a new read.
const GAP: u64 = 64;
/// Pages to read at a time.
const SPAN: u64 = 4096;

/// What is looked at as one: a row of base pages, or a single folio of more.
#[derive(Debug)]
struct Piece {
    row: Row,
    /// Base pages from its begin to look at.
    pages: u64,
}

/// Looks at all folios, in the order given; neighbours are read together. `verdict` tells what the call said of one, by its
/// number: a folio that was reported moved as a whole is one piece still, and its first page tells where that is; of others every
/// page is looked at, because the kernel may have split them on the way.
///
/// Returns what was seen with the folios in question, which are rows of base pages or single ones.
pub fn look(
    scanner: &mut Scanner,
    space: &AddressSpace,
    rows: &[Row],
    verdict: impl Fn(usize) -> Verdict,
    to: NodeId,
) -> Vec<(Row, Sighting)> {
    let pieces = pieces(rows, verdict, to);
    let mut sightings = Vec::with_capacity(pieces.len());
    let mut places = Vec::new();
    let mut begin = 0;
    while let Some(first) = pieces.get(begin) {
        let start = first.row.first.address;
        let mut end = start + first.pages * PAGE;
        let mut next = begin + 1;
        while let Some(piece) = pieces.get(next) {
            let address = piece.row.first.address;
            let next_end = address + piece.pages * PAGE;
            let is_near = address >= end && address <= end + GAP * PAGE;
            if !is_near || next_end > start + SPAN * PAGE {
                break;
            }
            (end, next) = (next_end, next + 1);
        }
        places.clear();
        scanner.locate(space, start, ((end - start) / PAGE) as usize, &mut places);
        for piece in &pieces[begin..next] {
            let at = ((piece.row.first.address - start) / PAGE) as usize;
            let places = &places[at..at + piece.pages as usize];
            sightings.push((piece.row, sight(piece.row, places, to)));
        }
        begin = next;
    }
    sightings
}

/// Base pages by the span, other folios one by one.
fn pieces(rows: &[Row], verdict: impl Fn(usize) -> Verdict, to: NodeId) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(rows.len());
    let mut before = 0;
    for &row in rows {
        if row.first.bytes > PAGE {
            for (index, folio) in row.folios().enumerate() {
                let pages = match verdict(before + index) {
                    Verdict::On(node) if node == to => 1,
                    _ => folio.mapped_pages(),
                };
                pieces.push(Piece { row: folio.into(), pages });
            }
        } else {
            // Each of these pages is looked at, whatever the call said.
            let mut rest = row;
            while rest.count > SPAN {
                let row = rest.split_off(SPAN);
                pieces.push(Piece { row, pages: SPAN });
            }
            pieces.push(Piece { row: rest, pages: rest.count });
        }
        before += row.count as usize;
    }
    pieces
}

fn sight(row: Row, places: &[Place], to: NodeId) -> Sighting {
    let page_bytes = row.bytes() / places.len() as u64;
    let mut sighting = Sighting::default();
    for (index, place) in places.iter().enumerate() {
        match place {
            Place::On(node) if *node == to => sighting.arrived_bytes += page_bytes,
            Place::Absent => sighting.absent_bytes += page_bytes,
            Place::On(_) | Place::Unknown => {
                sighting.elsewhere.push(row.first.address + index as u64 * page_bytes)
            }
        }
    }
    if row.count == 1 && sighting.elsewhere.len() == places.len() {
        sighting.elsewhere.truncate(1);
    }
    sighting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::Folio;
    use numaloc_core::HUGE;

    const HOME: Place = Place::On(NodeId(0));
    const AWAY: Place = Place::On(NodeId(1));

    #[test]
    fn each_page_of_a_row_is_where_it_is() {
        let row = Row { first: Folio::sample(0x10000, PAGE), count: 6 };
        let seen = sight(row, &[HOME, HOME, AWAY, Place::Absent, HOME, Place::Unknown], NodeId(0));
        assert_eq!((seen.arrived_bytes, seen.absent_bytes), (3 * PAGE, PAGE));
        assert_eq!(seen.elsewhere, [0x12000, 0x15000]);
        let seen = sight(row, &[HOME, AWAY, HOME, HOME, AWAY, HOME], NodeId(0));
        let (start, end) = (0x10000, 0x16000);
        let arrived = [start..start + PAGE, 0x12000..0x14000, 0x15000..end];
        assert_eq!(seen.arrived(start..end).collect::<Vec<_>>(), arrived);
    }

    #[test]
    fn a_huge_page_is_one_until_a_part_of_it_went() {
        let row = Row::from(Folio::sample(HUGE, HUGE));
        assert_eq!(sight(row, &[HOME], NodeId(0)).arrived_bytes, HUGE);
        assert_eq!(sight(row, &[AWAY; 512], NodeId(0)).elsewhere, [HUGE]);
        let mut places = [AWAY; 512];
        places[1] = HOME;
        let seen = sight(row, &places, NodeId(0));
        assert_eq!((seen.arrived_bytes, seen.elsewhere.len()), (PAGE, 511));
    }

    #[test]
    fn base_pages_go_by_the_span_and_others_one_by_one() {
        let rows = [
            Row { first: Folio::sample(0, PAGE), count: SPAN + 1 },
            Row { first: Folio::sample(64 * HUGE, HUGE), count: 2 },
        ];
        let verdict = |index| match index == SPAN as usize + 2 {
            true => Verdict::On(NodeId(0)),
            false => Verdict::Tried,
        };
        let pieces = pieces(&rows, verdict, NodeId(0));
        let of = |piece: &Piece| (piece.row.first.address, piece.row.count, piece.pages);
        assert_eq!(
            pieces.iter().map(of).collect::<Vec<_>>(),
            [(0, SPAN, SPAN), (SPAN * PAGE, 1, 1), (64 * HUGE, 1, 512), (65 * HUGE, 1, 1)]
        );
    }
}
