//! Which node a page goes to when there are several it may go to.

use crate::machine::{
    ids::{NodeId, NodeSet},
    topology::Topology,
};
use std::{cmp::Reverse, collections::BTreeMap};

/// Candidate targets for the pages of one source node, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The node that the pages are on now.
    pub from: NodeId,
    /// Where they may go: nearest first, then most free memory, then lowest index.
    pub to: Vec<NodeId>,
}

/// The routes into one set of target nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Where pages are local and stay.
    pub home: NodeSet,
    /// The nodes that pages may be moved to: home nodes, and for pages on other tiers the nodes of `in_tiers`.
    pub targets: NodeSet,
    /// Where pages may go that are on nodes of other tiers; they stay in their tier.
    pub in_tiers: BTreeMap<NodeId, NodeSet>,
    routes: BTreeMap<NodeId, Vec<NodeId>>,
}

impl Routes {
    /// Orders `targets` for each of the `sources` outside of `home`, and those of `in_tiers` for theirs.
    pub fn new(
        topology: &Topology,
        sources: &NodeSet,
        (home, targets): (NodeSet, NodeSet),
        in_tiers: BTreeMap<NodeId, NodeSet>,
    ) -> Self {
        let free = |id| topology.node(id).map_or(0, |node| node.memory.free_bytes);
        let order = |from, targets: &NodeSet| {
            let mut to: Vec<NodeId> = targets.iter().collect();
            to.sort_by_key(|&id| (topology.distance(from, id), Reverse(free(id)), id));
            to
        };
        let sources = topology.ids().and(sources).minus(&home);
        let routes = sources.iter().map(|from| (from, order(from, &targets)));
        let routes = routes.chain(in_tiers.iter().map(|(&from, to)| (from, order(from, to))));
        let routes = routes.collect();
        let targets = in_tiers.values().fold(targets, |all, some| all.or(some));
        Self { home, targets, in_tiers, routes }
    }
    /// Targets for pages on `from`, best first; empty if `from` is a home node or not a source.
    pub fn from(&self, from: NodeId) -> &[NodeId] {
        self.routes.get(&from).map_or(&[], Vec::as_slice)
    }
    /// All routes in order of their source.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        self.routes.iter().map(|(&from, to)| Route { from, to: to.clone() })
    }
}
