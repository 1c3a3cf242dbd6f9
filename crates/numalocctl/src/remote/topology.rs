//! The machine of the daemon.

use super::{
    Daemon, client,
    fields::{amount, node},
};
use crate::exit::Failure;
use numaloc_api::v1;
use numaloc_core::{HugePool, Node, NodeId, NodeMemory, Topology};

impl Daemon {
    /// The machine.
    pub fn topology(&self) -> Result<Topology, Failure> {
        let mut service = client!(self, locality_service_client, LocalityServiceClient);
        let answer = self.call(v1::GetTopologyRequest {}, |request| async move {
            service.get_topology(request).await
        })?;
        Ok(topology(&answer.topology.unwrap_or_default()))
    }
}

/// The machine from a message.
pub fn topology(message: &v1::Topology) -> Topology {
    let distances = message.nodes.iter().flat_map(|from| {
        let pair = |to: &v1::NodeDistance| {
            let distance = u64::try_from(to.distance).unwrap_or(0);
            ((NodeId(node(from.node_id)), NodeId(node(to.node_id))), distance)
        };
        from.distances.iter().map(pair)
    });
    let tier = |message: &v1::Node| {
        Some((NodeId(node(message.node_id)), u32::try_from(message.memory_tier?).ok()?))
    };
    let tiers = message.nodes.iter().filter_map(tier);
    Topology::new(message.nodes.iter().map(one), distances).with_tiers(tiers)
}

fn one(message: &v1::Node) -> Node {
    let pools = message.huge_pools.iter().map(|pool| HugePool {
        page_bytes: amount(pool.page_bytes),
        total_pages: amount(pool.total_pages),
        free_pages: amount(pool.free_pages),
        unreserved_pages: amount(pool.unreserved_pages),
    });
    Node {
        id: NodeId(node(message.node_id)),
        // The daemon writes lists in the kernel's form. A list that cannot be read is shown as no CPUs.
        cpus: message.cpus.parse().unwrap_or_default(),
        memory: NodeMemory {
            total_bytes: amount(message.total_bytes),
            free_bytes: amount(message.free_bytes),
            cache_bytes: amount(message.cache_bytes),
            protected_bytes: amount(message.protected_bytes),
            high_watermark_bytes: amount(message.high_watermark_bytes),
            huge_pools: pools.collect(),
            // What a client shows does without them.
            min_watermark_bytes: 0,
            low_watermark_bytes: 0,
        },
    }
}
