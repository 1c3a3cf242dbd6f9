use super::*;
use crate::{CpuId, NodeMemory};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeSet;

/// A node for each (index, whether it has memory, whether it has a CPU); the CPU has the same index.
fn machine(nodes: &[(u32, bool, bool)], distances: &[(u32, u32, u64)]) -> Topology {
    let node = |&(id, has_memory, has_cpu): &(u32, bool, bool)| Node {
        id: NodeId(id),
        cpus: has_cpu.then_some(CpuId(id)).into_iter().collect(),
        memory: NodeMemory { total_bytes: u64::from(has_memory) << 30, ..NodeMemory::default() },
    };
    let pair = |&(a, b, distance): &(u32, u32, u64)| ((NodeId(a), NodeId(b)), distance);
    Topology::new(nodes.iter().map(node), distances.iter().map(pair))
}

fn both_ways(pairs: &[(u32, u32, u64)]) -> Vec<(u32, u32, u64)> {
    pairs.iter().flat_map(|&(a, b, distance)| [(a, b, distance), (b, a, distance)]).collect()
}

fn local(topology: &Topology, cpus: &str) -> String {
    topology.local_nodes(&cpus.parse().unwrap()).to_string()
}

#[test]
fn all_nearest_nodes_are_local_to_cpus_without_memory() {
    let all = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)].map(|(a, b)| (a, b, 12));
    let nodes = [(0, false, true), (1, true, true), (2, true, true), (3, false, true)];
    let nps = machine(&nodes, &both_ways(&all));
    assert_eq!([0, 1, 2, 3].map(|cpu| local(&nps, &cpu.to_string())), ["1-2", "1", "2", "1-2"]);
    assert_eq!(nps.other_tiers(), NodeSet::new());
}

#[test]
fn memory_without_cpus_is_local_if_no_other_is_nearer() {
    let nodes = [(0, false, true), (1, true, false), (2, true, false), (3, true, false)];
    for tiers in [None, Some(4)] {
        let tiers = |topology: Topology| {
            topology.with_tiers((1..4).filter_map(|id| tiers.map(|tier| (NodeId(id), tier))))
        };
        let split = tiers(machine(&nodes, &[]));
        assert_eq!(local(&split, "0"), "1-3");
        assert_eq!(split.other_tiers(), NodeSet::new());
        let near = tiers(machine(&nodes, &[(0, 1, 12)]));
        assert_eq!(local(&near, "0"), "1");
        assert_eq!(near.other_tiers(), NodeSet::new(), "no CPU has memory to compare with");
    }
}

#[test]
fn the_kernel_may_prefer_a_node_without_cpus_that_is_a_little_farther() {
    let nodes = [(1, true, true), (2, false, true), (3, true, false)];
    assert_eq!(local(&machine(&nodes, &[(2, 1, 11), (2, 3, 12)]), "2"), "1,3");
    assert_eq!(local(&machine(&nodes, &[(2, 1, 11), (2, 3, 14)]), "2"), "1");
}

#[test]
fn neighbours_on_a_socket_are_near() {
    let pairs = [(0, 1, 11), (2, 3, 11), (0, 2, 32), (0, 3, 32), (1, 2, 32), (1, 3, 32)];
    let l3 = machine(&[0, 1, 2, 3].map(|id| (id, true, true)), &both_ways(&pairs));
    let near = |home: &str, reach| l3.near(&home.parse().unwrap(), reach).to_string();
    assert_eq!(
        (near("0", 12), near("3", 12), near("1-2", 12)),
        ("1".into(), "2".into(), "0,3".into())
    );
    assert_eq!((near("0", 10), near("0", 32)), (String::new(), "1-3".into()));
    assert_eq!(hbm().near(&"0".parse().unwrap(), 13).to_string(), "", "2 is of another kind");
}

#[test]
fn nodes_are_nearer_to_a_home_than_others() {
    let pairs = [(0, 1, 11), (2, 3, 11), (0, 2, 21), (0, 3, 32), (1, 2, 32), (1, 3, 32)];
    let nodes = machine(&[0, 1, 2, 3].map(|id| (id, true, true)), &both_ways(&pairs));
    let nearer = |home: &str, from| nodes.nearer(&home.parse().unwrap(), NodeId(from)).to_string();
    assert_eq!(
        (nearer("0", 3), nearer("0", 2), nearer("0", 1)),
        ("1-2".into(), "1".into(), "".into())
    );
    assert_eq!((nearer("0,2", 3), nearer("3", 0)), ("".into(), "2".into()));
    assert_eq!(
        hbm().nearer(&"0".parse().unwrap(), NodeId(1)).to_string(),
        "",
        "2 is of another kind"
    );
}

/// The machine `hbm` of tests/vm/run: a node of fast memory beside each socket.
fn hbm() -> Topology {
    let pairs = [(0, 1, 21), (0, 2, 13), (1, 3, 13), (0, 3, 23), (1, 2, 23), (2, 3, 23)];
    let nodes = [(0, true, true), (1, true, true), (2, true, false), (3, true, false)];
    machine(&nodes, &both_ways(&pairs))
}

#[test]
fn memory_of_a_tier_is_local_on_its_nearest_nodes() {
    let told = [(0, 4), (1, 4), (2, 1), (3, 1)].map(|(node, tier)| (NodeId(node), tier));
    for topology in [hbm(), hbm().with_tiers(told)] {
        let of = |cpus: &str, from| {
            topology.local_in_tier(&cpus.parse().unwrap(), NodeId(from)).to_string()
        };
        assert_eq!((of("0", 3), of("0", 2), of("1", 2)), ("2".into(), "2".into(), "3".into()));
        assert_eq!((of("0-1", 2), of("0", 1)), ("2-3".into(), "0".into()));
    }
    let split = hbm().with_tiers([(0, 4), (1, 4), (2, 1), (3, 22)].map(|(n, t)| (NodeId(n), t)));
    let cpus = "0".parse().unwrap();
    assert_eq!(split.local_in_tier(&cpus, NodeId(3)).to_string(), "3", "the only one of its tier");
}

/// The node that each node's CPUs get memory from first, as `build_all_zonelists` and `find_next_best_node` decide (mm/page_alloc.c of 6.12).
fn first_of_the_kernel(topology: &Topology) -> BTreeMap<NodeId, NodeId> {
    let mut load: BTreeMap<NodeId, u64> = BTreeMap::new();
    let mut first = BTreeMap::new();
    for local in topology.nodes() {
        let (mut used, mut previous) = (BTreeSet::new(), local.id);
        loop {
            let own = has_memory(local) && !used.contains(&local.id);
            let left = topology.nodes().filter(|node| has_memory(node) && !used.contains(&node.id));
            let value = |node: &&Node| {
                let mut value = topology.distance(local.id, node.id);
                value += u64::from(node.id < local.id);
                value += u64::from(!node.cpus.is_empty());
                value * 1024 + load.get(&node.id).copied().unwrap_or(0)
            };
            let best =
                if own { Some(local.id) } else { left.min_by_key(value).map(|node| node.id) };
            let Some(best) = best else { break };
            used.insert(best);
            if topology.distance(local.id, best) != topology.distance(local.id, previous) {
                *load.entry(best).or_default() += 1;
            }
            previous = best;
            first.entry(local.id).or_insert(best);
        }
    }
    first
}

prop_compose! {
    /// Nodes with sparse indexes, of which any may lack memory or CPUs, any distances in both directions, and tiers or none.
    fn any_machine()(
        nodes in vec((any::<bool>(), any::<bool>(), 1..9_u32), 1..9),
        distances in vec(11..40_u64, 81),
        tiers in vec(prop_oneof![Just(1), Just(4), Just(22)], 9),
        distinguished in any::<bool>(),
    ) -> Topology {
        let mut id = 0;
        let nodes: Vec<_> = nodes.into_iter().map(|(memory, cpus, gap)| {
            id += gap;
            (id, memory, cpus)
        }).collect();
        let mut pairs = Vec::new();
        for (i, from) in nodes.iter().enumerate() {
            let to = nodes.iter().enumerate().filter(|(j, _)| *j != i);
            pairs.extend(to.map(|(j, to)| (from.0, to.0, distances[i * 9 + j])));
        }
        let with_tiers = nodes.iter().zip(tiers).filter(|(node, _)| distinguished && node.1);
        // Nodes with CPUs are in the tier of ordinary memory.
        let tiers = with_tiers.map(|(node, tier)| (NodeId(node.0), if node.2 { 4 } else { tier }));
        machine(&nodes, &pairs).with_tiers(tiers.collect::<Vec<_>>())
    }
}

proptest! {
    #[test]
    fn what_the_kernel_allocates_first_is_local(topology in any_machine()) {
        for (node, first) in first_of_the_kernel(&topology) {
            let cpus = &topology.node(node).unwrap().cpus;
            if cpus.is_empty() {
                continue;
            }
            prop_assert!(topology.local_in_tier(cpus, first).contains(first), "{node:?} {first:?}");
        }
    }

    #[test]
    fn something_is_local_while_any_node_has_memory(topology in any_machine()) {
        prop_assume!(!topology.with_memory().is_empty());
        for node in topology.nodes().filter(|node| !node.cpus.is_empty()) {
            let local = topology.local_nodes(&node.cpus);
            prop_assert!(!local.is_empty() && local.is_subset(&topology.with_memory()));
            for around in [topology.near(&local, 12), topology.nearer(&local, node.id)] {
                prop_assert!(around.and(&local).is_empty());
                prop_assert!(around.and(&topology.other_tiers()).is_empty());
            }
            for from in topology.other_tiers().iter() {
                let local = topology.local_in_tier(&node.cpus, from);
                prop_assert!(!local.is_empty() && local.is_subset(&topology.other_tiers()));
            }
        }
    }
}
