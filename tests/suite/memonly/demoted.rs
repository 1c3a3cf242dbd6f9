//! Memory that the kernel has demoted to the node of a lower tier.

use crate::{
    app::Layout,
    scene::SLACK,
    settings::{Cgroup, Setting},
    top::{first_document, row},
    truth::{Truth, on},
};
use numaloc_core::page_size;
use numaloc_sys::fixture::skipped;
use serde_json::Value;
use std::fs;

const MIB: u64 = 1 << 20;

#[test]
fn what_the_kernel_demotes_is_demoted_and_not_remote() {
    let tiers = fs::read_dir("/sys/devices/virtual/memory_tiering").expect("a kernel with tiers");
    let is_tier = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("tier");
    if tiers.filter_map(Result::ok).filter(is_tier).count() < 2 {
        skipped("this kernel has all nodes in one tier, and demotes nothing");
        return;
    }
    let cgroup = Cgroup::new("demoted");
    let layout = Layout::remote(&["anon:64M"]).memory_on(0).load("idle").within(cgroup.path());
    let mut app = layout.start("demoted");
    let _demotion = Setting::set("/sys/kernel/mm/numa/demotion_enabled", "true");
    // EAGAIN if it was less: what was demoted is what numa_maps says.
    fs::write(cgroup.path().join("memory.reclaim"), "48M").ok();
    let demoted = on(&Truth::of(app.pid()).all(), 2);
    assert!(demoted > 16 * MIB, "the kernel demotes: {demoted}");
    let workload = |document: &Value| {
        let mut workloads = document["workloads"].as_array().expect("rows").iter();
        workloads.find(|row| row["cgroup"] == "/numaloc-demoted").cloned()
    };
    // Cgroups are read in turn with processes.
    let document = first_document(&["--cpu-budget", "50"], |document| {
        let is_read = |row: Value| !row["age_seconds"].is_null();
        document["unseen_count"] == 0 && workload(document).is_some_and(is_read)
    });
    let process = row(&document, app.pid());
    let bytes = |row: &Value, name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{row}"));
    assert!(bytes(process, "demoted_bytes").abs_diff(demoted) <= SLACK, "{demoted}: {process}");
    assert!(bytes(process, "remote_bytes") < 8 * MIB, "libraries alone: {process}");
    let workload = &workload(&document).expect("it is there");
    assert!(bytes(workload, "demoted_bytes") >= 16 * MIB, "{workload}");
    assert!(bytes(workload, "kernel_demoted_pages") >= 16 * MIB / page_size(), "{workload}");
    app.check();
}
