//! Subjects that are pinned and have hugetlb pages elsewhere. The kernel's balancing never moves them.

use super::{
    capacity::{HostState, room, shares, worth},
    finding::{Finding, FindingKind},
    look::Subject,
    step::{AdviceStep, How},
};
use crate::machine::{
    ids::NodeId,
    supply::{HugetlbSource, Reserve, Supply, can_be_fresh},
};
use std::collections::BTreeMap;

/// Hugetlb pages that are not on the nodes of the CPUs, if the pools there have free pages or can get them from free memory.
pub fn judge(host: &HostState, subject: &Subject, min_bytes: u64) -> Option<Finding> {
    let topology = &host.look.topology;
    let home = subject.home(topology);
    let allowed = home.and(&subject.mems);
    if home.is_empty() || subject.is_spread() {
        return None;
    }
    subject.hugetlb.iter().filter(|(size, _)| can_be_fresh(**size)).find_map(|(&size, resident)| {
        let from: BTreeMap<NodeId, u64> = resident
            .iter()
            .map(|(&node, &bytes)| (node, bytes))
            .filter(|&(node, bytes)| !home.contains(node) && bytes >= size)
            .collect();
        let all: u64 = resident.values().sum();
        let remote: u64 = from.values().sum();
        if remote < worth(resident, min_bytes) {
            return None;
        }
        // All of it goes to one node: pools are the administrator's, and the fewer change the better.
        let pool = |node: NodeId| {
            let supply = Supply::hugetlb(size, HugetlbSource::Pool);
            topology.node(node).map_or(0, |node| node.memory.room(supply, Reserve::default()))
        };
        let fitting = |node: &NodeId| pool(*node).saturating_add(room(topology, *node)) >= remote;
        let to =
            allowed.iter().filter(fitting).max_by_key(|&node| (pool(node), u32::MAX - node.0))?;
        let how = if pool(to) >= remote { How::Home } else { How::Fresh };
        let weight = host.exposed(&from, &shares(topology, subject)) * subject.used_cpus();
        Some(Finding {
            resident_bytes: all,
            from_nodes: home.clone(),
            home: home.clone(),
            flows: from.iter().map(|(&from, &bytes)| ((from, to), bytes)).collect(),
            hugetlb_bytes: Some(size),
            weight,
            steps: vec![AdviceStep::Migrate { who: subject.who.clone(), how }],
            ..Finding::of(subject, FindingKind::Hugetlb, remote)
        })
    })
}
