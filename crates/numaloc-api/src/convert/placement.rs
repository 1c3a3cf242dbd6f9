//! The placements of a policy from the API and to it: a new one has its line in each function that reads or writes some.

mod tiers;

use super::{check::count, names::index};
use crate::{
    Problem, Violations, v1,
    v1::{map_rule::Placement as Rule, policy::Placement as Message},
};
use numaloc_core::{
    BadPattern, ByBandwidth, MapRule, NodeId, NodeSet, Options, Pattern, Placement, Weights,
    ids::INDEX_MAX,
};

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
        Some(Message::Interleave(from)) => (None, interleave(field, &from, bad)),
        Some(Message::Weighted(from)) => (None, weighted(field, &from, bad)),
        Some(Message::Bandwidth(from)) => (None, bandwidth(field, &from, bad)),
        Some(Message::Balance(from)) => (None, balance(field, &from, bad)),
        Some(Message::Block(from)) => (None, block(field, &from, bad)),
        Some(Message::Tiers(from)) => {
            (None, Placement::Tiers(tiers::read(&at("tiers"), from, bad)))
        }
    }
}

/// Reads placements of single mappings. `field` is their path.
pub fn read_maps(field: &str, from: Vec<v1::MapRule>, bad: &mut Violations) -> Vec<MapRule> {
    if !count(field, from.len(), MapRule::MOST, bad) {
        return Vec::new();
    }
    let mut rules: Vec<MapRule> = Vec::new();
    for (index, v1::MapRule { pattern, placement }) in from.into_iter().enumerate() {
        let field = format!("{field}[{index}]");
        let placement = match placement {
            None | Some(Rule::Local(_)) => Placement::Home,
            Some(Rule::Nodes(from)) => {
                Placement::Nodes(node_set(&format!("{field}.nodes.node_ids"), &from.node_ids, bad))
            }
            Some(Rule::Interleave(from)) => interleave(&field, &from, bad),
            Some(Rule::Weighted(from)) => weighted(&field, &from, bad),
            Some(Rule::Bandwidth(from)) => bandwidth(&field, &from, bad),
            Some(Rule::Balance(from)) => balance(&field, &from, bad),
            Some(Rule::Block(from)) => block(&field, &from, bad),
        };
        let at = format!("{field}.pattern");
        match pattern.parse() {
            _ if pattern.is_empty() => bad.push(at, Problem::Missing),
            _ if pattern.len() > Pattern::MOST_BYTES => {
                bad.push(at, Problem::TooLong { max: Pattern::MOST_BYTES });
            }
            Err(BadPattern { .. }) => bad.push(at, Problem::Malformed { expected: PATTERN }),
            Ok(pattern) if rules.iter().any(|rule| rule.pattern == pattern) => {
                bad.push(at, Problem::Twice);
            }
            Ok(pattern) => rules.push(MapRule { pattern, placement }),
        }
    }
    rules
}

fn interleave(field: &str, from: &v1::InterleavePlacement, bad: &mut Violations) -> Placement {
    Placement::Interleave(several(format!("{field}.interleave.node_ids"), &from.node_ids, bad))
}

fn block(field: &str, from: &v1::BlockPlacement, bad: &mut Violations) -> Placement {
    Placement::Block(several(format!("{field}.block.node_ids"), &from.node_ids, bad))
}

/// The nodes of a placement on several; `None`: it names none.
fn several(field: String, node_ids: &[i32], bad: &mut Violations) -> Option<NodeSet> {
    let nodes = (!node_ids.is_empty()).then(|| node_set(&field, node_ids, bad));
    if nodes.as_ref().is_some_and(|nodes| nodes.len() == 1) {
        bad.push(field, SEVERAL);
    }
    nodes
}

fn weighted(field: &str, from: &v1::WeightedPlacement, bad: &mut Violations) -> Placement {
    let weights = weights(&format!("{field}.weighted.weights"), &from.weights, bad);
    weights.map_or(Placement::Home, Placement::Weighted)
}

fn bandwidth(field: &str, from: &v1::BandwidthPlacement, bad: &mut Violations) -> Placement {
    let nodes = several(format!("{field}.bandwidth.node_ids"), &from.node_ids, bad);
    Placement::Bandwidth(ByBandwidth { nodes, known: None })
}

fn balance(field: &str, from: &v1::BalancePlacement, bad: &mut Violations) -> Placement {
    let named = !from.weights.is_empty();
    let weights = || weights(&format!("{field}.balance.weights"), &from.weights, bad);
    Placement::Balance(named.then(weights).flatten())
}

/// The message of the options' placement.
pub fn written(options: &Options) -> Message {
    let list = |nodes: &NodeSet| node_ids(nodes).collect();
    match (&options.placement, &options.to) {
        (Placement::Home, None) => Message::Local(v1::LocalPlacement {}),
        (Placement::Home, Some(nodes)) | (Placement::Nodes(nodes), _) => {
            Message::Nodes(v1::NodesPlacement { node_ids: list(nodes) })
        }
        (Placement::Interleave(nodes), _) => Message::Interleave(interleaved(nodes.as_ref())),
        (Placement::Weighted(weights), _) => {
            Message::Weighted(v1::WeightedPlacement { weights: node_weights(weights) })
        }
        (Placement::Balance(weights), _) => Message::Balance(balanced(weights.as_ref())),
        (Placement::Block(nodes), _) => {
            Message::Block(v1::BlockPlacement { node_ids: all_ids(nodes.as_ref()) })
        }
        (Placement::Bandwidth(by), _) => {
            Message::Bandwidth(v1::BandwidthPlacement { node_ids: all_ids(by.nodes.as_ref()) })
        }
        (Placement::Tiers(by_use), _) => Message::Tiers(tiers::written(by_use)),
    }
}

/// The messages of placements of single mappings.
pub fn written_maps(rules: &[MapRule]) -> Vec<v1::MapRule> {
    let one = |rule: &MapRule| v1::MapRule {
        pattern: rule.pattern.to_string(),
        placement: Some(match &rule.placement {
            // No rule places memory by its use ([`MapRule`]).
            Placement::Home | Placement::Tiers(_) => Rule::Local(v1::LocalPlacement {}),
            Placement::Nodes(nodes) => {
                Rule::Nodes(v1::NodesPlacement { node_ids: node_ids(nodes).collect() })
            }
            Placement::Interleave(nodes) => Rule::Interleave(interleaved(nodes.as_ref())),
            Placement::Weighted(weights) => {
                Rule::Weighted(v1::WeightedPlacement { weights: node_weights(weights) })
            }
            Placement::Bandwidth(by) => {
                Rule::Bandwidth(v1::BandwidthPlacement { node_ids: all_ids(by.nodes.as_ref()) })
            }
            Placement::Balance(weights) => Rule::Balance(balanced(weights.as_ref())),
            Placement::Block(nodes) => {
                Rule::Block(v1::BlockPlacement { node_ids: all_ids(nodes.as_ref()) })
            }
        }),
    };
    rules.iter().map(one).collect()
}

fn interleaved(nodes: Option<&NodeSet>) -> v1::InterleavePlacement {
    v1::InterleavePlacement { node_ids: all_ids(nodes) }
}

pub(super) fn all_ids(nodes: Option<&NodeSet>) -> Vec<i32> {
    nodes.into_iter().flat_map(node_ids).collect()
}

fn balanced(weights: Option<&Weights>) -> v1::BalancePlacement {
    v1::BalancePlacement { weights: weights.map(node_weights).unwrap_or_default() }
}

/// The permitted patterns of mappings, for messages.
const PATTERN: &str = "a file's path or base name, memfd:NAME, sysv:KEY, anon:NAME, heap, stack, anon, or anon>SIZE such as anon>1G";
/// Why a placement on several nodes that names one is invalid.
const SEVERAL: Problem = Problem::Malformed { expected: "two nodes or more" };

/// The message of each node's weight, in the order of nodes.
pub fn node_weights(weights: &Weights) -> Vec<v1::NodeWeight> {
    let one = |(node, weight): (NodeId, u8)| v1::NodeWeight {
        node_id: index(node.0),
        weight: weight.into(),
    };
    weights.iter().map(one).collect()
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

/// OS indexes of nodes, as messages have them.
pub fn node_ids(nodes: &NodeSet) -> impl Iterator<Item = i32> {
    nodes.iter().map(|node| index(node.0))
}
