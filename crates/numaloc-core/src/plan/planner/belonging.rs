//! Where the memory of processes belongs, for the planner: claims, and why nothing of a process moves.

use crate::{
    ask::{options::Options, placement::Placement},
    home::{
        allowed, alone, cells,
        claim::{Belonging, CellHome, Claim, Claims},
        home, in_tiers, of_cell, placed,
    },
    machine::{ids::NodeSet, process::Process, topology::Topology},
    memory::{extent::Extent, mempolicy::Mempolicy},
    plan::Skip,
    result::account::Reason,
};

/// The nodes where pages of a process stay: nodes where its memory belongs, and nodes that pages may not leave. Of a
/// guest whose cells belong on different nodes, these are the nodes where pages of all its cells stay.
pub fn stay(topology: &Topology, process: &Process, options: &Options) -> NodeSet {
    let left = in_tiers(topology, process, options).into_keys().collect();
    let sources = options.sources(topology).or(&left);
    let of_cells = cells(process, options).iter();
    let of_cells = of_cells.filter_map(|cell| of_cell(topology, process, cell, options));
    let home = of_cells.fold(home(topology, process, options), |home, cell| home.and(&cell));
    home.or(&topology.ids().minus(&sources))
}

/// Why nothing of a process can be moved; `None` if something can: of placements of single mappings, and of cells of a guest, one is enough.
pub fn skip(topology: &Topology, process: &Process, options: &Options) -> Option<Skip> {
    let has_home = |cell| of_cell(topology, process, cell, options).is_some();
    if cells(process, options).iter().any(has_home) {
        return None;
    }
    let skip = |placement| skip_placed(topology, process, options, placement);
    let skips: Option<Vec<Skip>> = options.placements().map(skip).collect();
    skips?.first().copied()
}

/// As [`skip`], of memory with this placement.
pub fn skip_placed(
    topology: &Topology,
    process: &Process,
    options: &Options,
    placement: &Placement,
) -> Option<Skip> {
    let home = &placed(topology, process, options, placement);
    if home.is_empty() {
        Some(Skip::NoLocalMemory)
    } else if placement.is_wide() {
        (home.len() == 1).then_some(Skip::OneNode)
    } else {
        topology.with_memory().is_subset(home).then_some(Skip::NoTargetNode)
    }
}

/// The claims of processes on the pages that they map; a [`crate::Pages::Common`] extent refers to them. A process of
/// which nothing is moved has all nodes as its home. So has memory that no rule names, if there are rules. Memory of a guest's cell belongs on the
/// nodes of the cell.
pub fn claims(topology: &Topology, processes: &[Process], options: &Options) -> Claims {
    let stays = || Belonging { home: topology.ids(), ..Belonging::default() };
    let belonging = |process: &Process, placement: &Placement| match skip_placed(
        topology, process, options, placement,
    ) {
        Some(_) => stays(),
        None => {
            let home = placed(topology, process, options, placement);
            let portions = placement.portions(topology, process, &home);
            Belonging { cycle: placement.cycle(&home), portions, home }
        }
    };
    let claim = |process: &Process| {
        let Belonging { home, cycle, portions } =
            if options.maps.is_empty() { belonging(process, &options.placement) } else { stays() };
        let named = options.maps.iter().map(|rule| belonging(process, &rule.placement)).collect();
        let allowed = allowed(topology, process, options);
        let in_tiers = in_tiers(topology, process, options);
        Claim { home, allowed, in_tiers, cycle, portions, named }
    };
    let cell_homes = processes.iter().flat_map(|process| {
        cells(process, options).iter().map(move |cell| {
            let home = of_cell(topology, process, cell, options)?;
            let in_tiers = in_tiers(topology, &alone(process, cell), options);
            Some(CellHome { home, in_tiers })
        })
    });
    processes.iter().map(claim).collect::<Claims>().with_cells(cell_homes)
}

/// Whether the kernel's NUMA balancing can move this memory. It leaves hugetlb memory and what has a policy, that of the process
/// included (kernel/sched/fair.c, `task_numa_work`; mm/mempolicy.c, `vma_policy_mof`). Memory whose cpusets allow one node alone it
/// cannot move elsewhere, whether it scans it (older kernels do) or not: pages on other nodes are for the cpuset of the thread that faults
/// (mm/page_alloc.c, `__cpuset_zone_allowed`).
pub(super) fn is_exposed(extent: &Extent, topology: &Topology, allowed: &NodeSet) -> bool {
    extent.hugetlb_bytes.is_none()
        && matches!(extent.policy, Mempolicy::Default | Mempolicy::Unasked)
        && topology.with_memory().and(allowed).len() > 1
}

/// Whether memory with these targets counts as movable: for a saturated target it only waits, as for one without room.
pub(super) fn is_movable(targets: &Result<NodeSet, Reason>) -> bool {
    matches!(targets, Ok(_) | Err(Reason::TargetSaturated))
}
