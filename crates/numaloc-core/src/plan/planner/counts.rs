//! The sums of a plan: what is resident, and which of it is local, remote, near or demoted.

use super::{Planner, neighbours::Neighbours};
use crate::{
    ask::options::Options,
    home::goes_home,
    machine::ids::{NodeId, NodeSet},
    memory::{
        extent::Extent,
        locality::{Locality, Share},
        of_kind,
    },
};
use std::sync::Arc;

impl Planner<'_> {
    /// The neighbours of a home. Memory that takes turns, or that is to go where the request says, is nowhere near.
    pub(super) fn neighbours(&mut self, home: &NodeSet) -> Option<Arc<Neighbours>> {
        let Options { near_distance, .. } = self.plan.options;
        let goes_home = goes_home(&self.plan.options);
        goes_home.then(|| self.neighbours.of(self.scene.topology, home, near_distance))
    }

    /// Counts an extent, whose pages on `movable` nodes can be moved.
    pub(super) fn count(&mut self, extent: &Extent, home: &NodeSet, movable: &NodeSet) {
        let mut locality = Locality::default();
        let around = self.neighbours(home);
        let is_near = |node| around.as_ref().is_some_and(|around| around.near.contains(node));
        for (&node, resident) in &extent.residency.nodes {
            let share = |bytes| {
                if home.contains(node) {
                    Share { local_bytes: bytes, ..Share::default() }
                } else if self.demoted.contains(node) {
                    Share { demoted_bytes: bytes, ..Share::default() }
                } else {
                    let near_bytes = if is_near(node) { bytes } else { 0 };
                    Share { remote_bytes: bytes, near_bytes, ..Share::default() }
                }
            };
            locality.overall.add(share(resident.total_bytes()));
            let all = self.plan.options.include_shared;
            if movable.contains(node) {
                locality.movable.add(share(if all {
                    resident.total_bytes()
                } else {
                    resident.owned_bytes
                }));
            }
        }
        self.add(extent, locality, |node, bytes| if home.contains(node) { 0 } else { bytes });
    }

    /// Adds an extent's residency and locality to the sums. `remote_of`: how many of its bytes on a node are remote.
    pub(super) fn add(
        &mut self,
        extent: &Extent,
        locality: Locality,
        remote_of: impl Fn(NodeId, u64) -> u64,
    ) {
        let plan = &mut self.plan;
        // Memory that one process maps twice still is its own.
        let (resident, sum) = match &extent.mappings[..] {
            [first, rest @ ..] if rest.iter().all(|other| other.process == first.process) => {
                let process = &mut plan.processes[first.process];
                (&mut process.resident, &mut process.locality)
            }
            _ => (&mut plan.family_resident, &mut plan.family_locality),
        };
        for (&node, bytes) in &extent.residency.nodes {
            *resident.entry(node).or_default() += bytes.total_bytes();
        }
        of_kind::add(&mut plan.kinds, extent);
        for sum in [sum, &mut plan.locality] {
            sum.add(locality);
        }
        let counted = &mut plan.processes[extent.mappings[0].process];
        counted.counted.add(locality);
        for (&node, bytes) in &extent.residency.nodes {
            let remote = remote_of(node, bytes.total_bytes());
            if remote > 0 {
                *counted.remote.entry(node).or_default() += remote;
            }
        }
        plan.unplaced_bytes += extent.residency.unplaced_bytes;
    }
}
