//! Decides which of a plan's moves a page belongs to, where private memory of several processes has the same addresses.
//!
//! The plan divides such memory into pages that only one process maps and pages that several map. A fork or the end of a child
//! can change that after the survey. The page then belongs to whichever move finds it first, so that no page is missed or found
//! twice.

use numaloc_core::{CommonStay, Mapping, Move, Pages};
use numaloc_host::{Ownership, PageRun};
use std::collections::BTreeMap;

/// Ranges of moves. Key: process and first address. Value: first address behind the range, and the index of the move.
type Ranges = BTreeMap<(usize, u64), (u64, usize)>;

/// Stands for a move's index where common pages stay: the plan has accounted for these pages.
const NOBODYS: usize = usize::MAX;

/// The moves of private memory whose addresses other processes of the target use too.
#[derive(Debug, Default)]
pub struct MoveIndex {
    own: Ranges,
    common: Ranges,
    /// For each move the first one of the same pages: that of another stripe, or itself.
    first_stripes: Vec<usize>,
}

impl MoveIndex {
    /// Takes all moves of a plan, and the ranges whose common pages stay.
    pub fn new(moves: &[Move], stays: &[CommonStay]) -> Self {
        let mut move_index = Self::default();
        for (index, planned_move) in moves.iter().enumerate() {
            let same = |&&first: &&usize| is_same(&moves[first], planned_move);
            let first = move_index.first_stripes.last().filter(same).copied().unwrap_or(index);
            move_index.first_stripes.push(first);
            let ranges = match planned_move.pages {
                Pages::All | Pages::Unmapped => continue,
                Pages::Own => &mut move_index.own,
                Pages::Common(_) => &mut move_index.common,
            };
            for mapping in &planned_move.mappings {
                let end = mapping.start + planned_move.bytes;
                // Several moves of common pages can have the same range: the first stands for all.
                ranges.entry((mapping.process, mapping.start)).or_insert((end, index));
            }
        }
        // Where some common pages move and others stay, the range is a move's.
        for CommonStay { mappings, bytes } in stays {
            for mapping in mappings {
                let entry = move_index.common.entry((mapping.process, mapping.start));
                entry.or_insert((mapping.start + bytes, NOBODYS));
            }
        }
        move_index
    }

    /// Whether a move takes a page run that it found through `mapping`.
    pub fn takes(
        &self,
        index: usize,
        planned_move: &Move,
        mapping: Mapping,
        run: &PageRun<'_>,
    ) -> bool {
        let address = mapping.start + run.offset;
        match (&planned_move.pages, run.ownership, run.claims) {
            (Pages::All, ..) | (Pages::Own, Ownership::Exclusive, _) => true,
            // No page map shows them.
            (Pages::Unmapped, ..) => false,
            // A child was forked since the survey: the page is treated like all pages that strangers map.
            (Pages::Own, ..) => of(&self.common, mapping.process, address).is_none(),
            (Pages::Common(claims), _, Some(sharers)) => sharers == claims,
            // The other processes no longer map it.
            (Pages::Common(_), _, None) => {
                of(&self.own, mapping.process, address).is_none()
                    && of(&self.common, mapping.process, address) == Some(self.first_stripes[index])
            }
        }
    }
}

/// Whether two moves are stripes of the same pages. Such moves follow each other.
fn is_same(one: &Move, other: &Move) -> bool {
    let are_stripes = one.stripe.is_some() && other.stripe.is_some();
    are_stripes && one.mappings == other.mappings && one.pages == other.pages
}

fn of(ranges: &Ranges, process: usize, address: u64) -> Option<usize> {
    let (&(owner, _), &(end, index)) = ranges.range(..=(process, address)).next_back()?;
    (owner == process && address < end).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Chunks, Claim, ClaimSet, Claims, Kind, NodeSet, pmd_size};

    const START: u64 = 0xc0_0000_0000;

    fn planned_move(pages: Pages, processes: &[usize], offset: u64) -> Move {
        let mapping = |&process: &usize| Mapping { process, start: START + offset };
        Move {
            mappings: processes.iter().map(mapping).collect(),
            pages,
            bytes: 1 << 20,
            kind: Kind::Anonymous,
            hugetlb_bytes: None,
            mappers: Default::default(),
            stripe: None,
            rule: None,
            name: "".into(),
            routes: 0,
            remote: [].into(),
            shared_bytes: 0,
            away: Chunks::whole(START + offset, 1 << 20),
        }
    }

    fn sets() -> [ClaimSet; 2] {
        let claim = |home: &str| Claim {
            home: home.parse().unwrap(),
            allowed: NodeSet::new(),
            ..Claim::default()
        };
        let claims: Claims = [claim("0"), claim("1")].into_iter().collect();
        [claims.of([0]), claims.of([0, 1])]
    }

    #[test]
    fn a_page_is_taken_by_one_move_alone() {
        let [one, both] = sets();
        let common = |set: &ClaimSet| Pages::Common(set.clone());
        let moves = [
            planned_move(Pages::Own, &[0], 0),
            planned_move(common(&one), &[0, 1], 0),
            planned_move(common(&both), &[0, 1], 0),
        ];
        let move_index = MoveIndex::new(&moves, &[]);
        let takers = |process: usize, ownership, claims: Option<&ClaimSet>| -> Vec<usize> {
            let run = PageRun { offset: 4096, ownership, claims, ..PageRun::default() };
            let takes = |&index: &usize| {
                let planned_move: &Move = &moves[index];
                let mapping =
                    planned_move.mappings.iter().find(|mapping| mapping.process == process);
                mapping.is_some_and(|&mapping| move_index.takes(index, planned_move, mapping, &run))
            };
            (0..moves.len()).filter(takes).collect()
        };
        assert_eq!(takers(0, Ownership::Family, Some(&one)), [1]);
        assert_eq!(takers(1, Ownership::Family, Some(&both)), [2]);
        assert_eq!(takers(0, Ownership::Exclusive, None), [0]);
        assert_eq!(takers(1, Ownership::Exclusive, None), [1], "it has no move of its own");
        assert!(takers(0, Ownership::Several, None).is_empty(), "the common moves will see it");
    }

    #[test]
    fn what_a_child_that_was_born_since_maps_is_seen_all_the_same() {
        let moves = [planned_move(Pages::Own, &[0], 0), planned_move(Pages::Own, &[1], 0)];
        let move_index = MoveIndex::new(&moves, &[]);
        let run = PageRun { ownership: Ownership::Several, ..PageRun::default() };
        assert!(move_index.takes(1, &moves[1], moves[1].mappings[0], &run));
    }

    #[test]
    fn common_pages_that_stay_are_not_found_by_the_move_beside_them() {
        let moves = [planned_move(Pages::Own, &[0], 0)];
        let stays = CommonStay { mappings: moves[0].mappings.clone(), bytes: pmd_size() / 4 };
        let move_index = MoveIndex::new(&moves, &[stays]);
        let takes = |ownership, offset| {
            let run = PageRun { ownership, offset, ..PageRun::default() };
            move_index.takes(0, &moves[0], moves[0].mappings[0], &run)
        };
        assert!(!takes(Ownership::Several, 0), "the plan has it already");
        assert!(takes(Ownership::Exclusive, 0));
        assert!(takes(Ownership::Several, pmd_size() / 4), "a child was born since");
    }
}
