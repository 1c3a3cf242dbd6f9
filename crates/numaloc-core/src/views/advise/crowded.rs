//! Work that is pinned to a node that has nothing left, while another one has.

use super::{
    capacity::{FILL, HostState, WORKING_CPUS, cpus_on, outside, route},
    finding::{Finding, FindingKind},
    look::Subject,
    repinned::{NodesAndCpus, may_be_on, repinned},
    storage,
};
use crate::machine::ids::{CpuSet, NodeSet};
use std::cmp::Reverse;

/// A node is crowded if this share of its CPUs is in use. Well above [`FILL`], so that no work is sent back.
const CROWDED: f64 = 0.95;

/// Work that is pinned to one node whose CPUs are all in use by work that is pinned there.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let home = subject.home(&host.look.topology);
    let [node] = home.iter().collect::<Vec<_>>()[..] else { return None };
    let cpus = host.look.topology.node(node)?.cpus.len() as f64;
    let works = subject.used_cpus() >= WORKING_CPUS && subject.resident_bytes() >= min_bytes;
    let is_crowded = host.fixed(node) >= CROWDED * cpus && subject.is_pinned(&host.look.topology);
    if works && is_crowded { elsewhere(host, subject, min_bytes, &|_| true) } else { None }
}

/// Another node where it fits with all its memory, among the suitable ones. Its pin has to be changed for that, which
/// the finding states.
pub fn elsewhere(
    host: &HostState,
    subject: &Subject,
    min_bytes: u64,
    suits: &dyn Fn(&NodeSet) -> bool,
) -> Option<Finding> {
    let topology = &host.look.topology;
    let home = subject.home(topology);
    // Work whose storage is on another node goes there, as soon as it fits, and nowhere else before.
    let waits = storage::anchor(host, subject, min_bytes).is_some_and(|node| !home.contains(node));
    if waits || !subject.can_be_pinned() || subject.is_spread() {
        return None;
    }
    let resident = host.movable(subject);
    let single = host.sets.iter().filter(|nodes| nodes.len() == 1 && suits(nodes)).cloned();
    let single = single.filter(|nodes| !nodes.intersects(&home) && may_be_on(subject, nodes));
    let places = single.map(|nodes| {
        let cpus = nodes.iter().map(|node| cpus_on(topology, &subject.cpus_above, node));
        let cpus = cpus.fold(CpuSet::new(), |all, cpus| all.or(&cpus));
        (nodes, cpus)
    });
    let suited = places.filter(|(nodes, cpus)| {
        let bytes = outside(&resident, nodes).values().sum();
        host.fits(subject, cpus, nodes, FILL, bytes)
    });
    let key = |place: &NodesAndCpus| (Reverse(subject.bytes_on(&place.0)), place.0.clone());
    let (nodes, cpus) = suited.min_by_key(key)?;
    let flows = route(topology, &outside(&resident, &nodes), &nodes);
    Some(Finding {
        // Work that waits for CPUs or memory loses more than work that reaches memory from afar: all of its memory
        // counts.
        weight: subject.resident_bytes() as f64 * subject.used_cpus(),
        ..repinned(host, subject, FindingKind::Overcommitted, (nodes, cpus), flows)
    })
}
