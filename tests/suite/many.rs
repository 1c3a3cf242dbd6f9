//! A target with very many processes.

use crate::{
    app::until,
    cpus::cpus_of,
    engine::migrate,
    scene::assert_complete,
    settings::{Cgroup, Setting},
    truth::{Truth, off},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use numaloc_core::{Options, page_size};
use std::{
    fs,
    process::{Child, Command},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

const PROCESSES: usize = 3_000;
/// Files that this process may have open during the migration.
const FILES: u64 = 1_024;

/// A shell with a number of sleeping children, in a cgroup of their own. They are killed when this value is dropped.
struct Sleepers {
    shell: Child,
    cgroup: Cgroup,
}

impl Sleepers {
    /// Starts them on node 1, so that their memory comes from there, and then restricts them to the CPUs of node 0.
    fn remote() -> Self {
        let cgroup = Cgroup::new("many");
        cgroup.write("cpuset.cpus", &cpus_of(1));
        let script = format!(
            "echo 0 > {}/cgroup.procs; for i in $(seq {PROCESSES}); do sleep 100000 & done; wait",
            cgroup.path().display()
        );
        let shell = Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
        let sleepers = Self { shell, cgroup };
        until("all sleep", || sleepers.pids().len() == PROCESSES + 1);
        sleepers.cgroup.write("cpuset.cpus", &cpus_of(0));
        sleepers
    }

    fn pids(&self) -> Vec<i32> {
        let procs = fs::read_to_string(self.cgroup.path().join("cgroup.procs")).expect("a list");
        procs.lines().map(|line| line.parse().expect("a pid")).collect()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.cgroup.write("cgroup.kill", "1");
        self.shell.wait().ok();
    }
}

/// Number of page maps (/proc/PID/pagemap) that this process has open.
fn open_page_maps() -> usize {
    let open = fs::read_dir("/proc/self/fd").expect("proc").flatten();
    let names = open.filter_map(|file| fs::read_link(file.path()).ok());
    names.filter(|name| name.ends_with("pagemap")).count()
}

#[test]
fn three_thousand_processes_come_home_with_a_thousand_descriptors() {
    let _balancing = Setting::numa_balancing(false);
    let sleepers = Sleepers::remote();
    let (before, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, FILES, most).expect("less is allowed");
    let (done, open) = (AtomicBool::new(false), AtomicUsize::new(0));
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                open.fetch_max(open_page_maps(), Relaxed);
                thread::yield_now();
            }
        });
        let outcome = migrate(&[sleepers.cgroup.target()], &Options::default());
        done.store(true, Relaxed);
        outcome
    });
    setrlimit(Resource::RLIMIT_NOFILE, before, most).expect("as before");
    assert_eq!(outcome.processes.len(), PROCESSES + 1);
    assert!(
        outcome.account().moved_bytes() > PROCESSES as u64 * 4 * page_size(),
        "{:?}",
        outcome.account()
    );
    assert_complete(&outcome);
    for pid in sleepers.pids().into_iter().step_by(100) {
        let nodes = Truth::of(pid).without_files().all();
        assert_eq!(off(&nodes, 0), 0, "process {pid}: {nodes:?}");
    }
    let open = open.into_inner();
    assert!(
        open > FILES as usize / 4 && open < FILES as usize / 2 + 16,
        "{open} page maps were open"
    );
}
