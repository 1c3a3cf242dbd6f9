//! The node that a page goes to when several are permitted.

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
    /// Where those may go that find no room there, best first.
    pub nearer: Vec<NodeId>,
}

/// The routes into one set of target nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Where pages are local and stay.
    pub home: NodeSet,
    /// All nodes that pages may be moved to: home nodes, for pages on other tiers the nodes of `in_tiers`, and those of `nearer`.
    pub targets: NodeSet,
    /// Where pages may go that are on nodes of other tiers; they stay in their tier.
    pub in_tiers: BTreeMap<NodeId, NodeSet>,
    /// Where pages may go that find no room at home: nodes that are nearer to it than theirs.
    pub nearer: BTreeMap<NodeId, NodeSet>,
    routes: BTreeMap<NodeId, (Vec<NodeId>, Vec<NodeId>)>,
}

/// Where the pages of an extent are local, and where they may go.
#[derive(Clone, Debug, Default)]
pub struct RouteEnds {
    /// As [`Routes::home`].
    pub home: NodeSet,
    /// The home nodes that pages may be moved to.
    pub targets: NodeSet,
    /// As [`Routes::in_tiers`].
    pub in_tiers: BTreeMap<NodeId, NodeSet>,
    /// As [`Routes::nearer`].
    pub nearer: BTreeMap<NodeId, NodeSet>,
}

impl RouteEnds {
    /// All nodes that pages may be moved to.
    pub fn all_targets(&self) -> NodeSet {
        let others = self.in_tiers.values().chain(self.nearer.values());
        others.fold(self.targets.clone(), |all, some| all.or(some))
    }
}

impl Routes {
    /// Orders the targets for each of the `sources` outside of home, and those of `in_tiers` and of `nearer` for theirs.
    pub fn new(topology: &Topology, sources: &NodeSet, ends: RouteEnds) -> Self {
        let all = ends.all_targets();
        let RouteEnds { home, targets, in_tiers, nearer } = ends;
        let free = |id| topology.node(id).map_or(0, |node| node.memory.free_bytes);
        let order = |targets: &NodeSet, distance: &dyn Fn(NodeId) -> u64| {
            let mut to: Vec<NodeId> = targets.iter().collect();
            to.sort_by_key(|&id| (distance(id), Reverse(free(id)), id));
            to
        };
        let from_home = |id| home.iter().map(|home| topology.distance(home, id)).min().unwrap_or(0);
        let route = |(from, to): (NodeId, &NodeSet)| {
            let beyond = nearer.get(&from).map(|nodes| order(nodes, &from_home));
            (from, (order(to, &|id| topology.distance(from, id)), beyond.unwrap_or_default()))
        };
        let sources = topology.ids().and(sources).minus(&home);
        let to_home = sources.iter().map(|from| (from, &targets));
        let in_tier = in_tiers.iter().map(|(&from, to)| (from, to));
        let routes = to_home.chain(in_tier).map(route).collect();
        Self { home, targets: all, in_tiers, nearer, routes }
    }
    /// Targets for pages on `from`, best first; empty if `from` is a home node or not a source.
    pub fn from(&self, from: NodeId) -> &[NodeId] {
        self.routes.get(&from).map_or(&[], |(to, _)| to)
    }
    /// Targets for pages on `from` that find no room on those of [`Self::from`], best first.
    pub fn nearer(&self, from: NodeId) -> &[NodeId] {
        self.routes.get(&from).map_or(&[], |(_, nearer)| nearer)
    }
    /// All routes in order of their source.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        let routes = self.routes.iter();
        routes.map(|(&from, (to, nearer))| Route { from, to: to.clone(), nearer: nearer.clone() })
    }
}
