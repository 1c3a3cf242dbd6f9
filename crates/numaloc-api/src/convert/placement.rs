//! The placement of a policy from the API and to it: a new one has its line in each of the two functions here.

use super::{check::count, names::index};
use crate::{Problem, Violations, v1, v1::policy::Placement as Message};
use numaloc_core::{ByBandwidth, NodeId, NodeSet, Options, Placement, Weights, ids::INDEX_MAX};

/// Most nodes that a request may name: the largest number that the kernel supports.
const NODES_MAX: usize = 1024;
/// Largest weight of a node: that of the kernel.
const WEIGHT_MAX: i32 = 255;

/// Reads the placement of the policy at `field`: the nodes that all memory is to go to, if it names some, and the placement.
pub fn read(
    field: &str,
    from: Option<Message>,
    bad: &mut Violations,
) -> (Option<NodeSet>, Placement) {
    let at = |name: &str| format!("{field}.{name}");
    match from {
        None | Some(Message::Local(_)) => (None, Placement::Home),
        Some(Message::Nodes(nodes)) => {
            (Some(node_set(&at("nodes.node_ids"), &nodes.node_ids, bad)), Placement::Home)
        }
        Some(Message::Interleave(from)) => {
            let nodes = several(&at("interleave.node_ids"), &from.node_ids, bad);
            (None, Placement::Interleave(nodes))
        }
        Some(Message::Weighted(from)) => {
            let weights = weights(&at("weighted.weights"), &from.weights, bad);
            (None, weights.map_or(Placement::Home, Placement::Weighted))
        }
        Some(Message::Bandwidth(from)) => {
            let nodes = several(&at("bandwidth.node_ids"), &from.node_ids, bad);
            (None, Placement::Bandwidth(ByBandwidth { nodes, known: None }))
        }
    }
}

/// The message of the options' placement.
pub fn written(options: &Options) -> Message {
    let list = |nodes: &NodeSet| node_ids(nodes).collect();
    match (&options.placement, &options.to) {
        (Placement::Home, None) => Message::Local(v1::LocalPlacement {}),
        (Placement::Home, Some(nodes)) => {
            Message::Nodes(v1::NodesPlacement { node_ids: list(nodes) })
        }
        (Placement::Interleave(nodes), _) => {
            let node_ids = nodes.as_ref().map(list).unwrap_or_default();
            Message::Interleave(v1::InterleavePlacement { node_ids })
        }
        (Placement::Weighted(weights), _) => {
            Message::Weighted(v1::WeightedPlacement { weights: node_weights(weights) })
        }
        (Placement::Bandwidth(by), _) => {
            let node_ids = by.nodes.as_ref().map(list).unwrap_or_default();
            Message::Bandwidth(v1::BandwidthPlacement { node_ids })
        }
    }
}

/// Why a placement on several nodes that names one is invalid.
const SEVERAL: Problem = Problem::Malformed { expected: "two nodes or more" };

/// Nodes with their weights.
pub fn node_weights(weights: &Weights) -> Vec<v1::NodeWeight> {
    let one = |(node, weight): (NodeId, u8)| v1::NodeWeight {
        node_id: index(node.0),
        weight: weight.into(),
    };
    weights.iter().map(one).collect()
}

/// The nodes of a placement on several nodes; `None` if none is named.
fn several(field: &str, from: &[i32], bad: &mut Violations) -> Option<NodeSet> {
    let nodes = (!from.is_empty()).then(|| node_set(field, from, bad));
    if nodes.as_ref().is_some_and(|nodes| nodes.len() == 1) {
        bad.push(field, SEVERAL);
    }
    nodes
}

/// `None`: they are not valid.
fn weights(field: &str, from: &[v1::NodeWeight], bad: &mut Violations) -> Option<Weights> {
    if from.is_empty() {
        bad.push(field, Problem::Missing);
        return None;
    }
    if !count(field, from.len(), NODES_MAX, bad) {
        return None;
    }
    let mut seen = NodeSet::new();
    for (index, each) in from.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if !(1..=WEIGHT_MAX).contains(&each.weight) {
            let (min, max) = ("1".to_owned(), WEIGHT_MAX.to_string());
            bad.push(format!("{at}.weight"), Problem::OutOfRange { min, max });
        }
        match node(&format!("{at}.node_id"), each.node_id, bad) {
            Some(node) if seen.contains(node) => bad.push(format!("{at}.node_id"), Problem::Twice),
            node => node.into_iter().for_each(|node| seen.insert(node)),
        }
    }
    if from.len() == 1 {
        bad.push(field, SEVERAL);
    }
    let pairs = from
        .iter()
        .filter_map(|each| Some((NodeId(u32::try_from(each.node_id).ok()?), each.weight.into())));
    Weights::new(pairs).ok()
}

/// Nodes by their OS indexes.
pub fn node_set(field: &str, from: &[i32], bad: &mut Violations) -> NodeSet {
    if from.is_empty() {
        bad.push(field, Problem::Missing);
    }
    if !count(field, from.len(), NODES_MAX, bad) {
        return NodeSet::new();
    }
    let each = from.iter().enumerate();
    each.filter_map(|(index, &id)| node(&format!("{field}[{index}]"), id, bad)).collect()
}

/// A node by its OS index; `None` if that is out of bounds.
fn node(field: &str, id: i32, bad: &mut Violations) -> Option<NodeId> {
    let node = u32::try_from(id).ok().filter(|&node| node <= INDEX_MAX);
    if node.is_none() {
        let (min, max) = ("0".to_owned(), INDEX_MAX.to_string());
        bad.push(field, Problem::OutOfRange { min, max });
    }
    node.map(NodeId)
}

/// OS indexes of nodes.
pub fn node_ids(nodes: &NodeSet) -> impl Iterator<Item = i32> {
    nodes.iter().map(|node| index(node.0))
}
