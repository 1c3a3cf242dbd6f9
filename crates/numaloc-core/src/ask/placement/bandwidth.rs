//! Weighted placements whose weights follow from the bandwidth of each node's memory.

use crate::{
    ask::placement::weighted::Weights,
    machine::{
        ids::{NodeId, NodeSet},
        speeds::{SpeedTable, Speeds},
        topology::Topology,
    },
    memory::cycle::Cycle,
};
use std::collections::BTreeMap;

/// The word for weights that follow from bandwidths, in place of a list.
pub const NAME: &str = "bandwidth";

/// The sum that bandwidths are scaled to before they become weights (mm/mempolicy.c, `weightiness`).
const WEIGHTINESS: u64 = 32;

/// A request for weights by bandwidth, and the weights once they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByBandwidth {
    /// The nodes. `None`: those of the CPUs of each process.
    pub nodes: Option<NodeSet>,
    /// The weights of this machine. `None`: they have not been looked up, and no page has a turn.
    pub known: Option<KnownWeights>,
}

/// Weights of a machine's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownWeights {
    /// A weight for each node that may be needed.
    pub weights: Weights,
    /// The source of the weights.
    pub source: WeightSource,
}

/// Where weights by bandwidth are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightSource {
    /// The kernel's own, by which it interleaves new memory (`/sys/kernel/mm/mempolicy/weighted_interleave`, since 6.9).
    Kernel,
    /// The firmware's table ACPI HMAT.
    Hmat,
    /// Measured by `numalocctl bench` on this host.
    Bench,
}

impl WeightSource {
    /// Every source, in the order in which they are asked.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Hmat, Self::Bench];
}

/// Nodes whose bandwidth nothing on this host knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownBandwidth(pub NodeSet);

impl ByBandwidth {
    /// The same with the weights of a machine. A machine with one node has no weights.
    ///
    /// # Errors
    /// [`UnknownBandwidth`].
    pub fn on(self, topology: &Topology) -> Result<Self, UnknownBandwidth> {
        let with_memory = topology.with_memory();
        let wanted = self.nodes.clone().unwrap_or_else(|| {
            let nodes = topology.nodes().filter(|node| !node.cpus.is_empty());
            nodes.map(|node| node.id).collect::<NodeSet>().and(&with_memory)
        });
        if wanted.len() < 2 {
            return Ok(self);
        }
        let known = known(topology.speeds(), &with_memory, &wanted)?;
        Ok(Self { known: Some(known), ..self })
    }

    /// Turns on these nodes; `None` if the weights are not known.
    pub fn cycle(&self, nodes: &NodeSet) -> Option<Cycle> {
        let weights = self.known.as_ref()?.weights.iter();
        let of_them: Vec<_> = weights.filter(|(node, _)| nodes.contains(*node)).collect();
        (!of_them.is_empty()).then(|| Cycle::new(of_them))
    }
}

/// The weights of the first source that has them for all of `wanted`. Kernels before 6.16 do not compute theirs: if all are 1 there,
/// they are unset, and are taken only if no other source has any.
fn known(
    speeds: &Speeds,
    with_memory: &NodeSet,
    wanted: &NodeSet,
) -> Result<KnownWeights, UnknownBandwidth> {
    let kernel = || of_kernel(speeds, wanted);
    let set = kernel().filter(|_| speeds.are_weights_set());
    let hmat = || by_table(&speeds.firmware, with_memory, wanted, WeightSource::Hmat);
    let bench = || by_table(&speeds.measured, with_memory, wanted, WeightSource::Bench);
    set.or_else(hmat).or_else(bench).or_else(kernel).ok_or_else(|| {
        let has = |table: &SpeedTable| bandwidths(table).into_keys().collect::<NodeSet>();
        let [firmware, measured] =
            [&speeds.firmware, &speeds.measured].map(|table| wanted.minus(&has(table)));
        UnknownBandwidth(if firmware.len() < measured.len() { firmware } else { measured })
    })
}

fn of_kernel(speeds: &Speeds, wanted: &NodeSet) -> Option<KnownWeights> {
    let all = speeds.kernel_weights.iter();
    let weights = all.filter(|(node, _)| wanted.contains(**node));
    let weights = weights.map(|(&node, &weight)| (node, i64::from(weight)));
    let weights = Weights::new(weights).ok().filter(|weights| weights.nodes() == *wanted)?;
    Some(KnownWeights { weights, source: WeightSource::Kernel })
}

fn by_table(
    table: &SpeedTable,
    with_memory: &NodeSet,
    wanted: &NodeSet,
    source: WeightSource,
) -> Option<KnownWeights> {
    let bandwidths = bandwidths(table);
    if !wanted.iter().all(|node| bandwidths.contains_key(&node)) {
        return None;
    }
    let of = |node| (node, bandwidths.get(&node).copied().unwrap_or_default());
    let weights = reduced(&with_memory.iter().map(of).collect()).into_iter();
    let weights = weights.filter(|(node, _)| wanted.contains(*node));
    let weights = Weights::new(weights.map(|(node, weight)| (node, i64::from(weight)))).ok()?;
    Some(KnownWeights { weights, source })
}

/// The bandwidth of each node's memory on the CPUs that get most of it.
fn bandwidths(table: &SpeedTable) -> BTreeMap<NodeId, u64> {
    let mut most = BTreeMap::new();
    for (&(_, memory), speed) in table {
        if let Some(bandwidth) = speed.bandwidth().filter(|&bandwidth| bandwidth > 0) {
            let best: &mut u64 = most.entry(memory).or_default();
            *best = bandwidth.max(*best);
        }
    }
    most
}

/// Small weights in about the proportion of the bandwidths, as the kernel makes them (mm/mempolicy.c, `reduce_interleave_weights`,
/// since 6.16): each node gets its share of 32, at least 1, divided by what all have in common.
fn reduced(bandwidths: &BTreeMap<NodeId, u64>) -> BTreeMap<NodeId, u8> {
    let sum: u128 = bandwidths.values().map(|&bandwidth| u128::from(bandwidth)).sum();
    let scaled = |bandwidth: u64| match u128::from(WEIGHTINESS) * u128::from(bandwidth) {
        // A share is at most the whole, which fits.
        scaled if sum > 0 && scaled > sum => u8::try_from(scaled / sum).unwrap_or(u8::MAX),
        _ => 1,
    };
    let weights: BTreeMap<NodeId, u8> =
        bandwidths.iter().map(|(&node, &bandwidth)| (node, scaled(bandwidth))).collect();
    let common = weights.values().copied().reduce(gcd).unwrap_or(1);
    weights.into_iter().map(|(node, weight)| (node, weight / common)).collect()
}

fn gcd(a: u8, b: u8) -> u8 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Node, NodeMemory, Speed};
    use proptest::prelude::*;

    fn table(bandwidths: &[(u32, u32, u64)]) -> SpeedTable {
        let speed = |gib: u64| Speed { read_bandwidth: Some(gib << 30), ..Speed::default() };
        bandwidths
            .iter()
            .map(|&(cpus, memory, gib)| ((NodeId(cpus), NodeId(memory)), speed(gib)))
            .collect()
    }

    /// Nodes 0 and 2 with CPUs, node 8 with memory alone.
    fn topology(speeds: Speeds) -> Topology {
        let memory = NodeMemory { total_bytes: 1 << 30, ..NodeMemory::default() };
        let node = |(id, cpus): (u32, &str)| Node {
            id: NodeId(id),
            cpus: cpus.parse().expect("a list"),
            memory: memory.clone(),
        };
        Topology::new([(0, "0-1"), (2, "2-3"), (8, "")].map(node), []).with_speeds(speeds)
    }

    fn kernel(weights: &[(u32, u8)], computes: bool) -> Speeds {
        let kernel_weights = weights.iter().map(|&(node, weight)| (NodeId(node), weight)).collect();
        Speeds { kernel_weights, kernel_computes_weights: computes, ..Speeds::default() }
    }

    /// `0=3,2=1 Kernel`, or the nodes that lack a bandwidth.
    fn on(nodes: Option<&str>, speeds: Speeds) -> Result<String, String> {
        let nodes = nodes.map(|nodes| nodes.parse().expect("nodes"));
        let on = ByBandwidth { nodes, known: None }.on(&topology(speeds));
        let known = on.map_err(|unknown| unknown.0.to_string())?.known.expect("several nodes");
        Ok(format!("{} {:?}", known.weights, known.source))
    }

    #[test]
    fn the_kernels_own_weights_come_first() {
        let firmware = table(&[(0, 0, 7), (2, 2, 7), (0, 8, 1)]);
        let all = [(0, 3), (2, 3), (8, 1)];
        let both = Speeds { firmware: firmware.clone(), ..kernel(&all, false) };
        assert_eq!(on(Some("0,8"), both).as_deref(), Ok("0=3,8=1 Kernel"));
        let equal = [(0, 1), (2, 1), (8, 1)];
        let set = Speeds { firmware: firmware.clone(), ..kernel(&equal, true) };
        assert_eq!(on(Some("0,8"), set).as_deref(), Ok("0=1,8=1 Kernel"));
        // Kernels before 6.16 have 1 everywhere until they are written.
        let unset = Speeds { firmware, ..kernel(&equal, false) };
        assert_eq!(on(Some("0,2,8"), unset).as_deref(), Ok("0=7,2=7,8=1 Hmat"));
        assert_eq!(on(Some("0,2"), kernel(&equal, false)).as_deref(), Ok("0=1,2=1 Kernel"));
    }

    #[test]
    fn then_the_firmware_and_then_what_was_measured() {
        let firmware = table(&[(0, 0, 6), (2, 2, 6)]);
        let measured = table(&[(0, 0, 8), (2, 0, 4), (0, 2, 4), (2, 2, 8), (0, 8, 2), (2, 8, 1)]);
        let both = || Speeds {
            firmware: firmware.clone(),
            measured: measured.clone(),
            ..Speeds::default()
        };
        assert_eq!(on(None, both()).as_deref(), Ok("0=16,2=16 Hmat"), "node 8 is unknown to it: 1");
        assert_eq!(on(Some("2,8"), both()).as_deref(), Ok("2=14,8=3 Bench"));
        let firmware = Speeds { firmware, ..Speeds::default() };
        assert_eq!(on(Some("2,8"), firmware).as_deref(), Err(&"8".to_owned()));
        assert_eq!(on(Some("2,8"), Speeds::default()).as_deref(), Err(&"2,8".to_owned()));
    }

    #[test]
    fn a_process_has_turns_on_its_own_nodes() {
        let by = ByBandwidth::default()
            .on(&topology(kernel(&[(0, 3), (2, 1), (8, 1)], true)))
            .expect("known");
        let cycle = |nodes: &str| by.cycle(&nodes.parse().expect("nodes"));
        assert_eq!(cycle("0,2"), Some(Cycle::new([(NodeId(0), 3), (NodeId(2), 1)])));
        assert_eq!(cycle("2"), Some(Cycle::new([(NodeId(2), 1)])));
        assert_eq!(cycle("5"), None);
        assert_eq!(ByBandwidth::default().cycle(&"0,2".parse().expect("nodes")), None);
        let one = ByBandwidth { nodes: "2".parse().ok(), known: None };
        assert_eq!(one.clone().on(&topology(Speeds::default())), Ok(one), "nothing to weigh");
    }

    #[test]
    fn bandwidths_are_reduced_as_by_the_kernel() {
        let weights = |bandwidths: &[u64]| {
            let all = (0..).map(NodeId).zip(bandwidths.iter().copied()).collect();
            reduced(&all).into_values().collect::<Vec<u8>>()
        };
        assert_eq!(weights(&[100, 100]), [1, 1]);
        assert_eq!(weights(&[300, 100]), [3, 1]);
        assert_eq!(weights(&[400_000, 400_000, 60_000]), [14, 14, 2].map(|weight| weight / 2));
        assert_eq!(weights(&[1000, 1, 0]), [31, 1, 1]);
        assert_eq!(weights(&[0, 0]), [1, 1]);
        assert_eq!(weights(&[u64::MAX, u64::MAX]), [1, 1]);
    }

    proptest! {
        #[test]
        fn weights_are_small_and_have_nothing_in_common(bandwidths in proptest::collection::vec(0..=u64::MAX, 1..20)) {
            let all: BTreeMap<NodeId, u64> = (0..).map(NodeId).zip(bandwidths).collect();
            let weights = reduced(&all);
            prop_assert!(weights.values().all(|weight| (1..=32).contains(weight)));
            prop_assert_eq!(weights.values().copied().reduce(gcd), Some(1));
            for (a, b) in all.iter().zip(all.iter().skip(1)) {
                prop_assert!(a.1 > b.1 || weights[a.0] <= weights[b.0]);
            }
        }
    }
}
