//! The kernel's own balancing is on. It has marked PTEs to see who touches the pages.

use crate::{
    app::{Layout, until},
    engine::{inspect, migrate},
    place::home,
    settings::{Cgroup, Setting},
    truth::{Truth, release, vmstat},
};
use numaloc_core::{Options, Pacing, Profile, page_size};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::Target;
use numaloc_sys::{fixture::skipped, query_pages};
use std::{
    fs,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
};

const MIB: u64 = 1 << 20;
const DEBUGFS: &str = "/sys/kernel/debug/sched/numa_balancing";

/// Makes the kernel mark PTEs as fast as it can.
fn eager() -> Vec<Setting> {
    [
        ("scan_delay_ms", "1"),
        ("scan_period_min_ms", "10"),
        ("scan_period_max_ms", "10"),
        ("scan_size_mb", "256"),
    ]
    .map(|(name, value)| Setting::set(format!("{DEBUGFS}/{name}"), value))
    .into()
}

/// Number of existing pages of a region that move_pages(2) does not see.
fn hidden_pages(pid: i32, range: std::ops::Range<u64>) -> usize {
    let addresses: Vec<u64> = range.step_by(page_size() as usize).collect();
    let mut status = vec![0; addresses.len()];
    query_pages(pid, &addresses, &mut status).expect("our own child");
    status.iter().filter(|&&status| status < 0).count()
}

/// Whether move_pages of this kernel does not see marked pages.
fn is_trapped() -> bool {
    release().starts_with("6.1.")
}

fn marked_pages_come_home(region: &str, bytes: u64) {
    marked_pages_come_home_by(region, bytes, |pid| {
        let outcome = migrate(&[Target::Pid(pid)], &Options::default());
        assert_eq!(outcome.account().shortfall_bytes(), 0, "{outcome:?}");
        outcome.calls.hinted_addresses
    });
}

/// `migrate` takes a pid and returns how many hint faults were taken.
pub fn marked_pages_come_home_by(region: &str, bytes: u64, migrate: impl FnOnce(i32) -> u64) {
    let _eager = eager();
    let quiet = Setting::numa_balancing(false);
    // The target computes and touches none of its memory, so marks stay. The control process runs where its memory is, so that
    // balancing has no reason to move it.
    let layout = Layout::remote(&[region]).load("spin");
    let mut app = layout.start("target");
    let mut control = layout.on("1").control();
    let control_before = Truth::of(control.pid()).without_files();
    let name = region.split(':').next().expect("a kind");
    let (pid, range) = (app.pid(), app.range(name));
    let marked = vmstat("numa_pte_updates") + vmstat("numa_huge_pte_updates");
    let _on = Setting::numa_balancing(true);
    let is_trapped = is_trapped();
    let pages = if region.starts_with("thp") { bytes >> 21 } else { bytes / page_size() };
    until("the kernel has marked the region", || match is_trapped {
        true => hidden_pages(pid, range.clone()) as u64 > bytes / page_size() / 2,
        false => vmstat("numa_pte_updates") + vmstat("numa_huge_pte_updates") >= marked + pages,
    });

    let hinted = migrate(pid);
    assert_eq!(Truth::of(pid).region(range), [(0, bytes)].into());
    assert_eq!(hinted > 0, is_trapped, "{hinted} hint faults were taken");
    app.check();
    assert_eq!(Truth::of(control.pid()).without_files(), control_before, "control moved");
    control.check();
    drop(quiet);
}

#[test]
fn marked_base_pages_come_home() {
    marked_pages_come_home("anon:64M", 64 * MIB);
}

#[test]
fn marked_huge_pages_come_home() {
    marked_pages_come_home("thp:64M", 64 * MIB);
}

#[test]
fn with_a_writer_all_comes_home() {
    let _eager = eager();
    let _on = Setting::numa_balancing(true);
    let mut app = Layout::remote(&["anon:64M"]).start("target");
    let outcome = migrate(&[Target::Pid(app.pid())], &Options::default());
    let truth = Truth::of(app.pid()).region(app.range("anon"));
    assert_eq!(truth, [(0, 64 * MIB)].into(), "{outcome:?}");
    app.check();
}

/// Page table entries of a cgroup that the scan has changed; `None`: the kernel does not count that by cgroup.
fn scanned(cgroup: &Cgroup) -> Option<u64> {
    let text = fs::read_to_string(cgroup.path().join("memory.stat")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("numa_pte_updates "))?;
    Some(value.parse().expect("a number"))
}

/// From Linux 6.16 on nothing is marked of tasks that may have memory on one node alone (kernel/sched/fair.c, `task_numa_work`):
/// docs/annotations.md exempts running containers in this way.
#[test]
fn a_cgroup_with_one_node_is_scanned_no_more() {
    let (_eager, _on) = (eager(), Setting::numa_balancing(true));
    let layout = Layout::remote(&["anon:16M"]).memory_on(home()).on(home());
    // Both compute on their own memory, and the kernel has no reason to move either.
    let mut control = layout.start("control");
    let cgroup = Cgroup::new("one-node");
    let mut app = layout.within(cgroup.path()).start("target");
    let Some(before) = scanned(&cgroup) else {
        skipped("this kernel does not count by cgroup what it scans");
        return;
    };
    until("the kernel scans it", || scanned(&cgroup) > Some(before + 4096));
    cgroup.write("cpuset.mems", &home().to_string());
    // Two rounds of all memory that is scanned end the one that is under way, and then begin some.
    let after_rounds = || {
        let so_far = vmstat("numa_pte_updates");
        until("the kernel scans", || {
            vmstat("numa_pte_updates") > so_far + 4 * (16 * MIB / page_size())
        });
        scanned(&cgroup)
    };
    let (first, second) = (after_rounds(), after_rounds());
    let is_exempt = !["6.1.", "6.12."].iter().any(|old| release().starts_with(old));
    assert_eq!(second == first, is_exempt, "{first:?}, then {second:?}");
    app.check();
    control.check();
    drop(app);
}

/// Threads of this process that take hint faults.
fn readers() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("our own");
    let names = tasks.flatten().map(|task| fs::read_to_string(task.path().join("comm")));
    names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "hint-faults")).count()
}

/// The application gives its memory back to the kernel while a run reads all of it to clear the marks. From then on the reader waits for a
/// page that does not come. With `cancels` the run is cancelled meanwhile.
fn an_unanswered_fault(cancels: bool) {
    const SIZE: u64 = 64 * MIB;
    if !is_trapped() {
        skipped("this kernel moves marked pages, and nothing is read");
        return;
    }
    let (_eager, quiet) = (eager(), Setting::numa_balancing(false));
    let mut app = Layout::remote(&["anon:64M"]).load("spin").start("target");
    let (pid, range) = (app.pid(), app.range("anon"));
    // The part that is read first.
    let beginning = range.start..range.start + MIB;
    let hidden = || hidden_pages(pid, beginning.clone()) as u64 * page_size();
    {
        let _on = Setting::numa_balancing(true);
        until("the kernel has marked the region", || {
            hidden() == MIB && hidden_pages(pid, range.clone()) as u64 * page_size() > SIZE / 4 * 3
        });
    }
    let pacing = Pacing { profile: Profile::Fast, workers: Some(1), ..Pacing::default() };
    let inspected = inspect(&[Target::Pid(pid)], &Options { pacing, ..Options::default() });
    let control = Arc::new(Control::default());
    let shared = control.clone();
    // All in one call. Not in a scope: where the run does not end, the test has to.
    let limits = RunLimits { batch_bytes: Some(SIZE), ..RunLimits::default() };
    let run = thread::spawn(move || inspected.carry_out(&limits, &shared));
    until("marks are cleared", || hidden() < MIB / 2);
    assert_eq!(app.ask("lose anon"), "lost anon");
    control.cancel.store(cancels, Relaxed);
    until("the run ends", || run.is_finished());
    let outcome = run.join().expect("it has ended");
    println!("{:?}: {:?}", outcome.elapsed, outcome.calls);
    assert!(readers() > 0, "nothing was missing when it was read: {outcome:?}");
    app.kill();
    until("the reader has ended", || readers() == 0);
    drop(quiet);
}

#[test]
fn an_unanswered_fault_does_not_keep_a_run_from_its_end() {
    an_unanswered_fault(false);
}

#[test]
fn a_run_is_cancelled_while_a_fault_is_unanswered() {
    an_unanswered_fault(true);
}
