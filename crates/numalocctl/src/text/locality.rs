//! `locality`.

use super::homes::homes;
use super::left_out::left_out;
use super::table::{Table, list};
use crate::clean::clean;
use crate::doc::{LocalityDoc, PlacedDoc, ProcessDoc};
use crate::output::View;
use crate::units::{mb, percent, size};
use numaloc_core::PAGE;
use std::fmt::Write;

/// A row per process and a column per node, as in `numastat -p`.
pub fn locality(document: &LocalityDoc, view: View) -> String {
    let mut table = Table::new().numbers("PID").words("COMM");
    for node in &document.columns {
        table = table.numbers(format!("NODE{node} MB"));
    }
    table = table.numbers("TOTAL MB").numbers("LOCAL %").numbers("REMOTE PAGES");
    if view.wide {
        table = table.numbers("MOVABLE LOCAL %").numbers("MOVABLE REMOTE PAGES");
        table = table.words("HOME").words("CPUS").words("NOTE");
    }
    for process in &document.processes {
        let mut row = vec![process.pid.to_string(), process.comm.clone()];
        row.extend(placed(document, &process.placed, view));
        if view.wide {
            row.extend(wide(process));
        }
        table.row(row);
    }
    if document.shared.resident_bytes > 0 {
        table.row(summed(document, "(shared)", &document.shared, view));
    }
    if document.processes.len() != 1 || document.shared.resident_bytes > 0 {
        table.row(summed(document, "(total)", &document.total, view));
    }
    table.render(view) + &footer(document) + &homes(&document.processes, view)
}

fn placed(document: &LocalityDoc, placed: &PlacedDoc, view: View) -> Vec<String> {
    let mut cells: Vec<_> = document.columns.iter().map(|&node| mb(placed.on(node))).collect();
    let (overall, movable) = (&placed.locality.overall, &placed.locality.movable);
    cells.push(mb(placed.resident_bytes));
    for share in [overall, movable].into_iter().take(if view.wide { 2 } else { 1 }) {
        cells.extend([percent(share.local_percent), (share.remote_bytes / PAGE).to_string()]);
    }
    cells
}

fn wide(process: &ProcessDoc) -> [String; 3] {
    let note = process.skip_reason.map_or("-".to_owned(), |reason| format!("skipped: {reason}"));
    [list(process.home_nodes.iter().copied()), process.cpus.clone(), note]
}

fn summed(document: &LocalityDoc, name: &str, sum: &PlacedDoc, view: View) -> Vec<String> {
    let mut row = vec![String::new(), name.to_owned()];
    row.extend(placed(document, sum, view));
    row
}

fn footer(document: &LocalityDoc) -> String {
    let mut text = format!("\n{}", left_out(&document.missing));
    let movable = &document.total.locality.movable;
    let _ = writeln!(
        text,
        "movable: {} % local, {} to bring home",
        percent(movable.local_percent),
        size(movable.remote_bytes)
    );
    for cgroup in &document.cgroups {
        let nodes = cgroup.nodes.iter().map(|n| format!("node {} {}", n.node, size(n.bytes)));
        let _ = writeln!(
            text,
            "cgroup {}: {}{} by memory.numa_stat, with page cache, without hugetlb",
            clean(&cgroup.path),
            cgroup.local_percent.map_or(String::new(), |p| format!("{} % local, ", percent(p))),
            nodes.collect::<Vec<_>>().join(", "),
        );
    }
    if document.unplaced_bytes > 0 {
        let _ = writeln!(text, "unplaced: {} on no known node", size(document.unplaced_bytes));
    }
    if let Some(reason) = document.source_reason {
        let _ = writeln!(text, "locations: {reason}");
    }
    text
}
