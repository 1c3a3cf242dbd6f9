//! What the memory of the nodes is.

use super::Findings;
use crate::doc::Check;
use numaloc_core::{Node, NodeKind, NodeSet, Tier, TierSource, Topology};
use std::collections::BTreeMap;

/// Share of a node's memory, in percent, from which on descriptors of the pages of storage are worth a warning.
const MUCH_PERCENT: u64 = 5;

/// Which kinds of memory there are, and in which tiers.
pub fn kinds(found: &Findings) -> Check {
    const NAME: &str = "memory_kinds";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let mut kinds: BTreeMap<NodeKind, NodeSet> = BTreeMap::new();
    for node in topology.nodes() {
        let kind = topology.node_kind(node.id);
        kind.into_iter().for_each(|kind| kinds.entry(kind).or_default().insert(node.id));
    }
    let kinds: Vec<String> =
        kinds.iter().map(|(kind, nodes)| format!("{} {nodes}", kind.name())).collect();
    let tiers = tiers(topology).map_or(String::new(), |tiers| format!("; {tiers}"));
    Check::ok(NAME, format!("nodes by kind: {}{tiers}", kinds.join(", ")))
}

/// The tiers by number, if there are several.
fn tiers(topology: &Topology) -> Option<String> {
    let mut tiers: BTreeMap<u32, NodeSet> = BTreeMap::new();
    let mut source: Option<TierSource> = None;
    for (node, Tier { number, source: by }) in topology.tiers() {
        source = Some(by);
        tiers.entry(number).or_default().insert(node);
    }
    let source = source.filter(|_| tiers.len() > 1)?.name();
    let tiers: Vec<String> =
        tiers.iter().map(|(number, nodes)| format!("{number}: {nodes}")).collect();
    Some(format!("tiers by {source}, the fastest first: {}", tiers.join(", ")))
}

/// Whether memory that drivers have added can be taken away again.
pub fn movable(found: &Findings) -> Check {
    const NAME: &str = "movable";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let is_added = |node: &&Node| {
        let kind = topology.node_kind(node.id);
        matches!(kind, Some(NodeKind::Persistent | NodeKind::Cxl | NodeKind::Gpu))
    };
    let stays = |node: &&Node| {
        let nature = topology.nature(node.id);
        let movable_bytes = nature.and_then(|nature| nature.movable_bytes);
        movable_bytes.is_some_and(|bytes| bytes < node.memory.total_bytes / 100 * 99)
    };
    let fixed: NodeSet =
        topology.nodes().filter(is_added).filter(stays).map(|node| node.id).collect();
    match fixed.is_empty() {
        true => {
            Check::ok(NAME, "no node of persistent or CXL memory has memory that is not movable")
        }
        false => Check::warning(
            NAME,
            format!(
                "persistent, CXL or GPU memory of node {fixed} is not all in the zone Movable: the kernel's own memory may get there, and such blocks never go offline"
            ),
            "online it as movable: daxctl reconfigure-device --mode=system-ram without --no-movable, and online_movable in /sys/devices/system/memory/auto_online_blocks",
        ),
    }
}

/// Whether descriptors of the pages of storage take much of a node's memory.
pub fn descriptors(found: &Findings) -> Check {
    const NAME: &str = "descriptors";
    let Ok(topology) = &found.topology else {
        return Check::problem(NAME, "unknown", "see hwloc");
    };
    let much = topology.nodes().filter_map(|node| {
        let bytes = topology.descriptor_bytes(node.id);
        let percent = bytes.saturating_mul(100).checked_div(node.memory.total_bytes)?;
        (percent >= MUCH_PERCENT)
            .then(|| format!("{} MiB ({percent} %) of node {}", bytes >> 20, node.id))
    });
    let much: Vec<String> = much.collect();
    match much.is_empty() {
        true => Check::ok(NAME, "page descriptors of storage take little memory"),
        false => Check::warning(
            NAME,
            format!("page descriptors of persistent memory take {}", much.join(", ")),
            "keep them on the storage itself, if its content can be lost: ndctl create-namespace --force --reconfig=namespaceX.Y --mode=fsdax --map=dev",
        ),
    }
}
