//! Placements by amounts: the surplus alone moves, or each node has one part of each mapping.

use super::*;

fn placed_by(text: &str) -> Options {
    Options { placement: text.parse().expect("valid"), ..Options::default() }
}

/// How many bytes of a region are on each of two nodes.
fn halves(app: &App, region: &str) -> [u64; 2] {
    let nodes = nodes(app.pid(), app.range(region));
    [0, 1].map(|wanted| 4096 * nodes.iter().filter(|&&(_, node)| node == wanted).count() as u64)
}

/// Asserts that each node has its part of a region, in quarters of it, to within a hundredth.
fn assert_shares(app: &App, region: &str, quarters: [u64; 2]) {
    let range = app.range(region);
    let (have, all) = (halves(app, region), range.end - range.start);
    let want = quarters.map(|quarters| all / 4 * quarters);
    let is_near = |(have, want): (u64, u64)| have.abs_diff(want) <= all / 100;
    assert!(have.into_iter().zip(want).all(is_near), "{region}: {have:?}, not {want:?}");
}

/// What a plan would move of the regions of the application.
fn of_regions(app: &App, options: &Options) -> u64 {
    let plan = inspect(&[Target::Pid(app.pid())], options).plan;
    let is_of = |start: u64| app.ranges().any(|(_, range)| range.contains(&start));
    let moves = plan.moves.iter().filter(|each| is_of(each.mappings[0].start));
    moves.map(|each| each.remote_bytes()).sum()
}

const LARGE: [&str; 3] = ["anon:72M", "memfd:72M", "thp:72M"];

#[test]
fn the_surplus_alone_moves() {
    let _still = Setting::still_host();
    let mut app = Layout::remote(&LARGE).on("0,1").start("balanced");
    let target = [Target::Pid(app.pid())];
    let (one, even) = (placed_by("balance:0=1,1=3"), placed_by("balance"));
    for (options, quarters, moved) in [(&one, [1, 3], 1), (&even, [2, 2], 1), (&even, [2, 2], 0)] {
        let before: Vec<_> =
            LARGE.map(|region| halves(&app, region.split(':').next().expect("a name"))).into();
        let outcome = migrate(&target, options);
        for (index, name) in ["anon", "memfd", "thp"].into_iter().enumerate() {
            assert_shares(&app, name, quarters);
            let gone = before[index][1] - halves(&app, name)[1];
            let surplus = 72 * MIB / 4 * moved;
            assert!(gone <= surplus + surplus / 100, "{name}: {gone} of {surplus}");
        }
        assert_complete(&outcome);
        assert_eq!(of_regions(&app, options), 0);
    }
    // What is there already stays: the other way round only the difference comes back.
    let outcome = migrate(&target, &one);
    let moved = outcome.account().moved_bytes();
    assert!(moved.abs_diff(3 * 72 * MIB / 4) <= 3 * MIB, "{moved}");
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
    let scene =
        Scene::of(Layout::remote(&["anon:24M", "thp:24M", "hugetlb:16M", "memfd:16M"]).on("0,1"));
    let options = placed_by("block");
    let outcome = migrate(&scene.target(), &options);
    for name in ["anon", "thp", "hugetlb", "memfd"] {
        let range = scene.app.range(name);
        let nodes = nodes(scene.app.pid(), range.clone());
        let border = nodes.iter().find(|&&(_, node)| node == 1).expect("the second part").0;
        let is_right = |&(address, node): &(u64, i32)| node == i32::from(address >= border);
        assert!(nodes.iter().all(is_right), "{name}: {:?}", halves(&scene.app, name));
        assert!(border.is_multiple_of(HUGE), "{name}: {border:x}");
        let middle = range.start.midpoint(range.end);
        assert!(border.abs_diff(middle) <= HUGE, "{name}: {border:x} in {range:x?}");
    }
    assert_complete(&outcome);
    assert_eq!(of_regions(&scene.app, &options), 0);
    let whole = huge_bytes(scene.app.pid(), scene.app.range("thp"));
    assert_eq!(whole, 24 * MIB, "huge pages stay whole");
    scene.finish();
}

#[test]
fn one_mapping_is_balanced_and_no_page_of_another_moves() {
    let scene = Scene::of(Layout::remote(&["anon:16M", "memfd:16M", "shm:16M"]).on("0"));
    let maps =
        ["memfd:*=balance:0=1,1=1", "/dev/zero=block:0,1"].map(|rule| rule.parse().expect("valid"));
    let options = Options { maps: maps.into(), ..Options::default() };
    let outcome = migrate(&scene.target(), &options);
    assert_shares(&scene.app, "memfd", [2, 2]);
    let [first, second] = halves(&scene.app, "shm");
    assert!(first.abs_diff(second) <= 2 * HUGE, "{first} {second}");
    scene.assert_on("anon", 1, 16 * MIB);
    assert_eq!(outcome.named_bytes, [halves(&scene.app, "memfd")[0], first], "{outcome:?}");
    assert_eq!(inspect(&scene.target(), &options).plan.planned_bytes(), 0);
    scene.finish();
}
