//! Cells against the pages that they were made of.

use super::*;
use crate::{Kind, page_size, pmd_size};
use proptest::{collection::vec, prelude::*};
use std::{convert::Infallible, ops::Range};

const TIB: u64 = 1 << 40;

fn area(start: u64, bytes: u64, name: &str) -> Area {
    let kind = Kind::Anonymous;
    Area { start, end: start + bytes, kind, is_shared: false, name: name.into() }
}

fn bounds(cells: u64, rows: usize, sampled: bool) -> Bounds {
    Bounds { cells, rows, sampled }
}

/// The part of each stretch that is in a range, as a page map shows it.
fn visit(stretches: &[Stretch], range: Range<u64>, see: &mut dyn FnMut(&Stretch)) {
    for stretch in stretches {
        let start = stretch.range.start.max(range.start);
        let end = stretch.range.end.min(range.end);
        if start < end {
            see(&Stretch { range: start..end, ..stretch.clone() });
        }
    }
}

fn look(areas: Vec<Area>, bounds: Bounds, stretches: &[Stretch]) -> Side {
    let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
        visit(stretches, range, see);
        Ok::<_, Infallible>(())
    };
    side(areas, bounds, &mut read).unwrap()
}

fn stretch(start: u64, bytes: u64, node: u32) -> Stretch {
    let node = Some(NodeId(node));
    Stretch { range: start..start + bytes, node, huge: false, shared: false }
}

/// Memory without end whose huge pages take turns on two nodes.
fn interleaved(range: Range<u64>, see: &mut dyn FnMut(&Stretch)) {
    for start in range.step_by(pmd_size() as usize) {
        let node = (start / pmd_size() % 2) as u32;
        see(&Stretch { huge: true, ..stretch(start, pmd_size(), node) });
    }
}

/// A page: its node, and whether it is shared; `None` where there is none.
type Page = Option<(u32, bool)>;

/// Areas with gaps between them, and pages in them: (pages of the gap, pages of the area, pages as node or none).
fn layouts() -> impl Strategy<Value = Vec<(u64, Vec<Page>)>> {
    let page = prop_oneof![Just(None), (0..3u32, any::<bool>()).prop_map(Some)];
    vec((0..3u64, vec(page, 1..200)), 1..12)
}

proptest! {
    /// No page is lost or counted twice, whatever the width, and whatever is joined.
    #[test]
    fn cells_sum_up_to_the_residency(layout in layouts(), cells in 1..70u64, rows in 1..5usize) {
        let (mut at, mut areas, mut stretches) = (16 * page_size(), Vec::new(), Vec::new());
        let mut truth = Cell::default();
        for (index, (gap, pages)) in layout.iter().enumerate() {
            at += gap * page_size();
            areas.push(area(at, pages.len() as u64 * page_size(), &index.to_string()));
            for page in pages {
                if let Some((node, shared)) = page {
                    *truth.nodes.entry(NodeId(*node)).or_default() += page_size();
                    truth.shared_bytes += if *shared { page_size() } else { 0 };
                    stretches.push(Stretch { shared: *shared, ..stretch(at, page_size(), *node) });
                }
                at += page_size();
            }
        }
        let bounds = bounds(cells, rows, true);
        let before = look(areas.clone(), bounds, &stretches);
        prop_assert_eq!(before.total(), truth.clone());
        prop_assert!(before.rows.len() <= rows);
        for row in &before.rows {
            prop_assert!(row.cells.len() as u64 <= cells && !row.is_sampled());
            let ranges: u64 = (0..row.cells.len()).map(|cell| row.bytes_of(cell)).sum();
            prop_assert_eq!(ranges, row.area.bytes());
            for (index, cell) in row.cells.iter().enumerate() {
                prop_assert!(cell.resident_bytes() <= row.bytes_of(index));
            }
        }
        let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
            visit(&stretches, range, see);
            Ok::<_, Infallible>(())
        };
        let after = again(&before, &areas, bounds, &mut read).unwrap();
        prop_assert_eq!(&after.rows, &before.rows);
        prop_assert_eq!(after.other.cell, before.other.cell);
    }
}

#[test]
fn stretches_are_cut_at_cells() {
    let (start, bytes) = (0x7000_0000, 10 * page_size());
    let side = look(
        vec![area(start, bytes, "")],
        bounds(4, 9, false),
        &[stretch(start, 4 * page_size(), 0), stretch(start + 4 * page_size(), 6 * page_size(), 1)],
    );
    let row = &side.rows[0];
    assert_eq!(
        (row.cell_bytes, row.cells.len(), row.bytes_of(3)),
        (3 * page_size(), 4, page_size())
    );
    let on = |cell: usize, node| {
        row.cells[cell].nodes.get(&NodeId(node)).map(|bytes| bytes / page_size())
    };
    assert_eq!([on(0, 0), on(1, 0), on(1, 1), on(3, 1)], [Some(3), Some(1), Some(2), Some(1)]);
}

#[test]
fn the_largest_areas_have_rows_and_the_small_are_joined() {
    let sizes =
        [300 * page_size(), page_size(), 2000 * page_size(), 4 * page_size(), 400 * page_size()];
    let starts: Vec<u64> = (1..=5).map(|index| index << 32).collect();
    let areas: Vec<_> =
        starts.iter().zip(sizes).map(|(&start, bytes)| area(start, bytes, "")).collect();
    let pages: Vec<_> =
        starts.iter().zip(sizes).map(|(&start, bytes)| stretch(start, bytes, 0)).collect();
    let rows = |side: &Side| side.rows.iter().map(|row| row.area.start >> 32).collect::<Vec<_>>();
    let side = look(areas.clone(), bounds(64, 2, false), &pages);
    assert_eq!((rows(&side), side.other.areas), (vec![3, 5], 3));
    let side = look(areas, bounds(64, 9, false), &pages);
    assert_eq!((rows(&side), side.other.areas), (vec![1, 3, 5], 2));
    assert_eq!(side.other.cell.resident_bytes(), 5 * page_size());
}

#[test]
fn a_tebibyte_is_looked_at_in_samples_that_show_how_nodes_take_turns() {
    let mut read_bytes = 0;
    let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
        read_bytes += range.end - range.start;
        interleaved(range, see);
        Ok::<_, Infallible>(())
    };
    let areas = vec![area(1 << 45, TIB, "")];
    let side = side(areas.clone(), bounds(256, 12, true), &mut read).unwrap();
    let (row, total) = (&side.rows[0], side.total());
    assert!(row.is_sampled() && side.is_sampled());
    assert_eq!(row.looked_bytes, read_bytes);
    assert!(read_bytes <= TIB / 64, "{read_bytes} bytes of addresses");
    assert_eq!((total.resident_bytes(), total.huge_bytes), (TIB, TIB));
    let share = total.nodes[&NodeId(0)] as f64 / TIB as f64;
    assert!((share - 0.5).abs() < 0.03, "{share}");
    for (index, cell) in row.cells.iter().enumerate() {
        assert_eq!(cell.resident_bytes(), row.bytes_of(index));
        let share = cell.nodes[&NodeId(0)] as f64 / row.bytes_of(index) as f64;
        assert!((0.1..0.9).contains(&share), "cell {index}: {share}");
    }
    let exact = side_of(areas, bounds(256, 12, false));
    assert!(!exact.is_sampled());
    assert_eq!(exact.total().nodes[&NodeId(0)], TIB / 2);
}

fn side_of(areas: Vec<Area>, bounds: Bounds) -> Side {
    let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
        interleaved(range, see);
        Ok::<_, Infallible>(())
    };
    side(areas, bounds, &mut read).unwrap()
}

#[test]
fn samples_never_leave_their_cell() {
    for (start, cells) in [(1 << 45, 256), ((1 << 45) + page_size(), 255), (12345 * page_size(), 3)]
    {
        let bytes = TIB + 77 * page_size();
        let mut ranges = Vec::new();
        let mut read = |range: Range<u64>, _: &mut dyn FnMut(&Stretch)| {
            ranges.push(range);
            Ok::<_, Infallible>(())
        };
        side(vec![area(start, bytes, "")], bounds(cells, 1, true), &mut read).unwrap();
        let mut at = start;
        for range in ranges {
            assert!(range.start >= at && range.end <= start + bytes, "{range:x?}");
            at = range.end;
        }
    }
}

#[test]
fn what_was_mapped_meanwhile_is_other() {
    let old = area(1 << 30, 8 * page_size(), "old");
    let before =
        look(vec![old.clone()], bounds(8, 4, false), &[stretch(1 << 30, 8 * page_size(), 1)]);
    let grown = Area { end: old.end + 4 * page_size(), ..old };
    let pages = [stretch(1 << 30, 12 * page_size(), 0)];
    let mut read = |range: Range<u64>, see: &mut dyn FnMut(&Stretch)| {
        visit(&pages, range, see);
        Ok::<_, Infallible>(())
    };
    let after = again(&before, &[grown], bounds(8, 4, false), &mut read).unwrap();
    assert_eq!(after.rows[0].total().nodes, [(NodeId(0), 8 * page_size())].into());
    assert_eq!((after.other.areas, after.other.cell.resident_bytes()), (1, 4 * page_size()));
}

#[test]
fn neighbours_of_one_name_are_one_area() {
    let shared = |area: Area| Area { is_shared: true, ..area };
    let joined = areas([
        area(0x1000, 0x1000, "a"),
        area(0x2000, 0x1000, "a"),
        area(0x4000, 0x1000, "a"),
        area(0x5000, 0x1000, "b"),
        shared(area(0x6000, 0x1000, "b")),
    ]);
    let bounds: Vec<_> = joined.iter().map(|area| (area.start, area.end)).collect();
    assert_eq!(bounds, [(0x1000, 0x3000), (0x4000, 0x5000), (0x5000, 0x6000), (0x6000, 0x7000)]);
}

#[test]
fn remote_is_what_is_on_no_home_node() {
    let nodes = [(NodeId(0), 10), (NodeId(2), 5), (NodeId(64), 1)].into();
    let cell = Cell { nodes, unplaced_bytes: 7, ..Cell::default() };
    assert_eq!((cell.resident_bytes(), cell.remote_bytes(&"0,64".parse().unwrap())), (23, 5));
}
