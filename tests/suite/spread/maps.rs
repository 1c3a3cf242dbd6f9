//! Placements of single mappings: the pages of these are where their placements say, and no other page moves.

use super::*;
use crate::{
    cli::json,
    engine::try_inspect,
    truth::{Nodes, Truth, on},
};

fn mapped(rules: &[&str]) -> Options {
    let maps = rules.iter().map(|rule| rule.parse().expect("valid")).collect();
    Options { maps, ..Options::default() }
}

/// Where each page of all regions but these is.
fn others(app: &App, named: &[&str]) -> Vec<(String, Vec<(u64, i32)>)> {
    let others = app.ranges().filter(|(name, _)| !named.contains(name));
    others.map(|(name, range)| (name.to_owned(), nodes(app.pid(), range))).collect()
}

/// Bytes on node 1 of memory that is in no region: the program and its libraries, heap and stacks.
fn outside(app: &App) -> u64 {
    let truth = Truth::of(app.pid());
    let regions = app.ranges().map(|(_, range)| on(&truth.region(range), 1)).sum::<u64>();
    on(&truth.all(), 1) - regions
}

#[test]
fn one_file_is_spread_and_no_page_of_anything_else_moves() {
    let segment = format!("seg=file:/dev/shm/mapped:16M:dirty:{FEW_WORDS}");
    let _pools = (Setting::huge_pool(0, 16), Setting::huge_pool(1, 16));
    let regions = [&segment, "anon:16M", "thp:16M", "hugetlb:8M", "shm:8M", "memfd:8M"];
    // Alone: a control process would map the same file.
    let mut app = Layout::remote(&regions).on("0,1").start("app");
    let target = [Target::Pid(app.pid())];
    let (before, outside_before) = (others(&app, &["seg"]), outside(&app));
    let options = mapped(&["/dev/shm/mapp*=interleave"]);
    let plan = inspect(&target, &options).plan;
    assert_eq!(plan.named[0].bytes_to_move, 8 * MIB, "{plan:?}");
    assert_eq!(plan.named[0].resident, [(numaloc_core::NodeId(1), 16 * MIB)].into());
    assert!(plan.moves.iter().all(|each| &*each.name == "/dev/shm/mapped"), "{:?}", plan.moves);

    let outcome = migrate(&target, &options);
    assert_spread(&app, "seg", page_size(), &[0, 1]);
    assert_eq!(outcome.named_bytes, [8 * MIB], "{outcome:?}");
    assert_eq!(outcome.account().moved_bytes(), 8 * MIB, "{outcome:?}");
    assert_complete(&outcome);
    assert_eq!(others(&app, &["seg"]), before);
    assert!(outside(&app).abs_diff(outside_before) < SLACK);
    assert_eq!(inspect(&target, &options).plan.moves, []);
    app.check();
    fs::remove_file("/dev/shm/mapped").expect("it is there");
}

#[test]
fn mappings_of_all_kinds_go_where_the_first_rule_says() {
    let _pools = (Setting::huge_pool(0, 24), Setting::huge_pool(1, 24));
    let regions =
        ["anon:8M", "thp:24M", "hugetlb:16M", "shm:8M", "memfd:8M", "segment=sysv:new:8M"];
    let scene = Scene::of(Layout::remote(&regions).on("0"));
    let options = mapped(&[
        "anon>20M=home",
        "anon_hugepage=interleave:0,1",
        "/dev/zero=weighted:0=3,1=1",
        "memfd:numaloc*=interleave:0,1",
        "memfd:*=home",
        "sysv:0=weighted:0=1,1=3",
    ]);
    let before = others(&scene.app, &["thp", "hugetlb", "shm", "memfd", "segment"]);
    let outcome = migrate(&scene.target(), &options);
    scene.assert_on("thp", 0, 24 * MIB);
    assert_spread(&scene.app, "hugetlb", HUGETLB_BYTES, &[0, 1]);
    assert_spread(&scene.app, "shm", page_size(), &[0, 0, 0, 1]);
    assert_spread(&scene.app, "memfd", page_size(), &[0, 1]);
    let half = |bytes: u64| Nodes::from([(0, bytes / 4), (1, bytes - bytes / 4)]);
    assert_eq!(scene.nodes("segment"), half(8 * MIB));
    let moved = [24, 8, 6, 4, 0, 2].map(|mib| mib * MIB);
    assert_eq!(outcome.named_bytes, moved, "{outcome:?}");
    assert_complete(&outcome);
    scene.assert_on("anon", 1, 8 * MIB);
    assert_eq!(others(&scene.app, &["thp", "hugetlb", "shm", "memfd", "segment"]), before);
    let again = inspect(&scene.target(), &options).plan;
    assert_eq!(again.planned_bytes(), 0, "{:#?}", again.moves);
    scene.finish();
}

#[test]
fn the_application_keeps_named_memory_that_it_has_bound() {
    let scene = Scene::of(Layout::remote(&["bound:16M:bind=1", "memfd:8M"]).on("0,1"));
    let options = mapped(&["anon>15M=interleave:0,1", "memfd:*=interleave:0,1"]);
    let outcome = migrate(&scene.target(), &options);
    scene.assert_on("bound", 1, 16 * MIB);
    assert_left(&outcome, Reason::Bound, 8 * MIB);
    assert_spread(&scene.app, "memfd", page_size(), &[0, 1]);
    scene.finish();
}

#[test]
fn a_segment_of_two_processes_is_spread_once() {
    let segment = format!("seg=file:/dev/shm/mapped2:8M:dirty:{FEW_WORDS}");
    let _still = Setting::still_host();
    let layout = Layout::remote(&[&segment, "anon:8M"]).on("0,1").load("idle");
    let apps = [layout.start("one"), layout.start("other")];
    let targets = apps.each_ref().map(|app| Target::Pid(app.pid()));
    let before = apps.each_ref().map(|app| others(app, &["seg"]));
    let outcome = migrate(&targets, &mapped(&["mapped2=interleave:0,1"]));
    assert_eq!(outcome.named_bytes, [4 * MIB], "{outcome:?}");
    assert_spread(&apps[0], "seg", page_size(), &[0, 1]);
    assert_eq!(apps.each_ref().map(|app| others(app, &["seg"])), before);
    fs::remove_file("/dev/shm/mapped2").expect("it is there");
}

/// The memory of a guest's cells: each on a node of its own, although the guest runs on both.
#[test]
fn each_cell_goes_to_a_node_of_its_own() {
    let _still = Setting::still_host();
    let cells =
        [0, 1].map(|cell| format!("cell{cell}=file:/dev/shm/ram-node{cell}:8M:{FEW_WORDS}"));
    // Alone: a control process would map the same files.
    let mut guest = Layout::remote(&[&cells[0], &cells[1], "anon:8M"]).on("0,1").start("guest");
    let before = others(&guest, &["cell0", "cell1"]);
    let pid = guest.pid().to_string();
    let rules = ["--map", "*ram-node0*=home:0", "--map", "*ram-node1*=home:1"];
    let output = numalocctl(&[&["migrate", "--standalone", "--pid", &pid], &rules[..]].concat());
    assert_eq!(code(&output), Some(0), "{output:?}");
    let on = |cell: &str| Truth::of(guest.pid()).region(guest.range(cell));
    assert_eq!(["cell0", "cell1"].map(on), [[(0, 8 * MIB)].into(), [(1, 8 * MIB)].into()]);
    assert_eq!(others(&guest, &["cell0", "cell1"]), before);
    guest.check();
    for cell in [0, 1] {
        fs::remove_file(format!("/dev/shm/ram-node{cell}")).expect("it is there");
    }
}

/// One rank has filled the window of both. It counts as local, so nothing would move: the answer has the rule that divides it.
#[test]
fn a_window_that_one_rank_has_filled_is_reported_with_what_divides_it() {
    const WINDOW: &str = "/dev/shm/window";
    let mib = 32;
    let segment = format!("seg=file:{WINDOW}:{mib}M");
    let _still = Setting::still_host();
    let rank = |node: u32| Layout::remote(&[&segment]).on(node).memory_on(0).load("idle");
    let ranks = [rank(0).start("rank0"), rank(1).start("rank1")];
    let pids = ranks.each_ref().map(|rank| rank.pid().to_string());
    let ask = |command: &str, more: &[&str]| {
        let both = [command, "--standalone", "--pid", &pids[0], "--pid", &pids[1]];
        let output = numalocctl(&[&both[..], more].concat());
        assert_eq!(code(&output), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (plan, rule) = (ask("plan", &[]), format!("{WINDOW}=block:0,1"));
    let line = plan
        .lines()
        .find(|line| line.starts_with("one-sided:"))
        .unwrap_or_else(|| panic!("{plan}"));
    let all = format!("{mib}.0 MiB of {mib}.0 MiB");
    assert!(line.contains(&all) && line.contains("are on node 0"), "{line}");
    assert!(line.contains(&rule), "{line}");
    ask("migrate", &["--map", &rule]);
    let window = Truth::of(ranks[0].pid()).region(ranks[0].range("seg"));
    assert_eq!(window, [(0, mib * MIB / 2), (1, mib * MIB / 2)].into());
    assert!(!ask("plan", &[]).contains("one-sided:"));
    drop(ranks);
    fs::remove_file(WINDOW).expect("it is there");
}

#[test]
fn what_cannot_be_mapped_is_refused_in_one_line() {
    let scene = Scene::of(Layout::remote(&["anon:16M", "memfd:8M"]).on("0"));
    let pid = scene.app.pid().to_string();
    let words = |command: &str, arguments: &[&str]| {
        let words = [&[command, "--standalone", "--pid", &pid], arguments].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refused = |arguments: &[&str], thing: &str| {
        let words = words("migrate", arguments);
        assert_refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 2, thing);
    };
    refused(&["--map", "memfd:*=interleave:0,1", "--map", "sysv:7=home"], "'sysv:0x00000007'");
    refused(&["--map", "anon>1T=home"], "'anon>1T'");
    refused(&["--map", "memfd:*=interleave"], "node 0 alone");
    refused(&["--map", "memfd:*=interleave:0,7"], "node 7");
    refused(&["--map", "memfd:*=spread"], "expected home");
    refused(&["--map", "heap=home", "--to", "0"], "--to");
    scene.assert_on("memfd", 1, 8 * MIB);
    let nothing = try_inspect(&scene.target(), &mapped(&["nothing.bin=home"]));
    assert!(nothing.is_err_and(|error| error.to_string().contains("'nothing.bin'")));

    let rule = ["--map", "memfd:*=interleave:0,1"];
    let run = |command, more: &[&str]| {
        let words = words(command, &[&rule, more].concat());
        let output = numalocctl(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        output
    };
    let plan = json(&run("plan", &["-o", "json"]));
    let named = &plan["plan"]["named"][0];
    assert_eq!(
        (&named["pattern"], named["move_bytes"].as_u64()),
        (&"memfd:*".into(), Some(4 * MIB))
    );
    let said = String::from_utf8_lossy(&run("migrate", &[]).stdout).into_owned();
    let line =
        "map memfd:*=interleave:0-1: 4.0 MiB moved; now 4.0 MiB on node 0, 4.0 MiB on node 1";
    assert!(said.contains(line), "{said}");
    assert_spread(&scene.app, "memfd", page_size(), &[0, 1]);
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}
