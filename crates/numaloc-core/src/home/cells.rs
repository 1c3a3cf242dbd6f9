//! Where the memory of a guest's cells belongs: on the nodes of the CPUs that the vCPUs of the cell may run on.

use crate::{
    ask::{home_rule::HomeRule, options::Options},
    home::{goes_home, home},
    machine::{guest::GuestCell, ids::NodeSet, process::Process, topology::Topology},
};

/// Whether the memory of a cell belongs where its vCPUs run. Where the request names nodes, placements, single mappings or devices,
/// these decide.
pub fn by_cells(options: &Options) -> bool {
    goes_home(options) && options.home != HomeRule::Devices
}

/// The cells of a process, in the order of their numbers, if the memory of cells belongs where their vCPUs run.
pub fn cells<'a>(process: &'a Process, options: &Options) -> &'a [GuestCell] {
    match &process.guest {
        Some(guest) if by_cells(options) => &guest.cells,
        _ => &[],
    }
}

/// As a process of its own: with its vCPU threads alone.
pub(crate) fn alone(process: &Process, cell: &GuestCell) -> Process {
    let (cpus, threads, guest) = (cell.cpus.clone(), cell.threads.clone(), None);
    Process { cpus, threads, guest, ..process.clone() }
}

/// The nodes where the memory of a cell belongs. `None` if that is where all memory of the process belongs: no vCPU thread of the
/// cell is known, or they may run on all nodes that have memory.
pub fn of_cell(
    topology: &Topology,
    process: &Process,
    cell: &GuestCell,
    options: &Options,
) -> Option<NodeSet> {
    if !by_cells(options) || cell.cpus.is_empty() {
        return None;
    }
    let home = home(topology, &alone(process, cell), options);
    (!home.is_empty() && !topology.with_memory().is_subset(&home)).then_some(home)
}
