//! Subjects that may run on several nodes and would fit on fewer.

use super::{
    capacity::{
        FILL, FILL_AGAIN, HostState, WORKING_CPUS, after, cpus_on, even_shares, outside, route,
        shares, worth,
    },
    finding::{Finding, FindingKind},
    look::Subject,
    repinned::{NodesAndCpus, repinned},
    storage,
};
use crate::machine::ids::{CpuSet, NodeId, NodeSet};
use crate::number;
use std::cmp::Reverse;

/// Memory that is reached from afar, though all of it and the work fit on fewer nodes.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let topology = &host.look.topology;
    let home = subject.home(topology);
    let works = subject.used_cpus() >= WORKING_CPUS && subject.resident_bytes() >= min_bytes;
    if home.len() < 2 || !works || !subject.can_be_pinned() || subject.is_spread() {
        return None;
    }
    let resident = host.movable(subject);
    let anchor = storage::anchor(host, subject, min_bytes);
    // It goes to its storage, as soon as it fits there, and nowhere else before.
    if anchor.is_some_and(|node| !home.contains(node)) {
        return None;
    }
    let (nodes, cpus) = best(host, subject, &home, anchor)?;
    let flows = route(topology, &outside(&resident, &nodes), &nodes);
    let before = host.exposed(&resident, &shares(topology, subject));
    let left = host.exposed(&after(&resident, &flows), &even_shares(topology, &cpus));
    let gained = before - left;
    if gained < worth(&resident, min_bytes) as f64 {
        return None;
    }
    let is_pinned = subject.is_pinned(topology);
    let kind = if is_pinned { FindingKind::PinnedAcross } else { FindingKind::UnpinnedFits };
    Some(Finding {
        weight: gained * subject.used_cpus(),
        ..repinned(host, subject, kind, (nodes, cpus), flows)
    })
}

/// The fewest nodes that it fits on, with that of its storage: of those with as few, where most of its memory is already, then where most
/// CPUs are left.
fn best(
    host: &HostState,
    subject: &Subject,
    home: &NodeSet,
    anchor: Option<NodeId>,
) -> Option<NodesAndCpus> {
    let topology = &host.look.topology;
    let allowed = subject.policy.permits(&home.and(&subject.mems));
    // Within a pin that is there, the nodes that are left out have to meet less, and the nodes that remain more.
    let is_pinned = subject.is_pinned(topology);
    let fill = if is_pinned { FILL_AGAIN } else { FILL };
    let resident = host.movable(subject);
    let place = |nodes: NodeSet| -> NodesAndCpus {
        let cpus = nodes.iter().map(|node| cpus_on(topology, &subject.cpus, node));
        (nodes.clone(), cpus.fold(CpuSet::new(), |all, cpus| all.or(&cpus)))
    };
    let sets = host.sets.iter().cloned();
    let sets = sets.filter(|nodes| {
        let has_storage = anchor.is_none_or(|node| nodes.contains(node));
        nodes.is_subset(&allowed) && nodes.len() < home.len() && has_storage
    });
    let suited = sets.map(place).filter(|(nodes, cpus)| {
        let bytes: u64 = outside(&resident, nodes).values().sum();
        let bytes = if is_pinned { bytes + bytes / 10 } else { bytes };
        host.fits(subject, cpus, nodes, fill, bytes)
    });
    suited.min_by_key(|(nodes, cpus)| {
        let left = nodes.iter().map(|node| host.cpus_left(subject, cpus, node, fill));
        let left = left.fold(0.0, |sum, left| sum + left);
        // In tenths of a CPU: noise decides nothing.
        let left = number::whole((left * 10.0).round());
        (nodes.len(), Reverse(subject.bytes_on(nodes)), Reverse(left), nodes.clone())
    })
}
