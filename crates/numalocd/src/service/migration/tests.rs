use super::*;
use numaloc_core::{Identity, Node, NodeId, NodeMemory, Options, Process, Topology, planner};

/// A plan for processes that run on these CPUs. There are two nodes with four CPUs each.
fn plan(cpus: &[&str]) -> Plan {
    let memory =
        || NodeMemory { total_bytes: 1 << 30, free_bytes: 1 << 30, ..NodeMemory::default() };
    let node =
        |id, cpus: &str| Node { id: NodeId(id), cpus: cpus.parse().unwrap(), memory: memory() };
    let topology = Topology::new([node(0, "0-3"), node(1, "4-7")], []);
    let process = |(pid, cpus): (i32, &&str)| Process {
        identity: Identity { pid, start_time: 1 },
        comm: "redis".to_owned(),
        cpus: cpus.parse().unwrap(),
        threads: Vec::new(),
        mems_allowed: "0-1".parse().unwrap(),
    };
    let processes: Vec<_> = (1..).zip(cpus).map(process).collect();
    let caller_mems = "0-1".parse().unwrap();
    let scene =
        planner::Scene { topology: &topology, processes: &processes, caller_mems: &caller_mems };
    planner::plan(scene, [], &Options::default())
}

#[test]
fn a_plan_needs_one_process_with_somewhere_to_go() {
    assert!(with_target_node(plan(&["0-7", "0-1"])).is_ok());
    let refusal = with_target_node(plan(&["0-7", "0-7"])).unwrap_err();
    let Refusal::NoTargetNode { message } = refusal else { panic!("{refusal:?}") };
    assert!(message.contains(": no target node;"), "{message}");
}
