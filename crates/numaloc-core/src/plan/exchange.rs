//! Exchange: a run finds room on a full node because memory of others leaves it, for the nodes that the run's pages come from.
//!
//! The kernel cannot swap two pages between nodes, so an exchange is two moves that take turns: a piece of the others' memory
//! leaves, and as much of the run's memory comes in its place. The partners that may be asked to make room are chosen
//! outside. Here is decided in which order they are asked, what of their memory may go where, and how much at a time.

use crate::{
    ask::{options::Options, pace::Order},
    machine::{
        ids::{NodeId, NodeSet},
        process::Identity,
        room::MakeRoom,
        topology::NodeMemory,
    },
    memory::extent::Pages,
    plan::{CommonStay, Move, Plan, Skipped, planner::BASE_RATE},
    pmd_size,
    result::account::Reason,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Most bytes that have left a node while nothing has come in their place yet. It is the smallest reserve that a node keeps by
/// default ([`Options::reserve`]): an exchange has no more under way than what a node keeps free anyway. If others take what has
/// become free, no more than this is lost to them.
pub const CHUNK: u64 = 64 << 20;

/// For each node that a plan brings memory to: the nodes that this memory comes from, where memory of others may go in exchange.
/// Nodes that the plan itself brings memory to are not among these; nodes that would only take memory without room at
/// home ([`Routes::nearer`](crate::Routes)) are, as with that room nothing goes there. hugetlb memory takes no part:
/// it is not free memory of others.
pub fn sides(plan: &Plan) -> BTreeMap<NodeId, NodeSet> {
    let targets = plan.moves.iter().flat_map(|planned_move| {
        let routes = &plan.routes[planned_move.routes];
        planned_move.remote.keys().flat_map(|&from| routes.from(from))
    });
    let targets: NodeSet = targets.copied().collect();
    let mut sides: BTreeMap<NodeId, NodeSet> = BTreeMap::new();
    for planned_move in
        plan.moves.iter().filter(|planned_move| planned_move.hugetlb_bytes.is_none())
    {
        for &from in planned_move.remote.keys().filter(|from| !targets.contains(**from)) {
            for &to in plan.routes[planned_move.routes].from(from) {
                sides.entry(to).or_default().insert(from);
            }
        }
    }
    sides
}

/// Bytes without room at home, by (source, best home node): bytes without room anywhere, and bytes that would go to
/// nearer nodes. Others may make room for both.
pub fn waiting(plan: &Plan) -> BTreeMap<(NodeId, NodeId), u64> {
    let mut waiting = plan.no_room.clone();
    for (way, nodes) in &plan.aside {
        *waiting.entry(*way).or_default() += nodes.values().map(|aside| aside.bytes).sum::<u64>();
    }
    waiting
}

/// Whether a plan lacks room that others could make.
pub fn lacks_room(plan: &Plan) -> bool {
    plan.options.make_room == MakeRoom::Exchange
        && !waiting(plan).is_empty()
        && !sides(plan).is_empty()
}

/// Adds the processes `own` of a partner to `taken`, those of the target and of the partners before it, and returns true. Returns
/// false, and adds none, if there are none or if `taken` has one of them: a partner takes part as a whole, so that its result is that
/// of all of its processes.
pub fn enlist(taken: &mut BTreeSet<Identity>, own: BTreeSet<Identity>) -> bool {
    let is_apart = !own.is_empty() && own.is_disjoint(taken);
    if is_apart {
        taken.extend(own);
    }
    is_apart
}

/// The order in which others are asked to make room on `node`; `homes` has the nodes of each one's CPUs. First come
/// runs that have no CPU there, then runs with CPUs elsewhere, too. Runs that are pinned to the node come last: their
/// memory is at home there and nowhere else.
pub fn order(homes: &[NodeSet], node: NodeId) -> Vec<usize> {
    let rank = |home: &NodeSet| (home.contains(node), Reverse(home.len().min(2)));
    let mut order: Vec<usize> = (0..homes.len()).collect();
    order.sort_by_key(|&index| rank(&homes[index]));
    order
}

/// The options by which memory of other runs leaves `node` for the nodes `to`, for a run with the options `run`: memory
/// that they alone map and that is not a file's, by address. Their most used memory is not searched for: it would go
/// first. Page cache is dropped for it, and memory compacted, as for the run's own memory.
pub fn options(node: NodeId, to: &NodeSet, run: &Options) -> Options {
    Options {
        from: Some([node].into_iter().collect()),
        to: Some(to.clone()),
        exclude_file: true,
        make_room: MakeRoom::Cache,
        compact: run.compact,
        order: Order::Address,
        pacing: run.pacing,
        reserve_bytes: run.reserve_bytes,
        pool_reserve_percent: run.pool_reserve_percent,
        ..Options::default()
    }
}

/// Takes hugetlb memory out of a plan: without it no memory becomes free for others.
pub fn leave_hugetlb(plan: &mut Plan) {
    let moves = std::mem::take(&mut plan.moves).into_iter();
    let (hugetlb, moves): (Vec<Move>, Vec<Move>) =
        moves.partition(|planned_move| planned_move.hugetlb_bytes.is_some());
    plan.moves = moves;
    for planned_move in hugetlb {
        let bytes = [
            (Reason::NotNeeded, planned_move.remote.values().sum()),
            (Reason::Shared, planned_move.shared_bytes),
        ];
        if matches!(planned_move.pages, Pages::Common(_)) {
            let (mappings, bytes) = (planned_move.mappings.clone(), planned_move.bytes);
            plan.common_stays.push(CommonStay { mappings, bytes });
        }
        for (reason, remote_bytes) in bytes.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let (mapping, kind, name) =
                (planned_move.mappings[0], planned_move.kind, planned_move.name.clone());
            plan.skipped.push(Skipped { mapping, kind, name, reason, remote_bytes });
        }
    }
}

/// Bytes that a plan may take from a node in exchange: what it is to move from there.
pub fn offered_bytes(plan: &Plan, node: NodeId) -> u64 {
    let moves = plan.moves.iter().filter(|planned_move| planned_move.hugetlb_bytes.is_none());
    moves.filter_map(|planned_move| planned_move.remote.get(&node)).sum()
}

/// Counts what a plan will move by exchange: `offered` has the bytes of others that may leave each of its target nodes.
pub fn expect(plan: &mut Plan, mut offered: BTreeMap<NodeId, u64>) {
    let sides = sides(plan);
    for ((from, to), waiting) in waiting(plan) {
        if !sides.get(&to).is_some_and(|sources| sources.contains(from)) {
            continue;
        }
        let Some(offered) = offered.get_mut(&to) else { continue };
        let taken = waiting.min(*offered);
        if taken > 0 {
            *offered -= taken;
            expect_home(plan, (from, to), taken);
        }
    }
    plan.no_room.retain(|_, waiting| *waiting > 0);
    plan.expected_flows.retain(|_, bytes| *bytes > 0);
}

/// Counts bytes that come home by exchange. Nearer nodes then have room for others that wait, so what waits becomes less first.
fn expect_home(plan: &mut Plan, (from, to): (NodeId, NodeId), bytes: u64) {
    let mut more = 0;
    if let Some(waiting) = plan.no_room.get_mut(&(from, to)) {
        more = bytes.min(*waiting);
        *waiting -= more;
    }
    plan.no_room_bytes -= more;
    plan.expected_bytes += more;
    let mut instead = bytes - more;
    for (node, aside) in plan.aside.get_mut(&(from, to)).into_iter().flatten() {
        let taken = aside.take(instead);
        instead -= taken.bytes;
        plan.nearer_bytes -= taken.bytes;
        plan.near_came_bytes -= taken.near_bytes;
        plan.expected_flows.entry((from, *node)).and_modify(|flow| *flow -= taken.bytes);
        plan.expected_room.entry(*node).and_modify(|room| room.free_bytes -= taken.bytes);
    }
    *plan.expected_flows.entry((from, to)).or_default() += bytes;
    plan.expected_room.entry(to).or_default().exchange_bytes += bytes;
    // Memory that goes the other way is copied, too.
    plan.expected_seconds += (bytes + more) as f64 / BASE_RATE;
}

/// Bytes that have left a node for an exchange, and bytes that have come in their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Bytes that other runs were asked to move away.
    pub asked_bytes: u64,
    /// Bytes that they have moved away.
    pub out_bytes: u64,
    /// Bytes that have come to the node in their place.
    pub in_bytes: u64,
}

/// The next step of an exchange, if memory waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Others are still at work.
    Wait,
    /// They are to take away this many bytes more.
    Ask(u64),
    /// No more room is available: the nodes that the memory comes from have none for others' memory, or a whole chunk that left has
    /// been taken by another user of memory.
    Stop,
}

impl Balance {
    /// Bytes that have left and in whose place nothing has come yet.
    pub fn vacated_bytes(&self) -> u64 {
        self.out_bytes.saturating_sub(self.in_bytes)
    }

    /// Counts bytes that have come to the node. Returns the part of them that took the place of bytes that have left.
    pub fn come(&mut self, bytes: u64) -> u64 {
        let in_place_bytes = bytes.min(self.vacated_bytes());
        self.in_bytes += in_place_bytes;
        in_place_bytes
    }

    /// Bytes that the node, with this memory, can take for what has left it. Its reserve does not count: as much is free afterwards
    /// as before. But its kswapd is not to be woken.
    pub fn room(&self, memory: &NodeMemory) -> u64 {
        self.vacated_bytes().min(memory.free_bytes.saturating_sub(memory.low_watermark_bytes))
    }

    /// The step to take while `waiting_bytes` wait for room, and the nodes that they come from have room for
    /// `room_bytes`. A run's last bytes take what there is; before them, less than a huge page is not worth a turn.
    pub fn step(&self, waiting_bytes: u64, room_bytes: u64) -> Step {
        if self.out_bytes < self.asked_bytes {
            return Step::Wait;
        }
        let left = CHUNK.saturating_sub(self.vacated_bytes());
        let more = waiting_bytes.min(left).min(room_bytes);
        if more == 0 || more < waiting_bytes.min(pmd_size()) { Step::Stop } else { Step::Ask(more) }
    }

    /// A number that grows with each byte that is asked for, leaves or comes.
    pub fn progress(&self) -> u64 {
        self.asked_bytes + self.out_bytes + self.in_bytes
    }
}

#[cfg(test)]
mod tests;
