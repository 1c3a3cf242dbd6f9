//! The layout of `numactl -H` (numactl.c, `hardware` and `print_distances`), which scripts parse.

use crate::doc::TopologyDoc;
use std::fmt::Write;

/// The machine as `numactl -H` prints it. Its MB are 1,048,576 bytes, rounded down.
pub fn numactl(document: &TopologyDoc) -> String {
    let mut text = String::new();
    let ids: Vec<u32> = document.nodes.iter().map(|node| node.node).collect();
    let _ = writeln!(text, "available: {} nodes ({})", ids.len(), ranges(&ids));
    for node in &document.nodes {
        let id = node.node;
        let cpus: String = node.cpu_ids.iter().map(|cpu| format!(" {cpu}")).collect();
        let _ = writeln!(text, "node {id} cpus:{cpus}");
        let _ = writeln!(text, "node {id} size: {} MB", node.total_bytes >> 20);
        let _ = writeln!(text, "node {id} free: {} MB", node.free_bytes >> 20);
    }
    let _ = writeln!(text, "node distances:");
    let header: String = ids.iter().map(|id| format!("{} ", padded(u64::from(*id)))).collect();
    let _ = writeln!(text, "node {header}");
    for node in &document.nodes {
        let row = node.distances.iter().map(|to| format!("{} ", padded(to.distance)));
        let _ = writeln!(text, "{}: {}", padded(u64::from(node.node)), row.collect::<String>());
    }
    text
}

/// C's `% 3d`: at least three wide, and always with a space in front.
fn padded(number: u64) -> String {
    format!("{:>3}", format!(" {number}"))
}

fn ranges(ids: &[u32]) -> String {
    let set: numaloc_core::NodeSet = ids.iter().map(|&id| numaloc_core::NodeId(id)).collect();
    set.to_string()
}
