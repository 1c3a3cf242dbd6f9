//! Parts that several documents share.

use numaloc_core::{Locality, NodeId, NodeSet, Plan, Reason, Routes, Share, Topology};
use numaloc_host::Source;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt};

/// Bytes on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeBytes {
    /// The node.
    pub node: u32,
    /// Bytes.
    pub bytes: u64,
}

/// Bytes by node as a list.
pub fn node_bytes(nodes: &BTreeMap<NodeId, u64>) -> Vec<NodeBytes> {
    nodes.iter().map(|(node, &bytes)| NodeBytes { node: node.0, bytes }).collect()
}

/// The numbers of nodes, in ascending order.
pub fn ids(nodes: &NodeSet) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

/// Bytes from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowDoc {
    /// Where they were.
    pub from_node: u32,
    /// Where they go or went.
    pub to_node: u32,
    /// How many.
    pub bytes: u64,
}

/// Flows as a list.
pub fn flows(flows: &BTreeMap<(NodeId, NodeId), u64>) -> Vec<FlowDoc> {
    flows
        .iter()
        .map(|((from, to), &bytes)| FlowDoc { from_node: from.0, to_node: to.0, bytes })
        .collect()
}

/// Bytes that stay, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftDoc {
    /// Why.
    pub reason: Why,
    /// How many.
    pub bytes: u64,
}

/// Bytes by reason as a list.
pub fn left(by_reason: &BTreeMap<Reason, u64>) -> Vec<LeftDoc> {
    by_reason.iter().map(|(&reason, &bytes)| LeftDoc { reason: reason.into(), bytes }).collect()
}

/// Why bytes stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A reason that this program knows.
    Known(Reason),
    /// The number of a reason that only a newer daemon knows.
    Unknown(i32),
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Self {
        Self::Known(reason)
    }
}

impl Serialize for Why {
    /// Its stable name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(reason) => serializer.serialize_str(reason.name()),
            Self::Unknown(number) => serializer.collect_str(&format_args!("reason_{number}")),
        }
    }
}

impl fmt::Display for Why {
    /// The reason as text for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(reason @ Reason::StallBound) => {
                write!(f, "{reason}; --include-gigantic moves it")
            }
            Self::Known(reason) => reason.fmt(f),
            Self::Unknown(number) => {
                write!(f, "reason {number}, which this numalocctl is too old to know")
            }
        }
    }
}

/// Local and remote bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareDoc {
    /// Bytes on local nodes.
    pub local_bytes: u64,
    /// Bytes on other nodes.
    pub remote_bytes: u64,
    /// Share of local bytes in percent; 100 if there are no bytes.
    pub local_percent: f64,
}

impl From<Share> for ShareDoc {
    fn from(share: Share) -> Self {
        let Share { local_bytes, remote_bytes } = share;
        // Rounded down to two decimals, so that 100 means all.
        let local_percent = (share.percent() * 100.0).floor() / 100.0;
        Self { local_bytes, remote_bytes, local_percent }
    }
}

/// Locality of movable memory and of all memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalityPair {
    /// Of the memory that a migration may move.
    pub movable: ShareDoc,
    /// Of all resident pages.
    pub overall: ShareDoc,
}

impl From<Locality> for LocalityPair {
    fn from(locality: Locality) -> Self {
        Self { movable: locality.movable.into(), overall: locality.overall.into() }
    }
}

/// Another node and its distance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeDistance {
    /// The node.
    pub node: u32,
    /// Its SLIT distance.
    pub distance: u64,
}

/// Where the pages of one node may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteDoc {
    /// The node that they are on.
    pub from_node: u32,
    /// The nodes that they may go to, best first.
    pub to_nodes: Vec<NodeDistance>,
}

/// The routes that a plan uses: only those of nodes that pages leave.
pub fn routes_in_use(plan: &Plan, topology: &Topology) -> Vec<RouteDoc> {
    let mut used = Vec::new();
    for (index, routes) in plan.routes.iter().enumerate() {
        let moves = || plan.moves.iter().filter(|planned_move| planned_move.routes == index);
        for route in routes.iter() {
            let doc = route_doc(routes, route.from, topology);
            if moves().any(|planned_move| planned_move.remote.contains_key(&route.from))
                && !used.contains(&doc)
            {
                used.push(doc);
            }
        }
    }
    used
}

/// The route of one node's pages.
pub fn route_doc(routes: &Routes, from: NodeId, topology: &Topology) -> RouteDoc {
    let to = routes.from(from).iter();
    let to_nodes =
        to.map(|&to| NodeDistance { node: to.0, distance: topology.distance(from, to) }).collect();
    RouteDoc { from_node: from.0, to_nodes }
}

/// The stable name of a source of page locations.
pub fn source_name(source: Source) -> &'static str {
    match source {
        Source::Pagemap => "pagemap",
        Source::Query => "move_pages",
    }
}

/// Why this source is used, as text for people.
pub fn source_reason(source: Source) -> &'static str {
    match source {
        Source::Pagemap => "pagemap, as page frame numbers can be read",
        Source::Query => {
            "move_pages query, as page frame numbers are hidden without CAP_SYS_ADMIN; what is mapped by several processes counts as shared with strangers"
        }
    }
}
