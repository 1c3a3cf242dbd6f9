//! The nodes of the machine with their CPUs, memory and distances.

use super::names::{index, int};
use crate::v1;
use numaloc_core::{DaxMemory, HugePool, Options, SideCache, StorageDevice, Topology};

impl From<&Topology> for v1::Topology {
    fn from(topology: &Topology) -> Self {
        let (ids, tiers) = (topology.ids(), topology.tiers());
        let nodes = topology.nodes().map(|node| {
            let distance = |to: numaloc_core::NodeId| v1::NodeDistance {
                node_id: index(to.0),
                distance: i32::try_from(topology.distance(node.id, to)).unwrap_or(i32::MAX),
            };
            let (nature, tier) = (topology.nature(node.id), tiers.get(&node.id));
            let kind = topology.node_kind(node.id).map(v1::NodeKind::from);
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
                kind: kind.unwrap_or_default().into(),
                tier: tier.map(|tier| index(tier.number)),
                tier_source: tier.map_or(0, |tier| v1::TierSource::from(tier.source).into()),
                movable_bytes: nature.and_then(|nature| nature.movable_bytes).map(int),
                side_caches: nature.map_or(Vec::new(), |nature| {
                    nature.side_caches.iter().map(Into::into).collect()
                }),
                descriptor_bytes: int(topology.descriptor_bytes(node.id)),
            }
        });
        let storage_devices = topology.storage().iter().map(Into::into).collect();
        Self { nodes: nodes.collect(), storage_devices }
    }
}

impl From<&DaxMemory> for v1::DaxDevice {
    fn from(device: &DaxMemory) -> Self {
        Self { name: device.name.clone(), bytes: int(device.bytes) }
    }
}

impl From<&SideCache> for v1::SideCache {
    fn from(cache: &SideCache) -> Self {
        Self {
            level: index(cache.level),
            bytes: int(cache.bytes),
            line_bytes: int(cache.line_bytes),
        }
    }
}

impl From<&StorageDevice> for v1::StorageDevice {
    fn from(device: &StorageDevice) -> Self {
        Self {
            name: device.name.clone(),
            mode: v1::StorageMode::from(device.mode).into(),
            bytes: int(device.bytes),
            node_id: device.node.map(|node| index(node.0)),
            target_node_id: device.target_node.map(|node| index(node.0)),
            disk: device.disk.clone().unwrap_or_default(),
            descriptor_bytes: int(device.descriptor_bytes),
        }
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
