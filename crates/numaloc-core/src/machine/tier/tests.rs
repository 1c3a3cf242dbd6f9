use super::*;
use crate::{
    CpuSet, DaxMemory, NodeMemory, NodeNature, StorageDevice, StorageMode,
    machine::speeds::{Speed, Speeds},
};

/// Nodes by their number, CPUs, memory, and distance to the CPUs of node 0.
fn machine(nodes: &[(u32, &str, u64, u64)]) -> Topology {
    let node = |&(id, cpus, total_bytes, _): &(u32, &str, u64, u64)| Node {
        id: NodeId(id),
        cpus: cpus.parse().unwrap_or(CpuSet::new()),
        memory: NodeMemory { total_bytes, ..NodeMemory::default() },
    };
    let distances = nodes.iter().map(|&(id, _, _, far)| ((NodeId(0), NodeId(id)), far));
    Topology::new(nodes.iter().map(node), distances)
}

/// A socket with DRAM, and a node without CPUs.
fn with_other() -> Topology {
    machine(&[(0, "0-3", 1000, 10), (2, "", 1000, 17)])
}

fn of(topology: Topology, origin: MemoryOrigin) -> Topology {
    let nature = NodeNature { origin: Some(origin), ..NodeNature::default() };
    topology.with_natures([(NodeId(2), nature)].into())
}

fn kind(topology: &Topology, id: u32) -> &'static str {
    topology.node_kind(NodeId(id)).map_or("none", NodeKind::name)
}

fn tiers(topology: &Topology) -> Vec<(u32, Option<u32>, &'static str)> {
    let ids = topology.ids();
    let tiers = topology.tiers();
    let tier = |id: NodeId| match tiers.get(&id) {
        Some(tier) => (id.0, Some(tier.number), tier.source.name()),
        None => (id.0, None, ""),
    };
    ids.iter().map(tier).collect()
}

fn speed(latency_ps: u64, bandwidth: u64) -> Speed {
    Speed { latency_ps: Some(latency_ps), read_bandwidth: Some(bandwidth), ..Speed::default() }
}

fn firmware(topology: Topology, other: Speed) -> Topology {
    let firmware = [((NodeId(0), NodeId(0)), speed(100, 1000)), ((NodeId(0), NodeId(2)), other)];
    topology.with_speeds(Speeds { firmware: firmware.into(), ..Speeds::default() })
}

#[test]
fn a_node_has_the_kind_of_its_memory() {
    assert_eq!((kind(&with_other(), 0), kind(&with_other(), 2)), ("dram", "memory_only"));
    assert_eq!(kind(&with_other(), 9), "none");
    for (origin, name) in [
        (MemoryOrigin::Gpu, "gpu"),
        (MemoryOrigin::Private, "private"),
        (MemoryOrigin::Persistent, "persistent"),
        (MemoryOrigin::Cxl, "cxl"),
    ] {
        assert_eq!(kind(&of(with_other(), origin), 2), name);
    }
    let empty = machine(&[(0, "0-3", 1000, 10), (2, "", 0, 17)]);
    assert_eq!(kind(&of(empty, MemoryOrigin::Private), 2), "empty");
    let offline = with_other().with_cpus_offline(NodeSet::from_iter([NodeId(2)]));
    assert_eq!(kind(&offline, 2), "dram");
    let bare_cpus = machine(&[(0, "0-3", 0, 10), (2, "", 1000, 17)]);
    assert_eq!((kind(&bare_cpus, 0), kind(&bare_cpus, 2)), ("empty", "dram"));
}

#[test]
fn memory_that_was_added_to_dram_leaves_it_dram() {
    let device = DaxMemory { name: "dax0.0".into(), bytes: 300 };
    let topology = of(machine(&[(0, "0-3", 1000, 10), (2, "4-7", 1300, 21)]), MemoryOrigin::Cxl);
    let topology = topology.with_dax([(NodeId(2), vec![device])].into());
    assert_eq!(kind(&topology, 2), "dram");
}

#[test]
fn fast_memory_is_known_by_the_kernel_or_by_the_firmware() {
    let tiers = |other| with_other().with_tiers([(NodeId(0), 4), (NodeId(2), other)]);
    assert_eq!((kind(&tiers(1), 2), kind(&tiers(22), 2)), ("hbm", "memory_only"));
    assert_eq!(kind(&firmware(with_other(), speed(100, 2000)), 2), "hbm");
    assert_eq!(kind(&firmware(with_other(), speed(100, 1999)), 2), "memory_only");
}

#[test]
fn the_first_source_that_tells_nodes_apart_decides_their_tiers() {
    let all = |number, source| vec![(0, Some(0), source), (2, Some(number), source)];
    assert_eq!(tiers(&with_other()), all(1, "distance"));
    let persistent = of(with_other(), MemoryOrigin::Persistent);
    assert_eq!(tiers(&persistent), all(1, "kind"));
    let slow = firmware(persistent, speed(300, 500));
    assert_eq!(tiers(&slow), all(1, "hmat"));
    let one = slow.clone().with_tiers([(NodeId(0), 4), (NodeId(2), 4)]);
    assert_eq!(tiers(&one), all(1, "hmat"), "Linux 6.1 has one tier");
    let two = slow.with_tiers([(NodeId(0), 4), (NodeId(2), 22)]);
    assert_eq!(tiers(&two), [(0, Some(4), "kernel"), (2, Some(22), "kernel")]);
    let nodes = |id| NodeSet::from_iter([NodeId(id)]);
    let set = two.with_configured_tiers(vec![nodes(2), nodes(0)]);
    assert_eq!(tiers(&set), [(0, Some(1), "configuration"), (2, Some(0), "configuration")]);
}

#[test]
fn a_machine_of_one_kind_has_one_tier_and_nodes_without_memory_have_none() {
    let alike = machine(&[(0, "0-3", 1000, 10), (1, "4-7", 1000, 21), (3, "8", 0, 21)]);
    let none = (3, None, "");
    assert_eq!(tiers(&alike), [(0, Some(0), "distance"), (1, Some(0), "distance"), none]);
    let kernel = alike.with_tiers([(NodeId(0), 4), (NodeId(1), 4)]);
    assert_eq!(tiers(&kernel), [(0, Some(4), "kernel"), (1, Some(4), "kernel"), none]);
    // The firmware says nothing of one of the nodes.
    let part = firmware(with_other(), Speed::default());
    assert_eq!(tiers(&part)[1], (2, Some(1), "distance"));
    assert!(tiers(&Topology::default()).is_empty());
}

#[test]
fn memory_is_demoted_on_nodes_of_lower_tiers_alone() {
    let nodes = |ids: &[u32]| ids.iter().copied().map(NodeId).collect::<NodeSet>();
    let kernel = |other| with_other().with_tiers([(NodeId(0), 4), (NodeId(2), other)]);
    assert_eq!(kernel(22).lower_tiers(), nodes(&[2]));
    assert!(kernel(1).lower_tiers().is_empty(), "HBM is faster");
    assert_eq!(kernel(4).lower_tiers(), nodes(&[2]), "Linux 6.1: farther than the node of any CPU");
    let set = kernel(22).with_configured_tiers(vec![nodes(&[2]), nodes(&[0])]);
    assert!(set.lower_tiers().is_empty(), "the operator decides");
    let alike = machine(&[(0, "0-3", 1000, 10), (1, "4-7", 1000, 21)]);
    assert!(alike.lower_tiers().is_empty() && Topology::default().lower_tiers().is_empty());

    assert!(kernel(22).demoting().is_empty(), "it is off");
    assert_eq!(kernel(22).with_demotion(true).demoting(), nodes(&[0]));
    assert_eq!(kernel(1).with_demotion(true).demoting(), nodes(&[2]), "HBM to DRAM");
    assert!(kernel(4).with_demotion(true).demoting().is_empty(), "there is no lower tier");
    assert!(with_other().with_demotion(true).demoting().is_empty(), "it knows no tiers");
}

#[test]
fn descriptors_are_those_of_the_storage_of_the_node() {
    let device = |name: &str, node, descriptor_bytes| StorageDevice {
        name: name.into(),
        mode: StorageMode::Fsdax,
        bytes: 4096,
        node,
        target_node: None,
        disk: None,
        descriptor_bytes,
    };
    let devices = vec![
        device("a", Some(NodeId(0)), 64),
        device("b", Some(NodeId(2)), 0),
        device("c", Some(NodeId(0)), 128),
        device("d", None, 256),
    ];
    let topology = with_other().with_storage(devices);
    let bytes = [0, 2].map(|id| topology.descriptor_bytes(NodeId(id)));
    assert_eq!(bytes, [192, 0]);
}
