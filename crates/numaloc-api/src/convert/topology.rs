//! The nodes of the machine with their CPUs, memory and distances.

use super::names::{index, int};
use crate::v1;
use numaloc_core::{DaxMemory, HugePool, Options, Topology};

impl From<&Topology> for v1::Topology {
    fn from(topology: &Topology) -> Self {
        let ids = topology.ids();
        let nodes = topology.nodes().map(|node| {
            let distance = |to: numaloc_core::NodeId| v1::NodeDistance {
                node_id: index(to.0),
                distance: i32::try_from(topology.distance(node.id, to)).unwrap_or(i32::MAX),
            };
            v1::Node {
                node_id: index(node.id.0),
                cpus: node.cpus.to_string(),
                total_bytes: int(node.memory.total_bytes),
                free_bytes: int(node.memory.free_bytes),
                high_watermark_bytes: int(node.memory.high_watermark_bytes),
                huge_pools: node.memory.huge_pools.iter().map(Into::into).collect(),
                distances: ids.iter().map(distance).collect(),
                cache_bytes: int(node.memory.cache_bytes),
                protected_bytes: int(node.memory.protected_bytes),
                memory_tier: topology.tier(node.id).map(index),
                default_reserve_bytes: match node.memory.total_bytes {
                    0 => 0,
                    total_bytes => int(Options::default().reserve(total_bytes).free_bytes),
                },
                dax_devices: topology.dax(node.id).iter().map(Into::into).collect(),
            }
        });
        Self { nodes: nodes.collect() }
    }
}

impl From<&DaxMemory> for v1::DaxDevice {
    fn from(device: &DaxMemory) -> Self {
        Self { name: device.name.clone(), bytes: int(device.bytes) }
    }
}

impl From<&HugePool> for v1::HugePool {
    fn from(pool: &HugePool) -> Self {
        Self {
            page_bytes: int(pool.page_bytes),
            total_pages: int(pool.total_pages),
            free_pages: int(pool.free_pages),
            unreserved_pages: int(pool.unreserved_pages),
        }
    }
}
