//! Shared memory that the target has attached, whose pages no process maps: the process that filled it has ended, or wrote it.

use crate::{
    app::{App, Layout},
    cli::{json, numalocctl},
    disk::Swap,
    engine::{inspect, migrate},
    settings::{Cgroup, Setting},
    truth::node_bytes,
};
use numaloc_core::{Move, NodeId, Options, Pages, Reason};
use numaloc_host::Target;
use serde_json::Value;
use std::{
    fs::{self, File},
    os::fd::AsRawFd as _,
};

const MIB: u64 = 1 << 20;
const ALL: u64 = 64 * MIB;

/// A file in memory that a process has filled on node 1 before it ended. Its resident bytes are read from the nodes'
/// own counts.
struct Filled {
    path: &'static str,
    before: [u64; 2],
}

fn shmem() -> [u64; 2] {
    [0, 1].map(|node| node_bytes(node, "Shmem:"))
}

impl Filled {
    fn new(path: &'static str) -> Self {
        let before = shmem();
        let layout = Layout::remote(&[&format!("segment=file:{path}:64M")]);
        drop(layout.load("idle").start("filler"));
        let filled = Self { path, before };
        filled.assert_on(1);
        filled
    }

    /// At most a hundredth of it is elsewhere.
    fn assert_on(&self, node: usize) {
        let grown = shmem()[node].saturating_sub(self.before[node]);
        assert!(grown >= ALL - ALL / 100, "{grown} bytes of it are on node {node}");
    }

    /// A process that has attached it all, and touches some of it.
    fn attach(&self, name: &str) -> App {
        let segment = format!("segment=file:{}:64M:touch=4M", self.path);
        Layout::remote(&[&segment]).load("idle").start(name)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        fs::remove_file(self.path).expect("it is there");
    }
}

#[test]
fn unmapped_memory_comes_home_with_mapped_memory() {
    let _settings = Setting::still_host();
    let filled = Filled::new("/dev/shm/attached");
    let mut app = filled.attach("target");
    let target = [Target::Pid(app.pid())];
    let inspected = inspect(&target, &Options::default());
    assert_eq!(inspected.plan.unmapped, [(NodeId(1), 60 * MIB)].into());
    assert!(inspected.plan.expected_bytes >= ALL, "{:?}", inspected.plan.expected_flows);
    let outcome = migrate(&target, &Options::default());
    filled.assert_on(0);
    assert!(outcome.account().moved_bytes() >= ALL, "{outcome:?}");
    assert_eq!(outcome.account().shortfall_bytes(), 0, "{outcome:?}");
    let again = inspect(&target, &Options::default()).plan;
    assert_eq!(again.unmapped, [(NodeId(0), 60 * MIB)].into());
    let is_unmapped = |planned_move: &&Move| planned_move.pages == Pages::Unmapped;
    assert_eq!(again.moves.iter().find(is_unmapped), None);
    app.check();
}

#[test]
fn what_others_have_attached_stays_theirs() {
    let _settings = Setting::still_host();
    let filled = Filled::new("/dev/shm/attached-by-two");
    let (mut app, mut stranger) = (filled.attach("target"), filled.attach("stranger"));
    let alone = [Target::Pid(app.pid())];
    let outcome = migrate(&alone, &Options::default());
    filled.assert_on(1);
    assert!(outcome.account().left_for(Reason::Shared) >= ALL, "{outcome:?}");
    let both = [Target::Pid(app.pid()), Target::Pid(stranger.pid())];
    migrate(&both, &Options::default());
    filled.assert_on(0);
    app.check();
    stranger.check();
}

#[test]
fn every_command_counts_it() {
    let _settings = Setting::still_host();
    let filled = Filled::new("/dev/shm/attached-and-shown");
    let mut app = filled.attach("target");
    let pid = app.pid().to_string();
    let run =
        |command: &str| json(&numalocctl(&[command, "--standalone", "--pid", &pid, "-o", "json"]));
    let located = run("locality");
    let nodes = located["locality"]["total"]["nodes"].as_array().expect("nodes");
    let remote = nodes.iter().find(|on| on["node_id"] == 1).and_then(|on| on["bytes"].as_u64());
    assert!(remote >= Some(ALL), "{located}");
    let unmapped = serde_json::json!([{ "node_id": 1, "bytes": 60 * MIB }]);
    assert_eq!(located["locality"]["unmapped"], unmapped, "{located}");
    filled.assert_on(1);
    run("migrate");
    filled.assert_on(0);
    app.check();
}

/// The answer of `locality` for a process.
fn located(pid: u32) -> Value {
    let pid = pid.to_string();
    let answer = numalocctl(&["locality", "--standalone", "--pid", &pid, "-o", "json"]);
    json(&answer)["locality"].clone()
}

/// A file that a process of the target only has open is in no page map: it is named, with a path by which it moves.
#[test]
fn what_is_only_open_is_named_and_moves_by_that_name() {
    let _settings = Setting::still_host();
    let filled = Filled::new("/dev/shm/attached-only-open");
    let open = File::open(filled.path).expect("it is there");
    let path = format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd());
    let found = located(std::process::id());
    let files = found["held_files"].as_array().cloned().unwrap_or_default();
    let file = files.iter().find(|file| file["path"] == path.as_str());
    let file = file.unwrap_or_else(|| panic!("{path}: {found}"));
    assert_eq!((file["name"].as_str(), file["bytes"].as_u64()), (Some(filled.path), Some(ALL)));
    let output = numalocctl(&["migrate", "--standalone", "--file", &path, "--to", "0"]);
    assert!(output.status.success(), "{output:?}");
    filled.assert_on(0);
    // Mapped memory belongs to the target without that.
    let app = filled.attach("target");
    assert!(located(app.pid() as u32)["held_files"].as_array().is_none_or(Vec::is_empty));
}

/// The kernel's number of swapped bytes of a file in memory (fs/proc/task_mmu.c, `smap_gather_stats`).
fn swap_of(pid: i32, file: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("smaps of our child");
    let mut lines = text.lines().skip_while(|line| !line.ends_with(file));
    let line = lines.find_map(|line| line.strip_prefix("Swap:")).expect("the file is mapped");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn shared_memory_in_swap_is_counted() {
    let _settings = Setting::still_host();
    let swap = Swap::on(128);
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+memory").expect("v2");
    let cgroup = Cgroup::new("attached-swap");
    const FILE: &str = "/dev/shm/attached-in-swap";
    let layout = Layout::remote(&[&format!("segment=file:{FILE}:64M")]).load("idle");
    drop(layout.within(cgroup.path()).start("filler"));
    // The kernel reports how much of it it could not reclaim with an error.
    fs::write(cgroup.path().join("memory.reclaim"), "48M").ok();
    let current = fs::read_to_string(cgroup.path().join("memory.swap.current")).expect("v2");
    let swapped: u64 = current.trim().parse().expect("a number");
    assert!(swapped >= 16 * MIB, "{swapped}");
    let attached = Layout::remote(&[&format!("segment=file:{FILE}:64M:touch=1M")]).load("idle");
    let app = attached.start("target");
    let found = located(app.pid() as u32);
    let counted = found["swapped_shared_bytes"].as_u64().unwrap_or(0);
    // The touched pages came back, and readahead has brought their neighbours.
    let in_swap = swap_of(app.pid(), FILE);
    assert!(in_swap >= 8 * MIB, "the scene: {in_swap} of {swapped}");
    assert!(counted.abs_diff(in_swap) <= MIB, "{in_swap}: {found}");
    drop((app, swap));
    fs::remove_file(FILE).expect("it is there");
}
