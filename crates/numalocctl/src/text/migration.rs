//! `migrate`.

use super::left_out::left_out;
use super::members::members;
use super::offload::offload;
use super::plan::{change, skips};
use super::table::Table;
use crate::clean::clean;
use crate::doc::{End, MigrationDoc};
use crate::output::View;
use crate::units::{seconds, size};
use std::fmt::Write;

/// What moved, what is left and why, and the locality before and after.
pub fn migration(document: &MigrationDoc, view: View) -> String {
    let mut text = String::new();
    if view.wide && document.result != End::Skipped {
        text += &processes(document, view);
        text.push('\n');
    }
    let members = members(&document.members, view);
    match members.is_empty() {
        true => text += &left_out(&document.missing),
        // The table has them.
        false => text += &(members + "\n"),
    }
    text += &skips(&document.skipped, view);
    let message = document.message.as_deref().map(clean);
    match (document.result, message) {
        (End::Skipped, Some(message)) if document.skipped.is_empty() => {
            let _ = writeln!(text, "skipped: {message}");
        }
        (End::Failed, message) => {
            let _ = writeln!(text, "failed: {}", message.as_deref().unwrap_or("no reason given"));
        }
        (End::Interrupted, _) => text += "interrupted: numalocd ended while it was under way\n",
        (End::Done | End::PartlyMoved | End::NothingToMove, Some(message)) => {
            let _ = writeln!(text, "note: {message}");
        }
        _ => {}
    }
    if document.result == End::Skipped || document.before.is_none() {
        return text;
    }
    totals(&mut text, document, view.wide);
    if view.wide {
        details(&mut text, document);
    }
    text
}

fn totals(text: &mut String, document: &MigrationDoc, is_wide: bool) {
    let account = &document.account;
    match document.result {
        End::NothingToMove => {
            let _ = writeln!(text, "nothing to move");
        }
        result => {
            let (moved, found) = (size(account.moved_bytes), size(account.found_bytes));
            let time = seconds(document.elapsed_seconds);
            let rate = size(document.rate_bytes_per_second);
            let how = match result {
                End::Cancelled => ", then cancelled",
                End::TimedOut => ", then out of time",
                _ => "",
            };
            let _ = writeln!(text, "moved: {moved} of {found} remote in {time} ({rate}/s){how}");
        }
    }
    for (name, bytes) in
        [("moved back", account.moved_back_bytes), ("vanished", account.vanished_bytes)]
    {
        if bytes > 0 {
            let _ = writeln!(text, "{name}: {}", size(bytes));
        }
    }
    if let Some(bytes) = document.returned_bytes.filter(|&bytes| bytes > 0) {
        let bytes = size(bytes);
        let _ = writeln!(text, "undone since: about {bytes} of what the last run had moved");
    }
    for left in &account.left {
        let _ = writeln!(text, "left: {}: {}", size(left.bytes), left.reason);
    }
    for process in &document.processes {
        if let Some(error) = &process.error {
            let (pid, comm) = (process.pid, clean(&process.comm));
            let _ = writeln!(text, "error: process {pid} ({comm}): {error}");
        }
    }
    pace(text, document);
    for flow in &document.cache_flows {
        let (from, to, bytes) = (flow.from_node, flow.to_node, size(flow.bytes));
        let _ = writeln!(text, "room: {bytes} of page cache went from node {from} to node {to}");
    }
    partners(text, document);
    if let Some(document) = &document.offload {
        offload(text, document, is_wide);
    }
    if let Some(before) = &document.before {
        let _ = writeln!(text, "local: {}", change(before, document.after.as_ref()));
    }
}

/// What the move has cost others, and how long it has waited for their sake.
fn pace(text: &mut String, document: &MigrationDoc) {
    let calls = &document.calls;
    if calls.rested_seconds > 0.0 {
        let time = seconds(calls.rested_seconds);
        let _ = writeln!(text, "rested: {time}, as the profile requires");
    }
    if calls.held_back_seconds > 0.0 {
        let time = seconds(calls.held_back_seconds);
        let _ = writeln!(text, "held back: {time} beyond that, for the sake of others");
    }
    if calls.over_stall > 0 {
        let (all, longest) = (calls.calls, seconds(calls.longest_seconds));
        let over = calls.over_stall;
        let _ = writeln!(text, "calls over the bound: {over} of {all}, the longest {longest}");
    }
    if calls.split_huge_pages > 0 {
        let _ =
            writeln!(text, "split huge pages: {} on this host meanwhile", calls.split_huge_pages);
    }
    if calls.cache_bytes > 0 {
        let bytes = size(calls.cache_bytes);
        let _ = writeln!(text, "room: {bytes} in place of unused page cache, which was dropped");
    }
    if let Some(stop) = &calls.cache_stop {
        // A run either drops page cache or moves it.
        let is_moved = calls.cache_bytes == 0 && !document.cache_flows.is_empty();
        let done = if stop.is_of_moving() || is_moved { "moved away" } else { "dropped" };
        let _ = writeln!(text, "room: no more page cache was {done}: {stop}");
    }
    if calls.compactions > 0 {
        let (times, time) = (calls.compactions, seconds(calls.compaction_wait_seconds));
        let _ = writeln!(text, "compactions for huge pages: {times}, waited {time}");
    }
    if calls.huge_page_wait_seconds > 0.0 {
        let time = seconds(calls.huge_page_wait_seconds);
        let _ = writeln!(text, "waited for huge pages at the target: {time}, then went on");
    }
}

/// Whose memory made room.
fn partners(text: &mut String, document: &MigrationDoc) {
    if document.calls.exchanged_bytes > 0 {
        let bytes = size(document.calls.exchanged_bytes);
        let _ = writeln!(text, "room: {bytes} in exchange for others' memory");
    }
    for partner in &document.partners {
        let name = clean(&partner.member.to_string());
        let bytes = size(partner.account.moved_bytes);
        let flows = partner.flows.iter();
        let flows: Vec<String> =
            flows.map(|flow| format!("node {} -> {}", flow.from_node, flow.to_node)).collect();
        let _ = writeln!(text, "moved for it: {bytes} of {name}: {}", flows.join(", "));
        if let Some(error) = &partner.error {
            let _ = writeln!(text, "error: {name}: {}", clean(error));
        }
    }
}

fn details(text: &mut String, document: &MigrationDoc) {
    for flow in &document.flows {
        let (from, to) = (flow.from_node, flow.to_node);
        let _ = writeln!(text, "flow: node {from} -> {to}: {}", size(flow.bytes));
    }
    let calls = &document.calls;
    let _ = writeln!(
        text,
        "calls: {} with {} addresses ({} retried, {} hinted), {} together, the longest {}",
        calls.calls,
        calls.addresses,
        calls.retried_addresses,
        calls.hinted_addresses,
        seconds(calls.total_seconds),
        seconds(calls.longest_seconds),
    );
    if calls.failed_pages > 0 {
        let _ = writeln!(text, "failed pages: {} on this host meanwhile", calls.failed_pages);
    }
}

fn processes(document: &MigrationDoc, view: View) -> String {
    let mut table = Table::new().numbers("PID").words("COMM").numbers("FOUND").numbers("MOVED");
    table = table.numbers("MOVED BACK").numbers("VANISHED").numbers("LEFT");
    for process in &document.processes {
        let account = &process.account;
        let left: u64 = account.left.iter().map(|left| left.bytes).sum();
        let bytes = [
            account.found_bytes,
            account.moved_bytes,
            account.moved_back_bytes,
            account.vanished_bytes,
            left,
        ];
        let mut row = vec![process.pid.to_string(), process.comm.clone()];
        row.extend(bytes.map(size));
        table.row(row);
    }
    table.render(view)
}
