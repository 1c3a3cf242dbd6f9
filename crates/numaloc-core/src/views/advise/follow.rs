//! The host as it would be after a finding has been followed, if all goes as predicted.

use super::{
    capacity::{FILL, after, even_shares, floats, taken},
    finding::{Finding, FindingKind},
    look::{HostLook, Subject},
    setting::NORMAL,
};
use crate::machine::{ids::NodeId, topology::Topology};

/// The host after one finding has been followed.
pub fn follow(look: &HostLook, finding: &Finding) -> HostLook {
    let mut look = look.clone();
    apply(&mut look, finding);
    look
}

/// Changes `look` as the steps of the finding would change the host.
pub(super) fn apply(look: &mut HostLook, finding: &Finding) {
    match finding.kind {
        FindingKind::Balancing => {
            look.numa_balancing = look.numa_balancing.map(|value| value & !NORMAL)
        }
        FindingKind::Thp => look.thp_enabled = Some("madvise".into()),
        _ => {}
    }
    let HostLook { topology, busy, subjects, .. } = look;
    let Some(who) = &finding.who else { return };
    let Some(subject) = subjects.iter_mut().find(|subject| subject.who == *who) else { return };
    match finding.hugetlb_bytes {
        Some(size) => huge(topology, subject, finding, size),
        None => {
            subject.resident = after(&subject.resident, &finding.flows);
            for (&(from, to), &bytes) in &finding.flows {
                change(topology, from, |memory| memory.free_bytes += bytes);
                change(topology, to, |memory| *memory = taken(memory.clone(), bytes));
            }
        }
    }
    if let Some(mems) = &finding.mems {
        subject.mems = mems.clone();
    }
    let Some(cpus) = &finding.cpus else { return };
    let used = subject.used_cpus();
    for (node, cpus) in std::mem::take(&mut subject.cpu_use) {
        *busy.entry(node).or_default() -= cpus;
    }
    for (node, share) in even_shares(topology, cpus) {
        subject.cpu_use.insert(node, used * share);
        *busy.entry(node).or_default() += used * share;
    }
    subject.cpus = cpus.clone();
    subject.threads = Vec::new();
    make_way(look);
}

/// Subjects that may run everywhere leave nodes that are filled now, as the scheduler has them do.
fn make_way(look: &mut HostLook) {
    let HostLook { topology, busy, subjects, .. } = look;
    let limit = |node: NodeId| FILL * topology.node(node).map_or(0, |node| node.cpus.len()) as f64;
    let mut floating: Vec<&mut Subject> =
        subjects.iter_mut().filter(|subject| floats(topology, subject)).collect();
    // The same for each order in which they were seen.
    floating.sort_by(|a, b| a.who.cmp(&b.who));
    for subject in floating {
        let mut homeless = 0.0;
        for (node, cpus) in &mut subject.cpu_use {
            let on = busy.entry(*node).or_default();
            let goes = (*on - limit(*node)).clamp(0.0, cpus.max(0.0));
            *cpus -= goes;
            *on -= goes;
            homeless += goes;
        }
        if homeless <= 0.0 {
            continue;
        }
        let free: Vec<(NodeId, f64)> = topology
            .nodes()
            .filter(|node| !node.cpus.is_empty())
            .map(|node| {
                let used = busy.get(&node.id).copied().unwrap_or(0.0);
                (node.id, (node.cpus.len() as f64 - used).max(0.0))
            })
            .collect();
        let all: f64 = free.iter().map(|(_, cpus)| cpus).sum();
        let count = free.len().max(1) as f64;
        for (node, cpus) in free {
            let part = if all > 0.0 { homeless * cpus / all } else { homeless / count };
            *subject.cpu_use.entry(node).or_default() += part;
            *busy.entry(node).or_default() += part;
        }
    }
}

fn change(topology: &mut Topology, id: NodeId, how: impl FnOnce(&mut crate::NodeMemory)) {
    if let Some(mut memory) = topology.node(id).map(|node| node.memory.clone()) {
        how(&mut memory);
        topology.set_memory(id, memory);
    }
}

/// Hugetlb pages: from the pool of the target as far as it has free ones, then from its free memory. Fresh pages are
/// given back on the node that it replaces (mm/hugetlb.c, `move_hugetlb_state`).
fn huge(topology: &mut Topology, subject: &mut Subject, finding: &Finding, size: u64) {
    for (&(from, to), &bytes) in &finding.flows {
        let pages = bytes / size;
        let mut fresh = pages;
        change(topology, to, |memory| {
            let pool = memory.huge_pools.iter_mut().find(|pool| pool.page_bytes == size);
            if let Some(pool) = pool {
                let found = pages.min(pool.unreserved_pages);
                fresh -= found;
                pool.unreserved_pages -= found;
                pool.free_pages -= found.min(pool.free_pages);
                pool.total_pages += fresh;
            }
            *memory = taken(memory.clone(), fresh * size);
        });
        change(topology, from, |memory| {
            memory.free_bytes += fresh * size;
            let pool = memory.huge_pools.iter_mut().find(|pool| pool.page_bytes == size);
            if let Some(pool) = pool {
                pool.total_pages = pool.total_pages.saturating_sub(fresh);
                pool.free_pages += pages - fresh;
                pool.unreserved_pages += pages - fresh;
            }
        });
    }
    if let Some(resident) = subject.hugetlb.get_mut(&size) {
        *resident = after(resident, &finding.flows);
    }
}
