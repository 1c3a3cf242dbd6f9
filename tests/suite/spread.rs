//! Placements on several nodes: each page is on the node that its index says, as the kernel computes it.

mod large;
mod maps;
pub mod portions;

use crate::{
    app::{App, FEW_WORDS, Layout},
    cli::{assert_refused, code, numalocctl},
    engine::{inspect, migrate},
    scene::{SLACK, Scene, assert_complete, assert_left},
    settings::{HUGETLB_BYTES, Setting},
    truth::{huge_bytes, release},
};
use numaloc_core::{Options, Placement, Reason, page_size, pmd_size};
use numaloc_host::Target;
use numaloc_sys::{page_bytes, query_pages};
use std::{fs, ops::Range};

const MIB: u64 = 1 << 20;

/// A region of whole huge pages, of which each of four turns has some: of 2 MiB, or of 32 MiB where base pages have 16 KiB.
fn thp() -> &'static str {
    if pmd_size() <= 2 * MIB { "thp:24M" } else { "thp:128M" }
}

/// A region of each kind.
fn regions() -> [&'static str; 4] {
    ["anon:24M", thp(), "hugetlb:16M", "shm:16M"]
}

fn bytes_of(app: &App, regions: &[&str]) -> u64 {
    let ranges = regions.iter().map(|region| app.range(region));
    ranges.map(|range| range.end - range.start).sum()
}

/// A mapping in /proc/PID/maps, as the kernel counts: its start, its offset in pages, and the inode if it is shared memory.
#[derive(Clone, Copy, Debug)]
struct Vma {
    start: u64,
    vm_pgoff: u64,
    inode: u64,
}

impl Vma {
    fn of(pid: i32, address: u64) -> Self {
        let text = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps of our child");
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("a hexadecimal number");
        let vma = text.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-')?;
            let (start, end) = (hex(start), hex(end));
            let is_shmem =
                ["/dev/zero", "/memfd:", "/dev/shm/"].iter().any(|name| line.contains(name));
            let inode = if is_shmem { words[4].parse().expect("an inode") } else { 0 };
            // The kernel shows no offset of anonymous memory: it is the address.
            let vm_pgoff =
                if words[4] == "0" { start / page_size() } else { hex(words[2]) / page_size() };
            (start..end).contains(&address).then_some(Self { start, vm_pgoff, inode })
        });
        vma.unwrap_or_else(|| panic!("no mapping at {address:x}"))
    }

    /// The index of the folio of `bytes` bytes at an address.
    fn index(self, address: u64, bytes: u64) -> u64 {
        let order = (bytes / page_size()).trailing_zeros();
        let offset = ((address - self.start) / page_size()) >> order;
        match release().starts_with("6.1.") {
            // Shared memory has base pages here, of which the inode and the offset are added alike.
            true => u64::from(((self.vm_pgoff >> order) + offset + self.inode) as u32),
            false => (self.vm_pgoff >> order) + offset + self.inode,
        }
    }
}

/// The node of each base page in a range; negative: an error.
fn nodes(pid: i32, range: Range<u64>) -> Vec<(u64, i32)> {
    let addresses: Vec<u64> = range.step_by(page_bytes()).collect();
    let mut nodes = vec![0; addresses.len()];
    query_pages(pid, &addresses, &mut nodes).expect("our own child");
    addresses.into_iter().zip(nodes).collect()
}

/// Asserts that each page of a region is on the node of `turns` whose turn its index is. Its folios are of `bytes` bytes.
pub fn assert_spread(app: &App, region: &str, bytes: u64, turns: &[i32]) {
    let range = app.range(region);
    if region == "thp" {
        assert_eq!(huge_bytes(app.pid(), range.clone()), range.end - range.start, "whole");
    }
    let vma = Vma::of(app.pid(), range.start);
    let wrong = nodes(app.pid(), range.clone()).into_iter().filter(|&(address, node)| {
        let index = vma.index(address / bytes * bytes, bytes);
        node != turns[(index % turns.len() as u64) as usize]
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{region}: {} wrong, {vma:x?}: {:x?}", wrong.len(), wrong.first());
}

fn assert_all_spread(app: &App, turns: &[i32]) {
    for (region, bytes) in [
        ("anon", page_size()),
        ("thp", pmd_size()),
        ("hugetlb", HUGETLB_BYTES),
        ("shm", page_size()),
    ] {
        assert_spread(app, region, bytes, turns);
    }
}

fn placed(placement: &str, weights: Option<&str>) -> Options {
    let placement = match weights {
        Some(weights) => Placement::Weighted(weights.parse().expect("valid")),
        None => Placement::Interleave(placement.parse().ok().filter(|_| !placement.is_empty())),
    };
    Options { placement, ..Options::default() }
}

#[test]
fn memory_of_one_node_is_interleaved_and_then_weighted() {
    let _pools = (Setting::huge_pool(0, 24), Setting::huge_pool(1, 24));
    let scene = Scene::of(Layout::remote(&regions()).on("0,1"));
    // The nodes of its CPUs.
    let outcome = migrate(&scene.target(), &placed("", None));
    assert_all_spread(&scene.app, &[0, 1]);
    assert_complete(&outcome);
    let moved = outcome.account().moved_bytes();
    let half = bytes_of(&scene.app, &["anon", "thp", "hugetlb", "shm"]) / 2;
    assert!(moved.abs_diff(half) <= MIB, "{moved} of {half}");
    let again = inspect(&scene.target(), &placed("", None)).plan;
    assert!(again.planned_bytes() < SLACK, "{:?}", again.expected_flows);

    let weighted = placed("", Some("0=3,1=1"));
    let outcome = migrate(&scene.target(), &weighted);
    assert_all_spread(&scene.app, &[0, 0, 0, 1]);
    assert_complete(&outcome);
    assert!(inspect(&scene.target(), &weighted).plan.planned_bytes() < SLACK);
    scene.finish();
}

#[test]
fn what_the_kernel_has_interleaved_itself_stays() {
    let _pools = (Setting::huge_pool(0, 16), Setting::huge_pool(1, 16));
    let _still = Setting::still_host();
    let layout = Layout::remote(&[&regions()[..], &["memfd:8M"]].concat()).on("0,1").load("idle");
    let app = layout.clone().interleaved("0-1", false).start("interleaved");
    assert_all_spread(&app, &[0, 1]);
    assert_spread(&app, "memfd", page_size(), &[0, 1]);
    let target = [Target::Pid(app.pid())];
    // Memory outside of the regions: the program, its heap and stacks.
    let plan = inspect(&target, &placed("0-1", None)).plan;
    let of_regions = |plan: &numaloc_core::Plan| {
        let starts: Vec<u64> = app.ranges().map(|(_, range)| range.start).collect();
        let moves = plan.moves.iter().filter(|each| starts.contains(&each.mappings[0].start));
        moves.map(|each| each.remote_bytes()).sum::<u64>()
    };
    assert_eq!(of_regions(&plan), 0, "{:#?}", plan.moves);
    drop(app);

    let weights = "/sys/kernel/mm/mempolicy/weighted_interleave";
    if !fs::exists(weights).expect("sysfs") {
        return;
    }
    let set = |weights_of: [&str; 2]| {
        for (node, weight) in weights_of.iter().enumerate() {
            fs::write(format!("{weights}/node{node}"), weight).expect("root may");
        }
    };
    set(["5", "2"]);
    let app = layout.interleaved("0-1", true).start("weighted");
    set(["1", "1"]);
    assert_all_spread(&app, &[0, 0, 0, 0, 0, 1, 1]);
    let plan = inspect(&[Target::Pid(app.pid())], &placed("", Some("0=5,1=2"))).plan;
    let starts: Vec<u64> = app.ranges().map(|(_, range)| range.start).collect();
    let wrong = plan.moves.iter().find(|each| starts.contains(&each.mappings[0].start));
    assert_eq!(wrong, None);
}

#[test]
fn memory_that_the_application_has_bound_stays() {
    let scene = Scene::of(Layout::remote(&["bound:16M:bind=1", "anon:16M"]).on("0,1"));
    let outcome = migrate(&scene.target(), &placed("0-1", None));
    scene.assert_on("bound", 1, 16 * MIB);
    assert_left(&outcome, Reason::Bound, 8 * MIB);
    assert_spread(&scene.app, "anon", page_size(), &[0, 1]);
    scene.finish();
}

#[test]
fn a_segment_of_eight_is_spread_once() {
    let segment = format!("seg=file:/dev/shm/spread:16M:dirty:{FEW_WORDS}");
    let _still = Setting::still_host();
    let layout = Layout::remote(&[&segment]).on("0,1").load("idle");
    let apps: Vec<App> = (0..8).map(|index| layout.start(&format!("mapper{index}"))).collect();
    let targets: Vec<Target> = apps.iter().map(|app| Target::Pid(app.pid())).collect();
    let outcome = migrate(&targets, &placed("0-1", None));
    let range = apps[0].range("seg");
    let on = |wanted| {
        let nodes = nodes(apps[0].pid(), range.clone());
        nodes.into_iter().filter(|&(_, node)| node == wanted).count()
    };
    let half = 8 * MIB as usize / page_bytes();
    assert_eq!((on(0), on(1)), (half, half), "{outcome:?}");
    let plan = inspect(&targets, &placed("0-1", None)).plan;
    assert!(plan.moves.iter().all(|each| !each.name.contains("/dev/shm")), "{:?}", plan.moves);
    fs::remove_file("/dev/shm/spread").expect("it is there");
}

#[test]
fn the_command_line_spreads_and_refuses_in_one_line() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).on("0"));
    let pid = scene.app.pid().to_string();
    let migrate = |arguments: &[&str]| {
        let words = [&["migrate", "--standalone", "--pid", &pid], arguments].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let refused = |arguments: &[&str], thing: &str| {
        let words = migrate(arguments);
        assert_refused(&words.iter().map(String::as_str).collect::<Vec<_>>(), 2, thing);
    };
    refused(&["--place", "interleave"], "node 0 alone");
    refused(&["--place", "interleave", "--nodes", "0,7"], "node 7");
    refused(&["--place", "weighted", "--weights", "0=1,7=1"], "node 7");
    scene.assert_on("anon", 1, 16 * MIB);
    let words = migrate(&["--place", "weighted", "--weights", "0=1,1=3"]);
    let output = numalocctl(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_spread(&scene.app, "anon", page_size(), &[0, 1, 1, 1]);
    scene.finish();
}

/// The kernel counts pages from where the mapping was made, and shows no trace of it.
#[test]
fn memory_that_was_interleaved_and_then_remapped_stays() {
    let _still = Setting::still_host();
    let layout = Layout::remote(&["anon:24M"]).on("0,1").load("idle");
    let mut app = layout.interleaved("0-1", false).start("remapped");
    assert_spread(&app, "anon", page_size(), &[0, 1]);
    app.remap("anon");
    let start = app.range("anon").start;
    assert_eq!(start / page_size() % 2, 1, "the scene");
    let plan = inspect(&[Target::Pid(app.pid())], &placed("0-1", None)).plan;
    let moves = plan.moves.iter().filter(|each| each.mappings[0].start == start);
    let planned: u64 = moves.map(|each| each.remote_bytes()).sum();
    assert_eq!(planned, 0, "{:#?}", plan.moves);
}
