//! Work that runs on other nodes than the storage that it maps without page cache (DAX). Storage cannot move, so the work has to come to it.

use super::{
    capacity::{
        FILL, FILL_AGAIN, HostState, WORKING_CPUS, cpus_on, even_shares, outside, route, shares,
        worth,
    },
    finding::{Finding, FindingKind},
    look::Subject,
    repinned::{may_be_on, repinned},
};
use crate::machine::ids::{CpuSet, NodeId, NodeSet};
use std::cmp::Reverse;

/// The node that has most of its storage, if all of the work fits there. Its pin has to be changed for that, which the finding states.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let topology = &host.look.topology;
    let (node, storage_bytes) = most(subject)?;
    let works = subject.used_cpus() >= WORKING_CPUS;
    if !works || !subject.can_be_pinned() || subject.is_spread() {
        return None;
    }
    let (home, nodes) = (subject.home(topology), NodeSet::from_iter([node]));
    let cpus = new_cpus(host, subject, node);
    // Storage of other nodes would be reached from afar then.
    let before = host.exposed(&subject.storage, &shares(topology, subject));
    let left = host.exposed(&subject.storage, &even_shares(topology, &cpus));
    let (gained, resident) = (before - left, host.movable(subject));
    if gained < worth(&resident, min_bytes) as f64 || !may_be_on(subject, &nodes) {
        return None;
    }
    let away = outside(&resident, &nodes);
    let far: u64 = away.values().sum();
    // As where work is narrowed that is pinned: noise sends no work back.
    let is_pinned = subject.is_pinned(topology);
    let (fill, bytes) = if is_pinned { (FILL_AGAIN, far + far / 10) } else { (FILL, far) };
    if home == nodes || !host.fits(subject, &cpus, &nodes, fill, bytes) {
        return None;
    }
    let flows = route(topology, &away, &nodes);
    Some(Finding {
        weight: gained * subject.used_cpus(),
        storage_bytes,
        ..repinned(host, subject, FindingKind::Storage, (nodes, cpus), flows)
    })
}

/// The node with most of its storage, and the bytes there.
fn most(subject: &Subject) -> Option<(NodeId, u64)> {
    let most = subject.storage.iter().max_by_key(|&(&node, &bytes)| (bytes, Reverse(node)));
    most.map(|(&node, &bytes)| (node, bytes))
}

/// The node with most of its storage, if there is so much storage on all nodes that work which is placed on others would be sent there
/// later, or would be if noise made a little more of it.
pub fn anchor(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<NodeId> {
    let all: u64 = subject.storage.values().sum();
    let is_enough = all + all / 10 >= worth(&host.movable(subject), min_bytes);
    most(subject).filter(|_| is_enough).map(|(node, _)| node)
}

/// Its own CPUs on the node, or if it has none there, those that it may be given.
fn new_cpus(host: &HostState, subject: &Subject, node: NodeId) -> CpuSet {
    let own = cpus_on(&host.look.topology, &subject.cpus, node);
    match own.is_empty() {
        true => cpus_on(&host.look.topology, &subject.cpus_above, node),
        false => own,
    }
}
