//! On which CPUs a thread runs, and in which IPC namespace.

use crate::writer;
use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns, unshare};
use numaloc_core::NodeId;
use numaloc_sys::{fixture::be_real_time, page_bytes};
use numaloc_tests::cpus::{cpus_of, run_on};
use std::{sync::mpsc, thread};

/// Pins this thread to the CPUs of `node`. Does nothing for `None`.
pub fn pin(node: Option<NodeId>) -> Result<()> {
    let Some(node) = node else { return Ok(()) };
    run_on(&cpus_of(node.0));
    Ok(())
}

/// Starts a thread that may run on all CPUs and sleeps. Waits until its CPUs are set.
pub fn start_helper() -> Result<()> {
    let (sender, ready) = mpsc::channel();
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    let helper = thread::Builder::new().name("helper".into());
    helper.spawn(move || {
        run_on(&all);
        sender.send(()).ok();
        loop {
            thread::park();
        }
    })?;
    Ok(ready.recv()?)
}

/// Uses a CPU up at the highest real-time priority. The CPU has some new pages in its list, which only the CPU itself can empty.
pub fn hog(cpu: &str) -> Result<()> {
    run_on(cpu);
    let pages = vec![1u8; 10 * page_bytes()];
    std::hint::black_box(&pages);
    be_real_time().context("SCHED_FIFO")?;
    writer::spin()
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
