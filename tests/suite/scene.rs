//! The usual scene: an application with remote memory, and beside it the same application, unmanaged.

use crate::{
    app::{App, FEW_WORDS, Layout},
    engine::migrate,
    place::home,
    settings::Setting,
    truth::{Nodes, Truth, free_bytes, off, on, vmstat, watermarks},
};
use numaloc_core::{Options, Reason};
use numaloc_executor::Outcome;
use numaloc_host::Target;

/// Bytes that a process may allocate, free or copy outside of its regions while it is watched (heap, stacks).
pub const SLACK: u64 = 512 << 10;

/// Events that no process may suffer for the sake of a move.
pub const DISTRESS: [&str; 2] = ["oom_kill", "pswpout"];

/// Number of times that each of [`DISTRESS`] has happened.
pub fn distress() -> [u64; 2] {
    DISTRESS.map(vmstat)
}

/// An application and its control process.
#[derive(Debug)]
pub struct Scene {
    pub app: App,
    control: App,
    control_before: Truth,
    checked_before: u64,
    layout: Layout,
    _settings: [Setting; 3],
}

impl Scene {
    /// An application with memory away from its CPUs, which writes.
    pub fn remote(regions: &[&str]) -> Self {
        Self::of(Layout::remote(regions))
    }

    /// Starts the application and its control process. The control process does not write, so that it leaves the machine's time
    /// to the test. It is in no cgroup, and its files are its own.
    pub fn of(layout: Layout) -> Self {
        let settings = Setting::still_host();
        let control = layout.control();
        let mut app = layout.start("target");
        let control_before = Truth::of(control.pid());
        for (name, range) in app.ranges() {
            let nodes = Truth::of(app.pid()).region(range);
            // Half of a `cow` region was copied already, to the home node.
            let copied = if name == "cow" { nodes.values().sum::<u64>() / 2 } else { 0 };
            assert_eq!(
                off(&nodes, layout.mem_node),
                copied,
                "{name} was to begin on one node: {nodes:?}"
            );
        }
        let checked_before = app.check();
        Self { app, control, control_before, checked_before, layout, _settings: settings }
    }

    /// The application as a target.
    pub fn target(&self) -> [Target; 1] {
        [Target::Pid(self.app.pid())]
    }

    /// Brings the application's memory home. Compares the account with what numa_maps says about all of its memory.
    pub fn migrate(&self, options: &Options) -> Outcome {
        let (seen_before, remote) = (self.truth(), self.layout.mem_node);
        let outcome = migrate(&self.target(), options);
        let seen_after = self.truth();
        let (before, after) = (seen_before.all(), seen_after.all());
        if !is_close(outcome.account().found_bytes(), off(&before, self.home())) {
            println!("before: {seen_before:#?}\nafter: {seen_after:#?}");
        }
        let (account, gone) =
            (outcome.account(), on(&before, remote).saturating_sub(on(&after, remote)));
        close(account.found_bytes(), off(&before, self.home()), "found");
        close(account.moved_bytes(), gone, "moved");
        outcome
    }

    pub fn truth(&self) -> Truth {
        Truth::of(self.app.pid())
    }

    /// Where a region's pages are.
    pub fn nodes(&self, region: &str) -> Nodes {
        self.truth().region(self.app.range(region))
    }

    /// Asserts that all of a region is on a node, and that nothing of it is missing.
    pub fn assert_on(&self, region: &str, node: u32, bytes: u64) {
        let nodes = self.nodes(region);
        assert_eq!(nodes, Nodes::from([(node, bytes)]), "{region}");
    }

    /// Asserts that the control process has not changed and that no byte is wrong.
    pub fn finish(mut self) -> App {
        let control = Truth::of(self.control.pid());
        assert_eq!(control.without_files(), self.control_before.without_files(), "control moved");
        for (name, range) in self.control.ranges() {
            let (nodes, before) =
                (control.region(range.clone()), self.control_before.region(range));
            // The control does not touch its pages again, and those of a file may leave its page tables: the kernel reclaims them, or
            // makes larger folios of them (mm/khugepaged.c, `retract_page_tables`). A page that was moved is on a node with more.
            let is_file = self.layout.regions.iter().any(|region| is_of_file(region, name));
            let moved = nodes.iter().any(|(node, bytes)| *bytes > on(&before, *node));
            assert!(
                nodes == before || (is_file && !moved),
                "{name} of the control moved: {before:?}, {nodes:?}"
            );
        }
        self.control.check();
        let checked = self.app.check();
        if self.layout.load == "write" {
            assert!(checked > self.checked_before, "the writer has not come round");
        }
        self.app
    }

    fn home(&self) -> u32 {
        let first = self.layout.cpu_nodes.as_deref().and_then(|nodes| nodes.split(',').next());
        first.and_then(|node| node.parse().ok()).unwrap_or_else(home)
    }
}

/// Whether a region of this name, as numaloc-target takes it, is one of a file on a disk.
fn is_of_file(region: &str, name: &str) -> bool {
    let named = region.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
    named.unwrap_or(region).starts_with("file:/mnt/disk/") && (named.is_some() || name == "file")
}

/// An application that takes what is free on a node, but for this many bytes.
pub fn ballast(node: u32, spared: u64) -> App {
    let mib = free_bytes(node).saturating_sub(spared) / (2 << 20) * 2;
    let ballast =
        Layout::remote(&[&format!("thp:{mib}M:{FEW_WORDS}")]).memory_on(node).load("idle");
    ballast.start("ballast")
}

/// Asserts that nothing fell short: what stayed did so because of an option, or because of the application's own policy.
pub fn assert_complete(outcome: &Outcome) {
    let account = outcome.account();
    let calls = &outcome.calls;
    assert_eq!(account.shortfall_bytes(), 0, "{account:?} {calls:?} {:?}", watermarks(home()));
}

/// Asserts that about `bytes` were left for a reason, give or take [`SLACK`].
pub fn assert_left(outcome: &Outcome, reason: Reason, bytes: u64) {
    close(outcome.account().left_for(reason), bytes, reason.name());
}

fn is_close(reported: u64, truth: u64) -> bool {
    reported.abs_diff(truth) <= SLACK
}

fn close(reported: u64, truth: u64, what: &str) {
    assert!(is_close(reported, truth), "{what}: {reported} reported, {truth} in numa_maps");
}
