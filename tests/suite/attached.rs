//! Shared memory that the target has attached, whose pages no process maps: the process that filled it has ended, or wrote it.

use crate::{
    app::{App, Layout},
    cli::{json, numalocctl},
    engine::{inspect, migrate},
    settings::Setting,
    truth::node_bytes,
};
use numaloc_core::{Move, NodeId, Options, Pages, Reason};
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;
const ALL: u64 = 64 * MIB;

/// A file in memory that a process has filled on node 1 before it ended. What is there of it is read from the nodes' own counts.
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
fn what_nobody_maps_comes_home_with_what_is_mapped() {
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
