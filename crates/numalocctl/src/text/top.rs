//! `top`: what it prints with `--batch`, and the question before a migration.

use super::{cells::why, csv::line, table::Table};
use crate::{
    columns::{Column, node_columns, slots},
    doc::{TopDoc, TopRowDoc, TrafficDoc},
    fields,
    output::View,
    units::{percent, size},
};
use numaloc_api::v1;
use std::fmt::Write;

/// The effect of a plan, in a few lines, before the question whether to carry it out; the time is that of each profile.
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
        let _ = writeln!(text, "local    {before} % -> {after} % of the movable memory");
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

fn node_ids(document: &TopDoc) -> Vec<u32> {
    document.nodes.iter().map(|node| node.node).collect()
}

/// The nodes and rows as tables.
pub fn top(document: &TopDoc, rows: &[&TopRowDoc], columns: &[Column], view: View) -> String {
    let (mut nodes, columns_of_nodes) = (Table::new(), node_columns(&document.nodes));
    for column in &columns_of_nodes {
        nodes = nodes.numbers(column.name);
    }
    for node in &document.nodes {
        nodes.row(columns_of_nodes.iter().map(|column| (column.cell)(node)).collect());
    }
    let slots = slots(columns, &node_ids(document));
    let mut table = Table::new();
    for slot in &slots {
        table = match slot.has_words() {
            true => table.words(slot.header()),
            false => table.numbers(slot.header()),
        };
    }
    for row in rows {
        table.row(slots.iter().map(|slot| slot.value(row).text()).collect());
    }
    let rows = table.render(view);
    if view.rows_alone() {
        return rows;
    }
    let time = document.time.map(|time| format!("{}\n", fields::short(time))).unwrap_or_default();
    let none = if rows.is_empty() { "no rows\n" } else { "" };
    let traffic = document.traffic.map(|it| format!("{}\n", traffic(it))).unwrap_or_default();
    format!("{time}{traffic}{}\n{rows}{none}{}\n", nodes.render(view), missing(document))
}

/// Memory traffic of the host.
pub fn traffic(traffic: TrafficDoc) -> String {
    let (all, remote) = (traffic.bytes_per_second(), traffic.remote_bytes_per_second);
    format!("traffic {}/s, remote {}/s", size(all), size(remote))
}

/// Missing information, and the reason; empty if there is none.
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
        text += &line(&names);
    }
    for row in rows {
        let cells = slots.iter().map(|slot| slot.value(row).raw());
        let cells: Vec<String> = std::iter::once(time.clone()).chain(cells).collect();
        text += &line(&cells);
    }
    text
}
