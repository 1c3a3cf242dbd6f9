//! Makes sysfs show a machine with two nodes: the memory blocks of this machine are dealt out to node 0 and node 1 as
//! wanted. The measured work is real, except for the table from page frames to nodes.

use anyhow::{Context, Result};
use numaloc_core::{CpuId, Node, NodeId, NodeMemory, Topology};
use numaloc_host::Roots;
use std::fs;
use tempfile::TempDir;

/// The size of memory blocks on machines up to 64 GiB.
const BLOCK: u64 = 128 << 20;

/// The division of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All of it on node 0, where the CPUs are.
    Home,
    /// Every other block on node 1, whose CPUs no process may use. Without any it would be a lower tier.
    HalfAway,
}

#[derive(Debug)]
pub struct Machine {
    /// The real procfs, and a sysfs made for this.
    pub roots: Roots,
    /// The same machine for the planner.
    pub topology: Topology,
    _sys: TempDir,
}

impl Machine {
    pub fn new(layout: Layout) -> Result<Self> {
        let sys = tempfile::tempdir()?;
        let devices = sys.path().join("devices/system");
        for node in 0..2 {
            fs::create_dir_all(devices.join(format!("node/node{node}")))?;
        }
        for block in 0..memory_end()?.div_ceil(BLOCK) {
            let node = if layout == Layout::Home { 0 } else { block % 2 };
            fs::create_dir(devices.join(format!("node/node{node}/memory{block}")))?;
        }
        fs::write(devices.join("node/online"), "0-1\n")?;
        fs::create_dir(devices.join("memory"))?;
        fs::write(devices.join("memory/block_size_bytes"), format!("{BLOCK:x}\n"))?;
        let roots = Roots { sys: sys.path().into(), ..Roots::default() };
        Ok(Self { roots, topology: topology(), _sys: sys })
    }
}

/// Two nodes of 2 TiB; all CPUs of this machine are on node 0.
pub fn topology() -> Topology {
    let memory = NodeMemory { total_bytes: 2 << 40, free_bytes: 1 << 40, ..Default::default() };
    let cpus = [0..8192, 8192..8194].map(|cpus| cpus.map(CpuId).collect());
    let node = |(id, cpus)| Node { id: NodeId(id), cpus, memory: memory.clone() };
    Topology::new((0..).zip(cpus).map(node), [])
}

/// The end of physical memory.
fn memory_end() -> Result<u64> {
    let text = fs::read_to_string("/proc/iomem")?;
    let ends = text.lines().filter(|line| line.ends_with(": System RAM")).filter_map(|line| {
        let (_, end) = line.split(' ').next()?.split_once('-')?;
        u64::from_str_radix(end, 16).ok()
    });
    ends.max().filter(|&end| end > 0).context("/proc/iomem hides addresses: root is needed")
}
