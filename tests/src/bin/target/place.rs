//! On which CPUs a thread runs, and in which IPC namespace.

use anyhow::{Context, Result};
use nix::{
    sched::{CloneFlags, CpuSet, sched_setaffinity, setns, unshare},
    unistd::Pid,
};
use numaloc_core::NodeId;
use std::{sync::mpsc, thread};

/// Pins this thread to the CPUs of `node`. Does nothing for `None`.
pub fn pin(node: Option<NodeId>) -> Result<()> {
    let Some(node) = node else { return Ok(()) };
    run_on(&format!("/sys/devices/system/node/node{node}/cpulist"))
}

/// Starts a thread that may run on all CPUs and sleeps. Waits until its CPUs are set.
pub fn start_helper() -> Result<()> {
    let (sender, ready) = mpsc::channel();
    let helper = thread::Builder::new().name("helper".into());
    helper.spawn(move || {
        sender.send(run_on("/sys/devices/system/cpu/online")).ok();
        loop {
            thread::park();
        }
    })?;
    ready.recv()?
}

/// Enters a `new` IPC namespace, or that of the process with this pid. Threads that are started later are in it, too.
pub fn enter_ipc(which: &str) -> Result<()> {
    if which == "new" {
        return unshare(CloneFlags::CLONE_NEWIPC).context("a new IPC namespace");
    }
    let path = format!("/proc/{which}/ns/ipc");
    let namespace = std::fs::File::open(&path).with_context(|| path.clone())?;
    setns(namespace, CloneFlags::CLONE_NEWIPC).context(path)
}

/// Restricts this thread to the CPUs of the list in a file.
fn run_on(path: &str) -> Result<()> {
    let list = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
    let cpus: numaloc_core::CpuSet = list.parse().with_context(|| path.to_owned())?;
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        set.set(cpu.0 as usize)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("run on the CPUs of {path}"))
}
