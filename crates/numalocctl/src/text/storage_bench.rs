//! Prints what a file on persistent memory costs as text.

use super::{csv, table::Table};
use crate::{
    clean::clean,
    doc::StorageBenchDoc,
    output::View,
    units::{seconds, size},
};
use std::fmt::Write;

/// A row for each operation in each order on each node, and how it was measured.
pub fn storage_bench(document: &StorageBenchDoc, view: View) -> String {
    if view.csv {
        return csv::storage_runs(document, view);
    }
    let mut table = Table::new().numbers("CPUS OF NODE").words("ORDER").words("OPERATION");
    table = table.numbers("BANDWIDTH").numbers("OPERATIONS").numbers("LATENCY").numbers("P99");
    for run in &document.runs {
        table.row(vec![
            run.cpu_node.to_string(),
            run.pattern.clone(),
            run.operation.clone(),
            format!("{}/s", size(run.bandwidth_bytes_per_second)),
            format!("{}/s", run.operations_per_second),
            format!("{:.1} ns", run.latency_ns),
            format!("{:.1} ns", run.latency_p99_ns),
        ]);
    }
    let mut text = table.render(view);
    if view.rows_alone() {
        return text;
    }
    let node = match document.storage_node {
        Some(node) => format!("attached to node {node}"),
        None => "of an unknown node".to_owned(),
    };
    let persistent = if document.map_sync { "MAP_SYNC" } else { "msync(2)" };
    let _ = writeln!(
        text,
        "\nBANDWIDTH, OPERATIONS: of all CPUs of the node; LATENCY: of one. Operations of {} on a file of {} in {} ({}, {node}), {} for each figure, writes \
         persistent by {persistent}, on {}.",
        size(document.block_bytes),
        size(document.file_bytes),
        clean(&document.directory),
        clean(&document.file_system),
        seconds(document.seconds),
        clean(&document.host)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::StorageRunDoc;

    #[test]
    fn each_run_is_a_row() {
        let run = |cpu_node, pattern: &str, operation: &str, mib: u64| StorageRunDoc {
            cpu_node,
            pattern: pattern.into(),
            operation: operation.into(),
            bandwidth_bytes_per_second: mib << 20,
            operations_per_second: mib << 8,
            latency_ns: 1_000_000.0 / mib as f64,
            latency_p99_ns: 2_000_000.0 / mib as f64,
        };
        let mut document = StorageBenchDoc {
            host: "db1".into(),
            time: "2026-01-01T00:00:00Z".into(),
            directory: "/mnt/pmem\n0".into(),
            file_system: "ext4".into(),
            storage_node: Some(1),
            map_sync: true,
            file_bytes: 256 << 20,
            block_bytes: 4096,
            seconds: 1.0,
            runs: vec![
                run(0, "sequential", "read", 6000),
                run(0, "random", "write", 1200),
                run(1, "random", "read", 11_000),
            ],
        };
        insta::assert_snapshot!(storage_bench(&document, View::TABLE));
        (document.storage_node, document.map_sync) = (None, false);
        let text = storage_bench(&document, View::TABLE);
        assert!(text.contains("of an unknown node") && text.contains("msync(2)"), "{text}");
    }
}
