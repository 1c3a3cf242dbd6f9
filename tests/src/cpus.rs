//! On which CPUs threads run.

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use std::fs;

/// The CPUs of a node, in the kernel's list format.
pub fn cpus_of(node: u32) -> String {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().to_owned()
}

/// Restricts the calling thread, and what it starts from now on, to these CPUs, in the kernel's list format.
pub fn run_on(cpus: &str) {
    let mut set = CpuSet::new();
    for cpu in cpus.trim().parse::<numaloc_core::CpuSet>().expect("a list").iter() {
        set.set(cpu.0 as usize).expect("a CPU that the kernel may have");
    }
    restrict(&set);
}

/// Calls `what` on the CPUs of a node, and then returns to the CPUs from before. To start programs on that node.
pub fn pinned<T>(node: u32, what: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(Pid::from_raw(0)).expect("the caller's own CPUs");
    run_on(&cpus_of(node));
    let result = what();
    restrict(&before);
    result
}

fn restrict(set: &CpuSet) {
    sched_setaffinity(Pid::from_raw(0), set).expect("CPUs that are online and allowed");
}
