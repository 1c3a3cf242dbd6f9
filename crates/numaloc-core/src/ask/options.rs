//! Options of the planner that a request sets.

use crate::{
    ask::{
        compact::Compact,
        home_rule::{HomeRule, NEAR},
        map_rule::MapRule,
        pace::{Order, Pacing},
        placement::{Placement, bandwidth::UnknownBandwidth},
        relief::{Relief, ReliefBound},
    },
    machine::{
        ids::{NodeId, NodeSet},
        room::MakeRoom,
        supply::{HugetlbSource, Reserve, Supply},
        topology::Topology,
        traffic::NodeTraffic,
    },
    result::account::Reason,
};
use std::{borrow::Cow, collections::BTreeMap};

/// Options of a plan. By default all pages that only the target maps move to the nodes of its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Also move pages that processes outside the target map (needs CAP_SYS_NICE).
    pub include_shared: bool,
    /// Leave pages of files where they are.
    pub exclude_file: bool,
    /// Also move pages of files on network file systems and FUSE ([`Kind::NetworkFile`](crate::Kind::NetworkFile)), whose servers can
    /// keep a call from returning.
    pub include_network: bool,
    /// Move pages even where the application's own memory policy says otherwise.
    pub include_bound: bool,
    /// Stop when this share of the movable memory is local, in percent, 0 to 100.
    pub target_ratio: u8,
    /// Bring pages to these nodes instead of the nodes of the process's CPUs.
    pub to: Option<NodeSet>,
    /// On which of the nodes each page belongs. Placements on several nodes name their nodes themselves: then `to` is not set.
    pub placement: Placement,
    /// Placements of single mappings, of which the first that matches counts. If there are any, all other memory stays where it is:
    /// then `to` is not set, and `placement` is [`Placement::Home`].
    pub maps: Vec<MapRule>,
    /// The threads whose CPUs decide the home of a process, if `to` names no nodes.
    pub home: HomeRule,
    /// The distance from a home node up to which other nodes are near to it: memory there is remote, and counted apart. The home rule
    /// [`HomeRule::Near`] has them as home. Within [`NEAR_BOUNDS`](crate::ask::home_rule::NEAR_BOUNDS).
    pub near_distance: u64,
    /// Move pages from these nodes only. `None`: from all nodes except [`Topology::other_tiers`].
    pub from: Option<NodeSet>,
    /// Also move hugetlb pages so large that one alone takes longer than the pace's longest call.
    pub include_gigantic: bool,
    /// Where free pages on the target nodes for hugetlb memory come from.
    pub hugetlb: HugetlbSource,
    /// The pace: profile and bounds.
    pub pacing: Pacing,
    /// The order in which memory is moved.
    pub order: Order,
    /// Permitted ways to make room on a target that is full.
    pub make_room: MakeRoom,
    /// When a target's memory is compacted for huge pages.
    pub compact: Compact,
    /// Bytes that stay free on a target above its high watermark; `None`: 1% of the node, at least 64 MiB.
    pub reserve_bytes: Option<u64>,
    /// Share of each hugetlb pool of a target that stays free and unreserved, in percent, 0 to 100. Without effect with
    /// [`HugetlbSource::Fresh`]: the kernel takes the pages of a pool before fresh ones.
    pub pool_reserve_percent: u8,
    /// Most bytes a second that CPUs may read from and write to the memory of a target node when the plan is made; pages stay whose target
    /// nodes are used more. `None`: no bound. It binds nothing where nothing says how much a node is used
    /// ([`HostTraffic::by_node`](crate::HostTraffic::by_node)).
    pub node_bandwidth_max_bytes_per_second: Option<u64>,
    /// The nodes that are used more than that, which were measured just before the plan. No part of a request.
    pub saturated: NodeSet,
    /// Only as much moves as relieves a node. Then `from` is not set, and `placement` and `maps` are not, either; see
    /// [`Self::relieving`].
    pub relief: Option<Relief>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            include_shared: false,
            exclude_file: false,
            include_network: false,
            include_bound: false,
            target_ratio: 100,
            to: None,
            placement: Placement::default(),
            maps: Vec::new(),
            home: HomeRule::default(),
            near_distance: NEAR,
            from: None,
            include_gigantic: false,
            hugetlb: HugetlbSource::default(),
            pacing: Pacing::default(),
            order: Order::default(),
            make_room: MakeRoom::default(),
            compact: Compact::default(),
            reserve_bytes: None,
            pool_reserve_percent: 0,
            node_bandwidth_max_bytes_per_second: None,
            saturated: NodeSet::new(),
            relief: None,
        }
    }
}

impl Options {
    /// The placements that are asked for: those of the rules, or else that of all memory.
    pub fn placements(&self) -> impl Iterator<Item = &Placement> {
        let of_all = self.maps.is_empty().then_some(&self.placement);
        of_all.into_iter().chain(self.maps.iter().map(|rule| &rule.placement))
    }

    /// The options on this machine: what placements depend on of it is looked up.
    ///
    /// # Errors
    /// [`UnknownBandwidth`].
    pub fn on(&self, topology: &Topology) -> Result<Self, UnknownBandwidth> {
        let mut options = self.relieving(topology).into_owned();
        options.placement = options.placement.on(topology)?;
        for rule in &mut options.maps {
            rule.placement = rule.placement.clone().on(topology)?;
        }
        Ok(options)
    }

    /// Whether some pages belong on one node of several.
    pub fn is_wide(&self) -> bool {
        self.placements().any(Placement::is_wide)
    }

    /// The nodes that the request names for memory to go to; `None` if it names none.
    pub fn named_nodes(&self) -> Option<NodeSet> {
        let placed = self.placements().filter_map(Placement::nodes);
        placed.chain(self.to.clone()).reduce(|all, nodes| all.or(&nodes))
    }

    /// The nodes that pages may leave. By default pages stay on memory-only nodes of another tier. The kernel demotes
    /// little-used pages to such nodes (mm/vmscan.c, `demote_folio_list`) and would do it again, and a GPU's memory is
    /// for the GPU. A placement that names such a node puts pages there on purpose, and so may take them from there.
    pub fn sources(&self, topology: &Topology) -> NodeSet {
        match &self.from {
            Some(nodes) => nodes.clone(),
            None => {
                let placed = self.placements().filter_map(Placement::nodes);
                let named = placed.fold(NodeSet::new(), |all, nodes| all.or(&nodes));
                topology.ids().minus(&topology.other_tiers().minus(&named))
            }
        }
    }

    /// Why pages stay on nodes that are not sources.
    pub fn reason_elsewhere(&self) -> Reason {
        if self.from.is_some() { Reason::NodeExcluded } else { Reason::OtherTier }
    }

    /// Where new pages on a target node may be taken from. `hugetlb_bytes` is the page size of hugetlb memory, or
    /// `None`.
    pub fn supply(&self, hugetlb_bytes: Option<u64>) -> Supply {
        hugetlb_bytes.map_or(Supply::base(), |bytes| Supply::hugetlb(bytes, self.hugetlb))
    }

    /// The ways to make room on the targets, in order: each is tried on all targets before the next one.
    pub fn ways(&self, hugetlb_bytes: Option<u64>) -> &'static [MakeRoom] {
        match (self.make_room, hugetlb_bytes) {
            (MakeRoom::Cache, None) => &[MakeRoom::None, MakeRoom::Cache],
            (MakeRoom::MoveCache, None) => &[MakeRoom::None, MakeRoom::MoveCache],
            (MakeRoom::Exchange, None) => &[MakeRoom::None, MakeRoom::Cache, MakeRoom::Exchange],
            _ => &[MakeRoom::None],
        }
    }

    /// The memory that must stay free on a node with `total_bytes`.
    pub fn reserve(&self, total_bytes: u64) -> Reserve {
        let free_bytes = self.reserve_bytes.unwrap_or_else(|| (total_bytes / 100).max(64 << 20));
        let pool_percent = match self.hugetlb {
            HugetlbSource::Pool => self.pool_reserve_percent,
            HugetlbSource::Fresh => 0,
        };
        Reserve { free_bytes, pool_percent }
    }

    /// The options as they hold for the plan: those of a relief name the nodes that it means, and nothing is dropped for it.
    pub fn relieving(&self, topology: &Topology) -> Cow<'_, Self> {
        let Some(relief) = &self.relief else { return Cow::Borrowed(self) };
        let own: NodeSet = [relief.node].into_iter().collect();
        let others = topology.with_memory().minus(&own).minus(&relief.spared);
        let options = Self {
            placement: Placement::Home,
            make_room: MakeRoom::None,
            target_ratio: 100,
            ..self.clone()
        };
        Cow::Owned(match relief.returning_bytes {
            None => Self { from: Some(own), to: self.to.clone().or(Some(others)), ..options },
            Some(_) => {
                let memory = topology.node(relief.node).map(|node| &node.memory);
                let high = memory.map_or(0, |memory| memory.high_watermark_bytes);
                let kept = match relief.bound {
                    ReliefBound::Free { until_bytes, .. } => until_bytes.saturating_sub(high),
                    ReliefBound::Traffic { .. } => 0,
                };
                Self {
                    from: self.from.clone().or(Some(others)),
                    to: Some(own),
                    reserve_bytes: Some(self.reserve_bytes.unwrap_or(0).max(kept)),
                    ..options
                }
            }
        })
    }

    /// Whether it has to be measured how much nodes are used.
    pub fn measures_traffic(&self) -> bool {
        self.most_traffic().is_some()
    }

    /// The options with the nodes that are used too much, of those whose use is known. A lower bound that is too much is enough.
    #[must_use]
    pub fn measured(&self, use_of_nodes: &BTreeMap<NodeId, NodeTraffic>) -> Self {
        let most = self.most_traffic().unwrap_or(u64::MAX);
        let over = use_of_nodes.iter().filter(|(_, traffic)| traffic.bytes_per_second > most);
        let saturated = over.map(|(node, _)| *node).collect();
        let with_traffic = |relief: Relief| {
            let traffic = use_of_nodes.get(&relief.node).copied();
            Relief { traffic, ..relief }
        };
        Self { saturated, relief: self.relief.clone().map(with_traffic), ..self.clone() }
    }

    /// The most that a target node may be used: what leaves a node because of its traffic is not to saturate another.
    fn most_traffic(&self) -> Option<u64> {
        let of_relief = self.relief.as_ref().and_then(|relief| match relief.bound {
            ReliefBound::Traffic { above_bytes_per_second, .. } => Some(above_bytes_per_second),
            ReliefBound::Free { .. } => None,
        });
        [self.node_bandwidth_max_bytes_per_second, of_relief].into_iter().flatten().min()
    }

    /// The share of the movable memory that is to be local in the end, in percent. A relief brings nothing home.
    pub fn judged_ratio(&self) -> u8 {
        if self.relief.is_some() { 0 } else { self.target_ratio }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_are_used_more_than_is_allowed_are_saturated() {
        let traffic = |(node, bytes_per_second, is_whole)| {
            (NodeId(node), NodeTraffic { bytes_per_second, is_whole })
        };
        let known = [(0, 80, true), (1, 81, true), (2, 90, false)].map(traffic).into();
        let bound = |node_bandwidth_max_bytes_per_second| {
            let options = Options { node_bandwidth_max_bytes_per_second, ..Options::default() };
            assert_eq!(options.measures_traffic(), node_bandwidth_max_bytes_per_second.is_some());
            options.measured(&known).saturated.to_string()
        };
        assert_eq!(
            (bound(Some(80)), bound(Some(90)), bound(None)),
            ("1-2".into(), "".into(), "".into())
        );
    }
}
