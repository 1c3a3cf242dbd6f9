//! Prints the result of `numalocctl migrate` as text.

use super::{
    attached::attached,
    cells::{process as named, why},
    left_out::{found_member, left_out},
    members::members,
    named::{self, Stage},
    offload::offload,
    plan::{change, share_name, skips},
    table::Table,
    target::target,
    wide::{lasts, warnings},
};
use crate::{
    clean::clean,
    fields::{self, amount},
    job::{self, End},
    output::View,
    units::{seconds, size},
};
use numaloc_api::{Known, v1, value::Policy};
use numaloc_core::{CacheStop, Pacing};
use std::fmt::Write;

/// The memory that moved, the rest with its reasons, and the locality before and after, of a job that has ended.
pub fn migration(job: &v1::Job, view: View) -> String {
    let outcome = job.outcome.clone().unwrap_or_default();
    let end = End::of(job);
    let mut text = String::new();
    if view.wide && end != End::Skipped {
        text += &processes(&outcome.processes, view);
        text.push('\n');
    }
    let found = job
        .members
        .iter()
        .filter_map(|member| Some(found_member(member.member.as_ref(), member.found.as_ref()?)));
    text.extend(found);
    let members = members(&job.members, view);
    match members.is_empty() {
        true => text += &left_out(&job::left_out(job)),
        // The table has them.
        false => text += &(members + "\n"),
    }
    let planned = job.plan.iter().flat_map(|plan| &plan.processes);
    let skipped = skips(&planned.cloned().collect::<Vec<_>>(), view);
    text += &skipped;
    let message = clean(&job.state_message);
    match end {
        End::Skipped if skipped.is_empty() && !message.is_empty() => {
            let _ = writeln!(text, "skipped: {message}");
        }
        End::Failed => {
            let why = if message.is_empty() { "no reason given" } else { &message };
            let _ = writeln!(text, "failed: {why}");
        }
        End::Interrupted => text += "interrupted: numalocd ended while it was under way\n",
        End::Done | End::PartlyMoved | End::NothingToMove if !message.is_empty() => {
            let _ = writeln!(text, "note: {message}");
        }
        _ => {}
    }
    let shares = shares(job, &outcome);
    // Nothing has changed where there was nothing to move.
    let [movable, overall] = match end {
        End::NothingToMove => shares.map(|[before, after]| [before, after.or(before)]),
        _ => shares,
    };
    if end == End::Skipped || movable[0].is_none() {
        return text;
    }
    let policy = job.spec.as_ref().and_then(|spec| spec.policy.clone());
    let options = Policy::from(policy.clone().unwrap_or_default()).options;
    let source = job.plan.as_ref().map_or(v1::PageSource::Unspecified, v1::Plan::source);
    totals(&mut text, &outcome, source, end, &options.pacing, view.wide);
    text += &named::named(&outcome.named, policy.as_ref(), Stage::Ended);
    let _ = writeln!(text, "{}: {}", share_name(&options), change(movable, overall));
    // The attached memory that was found has moved, or is in the account.
    text.extend(job.plan.as_ref().map(|plan| attached(&[], plan.unseen_bytes)));
    text.extend(job.plan.as_ref().map(warnings));
    text += &lasts(&options, job.plan.as_ref());
    if view.wide {
        details(&mut text, &outcome);
    }
    text
}

/// The shares of movable and of all memory, before and after. The shares before are taken from the outcome, or else
/// from the plan.
fn shares(job: &v1::Job, outcome: &v1::Outcome) -> [[Option<v1::Share>; 2]; 2] {
    let planned = job.plan.as_ref();
    let (movable, overall) = match outcome.movable_before {
        Some(_) => (outcome.movable_before, outcome.overall_before),
        None => (
            planned.and_then(|plan| plan.movable_before),
            planned.and_then(|plan| plan.overall_before),
        ),
    };
    [[movable, outcome.movable_after], [overall, outcome.overall_after]]
}

fn totals(
    text: &mut String,
    outcome: &v1::Outcome,
    source: v1::PageSource,
    end: End,
    pacing: &Pacing,
    is_wide: bool,
) {
    let account = outcome.account.clone().unwrap_or_default();
    if end == End::NothingToMove {
        let _ = writeln!(text, "nothing to move");
    } else {
        let (moved, found) = (size(account.moved_bytes), size(account.found_bytes));
        let elapsed = fields::seconds(outcome.elapsed);
        let rate = if elapsed > 0.0 { account.moved_bytes as f64 / elapsed } else { 0.0 };
        let (time, rate) = (seconds(elapsed), size(rate as u64));
        let how = match end {
            End::Cancelled => ", then cancelled",
            End::TimedOut => ", then out of time",
            _ => "",
        };
        let _ = writeln!(text, "moved: {moved} of {found} remote in {time} ({rate}/s){how}");
    }
    if account.nearer_bytes > 0 {
        let bytes = size(account.nearer_bytes);
        let _ = writeln!(
            text,
            "nearer: {bytes} of this found no room at home, and went to nodes nearer to it"
        );
    }
    let sampled_bytes = outcome.calls.map_or(0, |calls| calls.sampled_bytes);
    if sampled_bytes > 0 {
        let bytes = size(sampled_bytes);
        let _ = writeln!(
            text,
            "sampled: {bytes} of this by the kernel's report and a look at one page in 64"
        );
    }
    for (name, bytes) in
        [("moved back", account.moved_back_bytes), ("vanished", account.vanished_bytes)]
    {
        if bytes > 0 {
            let _ = writeln!(text, "{name}: {}", size(bytes));
        }
    }
    if let Some(bytes) = outcome.returned_bytes.filter(|&bytes| bytes > 0) {
        let bytes = size(bytes);
        let _ = writeln!(text, "undone since: about {bytes} of the memory that the last run moved");
    }
    for left in &account.left {
        let _ = writeln!(text, "left: {}: {}", size(left.bytes), why(left.reason, source));
    }
    for process in outcome.processes.iter().filter(|process| !process.error.is_empty()) {
        let (who, error) = (named(process.process, &process.comm), &process.error);
        let _ = writeln!(text, "error: process {who}: {error}");
    }
    let calls = outcome.calls.unwrap_or_default();
    pace(text, &calls, pacing, !outcome.cache_flows.is_empty());
    for flow in &outcome.cache_flows {
        let (from, to, bytes) = (flow.from_node_id, flow.to_node_id, size(flow.bytes));
        let _ = writeln!(text, "room: {bytes} of page cache went from node {from} to node {to}");
    }
    partners(text, calls.exchanged_bytes, &outcome.partners);
    if let Some(used) = &outcome.offload {
        offload(text, used, is_wide);
    }
}

/// The cost of the move to other workloads, and the time it has waited for their sake.
fn pace(text: &mut String, calls: &v1::CallStats, pacing: &Pacing, has_moved_cache: bool) {
    let span = |duration| Some(fields::seconds(duration)).filter(|&seconds| seconds > 0.0);
    if let Some(time) = span(calls.rested) {
        let _ = writeln!(text, "rested: {}, as the profile requires", seconds(time));
    }
    if let Some(time) = span(calls.held_back) {
        let _ = writeln!(text, "throttled: another {}, to spare other workloads", seconds(time));
    }
    if calls.over_stall > 0 {
        let (over, all) = (calls.over_stall, calls.calls);
        let longest = seconds(fields::seconds(calls.longest));
        let bound = seconds(pacing.pace().max_stall.as_secs_f64());
        let _ = writeln!(
            text,
            "calls over the bound of {bound}: {over} of {all}, the longest {longest}"
        );
    }
    if calls.split_huge_pages > 0 {
        let _ =
            writeln!(text, "split huge pages: {} on this host meanwhile", calls.split_huge_pages);
    }
    if calls.cache_bytes > 0 {
        let bytes = size(calls.cache_bytes);
        let _ = writeln!(text, "room: {bytes} in place of unused page cache, which was dropped");
    }
    // A reason that only a newer daemon knows is left out.
    if let Some(stop) = CacheStop::known(calls.cache_stop).flatten() {
        // A run either drops page cache or moves it.
        let is_moved = calls.cache_bytes == 0 && has_moved_cache;
        let done = if stop.is_of_moving() || is_moved { "moved away" } else { "dropped" };
        let _ = writeln!(text, "room: no more page cache was {done}: {stop}");
    }
    if calls.compactions > 0 {
        let (times, time) = (calls.compactions, seconds(fields::seconds(calls.compaction_wait)));
        let _ = writeln!(text, "compactions for huge pages: {times}, waited {time}");
    }
    if let Some(time) = span(calls.huge_page_wait) {
        let time = seconds(time);
        let _ = writeln!(text, "waited for huge pages at the target: {time}, then continued");
    }
}

/// Prints how much of whose memory made room.
fn partners(text: &mut String, exchanged_bytes: i64, partners: &[v1::ExchangePartner]) {
    if exchanged_bytes > 0 {
        let bytes = size(exchanged_bytes);
        let _ = writeln!(text, "room: {bytes} in exchange for others' memory");
    }
    for partner in partners {
        let name = clean(&target(partner.member.as_ref()));
        let bytes = size(partner.account.as_ref().map_or(0, |account| account.moved_bytes));
        let flows = partner.flows.iter();
        let flows: Vec<String> = flows
            .map(|flow| format!("node {} -> {}", flow.from_node_id, flow.to_node_id))
            .collect();
        let _ = writeln!(text, "moved for it: {bytes} of {name}: {}", flows.join(", "));
        if !partner.error.is_empty() {
            let _ = writeln!(text, "error: {name}: {}", clean(&partner.error));
        }
    }
}

fn details(text: &mut String, outcome: &v1::Outcome) {
    for flow in &outcome.flows {
        let (from, to) = (flow.from_node_id, flow.to_node_id);
        let _ = writeln!(text, "flow: node {from} -> {to}: {}", size(flow.bytes));
    }
    let calls = outcome.calls.unwrap_or_default();
    let _ = writeln!(
        text,
        "calls: {} with {} addresses ({} retried, {} hinted), {} together, the longest {}",
        calls.calls,
        calls.addresses,
        calls.retried_addresses,
        calls.hinted_addresses,
        seconds(fields::seconds(calls.total)),
        seconds(fields::seconds(calls.longest)),
    );
    if calls.workers > 1 {
        let _ = writeln!(text, "workers: up to {} at the same time", calls.workers);
    }
    if calls.failed_pages > 0 {
        let _ = writeln!(text, "failed pages: {} on this host meanwhile", calls.failed_pages);
    }
}

fn processes(processes: &[v1::ProcessOutcome], view: View) -> String {
    let mut table = Table::new().numbers("PID").words("COMM").numbers("FOUND").numbers("MOVED");
    table = table.numbers("MOVED BACK").numbers("VANISHED").numbers("LEFT");
    for process in processes {
        let account = process.account.clone().unwrap_or_default();
        let bytes = [
            amount(account.found_bytes),
            amount(account.moved_bytes),
            amount(account.moved_back_bytes),
            amount(account.vanished_bytes),
            account.left.iter().map(|left| amount(left.bytes)).sum(),
        ];
        let pid = process.process.unwrap_or_default().pid;
        let mut row = vec![pid.to_string(), process.comm.clone()];
        row.extend(bytes.map(size));
        table.row(row);
    }
    table.render(view)
}
