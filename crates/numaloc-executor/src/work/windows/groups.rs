//! Windows that are scanned together.

use super::{Window, Windows};
use numaloc_core::Move;
use numaloc_host::Neighbours;

/// Windows that a worker visits one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowGroup {
    /// One or more.
    pub windows: Vec<Window>,
    /// The memory that they are in, if these are several mappings whose page map is to be read in one go.
    pub neighbours: Option<Neighbours>,
}

impl Windows<'_> {
    /// The window `first`, and the next ones as long as they are in neighbouring mappings: of tens of thousands of small
    /// mappings each one would take a system call otherwise. Sorted windows are alone.
    pub fn with_neighbours(&mut self, first: Window) -> WindowGroup {
        let alone = |windows| WindowGroup { windows, neighbours: None };
        let Self::ByAddress(cuts) = self else { return alone(vec![first]) };
        let mapping = |planned: &Move| {
            Neighbours::first(
                &planned.mappings,
                &planned.pages,
                planned.hugetlb_bytes,
                planned.bytes,
            )
        };
        let Some(mut neighbours) = mapping(&cuts.moves[first.move_index]) else {
            return alone(vec![first]);
        };
        let mut windows = vec![first];
        while let Some(next) = cuts.run().and_then(|(next, _)| mapping(next))
            && neighbours.add(&next)
        {
            windows.extend(cuts.next());
        }
        let is_several = windows.len() > 1;
        WindowGroup { windows, neighbours: is_several.then_some(neighbours) }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::planned_move, *};
    use numaloc_core::{Chunks, Heat, Mapping, Sightings, page_size, pmd_size};
    use std::ops::Range;

    #[test]
    fn windows_of_neighbouring_mappings_are_visited_together() {
        let page = |at: u64| planned_move(at * page_size(), page_size(), page_size(), None);
        let mut without = page(5);
        without.away = Chunks::default();
        let mut moves = vec![
            page(1),
            page(3),
            without,
            page(6),
            page(600),
            planned_move(pmd_size() * 2, pmd_size(), pmd_size(), None),
        ];
        moves.push(Move {
            mappings: vec![Mapping { process: 1, start: pmd_size() * 3 }],
            ..page(0)
        });
        let groups = |mut windows: Windows<'_>| -> Vec<(Vec<usize>, Option<Range<u64>>)> {
            let next = || {
                let first = windows.next()?;
                let group = windows.with_neighbours(first);
                let indexes = group.windows.iter().map(|window| window.move_index).collect();
                Some((indexes, group.neighbours.map(|neighbours| neighbours.addresses)))
            };
            std::iter::from_fn(next).collect()
        };
        assert_eq!(
            groups(Windows::by_address(&moves, pmd_size(), 1)),
            [
                (vec![0, 1, 3], Some(page_size()..7 * page_size())),
                (vec![4], None),
                (vec![5], None),
                (vec![6], None)
            ]
        );
        let heat = Heat::from(Sightings::new(2));
        let sorted = groups(Windows::hottest_first(&moves, pmd_size(), &heat));
        assert!(sorted.iter().all(|(indexes, _)| indexes.len() == 1), "{sorted:?}");
    }
}
