//! Prints the answer of `numalocctl topology` as text.

use super::{cells::dash, csv, table::Table};
use crate::{clean::clean, output::View, units::size};
use numaloc_api::{Known, v1};
use numaloc_core::{StorageMode, TierSource};

/// Nodes and their distances in one table.
pub fn topology(topology: &v1::Topology, view: View) -> String {
    if view.csv {
        return csv::nodes(topology, view);
    }
    let mut table = Table::new().numbers("NODE").words("CPUS").numbers("SIZE").numbers("FREE");
    table = table.numbers("CACHE");
    if view.wide {
        table = table.numbers("PROTECTED").numbers("HIGH WATERMARK").numbers("RESERVE");
        table = table.words("HUGE PAGES FREE").numbers("MOVABLE").numbers("SIDE CACHE");
    }
    table = table.words("KIND").words("TIER").words("DISTANCES");
    for node in &topology.nodes {
        let mut row = vec![
            node.node_id.to_string(),
            dash(&node.cpus),
            size(node.total_bytes),
            size(node.free_bytes),
            size(node.cache_bytes),
        ];
        if view.wide {
            row.extend([
                size(node.protected_bytes),
                size(node.high_watermark_bytes),
                size(node.default_reserve_bytes),
                dash(&pools(node)),
                node.movable_bytes.map_or("-".to_owned(), size),
                dash(&side_caches(node)),
            ]);
        }
        let kind = kind(node);
        let devices = node.dax_devices.iter();
        let devices = devices.map(|device| format!(", {} of {}", size(device.bytes), device.name));
        let kind = devices.fold(kind, |kind, device| kind + &device);
        let distances = node.distances.iter().map(|to| format!("{}:{}", to.node_id, to.distance));
        row.extend([kind, tier(node), distances.collect::<Vec<_>>().join(" ")]);
        table.row(row);
    }
    let storage = match view.rows_alone() {
        true => String::new(),
        false => topology.storage_devices.iter().map(storage).collect(),
    };
    table.render(view) + &storage
}

/// What its memory is, for people.
fn kind(node: &v1::Node) -> String {
    let kind = match node.kind() {
        v1::NodeKind::Dram => "DRAM",
        v1::NodeKind::Hbm => "HBM",
        v1::NodeKind::Cxl => "CXL",
        v1::NodeKind::Persistent => "persistent memory",
        v1::NodeKind::Gpu => "GPU memory",
        v1::NodeKind::Private => "private",
        v1::NodeKind::MemoryOnly => "memory only",
        v1::NodeKind::Empty => "no memory",
        // An older daemon does not say it.
        v1::NodeKind::Unspecified if node.total_bytes == 0 => "no memory",
        v1::NodeKind::Unspecified if node.cpus.is_empty() => "memory only",
        v1::NodeKind::Unspecified => "cpus and memory",
    };
    kind.to_owned()
}

/// Its tier, and what says so.
fn tier(node: &v1::Node) -> String {
    match (node.tier, TierSource::known(node.tier_source).flatten()) {
        (Some(tier), Some(source)) => format!("{tier} ({})", source.name()),
        (Some(tier), None) => tier.to_string(),
        (None, _) => "-".to_owned(),
    }
}

fn side_caches(node: &v1::Node) -> String {
    let caches = node.side_caches.iter().map(|cache| size(cache.bytes));
    caches.collect::<Vec<_>>().join(", ")
}

/// A line for a namespace of persistent memory or a DAX device.
fn storage(device: &v1::StorageDevice) -> String {
    let mode = StorageMode::known(device.mode).flatten().map_or("unknown", StorageMode::name);
    let mut text = format!("storage: {} {mode}, {}", clean(&device.name), size(device.bytes));
    match device.node_id {
        Some(node) => text += &format!(", attached to node {node}"),
        None => text += ", attached to a node that the firmware does not name",
    }
    match device.target_node_id {
        target if target == device.node_id => {}
        Some(target) if mode == StorageMode::SystemRam.name() => {
            text += &format!(", memory of node {target}");
        }
        Some(target) => text += &format!(", as memory it would be node {target}"),
        None => {}
    }
    if !device.disk.is_empty() {
        text += &format!(", disk {}", clean(&device.disk));
    }
    if device.descriptor_bytes > 0 {
        text += &format!(", {} of DRAM for its page descriptors", size(device.descriptor_bytes));
    }
    text + "\n"
}

fn pools(node: &v1::Node) -> String {
    let pools = node.huge_pools.iter();
    let pools = pools.map(|pool| {
        format!("{}/{} of {}", pool.free_pages, pool.total_pages, size(pool.page_bytes))
    });
    pools.collect::<Vec<_>>().join(", ")
}
