//! What a migration would do.

use super::locality::{ProcessDoc, ids};
use super::parts::{
    FlowDoc, LeftDoc, LocalityPair, NodeBytes, RouteDoc, Why, flows, left, node_bytes, route_doc,
    routes_in_use, source_name, source_reason,
};
use crate::look::Look;
use numaloc_core::{Locality, Mapping, Move, Options, Plan, Share, Skipped, Topology};
use serde::Serialize;
use std::collections::BTreeMap;

/// What `plan` shows.
#[derive(Clone, Debug, Serialize)]
pub struct PlanDoc {
    /// What was asked.
    pub options: OptionsDoc,
    /// `pagemap` or `move_pages`: how page locations were found; null if the daemon found them.
    pub source: Option<&'static str>,
    /// The same for people.
    #[serde(skip)]
    pub source_reason: Option<&'static str>,
    /// The target's processes.
    pub processes: Vec<ProcessDoc>,
    /// Where pages of each node go, as far as pages leave it.
    pub routes: Vec<RouteDoc>,
    /// Extents to visit, in order; null if the daemon made the plan, which sums them up.
    pub moves: Option<Vec<MoveDoc>>,
    /// The same, summed up by kind.
    pub moves_by_kind: Vec<MoveSumDoc>,
    /// Extents with remote pages that stay; null if the daemon made the plan.
    pub skipped: Option<Vec<SkippedDoc>>,
    /// The same, summed up by kind and reason.
    pub skipped_by_kind: Vec<SkipSumDoc>,
    /// What stays, by reason.
    pub left: Vec<LeftDoc>,
    /// Bytes that will move if nothing intervenes.
    pub expected_bytes: u64,
    /// A guess at the time that the copying takes on bare metal.
    pub expected_seconds: f64,
    /// Bytes that will move, by source and target.
    pub expected_flows: Vec<FlowDoc>,
    /// Bytes that are to move but have no room on any target now.
    pub no_room_bytes: u64,
    /// hugetlb memory that the targets' pools have no pages for: taken fresh and expected to move, or without room.
    pub beyond_pool_bytes: u64,
    /// Moving ends after so many bytes (a target ratio under 100).
    pub limit_bytes: Option<u64>,
    /// Resident pages whose node could not be told.
    pub unplaced_bytes: u64,
    /// To be moved, unless the application has bound it: nobody has asked.
    pub unasked_bytes: u64,
    /// `address`, `damon` or `referenced`: how it will be found out what comes first.
    pub order: &'static str,
    /// The same for people.
    #[serde(skip)]
    pub order_words: String,
    /// Where the target stands.
    pub before: LocalityPair,
    /// Where it will stand if nothing intervenes.
    pub after: LocalityPair,
}

/// The options in force.
#[derive(Clone, Debug, Serialize)]
pub struct OptionsDoc {
    /// Whether pages that strangers map are moved.
    pub include_shared: bool,
    /// Whether pages of files stay.
    pub exclude_file: bool,
    /// Whether pages move against the application's own policy.
    pub include_bound: bool,
    /// Whether pages move that alone take longer than a call may.
    pub include_gigantic: bool,
    /// `pool` or `fresh`: where the target's hugetlb pages come from.
    pub hugetlb: &'static str,
    /// The share that is enough.
    pub target_ratio_percent: u8,
    /// Nodes asked for.
    pub to_nodes: Option<Vec<u32>>,
    /// `cpus` or `busy`: whose CPUs make the home of a process.
    pub home: &'static str,
    /// Nodes that pages may leave; null: all but memory-only ones of another tier.
    pub from_nodes: Option<Vec<u32>>,
    /// Bytes to stay free on a target; null: 1% of the node, at least 64 MiB.
    pub reserve_bytes: Option<u64>,
    /// What comes first: `probed`, `address`, `damon` or `referenced`.
    pub order: &'static str,
    /// `gentle`, `balanced` or `fast`.
    pub profile: &'static str,
    /// The longest that a call may take; null: as the profile says.
    pub max_stall_seconds: Option<f64>,
    /// How busy others may keep a target node's CPUs; null: as the profile says.
    pub node_cpu_percent_max: Option<u8>,
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
    /// Remote bytes in it that strangers map too and that stay.
    pub shared_bytes: u64,
}

/// Remote bytes of an extent that stay.
#[derive(Clone, Debug, Serialize)]
pub struct SkippedDoc {
    /// One of those who map it.
    pub mapping: MappingDoc,
    /// What backs it.
    pub kind: &'static str,
    /// Path or name as in /proc/PID/maps.
    pub name: String,
    /// Why.
    pub reason: Why,
    /// How much.
    pub remote_bytes: u64,
}

/// Extents of one kind with pages to move.
#[derive(Clone, Debug, Serialize)]
pub struct MoveSumDoc {
    /// What backs them.
    pub kind: &'static str,
    /// How many.
    pub extents: u64,
    /// Their length.
    pub length_bytes: u64,
    /// Bytes to move.
    pub remote_bytes: u64,
    /// Remote bytes in them that strangers map too and that stay.
    pub shared_bytes: u64,
}

/// Extents of one kind whose remote bytes stay for one reason.
#[derive(Clone, Debug, Serialize)]
pub struct SkipSumDoc {
    /// What backs them.
    pub kind: &'static str,
    /// Why they stay.
    pub reason: Why,
    /// How many.
    pub extents: u64,
    /// How much.
    pub remote_bytes: u64,
}

impl From<&Look> for PlanDoc {
    fn from(look: &Look) -> Self {
        let (plan, topology) = (&look.plan, &look.topology);
        Self {
            options: (&plan.options).into(),
            source: Some(source_name(look.source)),
            source_reason: Some(source_reason(look.source)),
            processes: plan.processes.iter().map(ProcessDoc::from).collect(),
            routes: routes_in_use(plan, topology),
            moves: Some(plan.moves.iter().map(|step| move_doc(plan, step, topology)).collect()),
            moves_by_kind: moves_by_kind(plan),
            skipped: Some(plan.skipped.iter().map(|each| skipped_doc(plan, each)).collect()),
            skipped_by_kind: skipped_by_kind(plan),
            left: left(&plan.skipped_bytes()),
            expected_bytes: plan.expected_bytes,
            expected_seconds: plan.expected_seconds,
            expected_flows: flows(&plan.expected_flows),
            no_room_bytes: plan.no_room_bytes,
            beyond_pool_bytes: plan.beyond_pool_bytes,
            limit_bytes: plan.limit_bytes,
            unplaced_bytes: plan.unplaced_bytes,
            unasked_bytes: plan.unasked_bytes,
            order: plan.order.name(),
            order_words: plan.order.to_string(),
            before: plan.locality.into(),
            after: after(plan.locality, plan.expected_share(), plan.expected_bytes),
        }
    }
}

/// Where a target will stand once `expected_bytes` have moved and `movable` is its share of what may be moved.
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
    for step in &plan.moves {
        let kind = step.kind.name();
        let empty =
            MoveSumDoc { kind, extents: 0, length_bytes: 0, remote_bytes: 0, shared_bytes: 0 };
        let sum = sums.entry(step.kind).or_insert(empty);
        sum.extents += 1;
        sum.length_bytes += step.bytes;
        sum.remote_bytes += step.remote.values().sum::<u64>();
        sum.shared_bytes += step.shared_bytes;
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

impl From<&Options> for OptionsDoc {
    fn from(options: &Options) -> Self {
        Self {
            include_shared: options.include_shared,
            exclude_file: options.exclude_file,
            include_bound: options.include_bound,
            include_gigantic: options.include_gigantic,
            hugetlb: options.hugetlb.name(),
            target_ratio_percent: options.target_ratio,
            to_nodes: options.to.as_ref().map(ids),
            home: options.home.name(),
            from_nodes: options.from.as_ref().map(ids),
            reserve_bytes: options.reserve_bytes,
            order: options.order.name(),
            profile: options.pacing.profile.name(),
            max_stall_seconds: options.pacing.max_stall.map(|stall| stall.as_secs_f64()),
            node_cpu_percent_max: options.pacing.node_cpu_percent_max,
        }
    }
}

fn mapping_doc(plan: &Plan, mapping: &Mapping) -> MappingDoc {
    let pid = plan.processes[mapping.process].process.identity.pid;
    MappingDoc { pid, address: format!("{:#x}", mapping.start) }
}

fn move_doc(plan: &Plan, step: &Move, topology: &Topology) -> MoveDoc {
    let routes = &plan.routes[step.routes];
    MoveDoc {
        mappings: step.mappings.iter().map(|mapping| mapping_doc(plan, mapping)).collect(),
        kind: step.kind.name(),
        name: step.name.to_string(),
        length_bytes: step.bytes,
        hugetlb_page_bytes: step.hugetlb_bytes,
        remote: node_bytes(&step.remote),
        routes: step.remote.keys().map(|&from| route_doc(routes, from, topology)).collect(),
        shared_bytes: step.shared_bytes,
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
