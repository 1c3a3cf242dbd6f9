//! Which CPUs a thread runs on.

use anyhow::{Context, Result};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::NodeId;

/// Pins this thread to the CPUs of `node`; leaves it alone for `None`.
pub fn pin(node: Option<NodeId>) -> Result<()> {
    let Some(node) = node else { return Ok(()) };
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let cpus: numaloc_core::CpuSet = list.parse().with_context(|| path.clone())?;
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        set.set(cpu.0 as usize)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).with_context(|| format!("pin to node {node}"))
}
