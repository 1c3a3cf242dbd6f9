//! Prints what balancing makes of placements as text.

use super::{csv, table::Table};
use crate::{
    clean::clean,
    doc::PlacementBenchDoc,
    output::View,
    units::{list, seconds, size},
};
use numaloc_core::page_size;
use std::fmt::Write;

/// A row for each run, and how it was measured.
pub fn placement_bench(document: &PlacementBenchDoc, view: View) -> String {
    if view.csv {
        return csv::placement_runs(document, view);
    }
    let mut table = Table::new().words("PLACEMENT").numbers("BALANCING").numbers("REMOTE");
    table = table.numbers("MOVED").numbers("MOVED ON HOST").numbers("PASSES").numbers("USER");
    table = table.numbers("SYSTEM");
    let dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for run in &document.runs {
        table.row(vec![
            run.placement.clone(),
            dash(run.numa_balancing.map(|value| value.to_string())),
            size(run.remote_pages * page_size()),
            size(run.moved_pages * page_size()),
            dash(run.host_moved_pages.map(|pages| size(pages * page_size()))),
            run.passes.to_string(),
            seconds(run.user_seconds),
            seconds(run.system_seconds),
        ]);
    }
    let mut text = table.render(view);
    if view.rows_alone() {
        return text;
    }
    let (memory, threads) = (size(document.memory_bytes), document.threads);
    let (nodes, time) = (list(&document.nodes), seconds(document.seconds));
    let _ = writeln!(
        text,
        "\nREMOTE: what began on another node than the threads that write it. {memory} on nodes {nodes}, written by {threads} threads for {time} a run, on {}.",
        clean(&document.host)
    );
    if let Some(value) = document.numa_balancing {
        let _ = writeln!(text, "kernel.numa_balancing is {value}, as before.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::PlacementRunDoc;

    #[test]
    fn each_run_is_a_row() {
        let run = |placement: &str, numa_balancing, moved_pages, system_seconds| PlacementRunDoc {
            placement: placement.into(),
            numa_balancing,
            passes: 40,
            elapsed_seconds: 15.1,
            user_seconds: 28.0,
            system_seconds,
            pages: 32_768,
            remote_pages: if placement == "block" { 0 } else { 16_384 },
            moved_pages,
            host_moved_pages: numa_balancing.map(|_| moved_pages + 2),
        };
        let document = PlacementBenchDoc {
            host: "db1".into(),
            time: "2026-01-01T00:00:00Z".into(),
            nodes: vec![0, 8],
            threads: 4,
            memory_bytes: 128 << 20,
            seconds: 15.0,
            numa_balancing: Some(1),
            runs: vec![
                run("interleave", Some(1), 16_380, 2.66),
                run("interleave", Some(0), 0, 0.45),
                run("block", None, 0, 0.44),
            ],
        };
        insta::assert_snapshot!(placement_bench(&document, View::TABLE));
    }
}
