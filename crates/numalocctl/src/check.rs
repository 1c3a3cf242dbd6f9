//! The checks of `doctor`: each takes facts and says whether they are a problem.

mod containers;
mod daemon;
mod dsa;
mod kernel;
mod machine;
mod make_room;
mod rights;
#[cfg(test)]
mod tests;

pub use containers::ContainersState;
pub use daemon::DaemonState;
pub use kernel::{BALANCING_ADVICE, is_balancing};

use crate::doc::Check;
use numaloc_core::Topology;
use numaloc_dma::dsa::Found;
use numaloc_host::{Error, HostFacts, node_room::RoomRights};

/// Facts about this host.
#[derive(Debug)]
pub struct Findings {
    /// Facts from its files.
    pub facts: HostFacts,
    /// Whether this process may see page frame numbers.
    pub pfns_readable: bool,
    /// Whether the kernel's page size is one that numaloc knows.
    pub page_size: Result<(), Error>,
    /// Whether PAGEMAP_SCAN works.
    pub pagemap_scan: bool,
    /// The machine as hwloc sees it.
    pub topology: Result<Topology, Error>,
    /// What this process may ask nodes for; `None` if no node has memory, or it is not known which.
    pub ways: Option<RoomRights>,
    /// What can tell of containers.
    pub containers: ContainersState,
    /// Accelerators that can copy.
    pub dsa: Found,
    pub daemon: DaemonState,
}

/// All checks in the order in which they are shown.
pub fn checks(found: &Findings) -> Vec<Check> {
    vec![
        kernel::release(found),
        kernel::page_size(found),
        kernel::numa_balancing(found),
        kernel::pagemap_scan(found),
        kernel::thp(found),
        kernel::hugetlb(found),
        kernel::offload(found),
        dsa::dsa(found),
        rights::sys_ptrace(found),
        rights::sys_nice(found),
        rights::pfns(found),
        rights::hidepid(found),
        machine::hwloc(found),
        machine::nodes(found),
        machine::room(found),
        make_room::make_room(found),
        machine::cgroups(found),
        containers::containers(found),
        daemon::daemon(found),
    ]
}
