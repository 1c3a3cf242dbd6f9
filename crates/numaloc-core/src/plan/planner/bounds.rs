//! How many bytes of a plan are enough, where a request bounds them.

use super::Planner;
use crate::{
    ask::relief::NodeUse,
    memory::locality::Share,
    number,
    plan::{Move, Skipped},
    result::account::Reason,
};
use std::cmp::Reverse;

impl Planner<'_> {
    /// For a target ratio under 100: sets how many bytes are enough. If the ratio is reached already, all extents stay.
    pub(super) fn apply_ratio(&mut self) {
        let plan = &mut self.plan;
        let Share { local_bytes, remote_bytes, .. } = plan.locality.movable;
        let total = u128::from(local_bytes + remote_bytes);
        let wanted = number::amount((total * u128::from(plan.options.target_ratio)).div_ceil(100));
        let needed = wanted.saturating_sub(local_bytes);
        if needed < remote_bytes {
            self.limit(needed, Reason::RatioReached);
        }
    }

    /// For the relief of a node: sets how many bytes are enough. The processes with most of them come first.
    pub(super) fn apply_relief(&mut self) {
        let Some(relief) = &self.plan.options.relief else { return };
        let node = self.scene.topology.node(relief.node);
        let free_bytes = node.map_or(0, |node| node.memory.free_bytes);
        let mut bytes = vec![0; self.plan.processes.len()];
        for each in &self.plan.moves {
            bytes[each.mappings[0].process] += each.remote.values().sum::<u64>();
        }
        self.plan.moves.sort_by_key(|each| Reverse(bytes[each.mappings[0].process]));
        let all = bytes.iter().sum();
        let wanted = relief.wanted_bytes(NodeUse { free_bytes, traffic: relief.traffic }, all);
        if wanted < all {
            self.limit(wanted, Reason::NotNeeded);
        }
    }

    /// Sets that `needed` bytes are enough. If none are, all extents stay, for this reason.
    fn limit(&mut self, needed: u64, why: Reason) {
        let plan = &mut self.plan;
        plan.limit_bytes = Some(needed);
        if needed > 0 {
            return;
        }
        for Move { mappings, kind, name, remote, shared_bytes, .. } in plan.moves.drain(..) {
            for (reason, remote_bytes) in
                [(why, remote.values().sum()), (Reason::Shared, shared_bytes)]
            {
                if remote_bytes > 0 {
                    plan.skipped.push(Skipped {
                        mapping: mappings[0],
                        kind,
                        name: name.clone(),
                        reason,
                        remote_bytes,
                    });
                }
            }
        }
    }
}
