//! Placements by amounts: the surplus alone moves, or each node has one part of each mapping.

use super::*;
use crate::truth::{Truth, on};

pub fn placed_by(text: &str) -> Options {
    Options { placement: text.parse().expect("valid"), ..Options::default() }
}

/// Bytes of a region on each of two nodes.
fn halves(app: &App, region: &str) -> [u64; 2] {
    let nodes = nodes(app.pid(), app.range(region));
    [0, 1].map(|wanted| {
        page_size() * nodes.iter().filter(|&&(_, node)| node == wanted).count() as u64
    })
}

/// Asserts that nodes 0, 1 and so on have these shares of a region, to within a hundredth of it.
pub fn assert_shares(app: &App, region: &str, shares: &[u64]) {
    let range = app.range(region);
    let (have, all) = (Truth::of(app.pid()).region(range.clone()), range.end - range.start);
    for (node, share) in (0..).zip(shares) {
        let want = all / shares.iter().sum::<u64>() * share;
        assert!(on(&have, node).abs_diff(want) <= all / 100, "{region}: {have:?}, not {shares:?}");
    }
}

/// Asserts that these nodes have one part each of a region, in their order. Parts of few huge pages that has none are equal to 64 KiB, all
/// others to a huge page.
pub fn assert_blocks(app: &App, region: &str, order: &[i32]) {
    let range = app.range(region);
    let (pages, part) =
        (nodes(app.pid(), range.clone()), (range.end - range.start) / order.len() as u64);
    let huge = huge_bytes(app.pid(), range.clone()) > 0 || region == "hugetlb";
    let piece = if huge || part >= 8 * pmd_size() { pmd_size() } else { 64 << 10 };
    let mut count = 0;
    for (index, &wanted) in (0..).zip(order) {
        let there: Vec<u64> =
            pages.iter().filter(|(_, node)| *node == wanted).map(|page| page.0).collect();
        let (first, last) = (there[0], there[there.len() - 1]);
        assert_eq!((last - first) / page_size() + 1, there.len() as u64, "{region}: node {wanted}");
        assert!(index == 0 || first.is_multiple_of(piece), "{region}: {first:x}");
        let expected = range.start + index * part;
        assert!(first.abs_diff(expected) <= piece, "{region}: {first:x}, not {expected:x}");
        count += there.len();
    }
    assert_eq!(count, pages.len(), "{region}: all pages are on these nodes");
}

/// Bytes of the application's regions that a plan would move.
fn of_regions(app: &App, options: &Options) -> u64 {
    let plan = inspect(&[Target::Pid(app.pid())], options).plan;
    let is_of = |start: u64| app.ranges().any(|(_, range)| range.contains(&start));
    let moves = plan.moves.iter().filter(|each| is_of(each.mappings[0].start));
    moves.map(|each| each.remote_bytes()).sum()
}

/// Quarters of the last one are whole huge pages.
fn large() -> [&'static str; 3] {
    ["anon:72M", "memfd:72M", if pmd_size() <= 2 * MIB { "thp:72M" } else { "thp:128M" }]
}

#[test]
fn the_surplus_alone_moves() {
    let _still = Setting::still_host();
    let mut app = Layout::remote(&large()).on("0,1").start("balanced");
    let target = [Target::Pid(app.pid())];
    let (one, even) = (placed_by("balance:0=1,1=3"), placed_by("balance"));
    for (options, shares, moved) in [(&one, [1, 3], 1), (&even, [1, 1], 1), (&even, [1, 1], 0)] {
        let names = ["anon", "memfd", "thp"];
        let before = names.map(|name| halves(&app, name));
        let outcome = migrate(&target, options);
        for (index, name) in names.into_iter().enumerate() {
            assert_shares(&app, name, &shares);
            let gone = before[index][1] - halves(&app, name)[1];
            let surplus = bytes_of(&app, &[name]) / 4 * moved;
            assert!(gone <= surplus + surplus / 100, "{name}: {gone} of {surplus}");
        }
        assert_complete(&outcome);
        assert_eq!(of_regions(&app, options), 0);
    }
    // Pages in place stay: the other way round only the difference comes back.
    let outcome = migrate(&target, &one);
    let moved = outcome.account().moved_bytes();
    let quarter = bytes_of(&app, &["anon", "memfd", "thp"]) / 4;
    assert!(moved.abs_diff(quarter) <= 3 * MIB, "{moved} of {quarter}");
    app.check();
}

#[test]
fn small_mappings_are_balanced_together_and_others_stay() {
    let scene = Scene::of(
        Layout::remote(&["anon:16M", "memfd:16M", "shm:16M", "bound:16M:bind=1"]).on("0,1"),
    );
    let options = placed_by("balance:0=1,1=1");
    let outcome = migrate(&scene.target(), &options);
    scene.assert_on("bound", 1, 16 * MIB);
    let have = ["anon", "memfd", "shm"].map(|name| halves(&scene.app, name));
    let sum = have.iter().fold([0, 0], |sum, have| [sum[0] + have[0], sum[1] + have[1]]);
    // The program's own memory is balanced with them.
    assert!(sum[0].abs_diff(sum[1]) <= 8 * MIB, "{have:?}");
    assert_left(&outcome, Reason::Bound, 8 * MIB);
    assert!(inspect(&scene.target(), &options).plan.planned_bytes() < SLACK);
    scene.finish();
}

#[test]
fn each_node_has_one_part_of_each_mapping() {
    let _pools = (Setting::huge_pool(0, 24), Setting::huge_pool(1, 24));
    // A huge page is in one block, so the pool has none of these where huge pages have 32 MiB.
    let (regions, names) = match pmd_size() / MIB {
        ..=2 => (&["anon:24M", "thp:24M", "memfd:16M", "hugetlb:16M"][..], 4),
        _ => (&["anon:128M", "thp:128M", "memfd:128M"][..], 3),
    };
    let scene = Scene::of(Layout::remote(regions).on("0,1"));
    let options = placed_by("block");
    let outcome = migrate(&scene.target(), &options);
    for name in &["anon", "thp", "memfd", "hugetlb"][..names] {
        assert_blocks(&scene.app, name, &[0, 1]);
    }
    assert_complete(&outcome);
    assert_eq!(of_regions(&scene.app, &options), 0);
    let whole = huge_bytes(scene.app.pid(), scene.app.range("thp"));
    assert_eq!(whole, bytes_of(&scene.app, &["thp"]), "huge pages stay whole");
    scene.finish();
}

#[test]
fn one_mapping_is_balanced_and_no_page_of_another_moves() {
    let scene = Scene::of(Layout::remote(&["anon:16M", "memfd:16M", "shm:16M"]).on("0"));
    let maps =
        ["memfd:*=balance:0=1,1=1", "/dev/zero=block:0,1"].map(|rule| rule.parse().expect("valid"));
    let options = Options { maps: maps.into(), ..Options::default() };
    let outcome = migrate(&scene.target(), &options);
    assert_shares(&scene.app, "memfd", &[1, 1]);
    let [first, second] = halves(&scene.app, "shm");
    assert!(first.abs_diff(second) <= 2 * pmd_size(), "{first} {second}");
    scene.assert_on("anon", 1, 16 * MIB);
    assert_eq!(outcome.named_bytes, [halves(&scene.app, "memfd")[0], first], "{outcome:?}");
    assert_eq!(inspect(&scene.target(), &options).plan.planned_bytes(), 0);
    scene.finish();
}
