//! The checks of `doctor`: each takes facts and decides whether they are a problem.

mod containers;
mod daemon;
mod dsa;
mod kernel;
mod machine;
mod make_room;
mod memory_kinds;
mod mover_group;
mod rights;
#[cfg(test)]
mod tests;

pub use containers::ContainersState;
pub use daemon::DaemonState;
pub use kernel::BALANCING_ADVICE;
pub use mover_group::MoverGroupState;

use crate::doc::Check;
use numaloc_core::{Topology, page_size, pmd_size};
use numaloc_dma::dsa::Found;
use numaloc_host::{Error, HostFacts, RealTimeHog, node_room::RoomRights};

/// The facts that `doctor` judges: the state of this host and of its daemon.
#[derive(Debug)]
pub struct Findings {
    pub facts: HostFacts,
    /// Whether this process may see page frame numbers.
    pub pfns_readable: bool,
    /// Whether the kernel has the ioctl PAGEMAP_SCAN (Linux 6.7).
    pub pagemap_scan: bool,
    /// The machine as hwloc sees it.
    pub topology: Result<Topology, Error>,
    /// Means of making room that this process may use; `None` if no node has memory, or it is unknown which.
    pub ways: Option<RoomRights>,
    pub containers: ContainersState,
    /// Real-time threads that use a whole CPU.
    pub real_time: Vec<RealTimeHog>,
    /// The DSA devices of this host.
    pub dsa: Found,
    pub mover_group: MoverGroupState,
    pub daemon: DaemonState,
}

/// All checks in the order in which they are shown.
pub fn checks(found: &Findings) -> Vec<Check> {
    vec![
        kernel::release(found),
        kernel::page_size(page_size(), pmd_size()),
        kernel::numa_balancing(found),
        kernel::pagemap_scan(found),
        kernel::pressure(found),
        kernel::thp(found),
        kernel::hugetlb(found),
        kernel::offload(found),
        dsa::dsa(found),
        mover_group::mover_group(found),
        rights::sys_ptrace(found),
        rights::sys_nice(found),
        rights::pfns(found),
        rights::hidepid(found),
        machine::hwloc(found),
        machine::nodes(found),
        machine::room(found),
        machine::dax_memory(found),
        memory_kinds::kinds(found),
        memory_kinds::movable(found),
        memory_kinds::descriptors(found),
        make_room::make_room(found),
        machine::cgroups(found),
        machine::real_time(found),
        containers::containers(found),
        daemon::daemon(found),
    ]
}
