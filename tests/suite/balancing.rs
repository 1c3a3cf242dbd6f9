//! The kernel's own balancing is on. It has marked PTEs to see who touches the pages.

use crate::{
    app::{Layout, until},
    engine::migrate,
    settings::Setting,
    truth::{Truth, release, vmstat},
};
use numaloc_core::{Options, PAGE};
use numaloc_host::Target;
use numaloc_sys::query_pages;

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

/// How many pages of a region move_pages(2) does not see although they are there.
fn hidden_pages(pid: i32, range: std::ops::Range<u64>) -> usize {
    let addresses: Vec<u64> = range.step_by(PAGE as usize).collect();
    let mut status = vec![0; addresses.len()];
    query_pages(pid, &addresses, &mut status).expect("our own child");
    status.iter().filter(|&&status| status < 0).count()
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
    let is_trapped = release().starts_with("6.1.");
    let pages = if region.starts_with("thp") { bytes >> 21 } else { bytes / PAGE };
    until("the kernel has marked the region", || match is_trapped {
        true => hidden_pages(pid, range.clone()) as u64 > bytes / PAGE / 2,
        false => vmstat("numa_pte_updates") + vmstat("numa_huge_pte_updates") >= marked + pages,
    });

    let hinted = migrate(pid);
    assert_eq!(Truth::of(pid).region(range), [(0, bytes)].into());
    assert!(!is_trapped || hinted > 0, "no hint fault was taken");
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
