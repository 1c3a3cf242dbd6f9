//! Parts that several documents share.

use numaloc_core::{NodeId, NodeSet};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeBytes {
    pub node: u32,
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
