//! Prints the answer of `numalocctl explain` as text.

use super::{
    cells::{SHOW_FRAMES, age, schedule_state, until, why},
    colour::{self, Style},
    holds::words,
    plan::plan,
    target::target,
};
use crate::{
    clean::clean,
    doc::{ExplainDoc, ExplainedSchedule},
    job::{is_end, state},
    output::View,
    units::size,
};
use numaloc_api::{Known, v1};
use numaloc_core::Reason;
use std::{collections::BTreeSet, fmt::Write};

/// The records that move the memory of the target, their results, and the effect that a migration would have now.
/// `topology` has the distances.
pub fn explain(document: &ExplainDoc, topology: &v1::Topology, view: View) -> String {
    let mut text = String::new();
    for hold in words(&document.holds) {
        let _ = writeln!(text, "held: {hold}");
    }
    document.schedules.iter().for_each(|each| schedule(&mut text, each, view));
    for job in &document.jobs {
        let held_back = job.progress.as_ref().map_or("", |progress| &progress.held_back);
        let reason = [&job.state_message, held_back].into_iter().find(|reason| !reason.is_empty());
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        let _ = writeln!(text, "job: {} {}{reason}", job.name, state(job));
    }
    if document.schedules.is_empty() && document.jobs.is_empty() {
        text += "no schedule and no job under way moves it: see numalocctl schedules create, numalocctl migrate\n";
    }
    if !document.unknown.is_empty() {
        let names = document.unknown.join(", ");
        let _ =
            writeln!(text, "not known: the processes of {names}, without a run to know them by");
    }
    for workload in &document.workloads {
        let _ = writeln!(text, "workload: {} of {}", workload.name, workload.creator);
    }
    text = text.lines().map(|line| clean(line) + "\n").collect();
    match &document.plan {
        None => {
            let _ = writeln!(text, "\nno plan: {}", clean(&document.refused));
        }
        Some(answer) => {
            let policy = match &document.policy_of[..] {
                "" => String::new(),
                name => format!(", with the policy of {}", clean(name)),
            };
            let _ = writeln!(text, "\na migration now{policy}:");
            text += &plan(answer, topology, &v1::Limits::default(), view);
        }
    }
    text += &hints(document);
    colour::words(&text, view, |line| {
        let marks = ["held:", "no schedule", "last run left:", "no plan:"];
        let mark = marks.into_iter().find(|mark| line.trim_start().starts_with(mark))?;
        Some((mark, Style::Warning))
    })
}

fn schedule(
    text: &mut String,
    ExplainedSchedule { schedule, last_job }: &ExplainedSchedule,
    view: View,
) {
    let next = match schedule.next_run_time {
        None => String::new(),
        time => format!(", next run {}", until(time, view)),
    };
    let message = match &schedule.state_message[..] {
        "" => String::new(),
        message => format!(": {message}"),
    };
    let _ =
        writeln!(text, "schedule: {} {}{next}{message}", schedule.name, schedule_state(schedule));
    let Some(job) = last_job else {
        return if !schedule.last_job.is_empty() {
            let _ = writeln!(text, "  last run: {}, which has been forgotten", schedule.last_job);
        };
    };
    let ended = match is_end(job.state()) {
        true => format!(", {} ago", age(job.end_time, view)),
        false => String::new(),
    };
    let account = account(job);
    let (moved, found) = (size(account.moved_bytes), size(account.found_bytes));
    let message = match &job.state_message[..] {
        "" => String::new(),
        message => format!(": {message}"),
    };
    let _ = writeln!(
        text,
        "  last run: {} {}{ended}, moved {moved} of {found} remote{message}",
        job.name,
        state(job)
    );
    for left in &account.left {
        let _ = writeln!(
            text,
            "  last run left: {}: {}",
            size(left.bytes),
            why(left.reason, source(job))
        );
    }
    let is_out = |member: &&v1::MemberResult| {
        matches!(member.state(), v1::MemberState::Missing | v1::MemberState::Refused)
    };
    for member in job.members.iter().filter(is_out) {
        let (who, why) = (target(member.member.as_ref()), &member.reason);
        let _ = writeln!(text, "  last run left out: {who}: {why}");
    }
}

fn account(job: &v1::Job) -> v1::Account {
    job.outcome.as_ref().and_then(|outcome| outcome.account.clone()).unwrap_or_default()
}

/// The remedy for each reason for which memory stays or was left.
fn hints(document: &ExplainDoc) -> String {
    let accounts = document.schedules.iter().filter_map(|each| each.last_job.as_ref());
    let last = accounts.flat_map(|job| account(job).left);
    let plan = document.plan.as_ref().and_then(|answer| answer.plan.as_ref());
    let now = plan.iter().flat_map(|plan| plan.left.iter().copied());
    let reasons: BTreeSet<i32> = last.chain(now).map(|left| left.reason).collect();
    let known = reasons.into_iter().filter_map(|reason| Reason::known(reason).flatten());
    let jobs = document.schedules.iter().filter_map(|each| each.last_job.as_ref());
    let sources = jobs.map(source).chain(plan.map(v1::Plan::source));
    let is_hidden = sources.into_iter().any(|source| source == v1::PageSource::MovePages);
    let mut text: String = known.filter_map(|reason| hint_line(reason, is_hidden)).collect();
    if plan.is_some_and(|plan| plan.processes.iter().any(|process| process.skip != 0)) {
        text += "hint: no target node: pin the process to the CPUs of some nodes, or name nodes with --to\n";
    }
    text
}

fn hint_line(reason: Reason, is_hidden: bool) -> Option<String> {
    match reason {
        Reason::Shared if is_hidden => {
            Some(format!("hint: mapped by several processes, hidden which: {SHOW_FRAMES}\n"))
        }
        _ => Some(format!("hint: {reason}: {}\n", hint(reason)?)),
    }
}

/// The way the nodes of a job's pages were found.
fn source(job: &v1::Job) -> v1::PageSource {
    job.plan.as_ref().map_or(v1::PageSource::Unspecified, v1::Plan::source)
}

/// The remedy for memory that stays for a reason; docs/troubleshooting.md has more. `None`: there is none.
fn hint(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::Busy => Some("the next run tries again"),
        Reason::Pinned => Some("it moves once the device, io_uring or RDMA lets go of it"),
        Reason::Shared => Some("--include-shared moves it, or name all processes that map it"),
        Reason::Bound => Some("--include-bound moves it against the application's own policy"),
        Reason::NoMemory => Some("free memory on the home node, or --make-room cache"),
        Reason::NotAllowed => {
            Some("widen cpuset.mems of its cgroup (systemd: AllowedMemoryNodes=)")
        }
        Reason::OutOfTime => Some("a longer --timeout"),
        Reason::OutOfBudget => Some("a larger --hourly-budget, or the next hour"),
        Reason::FileExcluded => Some("leave out --exclude-file"),
        Reason::NetworkFile => Some("--include-network moves it, if its server is sure to answer"),
        Reason::RatioReached => Some("a higher --target-ratio"),
        Reason::StallBound => Some("--include-gigantic moves it"),
        Reason::OtherTier => Some("--from all also empties nodes of other tiers"),
        Reason::NodeExcluded => Some("leave out --from, or name the node there"),
        Reason::Unreadable => Some("numalocctl doctor names the right that is missing"),
        Reason::NotReturned => Some("the message of the job names what the call waits for"),
        Reason::TargetSaturated => {
            Some("a higher --node-bandwidth-max, or less work on the home node")
        }
        Reason::NotMovable
        | Reason::ProcessGone
        | Reason::Cancelled
        | Reason::NotNeeded
        | Reason::KernelPage => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_allows_no_move_is_an_answer() {
        let refused = "this machine has one NUMA node".to_owned();
        let document = ExplainDoc { refused, ..ExplainDoc::default() };
        let text = explain(&document, &v1::Topology::default(), View::TABLE);
        assert!(text.ends_with("\nno plan: this machine has one NUMA node\n"), "{text}");
    }

    #[test]
    fn members_that_the_last_run_left_out_have_their_reason() {
        let member = v1::MemberResult {
            member: Some(v1::Target { pids: vec![7], ..Default::default() }),
            state: v1::MemberState::Refused.into(),
            reason: "process 7 (a) is not yours".to_owned(),
            ..Default::default()
        };
        let state = v1::JobState::Failed.into();
        let job = v1::Job { state, members: vec![member], ..Default::default() };
        let explained = ExplainedSchedule { last_job: Some(job), ..Default::default() };
        let document = ExplainDoc { schedules: vec![explained], ..ExplainDoc::default() };
        let text = explain(&document, &v1::Topology::default(), View::TABLE);
        assert!(text.contains("last run left out: pid 7: process 7 (a) is not yours\n"), "{text}");
    }
}
