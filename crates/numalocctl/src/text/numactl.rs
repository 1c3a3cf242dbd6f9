//! The layout of `numactl -H` (numactl.c, `hardware` and `print_distances`), which scripts parse.

use crate::fields::{amount, node};
use numaloc_api::v1;
use numaloc_core::{CpuSet, NodeId, NodeSet};
use std::fmt::Write;

/// The machine as `numactl -H` prints it. Its MB are 1,048,576 bytes, rounded down.
pub fn numactl(topology: &v1::Topology) -> String {
    let mut text = String::new();
    let ids: NodeSet = topology.nodes.iter().map(|on| NodeId(node(on.node_id))).collect();
    let _ = writeln!(text, "available: {} nodes ({ids})", topology.nodes.len());
    for node in &topology.nodes {
        let id = node.node_id;
        // A list that cannot be read is shown as no CPUs.
        let cpus: CpuSet = node.cpus.parse().unwrap_or_default();
        let cpus: String = cpus.iter().map(|cpu| format!(" {}", cpu.0)).collect();
        let _ = writeln!(text, "node {id} cpus:{cpus}");
        let _ = writeln!(text, "node {id} size: {} MB", amount(node.total_bytes) >> 20);
        let _ = writeln!(text, "node {id} free: {} MB", amount(node.free_bytes) >> 20);
    }
    let _ = writeln!(text, "node distances:");
    let header: String = ids.iter().map(|id| format!("{} ", padded(id.0))).collect();
    let _ = writeln!(text, "node {header}");
    for node in &topology.nodes {
        let row = node.distances.iter().map(|to| format!("{} ", padded(to.distance)));
        let _ = writeln!(text, "{}: {}", padded(node.node_id), row.collect::<String>());
    }
    text
}

/// C's `% 3d`: at least three wide, and always with a space in front.
fn padded(number: impl std::fmt::Display) -> String {
    format!("{:>3}", format!(" {number}"))
}
