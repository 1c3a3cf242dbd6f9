//! Plans to the API, with their extents summed up.

use super::{
    locality::{fixed, flows, held_files, node_bytes, one_sided, resident, source},
    names::{duration, index, int, int32},
    outcome::left,
    placement::node_weights,
};
use crate::{v1, value::PlanSummary};
use numaloc_core::{
    Benefit, ByBandwidth, KnownWeights, Locality, MapRule, Mapping, Move, NamedMemory, NodeId,
    OpenDevices, Placement, Plan, Routes, Share, Sharer, Skipped, Taken, TierUse, UseAmounts,
};
use std::{collections::BTreeMap, time::Duration};

impl PlanSummary {
    /// The plan for the page cache of files, of which so much is where it belongs.
    pub fn of_files(before: Locality) -> Self {
        let Locality { movable, overall } = before;
        let after = |Share { local_bytes, remote_bytes, .. }| {
            Some(Share { local_bytes: local_bytes + remote_bytes, ..Share::default() }.into())
        };
        Self(v1::Plan {
            expected_bytes: int(movable.remote_bytes),
            movable_before: Some(movable.into()),
            movable_after: after(movable),
            overall_before: Some(overall.into()),
            overall_after: after(overall),
            ..v1::Plan::default()
        })
    }
}

impl From<&Plan> for v1::Plan {
    fn from(plan: &Plan) -> Self {
        let known = known_weights(plan);
        let expected = Duration::try_from_secs_f64(plan.paced_seconds()).unwrap_or(Duration::MAX);
        Self {
            processes: plan.processes.iter().map(Into::into).collect(),
            shared: Some(resident(&plan.family_resident, &plan.family_locality)),
            routes: routes(plan),
            moves: moves(plan),
            skipped: skipped(plan),
            left: left(&plan.skipped_bytes()),
            expected_bytes: int(plan.expected_bytes),
            expected_duration: Some(duration(expected)),
            expected_flows: flows(&plan.expected_flows),
            no_room_bytes: int(plan.no_room_bytes),
            nearer_bytes: int(plan.nearer_bytes),
            limit_bytes: plan.limit_bytes.map(int),
            unplaced_bytes: int(plan.unplaced_bytes),
            source: source(plan).into(),
            unmapped: node_bytes(&plan.unmapped),
            unseen_bytes: int(plan.unseen_bytes),
            fixed: fixed(plan),
            one_sided: one_sided(plan),
            held_files: held_files(plan),
            sharing: plan
                .sharers
                .iter()
                .flat_map(|sharers| &sharers.processes)
                .map(Into::into)
                .collect(),
            sharing_count: plan.sharers.as_ref().map(|sharers| int32(sharers.count)),
            unasked_bytes: int(plan.unasked_bytes),
            movable_before: Some(plan.locality.movable.into()),
            movable_after: Some(plan.expected_share().into()),
            overall_before: Some(plan.locality.overall.into()),
            order: v1::MoveOrder::from(plan.order).into(),
            beyond_pool_bytes: int(plan.beyond_pool_bytes),
            expected_room: plan.rooms().map(|on| room(plan, on)).collect(),
            overall_after: Some(plan.expected_overall().into()),
            named: named(plan),
            benefit: plan.benefit().map(Into::into),
            weights: known.map_or_else(Vec::new, |known| node_weights(&known.weights)),
            exposed_bytes: int(plan.exposed_bytes),
            devices: plan.devices.iter().map(|open| devices(plan, open)).collect(),
            tier_use: plan.tiers.map(Into::into),
            weight_source: known.map_or(0, |known| v1::WeightSource::from(known.source).into()),
            ..Self::default()
        }
    }
}

impl v1::Plan {
    /// With each extent of `plan`, of which this is the message. There may be many thousands, so the daemon neither stores nor answers
    /// them.
    pub fn with_extents(self, plan: &Plan) -> Self {
        Self {
            extent_moves: plan.moves.iter().map(|planned| extent_move(plan, planned)).collect(),
            skipped_extents: plan.skipped.iter().map(|each| skipped_extent(plan, each)).collect(),
            ..self
        }
    }
}

fn named(plan: &Plan) -> Vec<v1::NamedMemory> {
    let rules = plan.options.maps.iter().zip(&plan.named);
    let one = |(rule, named): (&MapRule, &NamedMemory)| v1::NamedMemory {
        pattern: rule.pattern.to_string(),
        nodes: node_bytes(&named.resident),
        move_bytes: int(named.bytes_to_move),
    };
    rules.map(one).collect()
}

impl From<&Sharer> for v1::SharingProcess {
    fn from(sharer: &Sharer) -> Self {
        Self {
            process: Some(sharer.identity.into()),
            comm: sharer.comm.clone(),
            cgroup: sharer.cgroup.clone().unwrap_or_default(),
            bytes: int(sharer.bytes),
            name: sharer.name.to_string(),
        }
    }
}

impl From<TierUse> for v1::TierUse {
    fn from(tier_use: TierUse) -> Self {
        let TierUse { fast, slow, kept_bytes, resting_bytes } = tier_use;
        let amounts = |UseAmounts { hot_bytes, warm_bytes, cold_bytes, unseen_bytes }| {
            Some(v1::UseAmounts {
                hot_bytes: int(hot_bytes),
                warm_bytes: int(warm_bytes),
                cold_bytes: int(cold_bytes),
                unseen_bytes: int(unseen_bytes),
            })
        };
        Self {
            fast: amounts(fast),
            slow: amounts(slow),
            kept_bytes: int(kept_bytes),
            resting_bytes: int(resting_bytes),
        }
    }
}

impl From<Benefit> for v1::Benefit {
    fn from(benefit: Benefit) -> Self {
        Self {
            min_percent: benefit.min_percent,
            max_percent: benefit.max_percent,
            source: v1::LatencySource::from(benefit.waits.source).into(),
            latency_before: benefit.waits.before,
            latency_after: benefit.waits.after,
        }
    }
}

fn devices(plan: &Plan, open: &OpenDevices) -> v1::OpenDevices {
    let process = &plan.processes[open.process].process;
    v1::OpenDevices {
        process: Some(process.identity.into()),
        comm: process.comm.clone(),
        paths: open.paths.clone(),
    }
}

fn known_weights(plan: &Plan) -> Option<&KnownWeights> {
    match &plan.options.placement {
        Placement::Bandwidth(ByBandwidth { known, .. }) => known.as_ref(),
        _ => None,
    }
}

fn extent_move(plan: &Plan, planned: &Move) -> v1::ExtentMove {
    let routes = &plan.routes[planned.routes];
    v1::ExtentMove {
        mappings: planned.mappings.iter().map(|each| mapping(plan, each)).collect(),
        kind: v1::MemoryKind::from(planned.kind).into(),
        name: planned.name.to_string(),
        length_bytes: int(planned.bytes),
        hugetlb_page_bytes: planned.hugetlb_bytes.map(int),
        remote: node_bytes(&planned.remote),
        routes: planned.remote.keys().map(|&from| route(routes, from)).collect(),
        shared_bytes: int(planned.shared_bytes),
    }
}

fn skipped_extent(plan: &Plan, skipped: &Skipped) -> v1::SkippedExtent {
    v1::SkippedExtent {
        mapping: Some(mapping(plan, &skipped.mapping)),
        kind: v1::MemoryKind::from(skipped.kind).into(),
        name: skipped.name.to_string(),
        reason: v1::LeftReason::from(skipped.reason).into(),
        remote_bytes: int(skipped.remote_bytes),
    }
}

fn mapping(plan: &Plan, mapping: &Mapping) -> v1::ExtentMapping {
    let pid = plan.processes[mapping.process].process.identity.pid;
    v1::ExtentMapping { pid, start_address: mapping.start }
}

fn room(plan: &Plan, (node, taken, protected_bytes): (NodeId, Taken, u64)) -> v1::NodeRoom {
    let used_up = plan.used_up_pools.iter().filter(|(on, _)| *on == node);
    v1::NodeRoom {
        node_id: index(node.0),
        pool_bytes: int(taken.pool_bytes),
        free_bytes: int(taken.free_bytes),
        cache_bytes: int(taken.cache_bytes),
        protected_bytes: int(protected_bytes),
        exchange_bytes: int(taken.exchange_bytes),
        used_up_pool_page_bytes: used_up.map(|&(_, page_bytes)| int(page_bytes)).collect(),
        demotes: plan.demoting.contains(node),
    }
}

/// The routes of nodes that pages leave.
fn routes(plan: &Plan) -> Vec<v1::Route> {
    let mut used: Vec<v1::Route> = Vec::new();
    for (number, routes) in plan.routes.iter().enumerate() {
        for from in routes.iter().map(|route| route.from) {
            let mut moves = plan.moves.iter().filter(|planned_move| planned_move.routes == number);
            let route = route(routes, from);
            if moves.any(|planned_move| planned_move.remote.contains_key(&from))
                && !used.contains(&route)
            {
                used.push(route);
            }
        }
    }
    used
}

fn route(routes: &Routes, from: NodeId) -> v1::Route {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|to| index(to.0)).collect();
    let (to_node_ids, nearer_node_ids) = (ids(routes.from(from)), ids(routes.nearer(from)));
    v1::Route { from_node_id: index(from.0), to_node_ids, nearer_node_ids }
}

fn moves(plan: &Plan) -> Vec<v1::MoveSummary> {
    let mut by_kind = BTreeMap::new();
    for planned_move in &plan.moves {
        let sum = by_kind.entry(planned_move.kind).or_insert_with(|| v1::MoveSummary {
            kind: v1::MemoryKind::from(planned_move.kind).into(),
            ..v1::MoveSummary::default()
        });
        let remote =
            planned_move.remote.values().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        sum.extents += 1;
        sum.length_bytes = sum.length_bytes.saturating_add(int(planned_move.bytes));
        sum.remote_bytes = sum.remote_bytes.saturating_add(int(remote));
        sum.shared_bytes = sum.shared_bytes.saturating_add(int(planned_move.shared_bytes));
    }
    by_kind.into_values().collect()
}

fn skipped(plan: &Plan) -> Vec<v1::SkipSummary> {
    let mut sums = BTreeMap::new();
    for skipped in &plan.skipped {
        let key = (skipped.kind, skipped.reason);
        let sum = sums.entry(key).or_insert_with(|| v1::SkipSummary {
            kind: v1::MemoryKind::from(skipped.kind).into(),
            reason: v1::LeftReason::from(skipped.reason).into(),
            ..v1::SkipSummary::default()
        });
        sum.extents += 1;
        sum.remote_bytes = sum.remote_bytes.saturating_add(int(skipped.remote_bytes));
    }
    sums.into_values().collect()
}
