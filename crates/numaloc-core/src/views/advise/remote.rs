//! Subjects that are pinned and have memory elsewhere. The pin is a fact: memory goes to the CPUs.

use super::{
    capacity::{HostState, WORKING_CPUS, outside, rooms, route, shares, worth},
    crowded::elsewhere,
    finding::{Finding, FindingKind},
    look::Subject,
    sequence::{BindingChange, can_be_allowed, sequence},
    step::How,
};
use crate::{ask::home_rule::NEAR, machine::ids::NodeSet, memory::mempolicy::Mempolicy};

/// Memory that is not on the nodes of the CPUs.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let topology = &host.look.topology;
    let home = subject.home(topology);
    let movable = host.movable(subject);
    let enough = worth(&movable, min_bytes);
    let from = outside(&movable, &home);
    let remote: u64 = from.values().sum();
    // Near memory costs little there: it alone is no reason to move, but it is included.
    let near = topology.near(&home, NEAR);
    let far: u64 = outside(&movable, &home.or(&near)).values().sum();
    if home.is_empty() || subject.is_spread() || far < enough {
        return None;
    }
    let (kind, targets, how) = way(subject, &home)?;
    let room = rooms(topology, &targets);
    // Half of it or more is worth a move even if the rest finds no room.
    if room < remote && (room < remote / 2 || room < enough) {
        let working = subject.used_cpus() >= WORKING_CPUS;
        // Only to where most of it is: who has been brought home in part is not sent back.
        let is_there = |nodes: &NodeSet| 2 * subject.bytes_on(nodes) > subject.resident_bytes();
        return if working { elsewhere(host, subject, min_bytes, &is_there) } else { None };
    }
    let flows = route(topology, &from, &targets);
    let bytes: u64 = flows.values().sum();
    // Where a part stays, its node stays allowed: the kernel would move that part, wherever it finds room.
    let narrows = kind == FindingKind::MemsForbid && bytes == remote;
    let keeps = narrows.then(|| host.other_tiers());
    let change = BindingChange { cpus: None, home: &targets, how: Some(how), keeps };
    let (steps, mems) = sequence(subject, &change);
    let weight = host.exposed(&from, &shares(topology, subject)) * subject.used_cpus();
    Some(Finding {
        from_nodes: home.clone(),
        home,
        mems: (mems != subject.mems).then_some(mems),
        weight,
        flows,
        steps,
        ..Finding::of(subject, kind, bytes)
    })
}

/// The reason that keeps the memory away, the nodes where it may go, and the way to move it.
fn way(subject: &Subject, home: &NodeSet) -> Option<(FindingKind, NodeSet, How)> {
    let allowed = home.and(&subject.mems);
    let is_bound = matches!(subject.policy, Mempolicy::Bind(_) | Mempolicy::Preferred(_))
        && subject.policy.permits(home).is_empty();
    let how = if is_bound { How::Bound } else { How::Home };
    if allowed.is_empty() {
        let allowed = home.and(&subject.mems_above);
        return can_be_allowed(subject, home).then_some((FindingKind::MemsForbid, allowed, how));
    }
    if is_bound {
        return Some((FindingKind::Bound, allowed, how));
    }
    let permitted = subject.policy.permits(&allowed);
    (!permitted.is_empty()).then_some((FindingKind::PinnedRemote, permitted, how))
}
