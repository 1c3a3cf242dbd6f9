//! The moves that a plan is expected to make, by the room that is free now.

use super::Planner;
use crate::{
    machine::{
        ids::NodeId,
        room::MakeRoom,
        supply::{HugetlbSource, can_be_fresh},
    },
    plan::{Aside, Move},
};

impl Planner<'_> {
    /// Takes room for `bytes` on the routes' targets, best first; free memory of all of them before anything is
    /// dropped. The rest goes to memory that is free on nearer nodes.
    pub(super) fn expect(&mut self, planned_move: &Move, from: NodeId, mut bytes: u64) {
        let ways = self.plan.options.ways(planned_move.hugetlb_bytes);
        let routes = &self.plan.routes[planned_move.routes];
        let home = ways.iter().flat_map(|&way| routes.from(from).iter().map(move |&to| (way, to)));
        let home: Vec<(MakeRoom, NodeId)> = home.collect();
        let nearer = routes.nearer(from).to_vec();
        let best = routes.from(from).first().copied();
        let best = best.filter(|_| planned_move.hugetlb_bytes.is_none());
        let around = routes.home.clone();
        let around = self.neighbours(&around);
        let is_near = |node| around.as_ref().is_some_and(|around| around.near.contains(node));
        let mut fits_on = |planner: &mut Self, make_room, to| {
            let fits = planner.expect_on(planned_move, (from, to), bytes, make_room);
            planner.plan.near_left_bytes += if is_near(from) { fits } else { 0 };
            planner.plan.near_came_bytes += if is_near(to) { fits } else { 0 };
            bytes -= fits;
            fits
        };
        for (make_room, to) in home {
            fits_on(self, make_room, to);
        }
        for to in nearer {
            let bytes = fits_on(self, MakeRoom::None, to);
            self.plan.nearer_bytes += bytes;
            let near_bytes = if is_near(to) { bytes } else { 0 };
            if let Some(best) = best.filter(|_| bytes > 0) {
                let aside = self.plan.aside.entry((from, best)).or_default();
                aside.entry(to).or_default().add(Aside { bytes, near_bytes });
            }
        }
        self.plan.no_room_bytes += bytes;
        if let Some(best) = best.filter(|_| bytes > 0) {
            *self.plan.no_room.entry((from, best)).or_default() += bytes;
        }
        let pool_only = self.plan.options.hugetlb == HugetlbSource::Pool;
        if pool_only && planned_move.hugetlb_bytes.is_some_and(can_be_fresh) {
            self.plan.beyond_pool_bytes += bytes;
        }
    }

    /// What goes down makes room for what goes up after it, and the other way round. Other plans bring memory to one side only.
    fn leave(&mut self, from: NodeId, planned_move: &Move, bytes: u64) {
        let is_by_use = self.plan.options.placement.by_use().is_some();
        if is_by_use && planned_move.hugetlb_bytes.is_none() {
            let memory = self.memory.get_mut(&from);
            memory.into_iter().for_each(|memory| memory.free_bytes += bytes);
        }
    }

    /// Takes room on one node; returns how much.
    fn expect_on(
        &mut self,
        planned_move: &Move,
        (from, to): (NodeId, NodeId),
        bytes: u64,
        make_room: MakeRoom,
    ) -> u64 {
        let Some(memory) = self.memory.get_mut(&to) else { return 0 };
        let options = &self.plan.options;
        let reserve = options.reserve(memory.total_bytes);
        let supply = options.supply(planned_move.hugetlb_bytes);
        let taken = memory.take(supply, bytes, reserve, make_room);
        if make_room == MakeRoom::Cache && bytes > taken.bytes() && memory.protected_bytes > 0 {
            self.plan.protected_cache.insert(to, memory.protected_bytes);
        }
        let fits = taken.bytes();
        let is_used_up = |page| memory.pool(page).is_some_and(|pool| pool.unreserved_pages == 0);
        if taken.pool_bytes > 0 && is_used_up(supply.page_bytes) {
            self.plan.used_up_pools.insert((to, supply.page_bytes));
        }
        if planned_move.hugetlb_bytes.is_some() {
            self.plan.beyond_pool_bytes += taken.free_bytes;
        }
        if fits > 0 {
            self.leave(from, planned_move, fits);
            *self.plan.expected_flows.entry((from, to)).or_default() += fits;
            self.plan.expected_room.entry(to).or_default().add(taken);
        }
        self.plan.expected_bytes += fits;
        fits
    }
}
