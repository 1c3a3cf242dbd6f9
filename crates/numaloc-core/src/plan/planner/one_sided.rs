//! Shared memory that processes with different homes use, and that is on one of those nodes for the most part: all of it counts as local,
//! and is remote to some of them.

use super::Planner;
use crate::{
    home::goes_home,
    machine::ids::{NodeId, NodeSet},
    memory::extent::{Extent, Kind},
    plan::OneSided,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Less memory of one name is not worth a line, in bytes.
const LEAST: u64 = 16 << 20;
/// With more than this percentage of it on one node it is one-sided.
const PERCENT: u64 = 80;
/// The most that are named, the largest first.
const MOST: usize = 16;

/// Resident bytes by node of all memory with one name that the same processes map.
pub(super) type Sides = BTreeMap<(Arc<str>, Vec<usize>), BTreeMap<NodeId, u64>>;

impl Planner<'_> {
    /// Counts an extent, if it is shared memory of processes with different homes.
    pub(super) fn count_sides(&mut self, extent: &Extent, home: &NodeSet) {
        let is_shared = extent.kind == Kind::Shmem && extent.mappings.len() > 1 && home.len() > 1;
        if !is_shared || !goes_home(&self.plan.options) {
            return;
        }
        let processes: BTreeSet<usize> = extent.mappings.iter().map(|at| at.process).collect();
        let taking_part = |process: &usize| self.plan.processes[*process].skip.is_none();
        let processes: Vec<usize> = processes.into_iter().filter(taking_part).collect();
        let mut homes = processes.iter().map(|&process| &self.plan.processes[process].home);
        let Some(first) = homes.next() else { return };
        if homes.all(|home| home == first) {
            return;
        }
        let nodes = self.sides.entry((extent.name.clone(), processes)).or_default();
        for (&node, resident) in &extent.residency.nodes {
            *nodes.entry(node).or_default() += resident.total_bytes();
        }
    }

    /// The largest counted memory that is on one node.
    pub(super) fn one_sided(&mut self) -> Vec<OneSided> {
        let sides = std::mem::take(&mut self.sides).into_iter();
        let found = sides.filter_map(|((name, processes), nodes)| {
            let total_bytes: u64 = nodes.values().sum();
            let (&node, &bytes) = nodes.iter().max_by_key(|(_, bytes)| **bytes)?;
            let homes = processes.iter().map(|&process| &self.plan.processes[process].home);
            let home = homes.fold(NodeSet::new(), |all, home| all.or(home));
            let is_one_sided = total_bytes >= LEAST
                && home.contains(node)
                && u128::from(bytes) * 100 > u128::from(total_bytes) * u128::from(PERCENT);
            let processes = processes.len();
            is_one_sided.then_some(OneSided { name, home, node, bytes, total_bytes, processes })
        });
        let mut found: Vec<OneSided> = found.collect();
        found.sort_by_key(|one| Reverse(one.bytes));
        found.truncate(MOST);
        found
    }
}
