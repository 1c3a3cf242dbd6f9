//! Plans.

use super::{
    Daemon, client,
    fields::{amount, left, node, seconds, share, why},
    locality::process,
    missing::missing,
    spec::options,
};
use crate::{
    doc::{FlowDoc, MoveSumDoc, NodeDistance, PlanDoc, RoomDoc, RouteDoc, SkipSumDoc, after},
    exit::Failure,
};
use numaloc_api::{v1, value};
use numaloc_core::{HeatSource, Kind, Locality, NodeId, Topology};

impl Daemon {
    /// What a migration would do.
    pub fn plan(&self, spec: &value::MigrationSpec) -> Result<PlanDoc, Failure> {
        let mut service = client!(self, migration_service_client, MigrationServiceClient);
        let spec = v1::MigrationSpec::from(spec);
        let message = v1::PlanMigrationRequest { spec: Some(spec.clone()) };
        let answer =
            self.call(message, |request| async move { service.plan_migration(request).await })?;
        let policy = spec.policy.unwrap_or_default();
        let document = plan(&answer.plan.unwrap_or_default(), &policy, &self.topology()?);
        Ok(PlanDoc { missing: missing(&answer.missing), ..document })
    }
}

/// A document from a message.
pub fn plan(message: &v1::Plan, policy: &v1::Policy, topology: &Topology) -> PlanDoc {
    let before = Locality {
        movable: share(message.movable_before.as_ref()),
        overall: share(message.overall_before.as_ref()),
    };
    let expected_bytes = amount(message.expected_bytes);
    let order = order(message.order());
    PlanDoc {
        options: options(policy),
        source: None,
        source_reason: None,
        processes: message.processes.iter().map(process).collect(),
        routes: message.routes.iter().map(|one| route(one, topology)).collect(),
        moves: None,
        moves_by_kind: message.moves.iter().map(moves).collect(),
        skipped: None,
        skipped_by_kind: message.skipped.iter().map(skipped).collect(),
        left: left(&message.left),
        expected_bytes,
        expected_seconds: seconds(message.expected_duration),
        expected_flows: flows(&message.expected_flows),
        no_room_bytes: amount(message.no_room_bytes),
        beyond_pool_bytes: amount(message.beyond_pool_bytes),
        expected_room: message.expected_room.iter().map(room).collect(),
        limit_bytes: message.limit_bytes.map(amount),
        unplaced_bytes: amount(message.unplaced_bytes),
        unasked_bytes: amount(message.unasked_bytes),
        order: order.name(),
        order_words: order.to_string(),
        before: before.into(),
        after: after(before, share(message.movable_after.as_ref()), expected_bytes),
        missing: Vec::new(),
    }
}

fn room(message: &v1::NodeRoom) -> RoomDoc {
    RoomDoc {
        node: node(message.node_id),
        pool_bytes: amount(message.pool_bytes),
        free_bytes: amount(message.free_bytes),
        cache_bytes: amount(message.cache_bytes),
        protected_bytes: amount(message.protected_bytes),
        exchange_bytes: amount(message.exchange_bytes),
    }
}

/// Flows.
pub fn flows(messages: &[v1::Flow]) -> Vec<FlowDoc> {
    let flow = |message: &v1::Flow| FlowDoc {
        from_node: node(message.from_node_id),
        to_node: node(message.to_node_id),
        bytes: amount(message.bytes),
    };
    messages.iter().map(flow).collect()
}

fn route(message: &v1::Route, topology: &Topology) -> RouteDoc {
    let from_node = node(message.from_node_id);
    let to = message.to_node_ids.iter().map(|&to| NodeDistance {
        node: node(to),
        distance: topology.distance(NodeId(from_node), NodeId(node(to))),
    });
    RouteDoc { from_node, to_nodes: to.collect() }
}

fn moves(message: &v1::MoveSummary) -> MoveSumDoc {
    MoveSumDoc {
        kind: kind(message.kind()),
        extents: amount(message.extents),
        length_bytes: amount(message.length_bytes),
        remote_bytes: amount(message.remote_bytes),
        shared_bytes: amount(message.shared_bytes),
    }
}

fn skipped(message: &v1::SkipSummary) -> SkipSumDoc {
    SkipSumDoc {
        kind: kind(message.kind()),
        reason: why(message.reason),
        extents: amount(message.extents),
        remote_bytes: amount(message.remote_bytes),
    }
}

fn order(order: v1::MoveOrder) -> HeatSource {
    match order {
        v1::MoveOrder::Damon => HeatSource::Damon,
        v1::MoveOrder::Referenced => HeatSource::Referenced,
        v1::MoveOrder::Unspecified | v1::MoveOrder::Probed | v1::MoveOrder::Address => {
            HeatSource::Address
        }
    }
}

fn kind(kind: v1::MemoryKind) -> &'static str {
    match kind {
        v1::MemoryKind::Unspecified => "unknown",
        v1::MemoryKind::Anonymous => Kind::Anonymous.name(),
        v1::MemoryKind::Heap => Kind::Heap.name(),
        v1::MemoryKind::Stack => Kind::Stack.name(),
        v1::MemoryKind::File => Kind::File.name(),
        v1::MemoryKind::Shmem => Kind::Shmem.name(),
    }
}
