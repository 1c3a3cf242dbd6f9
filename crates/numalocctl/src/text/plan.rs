//! `plan`.

use super::homes::homes;
use super::left_out::left_out;
use super::table::{Table, list};
use crate::clean::clean;
use crate::doc::{LocalityPair, MappingDoc, MoveDoc, PlanDoc, ProcessDoc, RouteDoc, SkippedDoc};
use crate::output::View;
use crate::units::{percent, seconds, size};
use numaloc_core::MakeRoom;
use std::{cmp::Reverse, fmt::Write};

/// Rows of one table that are shown without `-o wide`.
const ROWS: usize = 20;

/// Extents, largest first, then routes and totals.
pub fn plan(document: &PlanDoc, view: View) -> String {
    let mut text = match &document.moves {
        Some(moves) => extents(moves, view),
        None => move_sums(document, view),
    };
    if view.wide {
        let skipped = match &document.skipped {
            Some(extents) => skipped(extents, view),
            None => skip_sums(document, view),
        };
        text += if text.is_empty() || skipped.is_empty() { "" } else { "\n" };
        text += &skipped;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text += &left_out(&document.missing);
    text += &skips(&document.processes, view);
    text += &homes(&document.processes, view);
    for route in &document.routes {
        let _ = writeln!(text, "route: {}", route_text(route));
    }
    totals(&mut text, document);
    let asked = document.options.asked();
    if view.wide && !asked.is_empty() {
        let _ = writeln!(text, "options: {}", asked.join(", "));
    }
    text
}

fn totals(text: &mut String, document: &PlanDoc) {
    if document.moves_by_kind.is_empty() {
        let _ = writeln!(text, "nothing to move");
    } else {
        let to_move: u64 = document.moves_by_kind.iter().map(|sum| sum.remote_bytes).sum();
        let (all, expected) = (size(to_move), size(document.expected_bytes));
        let time = seconds(document.expected_seconds);
        let by_cache = document.expected_room.iter().any(|room| room.cache_bytes > 0);
        let of = if by_cache { "copying and dropping page cache" } else { "copying" };
        let _ = writeln!(text, "expected: {expected} of {all} move in about {time} of {of}");
        let _ = writeln!(text, "order: {}", document.order_words);
    }
    if let Some(limit_bytes) = document.limit_bytes {
        let (ratio, limit) = (document.options.target_ratio_percent, size(limit_bytes));
        let _ = writeln!(text, "limit: {ratio} % local is enough, so it ends after {limit}");
    }
    for room in document.expected_room.iter().filter(|room| room.cache_bytes > 0) {
        let (node, free, cache) = (room.node, size(room.free_bytes), size(room.cache_bytes));
        let _ =
            writeln!(text, "room: node {node}: {free} free, {cache} by dropping unused page cache");
    }
    for room in document.expected_room.iter().filter(|room| room.protected_bytes > 0) {
        let (node, protected) = (room.node, size(room.protected_bytes));
        let _ = writeln!(
            text,
            "room: node {node}: {protected} of page cache stay, because cgroups protect them (memory.min, memory.low)"
        );
    }
    for room in document.expected_room.iter().filter(|room| room.exchange_bytes > 0) {
        let (node, bytes) = (room.node, size(room.exchange_bytes));
        let _ = writeln!(text, "room: node {node}: {bytes} in exchange for others' memory");
    }
    if document.no_room_bytes > 0 {
        let _ = writeln!(text, "no room: {} do not fit now", size(document.no_room_bytes));
        if document.options.make_room == MakeRoom::MoveCache.name() {
            text.push_str("room: how much page cache can go to other nodes shows when it moves\n");
        }
    }
    if document.unasked_bytes > 0 {
        let _ = writeln!(
            text,
            "policies: not looked up for {}, because that would hold up the process; a migration looks them up, and leaves what is bound",
            size(document.unasked_bytes)
        );
    }
    text.push_str(&beyond_pool(document));
    for left in &document.left {
        let _ = writeln!(text, "stays: {}: {}", size(left.bytes), left.reason);
    }
    if document.unplaced_bytes > 0 {
        let _ = writeln!(text, "unplaced: {} on no known node", size(document.unplaced_bytes));
    }
    let _ = writeln!(text, "local: {}", change(&document.before, Some(&document.after)));
    if let Some(reason) = document.source_reason {
        let _ = writeln!(text, "locations: {reason}");
    }
}

/// Says how much hugetlb memory the pools have no pages for, and what will happen to it.
fn beyond_pool(document: &PlanDoc) -> String {
    let bytes = size(document.beyond_pool_bytes);
    match (document.beyond_pool_bytes, document.options.hugetlb) {
        (0, _) => String::new(),
        (_, "fresh") => format!(
            "hugetlb: {bytes} come fresh from free memory: the targets' pools grow for good, the sources' shrink\n"
        ),
        _ => format!(
            "hugetlb: {bytes} of it are more than the targets' pools have (--hugetlb fresh takes free memory)\n"
        ),
    }
}

/// `50.0 % -> 100.0 % of what can be moved, ...`.
pub fn change(before: &LocalityPair, after: Option<&LocalityPair>) -> String {
    let arrow = |from: f64, to: Option<f64>| match to {
        Some(to) => format!("{} % -> {} %", percent(from), percent(to)),
        None => format!("{} % -> unknown", percent(from)),
    };
    let (movable, overall) = (&before.movable, &before.overall);
    format!(
        "{} of what can be moved, {} of everything",
        arrow(movable.local_percent, after.map(|after| after.movable.local_percent)),
        arrow(overall.local_percent, after.map(|after| after.overall.local_percent)),
    )
}

/// A line for each process that is skipped.
pub fn skips(processes: &[ProcessDoc], view: View) -> String {
    let mut text = String::new();
    let skipped = processes.iter().filter_map(|each| Some((each, each.skip_reason?)));
    let shown = if view.wide { usize::MAX } else { ROWS };
    for (process, reason) in skipped.clone().take(shown) {
        let (pid, comm) = (process.pid, clean(&process.comm));
        let _ = writeln!(text, "skipped: {reason} for process {pid} ({comm})");
    }
    let more = skipped.count().saturating_sub(shown);
    if more > 0 {
        let _ = writeln!(text, "... and {more} more skipped (-o wide shows all)");
    }
    text
}

/// `node 2 -> 0 (distance 21), then 1 (31)`.
fn route_text(route: &RouteDoc) -> String {
    let mut text = format!("node {} -> ", route.from_node);
    for (index, to) in route.to_nodes.iter().enumerate() {
        let _ = match index {
            0 => write!(text, "{} (distance {})", to.node, to.distance),
            _ => write!(text, ", then {} ({})", to.node, to.distance),
        };
    }
    if route.to_nodes.len() > 1 {
        text += ": nearest first, then most free memory";
    }
    text
}

/// What will move, for plans of the daemon, which have only sums.
fn move_sums(document: &PlanDoc, view: View) -> String {
    let mut table = Table::new().numbers("BYTES").words("KIND").numbers("EXTENTS");
    table = table.numbers("LENGTH").numbers("SHARED");
    for sum in &document.moves_by_kind {
        let extents = sum.extents.to_string();
        let (length, shared) = (size(sum.length_bytes), size(sum.shared_bytes));
        table.row(vec![size(sum.remote_bytes), sum.kind.to_owned(), extents, length, shared]);
    }
    table.render(view)
}

/// What stays, for plans of the daemon, which have only sums.
fn skip_sums(document: &PlanDoc, view: View) -> String {
    let mut table = Table::new().numbers("STAYS").words("WHY").words("KIND").numbers("EXTENTS");
    for sum in &document.skipped_by_kind {
        let (bytes, why) = (size(sum.remote_bytes), sum.reason.to_string());
        table.row(vec![bytes, why, sum.kind.to_owned(), sum.extents.to_string()]);
    }
    table.render(view)
}

fn extents(moves: &[MoveDoc], view: View) -> String {
    let mut table = Table::new().numbers("BYTES").numbers("FROM").words("TO").words("KIND");
    if view.wide {
        table = table.numbers("LENGTH").numbers("HUGETLB").numbers("SHARED");
    }
    table = table.words("PID").words("ADDRESS").words("NAME");
    let mut rows: Vec<_> = moves
        .iter()
        .flat_map(|move_doc| {
            move_doc.remote.iter().zip(&move_doc.routes).map(move |pair| (move_doc, pair))
        })
        .collect();
    rows.sort_by_key(|(_, (remote, _))| Reverse(remote.bytes));
    let shown = if view.wide { rows.len() } else { rows.len().min(ROWS) };
    for (move_doc, (remote, route)) in &rows[..shown] {
        let to = list(route.to_nodes.iter().map(|to| to.node));
        let mut row =
            vec![size(remote.bytes), remote.node.to_string(), to, move_doc.kind.to_owned()];
        if view.wide {
            let page = move_doc.hugetlb_page_bytes.map_or("-".to_owned(), size);
            row.extend([size(move_doc.length_bytes), page, size(move_doc.shared_bytes)]);
        }
        row.extend(place(&move_doc.mappings, &move_doc.name));
        table.row(row);
    }
    let mut text = table.render(view);
    if shown < rows.len() {
        let bytes = rows[shown..].iter().map(|(_, (remote, _))| remote.bytes).sum();
        let _ = writeln!(
            text,
            "... and {} more with {} (-o wide shows all)",
            rows.len() - shown,
            size(bytes)
        );
    }
    text
}

fn skipped(extents: &[SkippedDoc], view: View) -> String {
    let mut table = Table::new().numbers("STAYS").words("WHY").words("KIND");
    table = table.words("PID").words("ADDRESS").words("NAME");
    let mut rows: Vec<_> = extents.iter().collect();
    rows.sort_by_key(|skipped| Reverse(skipped.remote_bytes));
    for skipped in rows {
        let (bytes, why) = (size(skipped.remote_bytes), skipped.reason.to_string());
        let mut row = vec![bytes, why, skipped.kind.to_owned()];
        row.extend(place(std::slice::from_ref(&skipped.mapping), &skipped.name));
        table.row(row);
    }
    table.render(view)
}

/// The first process that maps it, the number of further processes, the address in the first one, and the name.
fn place(mappings: &[MappingDoc], name: &str) -> [String; 3] {
    let name = if name.is_empty() { "-" } else { name }.to_owned();
    match mappings {
        [] => ["-".to_owned(), "-".to_owned(), name],
        [only] => [only.pid.to_string(), only.address.clone(), name],
        [first, more @ ..] => {
            [format!("{} +{}", first.pid, more.len()), first.address.clone(), name]
        }
    }
}
