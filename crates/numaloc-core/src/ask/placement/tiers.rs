//! Memory on two tiers by its use: what is used is on the fast nodes, what has not been used for a while on the slow ones.
//!
//! Which memory is used is measured just before the plan ([`Temperatures`](crate::Temperatures)). Here is what a request says about it.

mod text;

use crate::{
    amount,
    ask::temperatures::Temperatures,
    machine::{
        ids::{NodeId, NodeSet},
        topology::Topology,
    },
    number,
};
use std::{sync::Arc, time::Duration};

/// The name of this placement.
pub const NAME: &str = "tiers";

/// Time without use after which memory is cold, if the request does not say.
pub const COLD_AFTER: Duration = Duration::from_secs(120);
/// Shortest and longest `cold_after`. The shortest has room for a hundred looks, further apart than DAMON's own default.
pub const COLD_AFTER_BOUNDS: (Duration, Duration) =
    (Duration::from_secs(2), Duration::from_secs(3600));

/// A request for memory on two tiers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// The nodes for memory that is used. `None`: the nodes of the CPUs of each process.
    pub fast: Option<NodeSet>,
    /// The nodes for memory that is not used. `None`: not looked up yet ([`Self::on`]), or the machine has no slower tier.
    pub slow: Option<NodeSet>,
    /// Time without use after which memory is cold.
    pub cold_after: Duration,
    /// What stays on the fast nodes in any case.
    pub keep_fast: KeepFast,
    /// Bytes that are to be free on the fast nodes together: no more goes down than that takes. `None`: all that is cold goes down.
    pub free_fast_bytes: Option<u64>,
    /// What happens if the kernel moves memory between tiers itself.
    pub beside_kernel: BesideKernel,
    /// How use is measured.
    pub watch: Watch,
    /// The use as it was measured. `None`: it has not been, and no memory is used or unused.
    pub seen: Option<Arc<Temperatures>>,
}

/// What of a target's memory stays on the fast nodes, however little it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeepFast {
    /// So many bytes.
    Bytes(u64),
    /// This share of what the target has on fast and slow nodes, in percent from 0 to 100.
    Percent(u8),
}

impl Default for KeepFast {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl KeepFast {
    /// The bytes of a target that has `bytes` on both tiers.
    pub fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Bytes(kept) => kept,
            Self::Percent(percent) => number::amount(u128::from(bytes) * u128::from(percent) / 100),
        }
    }
}

/// What happens if the kernel demotes (/sys/kernel/mm/numa/demotion_enabled) or promotes (kernel.numa_balancing, bit 1) memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BesideKernel {
    /// Nothing is moved: both would move the same pages, by different measures.
    #[default]
    Refuse,
    /// Memory moves, and the answer has a warning.
    Warn,
    /// Memory moves.
    Ignore,
}

impl BesideKernel {
    /// Every value, the default first.
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Warn, Self::Ignore];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Warn => "warn",
            Self::Ignore => "ignore",
        }
    }
}

/// How the use of memory is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watch {
    /// By DAMON, by ranges of addresses.
    #[default]
    Damon,
    /// By the Referenced bits of whole mappings, which are cleared for it.
    Referenced,
}

impl Watch {
    /// Every value, the default first.
    pub const ALL: [Self; 2] = [Self::Damon, Self::Referenced];

    /// Stable name for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damon => "damon",
            Self::Referenced => "referenced",
        }
    }
}

/// Why memory cannot be on two tiers of this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTiers {
    /// No node is of a lower tier than the fast nodes.
    #[error(
        "no node has slower memory than the nodes with CPUs: name the slow nodes (slow=2), or their tiers in [tiers] of the configuration"
    )]
    NoLowerTier,
    /// A node is to be fast and slow.
    #[error("node {0} is among the fast and the slow nodes: name each node once")]
    Both(NodeId),
    /// A slow node has CPUs.
    #[error(
        "node {0} has CPUs, and its memory is home to what runs there: slow nodes are nodes without CPUs"
    )]
    SlowHasCpus(NodeId),
    /// A slow node is not of a lower tier than each fast node.
    #[error(
        "node {slow} is not of a lower tier than node {fast}: `numalocctl topology` has the tiers, and [tiers] of the configuration sets them"
    )]
    NotLower {
        /// The slow node.
        slow: NodeId,
        /// The fast one.
        fast: NodeId,
    },
    /// More is to stay on the fast nodes than they have.
    #[error("{} are to stay on the fast nodes, and these have {}: keep less", amount::shown_size(*.kept_bytes), amount::shown_size(*.total_bytes))]
    KeepsMoreThanAll {
        /// What is to stay.
        kept_bytes: u64,
        /// Memory of the fast nodes.
        total_bytes: u64,
    },
    /// More is to be free on the fast nodes than they have.
    #[error("{} are to be free on the fast nodes, and these have {}: ask for less", amount::shown_size(*.free_bytes), amount::shown_size(*.total_bytes))]
    FreesMoreThanAll {
        /// What is to be free.
        free_bytes: u64,
        /// Memory of the fast nodes.
        total_bytes: u64,
    },
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            fast: None,
            slow: None,
            cold_after: COLD_AFTER,
            keep_fast: KeepFast::default(),
            free_fast_bytes: None,
            beside_kernel: BesideKernel::default(),
            watch: Watch::default(),
            seen: None,
        }
    }
}

impl Tiers {
    /// The nodes that the request names.
    pub fn nodes(&self) -> Option<NodeSet> {
        match (&self.fast, &self.slow) {
            (Some(fast), Some(slow)) => Some(fast.or(slow)),
            (Some(nodes), None) | (None, Some(nodes)) => Some(nodes.clone()),
            (None, None) => None,
        }
    }

    /// How long memory is watched at most: the result is requested once memory is cold, and takes up to a tenth more.
    pub fn watching(&self) -> Duration {
        self.cold_after + self.cold_after / 10
    }

    /// The nodes for memory that is used, of a process that is at home on `home`.
    pub fn fast_of(&self, home: NodeSet) -> NodeSet {
        let fast = self.fast.clone().unwrap_or(home);
        match &self.slow {
            Some(slow) => fast.minus(slow),
            None => fast,
        }
    }

    /// The same on a machine, with the slow nodes looked up: by default the nodes of the next lower tier without CPUs.
    pub fn on(self, topology: &Topology) -> Self {
        let slow = self.slow.clone().or_else(|| {
            let (fast, tiers) = (self.fast_nodes(topology), topology.tiers());
            let of_fast = fast.iter().filter_map(|id| Some(tiers.get(&id)?.number)).max()?;
            let lower = slow_nodes(topology).filter_map(|id| {
                let tier = tiers.get(&id)?.number;
                (tier > of_fast && !fast.contains(id)).then_some((tier, id))
            });
            let lower: Vec<(u32, NodeId)> = lower.collect();
            let next = lower.iter().map(|&(tier, _)| tier).min()?;
            Some(lower.iter().filter(|&&(tier, _)| tier == next).map(|&(_, id)| id).collect())
        });
        Self { slow, ..self }
    }

    /// The fast nodes as far as they are known without a process: the named ones, or all nodes with CPUs.
    fn fast_nodes(&self, topology: &Topology) -> NodeSet {
        let with_cpus = || {
            let nodes = topology.nodes().filter(|node| !node.cpus.is_empty());
            nodes.map(|node| node.id).collect::<NodeSet>().and(&topology.with_memory())
        };
        self.fast.clone().unwrap_or_else(with_cpus)
    }

    /// Checks the request on a machine where its nodes exist.
    ///
    /// # Errors
    /// [`BadTiers`].
    pub fn check(&self, topology: &Topology) -> Result<(), BadTiers> {
        let Self { slow: Some(slow), .. } = self.clone().on(topology) else {
            return Err(BadTiers::NoLowerTier);
        };
        let fast = self.fast_nodes(topology);
        if let Some(both) = self.fast.as_ref().and_then(|named| named.and(&slow).iter().next()) {
            return Err(BadTiers::Both(both));
        }
        let has_cpus = |id: &NodeId| topology.node(*id).is_some_and(|node| !node.cpus.is_empty());
        if let Some(node) = slow.iter().find(has_cpus) {
            return Err(BadTiers::SlowHasCpus(node));
        }
        let tiers = topology.tiers();
        let tier = |id| tiers.get(&id).map(|tier| tier.number);
        for slow in slow.iter() {
            let above = |&fast: &NodeId| tier(slow) <= tier(fast) && tier(slow).is_some();
            if let Some(fast) = fast.iter().find(above) {
                return Err(BadTiers::NotLower { slow, fast });
            }
        }
        let total_bytes: u64 = fast
            .iter()
            .filter_map(|id| topology.node(id))
            .map(|node| node.memory.total_bytes)
            .sum();
        match (self.keep_fast, self.free_fast_bytes) {
            (KeepFast::Bytes(kept_bytes), _) if kept_bytes > total_bytes => {
                Err(BadTiers::KeepsMoreThanAll { kept_bytes, total_bytes })
            }
            (_, Some(free_bytes)) if free_bytes > total_bytes => {
                Err(BadTiers::FreesMoreThanAll { free_bytes, total_bytes })
            }
            _ => Ok(()),
        }
    }
}

/// Nodes without CPUs whose memory applications may use.
fn slow_nodes(topology: &Topology) -> impl Iterator<Item = NodeId> {
    use crate::machine::tier::NodeKind::{Gpu, Private};
    let may_use = |id: &NodeId| !matches!(topology.node_kind(*id), Some(Gpu | Private));
    let without_cpus = topology.nodes().filter(|node| node.cpus.is_empty());
    let with_memory = without_cpus.filter(|node| node.memory.total_bytes > 0);
    with_memory.map(|node| node.id).filter(move |id| may_use(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::topology::{Node, NodeMemory};

    /// Two nodes with CPUs and 4 GiB each, and a third one without.
    fn topology(slow_tier: u32) -> Topology {
        let memory = || NodeMemory { total_bytes: 4 << 30, ..NodeMemory::default() };
        let node =
            |id, cpus: &str| Node { id: NodeId(id), cpus: cpus.parse().unwrap(), memory: memory() };
        let nodes = [node(0, "0-1"), node(1, "2-3"), node(2, "")];
        let tiers = [(NodeId(0), 4), (NodeId(1), 4), (NodeId(2), slow_tier)];
        Topology::new(nodes, []).with_tiers(tiers)
    }

    #[test]
    fn the_next_lower_tier_is_found_or_missed() {
        let found = Tiers::default().on(&topology(22));
        assert_eq!(found.slow.as_ref().map(ToString::to_string).as_deref(), Some("2"));
        assert_eq!(found.check(&topology(22)), Ok(()));
        assert_eq!(Tiers::default().check(&topology(1)), Err(BadTiers::NoLowerTier));
    }

    #[test]
    fn nodes_and_amounts_that_do_not_fit_are_refused() {
        let check = |text: &str| {
            text.parse::<Tiers>().unwrap().check(&topology(22)).map_err(|bad| bad.to_string())
        };
        assert_eq!(check("fast=0,slow=2"), Ok(()));
        for (text, words) in [
            ("fast=0,slow=0,2", "node 0 is among the fast and the slow nodes"),
            ("fast=0,slow=1", "node 1 has CPUs"),
            ("fast=2", "no node has slower memory"),
            ("keep_fast=9G", "9.0 GiB are to stay on the fast nodes, and these have 8.0 GiB"),
            (
                "fast=0,free_fast=5G",
                "5.0 GiB are to be free on the fast nodes, and these have 4.0 GiB",
            ),
        ] {
            let why = check(text).expect_err(text);
            assert!(why.contains(words), "{why}");
        }
        let fast_memory = topology(1);
        let why = "slow=2".parse::<Tiers>().unwrap().check(&fast_memory).expect_err("faster");
        assert!(matches!(why, BadTiers::NotLower { slow: NodeId(2), fast: NodeId(0) }), "{why}");
    }
}
