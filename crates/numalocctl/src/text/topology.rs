//! Prints the answer of `numalocctl topology` as text.

use super::{cells::dash, table::Table};
use crate::{output::View, units::size};
use numaloc_api::v1;

/// Nodes and their distances in one table.
pub fn topology(topology: &v1::Topology, view: View) -> String {
    let mut table = Table::new().numbers("NODE").words("CPUS").numbers("SIZE").numbers("FREE");
    table = table.numbers("CACHE");
    if view.wide {
        table = table.numbers("PROTECTED").numbers("HIGH WATERMARK").numbers("RESERVE");
        table = table.words("HUGE PAGES FREE");
    }
    table = table.words("KIND").words("DISTANCES");
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
            ]);
        }
        let kind = match (node.cpus.is_empty(), node.memory_tier, node.total_bytes) {
            (_, _, 0) => "no memory".to_owned(),
            (true, Some(tier), _) => format!("memory only, tier {tier}"),
            (true, None, _) => "memory only".to_owned(),
            _ => "cpus and memory".to_owned(),
        };
        let devices = node.dax_devices.iter();
        let devices = devices.map(|device| format!(", {} of {}", size(device.bytes), device.name));
        let kind = devices.fold(kind, |kind, device| kind + &device);
        let distances = node.distances.iter().map(|to| format!("{}:{}", to.node_id, to.distance));
        row.extend([kind, distances.collect::<Vec<_>>().join(" ")]);
        table.row(row);
    }
    table.render(view)
}

fn pools(node: &v1::Node) -> String {
    let pools = node.huge_pools.iter();
    let pools = pools.map(|pool| {
        format!("{}/{} of {}", pool.free_pages, pool.total_pages, size(pool.page_bytes))
    });
    pools.collect::<Vec<_>>().join(", ")
}
