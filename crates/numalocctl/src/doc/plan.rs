//! What a migration would do.

use super::MissingDoc;
use super::locality::ProcessDoc;
use super::options::OptionsDoc;
use super::parts::{
    FlowDoc, LeftDoc, LocalityPair, NodeBytes, RouteDoc, Why, flows, left, node_bytes, route_doc,
    routes_in_use, source_name, source_reason,
};
use crate::inspect::Inspection;
use numaloc_core::{Locality, Mapping, Move, NodeId, Plan, Share, Skipped, Taken, Topology};
use serde::Serialize;
use std::collections::BTreeMap;

/// What `plan` shows.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDoc {
    /// The options of the plan.
    pub options: OptionsDoc,
    /// How page locations were found: `pagemap` or `move_pages`; null if the daemon found them.
    pub source: Option<&'static str>,
    /// Why this source is used, as text for people.
    #[serde(skip)]
    pub source_reason: Option<&'static str>,
    /// The target's processes.
    pub processes: Vec<ProcessDoc>,
    /// For each node that pages would leave: where they may go.
    pub routes: Vec<RouteDoc>,
    /// Extents with pages to move, in the order of the move; null if the daemon made the plan, because it has only sums.
    pub moves: Option<Vec<MoveDoc>>,
    /// The same, summed up by kind.
    pub moves_by_kind: Vec<MoveSumDoc>,
    /// Extents with remote pages that stay; null if the daemon made the plan.
    pub skipped: Option<Vec<SkippedDoc>>,
    /// The same, summed up by kind and reason.
    pub skipped_by_kind: Vec<SkipSumDoc>,
    /// What stays, by reason.
    pub left: Vec<LeftDoc>,
    /// Bytes that will move if nothing changes meanwhile.
    pub expected_bytes: u64,
    /// Estimated time for copying the bytes on bare metal, and for dropping page cache for them at the profile's bound.
    pub expected_seconds: f64,
    /// The same bytes by source and target.
    pub expected_flows: Vec<FlowDoc>,
    /// Bytes that are to move, but for which no target has room now.
    pub no_room_bytes: u64,
    /// Where the room for `expected_bytes` comes from, by target node.
    pub expected_room: Vec<RoomDoc>,
    /// hugetlb memory for which the target nodes' pools have no pages. With `fresh` it is part of the expected bytes, with
    /// `pool` it has no room.
    pub beyond_pool_bytes: u64,
    /// The move ends after this many bytes, because the target ratio is below 100.
    pub limit_bytes: Option<u64>,
    /// Resident bytes whose node could not be found out.
    pub unplaced_bytes: u64,
    /// Bytes to move whose memory policy was not looked up. What the application has bound of them will stay.
    pub unasked_bytes: u64,
    /// How it will be found out which memory is used most: `damon` or `referenced`, or `address` if it will move by
    /// address.
    pub order: &'static str,
    /// The order as text for people.
    #[serde(skip)]
    pub order_words: String,
    /// Locality of the target now.
    pub before: LocalityPair,
    /// Locality if nothing changes meanwhile.
    pub after: LocalityPair,
    /// What of the target is left out: none of the numbers include it.
    pub missing: Vec<MissingDoc>,
}

/// Where the room on a target node comes from.
#[derive(Clone, Debug, Serialize)]
pub struct RoomDoc {
    /// OS index.
    pub node: u32,
    /// Its pool of hugetlb pages.
    pub pool_bytes: u64,
    /// Its free memory.
    pub free_bytes: u64,
    /// Page cache that is dropped.
    pub cache_bytes: u64,
    /// Page cache that is not dropped although room is short, because cgroups protect it.
    pub protected_bytes: u64,
    /// Memory of others that goes elsewhere.
    pub exchange_bytes: u64,
}

/// One process's view of an extent.
#[derive(Clone, Debug, Serialize)]
pub struct MappingDoc {
    /// The process.
    pub pid: i32,
    /// Its first address there, as in /proc/PID/maps.
    pub address: String,
}

/// An extent with pages to move.
#[derive(Clone, Debug, Serialize)]
pub struct MoveDoc {
    /// Who maps it.
    pub mappings: Vec<MappingDoc>,
    /// What backs it.
    pub kind: &'static str,
    /// Path or name as in /proc/PID/maps.
    pub name: String,
    /// Length of the range.
    pub length_bytes: u64,
    /// hugetlb page size.
    pub hugetlb_page_bytes: Option<u64>,
    /// Bytes to move, by the node they are on.
    pub remote: Vec<NodeBytes>,
    /// For each of these nodes the targets, best first.
    pub routes: Vec<RouteDoc>,
    /// Remote bytes in it that stay, because processes outside the target map them, too.
    pub shared_bytes: u64,
}

/// Remote bytes of an extent that stay.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedDoc {
    /// One of its mappings.
    pub mapping: MappingDoc,
    /// What backs it.
    pub kind: &'static str,
    /// Path or name as in /proc/PID/maps.
    pub name: String,
    /// Why they stay.
    pub reason: Why,
    /// Remote bytes in it.
    pub remote_bytes: u64,
}

/// Extents of one kind with pages to move.
#[derive(Clone, Debug, Serialize)]
pub struct MoveSumDoc {
    /// What backs them.
    pub kind: &'static str,
    /// Number of extents.
    pub extents: u64,
    /// Their total length.
    pub length_bytes: u64,
    /// Bytes to move.
    pub remote_bytes: u64,
    /// Remote bytes in them that stay, because processes outside the target map them, too.
    pub shared_bytes: u64,
}

/// Extents of one kind whose remote bytes stay for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct SkipSumDoc {
    /// What backs them.
    pub kind: &'static str,
    /// Why they stay.
    pub reason: Why,
    /// Number of extents.
    pub extents: u64,
    /// Remote bytes in them.
    pub remote_bytes: u64,
}

impl From<&Inspection> for PlanDoc {
    fn from(inspected: &Inspection) -> Self {
        let (plan, topology) = (&inspected.plan, &inspected.topology);
        Self {
            options: (&plan.options).into(),
            source: Some(source_name(inspected.source)),
            source_reason: Some(source_reason(inspected.source)),
            processes: plan.processes.iter().map(ProcessDoc::from).collect(),
            routes: routes_in_use(plan, topology),
            moves: Some(
                plan.moves
                    .iter()
                    .map(|planned_move| move_doc(plan, planned_move, topology))
                    .collect(),
            ),
            moves_by_kind: moves_by_kind(plan),
            skipped: Some(plan.skipped.iter().map(|each| skipped_doc(plan, each)).collect()),
            skipped_by_kind: skipped_by_kind(plan),
            left: left(&plan.skipped_bytes()),
            expected_bytes: plan.expected_bytes,
            expected_seconds: plan.predicted_seconds(),
            expected_flows: flows(&plan.expected_flows),
            no_room_bytes: plan.no_room_bytes,
            expected_room: plan.rooms().map(room).collect(),
            beyond_pool_bytes: plan.beyond_pool_bytes,
            limit_bytes: plan.limit_bytes,
            unplaced_bytes: plan.unplaced_bytes,
            unasked_bytes: plan.unasked_bytes,
            order: plan.order.name(),
            order_words: plan.order.to_string(),
            before: plan.locality.into(),
            after: after(plan.locality, plan.expected_share(), plan.expected_bytes),
            missing: inspected.missing.iter().map(Into::into).collect(),
        }
    }
}

fn room((node, taken, protected_bytes): (NodeId, Taken, u64)) -> RoomDoc {
    RoomDoc {
        node: node.0,
        pool_bytes: taken.pool_bytes,
        free_bytes: taken.free_bytes,
        cache_bytes: taken.cache_bytes,
        protected_bytes,
        exchange_bytes: taken.exchange_bytes,
    }
}

/// Locality of a target after `expected_bytes` have moved. `movable` is the share of movable memory by then.
pub fn after(before: Locality, movable: Share, expected_bytes: u64) -> LocalityPair {
    let Share { local_bytes, remote_bytes } = before.overall;
    let overall = Share {
        local_bytes: local_bytes.saturating_add(expected_bytes),
        remote_bytes: remote_bytes.saturating_sub(expected_bytes),
    };
    Locality { movable, overall }.into()
}

fn moves_by_kind(plan: &Plan) -> Vec<MoveSumDoc> {
    let mut sums = BTreeMap::new();
    for planned_move in &plan.moves {
        let kind = planned_move.kind.name();
        let empty =
            MoveSumDoc { kind, extents: 0, length_bytes: 0, remote_bytes: 0, shared_bytes: 0 };
        let sum = sums.entry(planned_move.kind).or_insert(empty);
        sum.extents += 1;
        sum.length_bytes += planned_move.bytes;
        sum.remote_bytes += planned_move.remote.values().sum::<u64>();
        sum.shared_bytes += planned_move.shared_bytes;
    }
    sums.into_values().collect()
}

fn skipped_by_kind(plan: &Plan) -> Vec<SkipSumDoc> {
    let mut sums = BTreeMap::new();
    for skipped in &plan.skipped {
        let (kind, reason) = (skipped.kind.name(), skipped.reason.into());
        let empty = SkipSumDoc { kind, reason, extents: 0, remote_bytes: 0 };
        let sum = sums.entry((skipped.kind, skipped.reason)).or_insert(empty);
        sum.extents += 1;
        sum.remote_bytes += skipped.remote_bytes;
    }
    sums.into_values().collect()
}

fn mapping_doc(plan: &Plan, mapping: &Mapping) -> MappingDoc {
    let pid = plan.processes[mapping.process].process.identity.pid;
    MappingDoc { pid, address: format!("{:#x}", mapping.start) }
}

fn move_doc(plan: &Plan, planned_move: &Move, topology: &Topology) -> MoveDoc {
    let routes = &plan.routes[planned_move.routes];
    MoveDoc {
        mappings: planned_move.mappings.iter().map(|mapping| mapping_doc(plan, mapping)).collect(),
        kind: planned_move.kind.name(),
        name: planned_move.name.to_string(),
        length_bytes: planned_move.bytes,
        hugetlb_page_bytes: planned_move.hugetlb_bytes,
        remote: node_bytes(&planned_move.remote),
        routes: planned_move.remote.keys().map(|&from| route_doc(routes, from, topology)).collect(),
        shared_bytes: planned_move.shared_bytes,
    }
}

fn skipped_doc(plan: &Plan, skipped: &Skipped) -> SkippedDoc {
    SkippedDoc {
        mapping: mapping_doc(plan, &skipped.mapping),
        kind: skipped.kind.name(),
        name: skipped.name.to_string(),
        reason: skipped.reason.into(),
        remote_bytes: skipped.remote_bytes,
    }
}
