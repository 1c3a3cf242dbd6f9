//! `top`: single cells, and what it prints with `--batch`.

use super::{
    cells::why,
    table::{Table, csv_line},
};
use crate::{
    clean::clean,
    columns::{Column, ShownColumn, slots},
    doc::{TopDoc, TopNodeDoc, TopRowDoc},
    fields,
    output::View,
    units::{age, percent, short, size},
};
use numaloc_api::v1;
use numaloc_core::{NodeId, NodeSet, PAGE};
use std::fmt::Write;

/// What a row says in a column, without control characters. A dash stands for what is not known.
pub fn cell(row: &TopRowDoc, slot: ShownColumn) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("-".to_owned(), short);
    let ShownColumn::One(column) = slot else {
        let ShownColumn::Node(node) = slot else { return String::new() };
        let on = row.by_node.iter().find(|each| each.node == node);
        return bytes(on.map(|each| each.bytes).or(row.age_seconds.map(|_| 0)));
    };
    match column {
        Column::Pid => row.pid.map_or_else(String::new, |pid| pid.to_string()),
        Column::Name => clean(name(row)),
        Column::Home => home(row),
        Column::Memory => bytes(row.resident_bytes),
        Column::Cache => bytes(row.cache_bytes),
        Column::Remote => bytes(row.remote_bytes),
        Column::Near => bytes(row.near_bytes),
        Column::Local => bytes(row.local_bytes),
        Column::Share => row.local_percent.map_or("-".to_owned(), whole_percent),
        Column::Age => match row.age_seconds {
            Some(seconds) => age(seconds),
            // The page map may not be read.
            None if row.is_hidden => "hid".to_owned(),
            None => "-".to_owned(),
        },
        Column::Nodes => String::new(),
        Column::Moved => short(row.moved_bytes),
        Column::Balanced => bytes(balanced(row)),
        Column::Cpu => row.cpu_percent.map_or("-".to_owned(), |percent| format!("{percent:.0}")),
        Column::Job => {
            let job = row.job.as_deref().unwrap_or_default();
            let held = row.held_back.as_deref().map(|why| format!(": {why}"));
            clean(&format!("{job}{}", held.unwrap_or_default()))
        }
    }
}

/// The kernel's list of the home nodes: `0-3,8`.
fn home(row: &TopRowDoc) -> String {
    let nodes: NodeSet = row.home_nodes.iter().map(|&node| NodeId(node)).collect();
    if nodes.is_empty() { "-".to_owned() } else { nodes.to_string() }
}

/// The name of a process, or the path of a cgroup.
pub fn name(row: &TopRowDoc) -> &str {
    row.comm.as_deref().or(row.cgroup.as_deref()).unwrap_or_default()
}

/// Less than all is shown as 99 at most.
fn whole_percent(percent: f64) -> String {
    format!("{:.0}", if percent < 100.0 { percent.min(99.0) } else { percent })
}

/// Bytes that the kernel's balancing has moved.
fn balanced(row: &TopRowDoc) -> Option<u64> {
    row.kernel_migrated_pages.map(|pages| pages.saturating_mul(PAGE))
}

/// What a plan would do, in a few lines, before the question whether to do it; the time is that of each profile.
pub fn question(plan: &v1::Plan) -> String {
    let mut text = String::new();
    let remote: i64 = plan.moves.iter().map(|sum| sum.remote_bytes).sum();
    let _ = writeln!(text, "moves    {} of {} remote", size(plan.expected_bytes), size(remote));
    for flow in &plan.expected_flows {
        let (from, to, bytes) = (flow.from_node_id, flow.to_node_id, size(flow.bytes));
        let _ = writeln!(text, "route    node {from} -> {to}: {bytes}");
    }
    if let (Some(before), Some(after)) = (plan.movable_before, plan.movable_after) {
        let (before, after) = (percent(before.local_percent), percent(after.local_percent));
        let _ = writeln!(text, "local    {before} % -> {after} % of what can be moved");
    }
    if plan.no_room_bytes > 0 {
        let _ = writeln!(text, "no room  {} do not fit now", size(plan.no_room_bytes));
    }
    for left in &plan.left {
        let _ =
            writeln!(text, "stays    {}: {}", size(left.bytes), why(left.reason, plan.source()));
    }
    text
}

/// The nodes of a document.
fn node_ids(document: &TopDoc) -> Vec<u32> {
    document.nodes.iter().map(|node| node.node).collect()
}

/// The nodes and rows as tables.
pub fn top(document: &TopDoc, rows: &[&TopRowDoc], columns: &[Column], view: View) -> String {
    let mut nodes = Table::new();
    for header in ["NODE", "TIER", "TOTAL", "FREE", "CACHE", "CPU%", "SPILL/S", "IN", "OUT"] {
        nodes = nodes.numbers(header);
    }
    document.nodes.iter().for_each(|node| nodes.row(node_cells(node)));
    let slots = slots(columns, &node_ids(document));
    let mut table = Table::new();
    for slot in &slots {
        let words = matches!(slot, ShownColumn::One(Column::Name | Column::Job));
        table = if words { table.words(slot.header()) } else { table.numbers(slot.header()) };
    }
    for row in rows {
        table.row(slots.iter().map(|&slot| cell(row, slot)).collect());
    }
    let rows = table.render(view);
    if view.rows_alone() {
        return rows;
    }
    let time = document.time.map(|time| format!("{}\n", fields::short(time))).unwrap_or_default();
    let none = if rows.is_empty() { "no rows\n" } else { "" };
    format!("{time}{}\n{rows}{none}{}\n", nodes.render(view), missing(document))
}

pub fn node_cells(node: &TopNodeDoc) -> Vec<String> {
    let rate = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    vec![
        node.node.to_string(),
        node.tier.map_or("-".to_owned(), |tier| tier.to_string()),
        short(node.total_bytes),
        short(node.free_bytes),
        short(node.reclaimable_bytes),
        rate(node.cpu_percent),
        rate(node.foreign_per_second),
        short(node.moved_in_bytes),
        short(node.moved_out_bytes),
    ]
}

/// What is not known, and why; empty if all is.
pub fn missing(document: &TopDoc) -> String {
    let hidden = match document.hidden_count {
        0 => String::new(),
        count => format!("hidden: {count} (needs CAP_SYS_PTRACE and CAP_SYS_ADMIN)\n"),
    };
    let unseen = match document.unseen_count {
        0 => String::new(),
        count => format!("not scanned yet: {count}\n"),
    };
    let left_out = match document.left_out_count {
        0 => String::new(),
        count => format!("smaller processes left out by the daemon: {count}\n"),
    };
    hidden + &unseen + &left_out
}

/// The rows as CSV (RFC 4180): sizes in bytes, empty where nothing is known.
pub fn csv(document: &TopDoc, rows: &[&TopRowDoc], columns: &[Column], headers: bool) -> String {
    let slots = slots(columns, &node_ids(document));
    let time = document.time.map(|time| time.to_string()).unwrap_or_default();
    let mut text = String::new();
    if headers {
        let names = slots.iter().map(|slot| slot.header());
        let names: Vec<String> = std::iter::once("TIME".to_owned()).chain(names).collect();
        text += &csv_line(&names);
    }
    for row in rows {
        let cells = slots.iter().map(|&slot| raw(row, slot));
        let cells: Vec<String> = std::iter::once(time.clone()).chain(cells).collect();
        text += &csv_line(&cells);
    }
    text
}

/// A value as programs read it.
fn raw(row: &TopRowDoc, slot: ShownColumn) -> String {
    fn known<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(String::new, |value| value.to_string())
    }
    let rounded = |value: Option<f64>| known(value.map(|value| format!("{value:.2}")));
    match slot {
        ShownColumn::Node(node) => {
            let on = row.by_node.iter().find(|each| each.node == node);
            known(on.map(|each| each.bytes).or(row.age_seconds.map(|_| 0)))
        }
        ShownColumn::One(Column::Memory) => known(row.resident_bytes),
        ShownColumn::One(Column::Cache) => known(row.cache_bytes),
        ShownColumn::One(Column::Remote) => known(row.remote_bytes),
        ShownColumn::One(Column::Near) => known(row.near_bytes),
        ShownColumn::One(Column::Local) => known(row.local_bytes),
        ShownColumn::One(Column::Share) => rounded(row.local_percent),
        ShownColumn::One(Column::Age) => rounded(row.age_seconds),
        ShownColumn::One(Column::Cpu) => rounded(row.cpu_percent),
        ShownColumn::One(Column::Moved) => row.moved_bytes.to_string(),
        ShownColumn::One(Column::Balanced) => known(balanced(row)),
        ShownColumn::One(Column::Home) if row.home_nodes.is_empty() => String::new(),
        ShownColumn::One(
            Column::Pid | Column::Name | Column::Home | Column::Job | Column::Nodes,
        ) => cell(row, slot),
    }
}
