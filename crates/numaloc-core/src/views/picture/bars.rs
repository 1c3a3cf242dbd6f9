//! Which mappings of a picture are worth a bar of their own.

use super::{AreaRow, OtherAreas, Panel, Picture, Side};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The part of a process's memory, and of its remote memory, that has bars, in percent.
pub const DRAWN_PERCENT: u64 = 95;

/// Leaves bars to the mappings that hold [`DRAWN_PERCENT`] of each process's resident memory, and of its remote memory. What several processes map
/// has a bar for the one that has most of it. All other mappings join those without a row, so that sums stay.
pub fn leave_bars(picture: &mut Picture) {
    let elsewhere = drawn_elsewhere(&picture.panels);
    for (panel, elsewhere) in picture.panels.iter_mut().zip(elsewhere) {
        let by_resident = needed(panel, |row| row.total().resident_bytes());
        let by_remote = needed(panel, |row| row.total().remote_bytes(&panel.home));
        let stay: Vec<bool> = (0..panel.before.rows.len())
            .map(|index| {
                let is_needed = by_resident.contains(&index) || by_remote.contains(&index);
                is_needed && !elsewhere.contains(&index)
            })
            .collect();
        panel.sides_mut().for_each(|side| keep(side, &stay));
    }
}

/// The rows that hold [`DRAWN_PERCENT`] of a measure at any moment.
fn needed(panel: &Panel, measure: impl Fn(&AreaRow) -> u64) -> BTreeSet<usize> {
    panel.sides().flat_map(|side| needed_of(side, &measure)).collect()
}

fn needed_of(side: &Side, measure: impl Fn(&AreaRow) -> u64) -> BTreeSet<usize> {
    let mut order: Vec<(u64, usize)> =
        side.rows.iter().enumerate().map(|(index, row)| (measure(row), index)).collect();
    order.sort_by_key(|&(bytes, index)| (Reverse(bytes), index));
    let all: u64 = order.iter().map(|(bytes, _)| bytes).sum();
    let (mut held, mut needed) = (0, BTreeSet::new());
    for (bytes, index) in order {
        if bytes == 0 || u128::from(held) * 100 >= u128::from(all) * u128::from(DRAWN_PERCENT) {
            break;
        }
        held += bytes;
        needed.insert(index);
    }
    needed
}

/// Name, length and, without a name, the first address of a mapping.
type MappedName = (Arc<str>, u64, u64);

/// The row with most of what several processes map.
struct Largest {
    bytes: u64,
    panel: usize,
    row: usize,
}

/// Of each panel the rows that have their bar in another one: files and shared memory of one name and length of which most is shared.
fn drawn_elsewhere(panels: &[Panel]) -> Vec<BTreeSet<usize>> {
    let mut largest: BTreeMap<MappedName, Largest> = BTreeMap::new();
    let mut elsewhere = vec![BTreeSet::new(); panels.len()];
    for (at, panel) in panels.iter().enumerate() {
        for (index, row) in panel.before.rows.iter().enumerate() {
            let total = row.total();
            let has_name = row.area.name.starts_with('/') || row.area.is_shared;
            if !has_name || total.shared_bytes < total.resident_bytes().div_ceil(2) {
                continue;
            }
            // Without a name it is the same memory at the same address alone: that of forked processes.
            let start = if row.area.name.is_empty() { row.area.start } else { 0 };
            let key = (row.area.name.clone(), row.area.bytes(), start);
            let bytes = total.resident_bytes();
            let this = Largest { bytes, panel: at, row: index };
            match largest.get_mut(&key) {
                Some(largest) if largest.bytes < bytes => {
                    let smaller = std::mem::replace(largest, this);
                    elsewhere[smaller.panel].insert(smaller.row);
                }
                Some(_) => drop(elsewhere[at].insert(index)),
                None => drop(largest.insert(key, this)),
            }
        }
    }
    elsewhere
}

fn keep(side: &mut Side, stay: &[bool]) {
    let mut stays = stay.iter();
    let Side { rows, other } = side;
    rows.retain(|row| {
        let stays = stays.next().copied().unwrap_or(true);
        if !stays {
            join(other, row);
        }
        stays
    });
}

fn join(other: &mut OtherAreas, row: &AreaRow) {
    other.areas += 1;
    other.range_bytes += row.area.bytes();
    other.looked_bytes += row.looked_bytes;
    other.cell.add(&row.total());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind, NodeId,
        picture::{After, Area, Cell},
    };

    /// A mapping with MiB on nodes 0 and 1, of which some are shared.
    fn row(
        start: u64,
        name: &str,
        is_shared: bool,
        [home, away]: [u64; 2],
        shared: u64,
    ) -> AreaRow {
        let on = [(0, home), (1, away)].into_iter().filter(|(_, mib)| *mib > 0);
        let cell = Cell {
            nodes: on.map(|(node, mib)| (NodeId(node), mib << 20)).collect(),
            shared_bytes: shared << 20,
            ..Cell::default()
        };
        let kind = if is_shared { Kind::Shmem } else { Kind::Heap };
        let area = Area { start, end: start + (1 << 30), kind, is_shared, name: name.into() };
        AreaRow { area, cell_bytes: 1 << 30, cells: vec![cell], looked_bytes: 1 << 30 }
    }

    fn panel(pid: i32, rows: Vec<AreaRow>) -> Panel {
        let before = Side { rows, other: OtherAreas::default() };
        Panel { pid, comm: String::new(), home: "0".parse().unwrap(), before, after: After::None }
    }

    fn names(panel: &Panel) -> Vec<&str> {
        panel.before.rows.iter().map(|row| &*row.area.name).collect()
    }

    #[test]
    fn what_holds_most_of_the_memory_or_of_the_remote_memory_has_a_bar() {
        let rows = || {
            vec![
                row(1 << 40, "[heap]", false, [900, 0], 0),
                row(2 << 40, "/lib/a.so", false, [30, 0], 0),
                row(3 << 40, "/data/b", false, [0, 7], 0),
                row(4 << 40, "/lib/c.so", false, [2, 0], 0),
            ]
        };
        let after = After::Seen(Side { rows: rows(), ..Side::default() });
        let mut picture = Picture {
            panels: vec![panel(1, rows()), Panel { after, ..panel(2, rows()) }],
            ..Picture::default()
        };
        let sums: Vec<_> = picture.panels.iter().map(|panel| panel.before.total()).collect();
        leave_bars(&mut picture);
        for (panel, sum) in picture.panels.iter().zip(sums) {
            assert_eq!(names(panel), ["[heap]", "/data/b"]);
            for side in panel.sides() {
                assert_eq!(side.rows.len(), 2, "before and after have the same rows");
                assert_eq!((side.other.areas, side.other.range_bytes), (2, 2 << 30));
                assert_eq!(side.total(), sum, "nothing is lost");
                assert!(!side.is_sampled());
            }
        }
    }

    #[test]
    fn what_several_map_has_a_bar_for_the_one_with_most_of_it() {
        let process = |pid, mib, start| {
            let rows = vec![
                row(start, "/dev/zero (deleted)", true, [0, mib], mib),
                row(start + (2 << 30), "[heap]", false, [0, 100], 100),
                // Of the same name, and mapped by this one alone.
                row(start + (4 << 30), "/data/own", true, [50, 0], 0),
            ];
            panel(pid, rows)
        };
        let panels =
            vec![process(1, 300, 1 << 40), process(2, 800, 2 << 40), process(3, 800, 3 << 40)];
        let mut picture = Picture { panels, ..Picture::default() };
        leave_bars(&mut picture);
        assert_eq!(names(&picture.panels[0]), ["[heap]", "/data/own"]);
        assert_eq!(names(&picture.panels[1]), ["/dev/zero (deleted)", "[heap]", "/data/own"]);
        assert_eq!(names(&picture.panels[2]), ["[heap]", "/data/own"]);
        assert_eq!(picture.panels[0].before.other.areas, 1);
    }

    #[test]
    fn shared_memory_without_a_name_is_the_same_at_one_address_alone() {
        let process = |pid, start| panel(pid, vec![row(start, "", true, [0, 9], 9)]);
        let panels = vec![process(1, 1 << 40), process(2, 1 << 40), process(3, 2 << 40)];
        let mut picture = Picture { panels, ..Picture::default() };
        leave_bars(&mut picture);
        let rows: Vec<_> = picture.panels.iter().map(|panel| panel.before.rows.len()).collect();
        assert_eq!(rows, [1, 0, 1]);
    }
}
