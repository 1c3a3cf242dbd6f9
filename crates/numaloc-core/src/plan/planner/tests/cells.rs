//! Guests with NUMA nodes of their own: the memory of each belongs on the nodes of its vCPUs.

use super::*;
use crate::{Backing, Guest, GuestCell, GuestMemory, HomeRule};
use std::sync::Arc;

/// A guest whose cells have vCPU threads on these CPUs, and that floats over `cpus`.
fn guest(cpus: &str, cells: &[&str]) -> Process {
    let threads =
        |cpus: &str| Threads { cpus: cpus.parse().unwrap(), count: 1, ..Threads::default() };
    let cell = |(id, list): (u32, &&str)| {
        let one = threads(list);
        let threads = if list.is_empty() { Vec::new() } else { vec![one.clone()] };
        GuestCell { id, cpus: one.cpus, threads }
    };
    let memory = |cell| GuestMemory {
        id: format!("ram-node{cell}"),
        bytes: None,
        backing: Backing::Memfd,
        cell: Some(cell),
    };
    let guest = Guest {
        cells: (0..).zip(cells).map(cell).collect(),
        memory: (0..cells.len()).map(memory).collect(),
    };
    let all = cells.iter().filter(|list| !list.is_empty()).map(|list| threads(list));
    let threads = all.chain([threads(cpus)]).collect();
    Process { threads, guest: Some(Arc::new(guest)), ..process(cpus, "0-2") }
}

fn of_cell(cell: usize, mib: &[(u32, u64)]) -> Extent {
    let resident: Vec<_> = mib.iter().map(|&(node, mib)| (node, mib * MIB)).collect();
    Extent { rule: Some(Rule::Cell(cell)), ..extent((cell as u64) << 32, &resident) }
}

fn flows(plan: &Plan) -> Vec<(u32, u32, u64)> {
    let flows = plan.expected_flows.iter();
    flows.map(|((from, to), bytes)| (from.0, to.0, bytes / MIB)).collect()
}

#[test]
fn each_cell_comes_to_its_nodes_and_the_rest_stays() {
    let machine = machine(&[0, 1], &[]);
    let extents = || {
        let rest = extent(1 << 40, &[(0, 16 * MIB), (1, 16 * MIB)]);
        vec![of_cell(0, &[(0, 1), (1, 8)]), of_cell(1, &[(0, 4), (1, 4)]), rest]
    };
    let plan = |process| plan_of(&machine, process, extents(), &Options::default());
    let found = plan(guest("0-3", &["0-1", "2"]));
    assert_eq!(flows(&found), [(0, 1, 4), (1, 0, 8)]);
    let process = &found.processes[0];
    assert_eq!((&process.home, process.skip), (&nodes("0-1"), None));
    let cells: Vec<_> = process
        .cells
        .iter()
        .map(|cell| (cell.id, &*cell.memory[0], cell.home.to_string()))
        .collect();
    assert_eq!(cells, [(0, "ram-node0", "0".to_owned()), (1, "ram-node1", "1".to_owned())]);
    assert_eq!(process.cells[0].resident, [(NodeId(0), MIB), (NodeId(1), 8 * MIB)].into());
    // A cell whose vCPUs float, or that has none that are known, is as all memory of the process: everywhere at home.
    for floats in ["0-3", ""] {
        let found = plan(guest("0-3", &["0", floats]));
        assert_eq!(flows(&found), [(1, 0, 8)], "{floats}");
        assert!(found.processes[0].cells[1].home.is_empty());
        assert_eq!(found.skipped, []);
    }
    let none = plan(guest("0-3", &["0-3", ""]));
    assert_eq!((flows(&none), none.processes[0].skip), (vec![], Some(Skip::NoTargetNode)));
}

#[test]
fn what_the_request_names_and_the_application_binds_comes_first() {
    let machine = machine(&[0, 1], &[]);
    let process = guest("0-3", &["0-1", "2-3"]);
    let plan = |options: &Options, policy: Mempolicy| {
        let cells = [of_cell(0, &[(1, 8)]), of_cell(1, &[(0, 4)])];
        let extents = cells.map(|cell| Extent { policy: policy.clone(), ..cell });
        plan_of(&machine, process.clone(), extents.into(), options)
    };
    let with = |options: Options| plan(&options, Mempolicy::Default);
    assert_eq!(flows(&with(Options::default())), [(0, 1, 4), (1, 0, 8)]);
    assert_eq!(flows(&with(Options { home: HomeRule::Busy, ..Options::default() })).len(), 2);
    for options in [
        Options { to: Some(nodes("0-1")), ..Options::default() },
        Options { home: HomeRule::Devices, ..Options::default() },
        Options { maps: vec!["memfd:x=home:0".parse().unwrap()], ..Options::default() },
    ] {
        let found = with(options);
        assert_eq!((flows(&found), &*found.processes[0].cells), (vec![], &[][..]));
    }
    let bound = plan(&Options::default(), Mempolicy::Bind(nodes("0")));
    assert_eq!(flows(&bound), [(1, 0, 8)]);
    assert_eq!((bound.skipped.len(), bound.skipped[0].reason), (1, Reason::Bound));
}

/// A process that serves a device of the guest maps its memory, and may run anywhere.
#[test]
fn memory_of_a_cell_belongs_to_it_with_any_mapper() {
    let machine = machine(&[0, 1, 2], &[]);
    let processes = [process("0-5", "0-2"), guest("0-1", &["0"]), guest("0-5", &["0", "4-5"])];
    let at = |process| Mapping { process, start: 0 };
    let extents = |claims: &Claims| {
        // The cells of all guests are counted through.
        let shared = Extent { mappings: vec![at(0), at(2)], ..of_cell(2, &[(0, 8)]) };
        assert_eq!(claims.on_extent(&shared).home, nodes("2"));
        vec![shared]
    };
    let plan = plan_all(&machine, &processes, extents, &Options::default());
    assert_eq!(flows(&plan), [(0, 2, 8)]);
    assert_eq!(plan.processes[2].cells[1].resident, [(NodeId(0), 8 * MIB)].into());
    // Nothing of the guest but for what is on a node that is home to both cells is where it belongs for sure.
    let stays = |process| stay(&machine, process, &Options::default());
    assert_eq!([stays(&processes[1]), stays(&processes[2])], [nodes("0"), nodes("")]);
    assert_eq!(stays(&guest("0-5", &["0-3", "2-5"])), nodes("1"));
}
