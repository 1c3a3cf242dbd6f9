//! Answers as data (RFC 4180): a line of names, and a line for each record. Sizes are in bytes, durations in seconds, times as RFC 3339
//! has them, and what is not known is empty. Names of columns have their units, and are those of the JSON output where it has the same value.

mod host;
mod records;

pub use host::{checks, devices, files, localities, nodes, pairs, placement_runs, storage_runs};
pub use records::{events, jobs, schedules, workloads};

use crate::{clean::clean, fields::bytes_on, output::View};
use numaloc_api::v1;
use std::{collections::BTreeSet, fmt::Display};

/// One line, ended as RFC 4180 has it.
pub fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n"
}

/// A line for each record below the names of the columns.
fn rows<N: Into<String>, R: IntoIterator<Item = String>>(
    names: impl IntoIterator<Item = N>,
    records: impl IntoIterator<Item = R>,
    view: View,
) -> String {
    let names: Vec<String> = names.into_iter().map(Into::into).collect();
    let row = |record: R| {
        let cells: Vec<_> = record.into_iter().map(|cell| clean(&cell)).collect();
        debug_assert_eq!(cells.len(), names.len(), "{names:?}");
        line(&cells)
    };
    let lines: String = records.into_iter().map(row).collect();
    match view.headers {
        true => line(&names) + &lines,
        false => lines,
    }
}

/// A value that is not always known.
fn known(value: Option<impl Display>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Numbers of nodes; nothing if there are none.
fn list(nodes: &[impl Display]) -> String {
    nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Names of the columns of bytes by node.
fn by_node_names(nodes: &BTreeSet<u32>) -> impl Iterator<Item = String> {
    nodes.iter().map(|node| format!("node{node}_bytes"))
}

/// The values of these columns.
fn by_node(nodes: &BTreeSet<u32>, memory: &[v1::NodeBytes]) -> impl Iterator<Item = String> {
    nodes.iter().map(|&index| bytes_on(memory, |node| node == index).to_string())
}
