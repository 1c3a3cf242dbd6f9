//! Events: one small record for each thing that the daemon has done.

use super::dispatcher::Dispatcher;
use crate::store::{EventHead, Write};
use numaloc_api::value::{
    Emit, Event, EventType, FailedProcess, Job, JobState, MemberResult, MemberState, Schedule,
    Target,
};
use numaloc_core::NodeSet;
use std::cmp::Reverse;

/// A repeating schedule emits another event when its local share has changed by more than this many percentage points.
const POINTS: f64 = 10.0;
/// About how many bytes of the names in its target an event has: its job or schedule has all.
const TARGET: usize = 4096;
/// The most members, and the most failed processes, that an event lists.
const MEMBERS: usize = 256;
const FAILED: usize = 64;

impl Dispatcher {
    /// Events to be stored, with the next numbers.
    pub(super) fn tell(&self, events: impl IntoIterator<Item = Event>) -> Vec<Write> {
        let numbers = self.records.last().event + 1..;
        let numbered = events.into_iter().zip(numbers);
        numbered.map(|(event, number)| Write::event(&Event { number, ..event })).collect()
    }

    /// An event about a job.
    pub(super) fn of_job(&self, job: &Job, kind: EventType, message: String) -> Event {
        let (job_id, schedule) = (Some(job.id.clone()), job.schedule.clone());
        let event = self.event(kind, self.records.owner(job), &job.spec.target, message);
        Event { job: job_id, schedule, labels: job.labels.clone(), ..event }
    }

    /// An event about a schedule.
    pub(super) fn of_schedule(
        &self,
        schedule: &Schedule,
        kind: EventType,
        message: String,
    ) -> Event {
        let target = &schedule.spec.migration.target;
        let owner = (&*schedule.creator, schedule.creator_gid);
        let event = self.event(kind, owner, target, message);
        let labels = schedule.spec.labels.clone();
        Event { schedule: Some(schedule.id.clone()), labels, ..event }
    }

    /// An event about the host.
    pub(super) fn of_host(&self, kind: EventType, message: String) -> Event {
        self.event(kind, ("", None), &Target::default(), message)
    }

    /// An event with the present time. It gets its number in [`Self::tell`].
    fn event(
        &self,
        kind: EventType,
        (creator, creator_gid): (&str, Option<u32>),
        target: &Target,
        message: String,
    ) -> Event {
        let (target, more_target_names) = target.abridged(TARGET);
        let creator = creator.to_owned();
        let event = Event::new(0, kind, self.wall(), message);
        Event { creator, creator_gid, target, more_target_names, ..event }
    }

    /// The event for the start of a move, if the job's policy asks for it.
    pub(super) fn start_event(&self, job: &Job) -> Option<Event> {
        let planned = job.progress.as_ref().map_or(0, |progress| progress.planned_bytes);
        let message = format!("begins to move {}", mib(planned));
        let is_told = job.spec.policy.emit == Emit::Always;
        is_told.then(|| self.of_job(job, EventType::Started, message))
    }

    /// The event for the end of a job, if there is to be one.
    pub(super) fn end_event(&self, job: &Job, local_percent: Option<f64>) -> Option<Event> {
        let outcome = job.outcome.as_deref();
        let moved_bytes = outcome.map_or(0, |outcome| outcome.account().moved_bytes());
        let kind = match job.state {
            JobState::Succeeded | JobState::Partial => EventType::Completed,
            JobState::Skipped => EventType::Skipped,
            JobState::Failed | JobState::Interrupted => EventType::Failed,
            JobState::Cancelled if moved_bytes > 0 => EventType::Completed,
            JobState::Cancelled => EventType::Skipped,
            JobState::Queued
            | JobState::Planning
            | JobState::Running
            | JobState::Paused
            | JobState::Suspended => return None,
        };
        let flows = || outcome.into_iter().flat_map(|outcome| outcome.flows.keys());
        let mut from = NodeSet::new();
        let mut to = NodeSet::new();
        flows().for_each(|&(source, _)| from.insert(source));
        flows().for_each(|&(_, target)| to.insert(target));
        let after = outcome.and_then(|outcome| outcome.after);
        let failed = outcome.into_iter().flat_map(|outcome| &outcome.processes);
        let failed = failed.filter_map(FailedProcess::of);
        let before = outcome.map(|outcome| outcome.before.movable.percent());
        let after_percent = after.map(|after| after.movable.percent());
        let message = message(job, moved_bytes, before.zip(after_percent));
        let event = Event {
            from,
            to,
            before_percent: before.or(local_percent),
            after_percent: after_percent.or(local_percent),
            remote_bytes: after.map(|after| after.movable.remote_bytes),
            failed: failed.take(FAILED).collect(),
            members: told(&job.members),
            more_members: job.members.len().saturating_sub(MEMBERS) + job.more_members,
            ..self.of_job(job, kind, message)
        };
        self.is_news(job, &event).then_some(event)
    }

    /// The event that offload was given up for a job, if it was.
    pub(super) fn offload_event(&self, job: &Job) -> Option<Event> {
        let offload = job.outcome.as_deref()?.offload.as_ref()?;
        let message = || format!("{}; copied by CPU from then on", offload.reason);
        let is_given_up = offload.used && offload.failed;
        is_given_up.then(|| self.of_job(job, EventType::OffloadFailed, message()))
    }

    /// Whether the end of a job is to have an event. Only a repeating schedule whose policy does not ask for all events
    /// leaves some out. Its ends have an event if there was none before, if the type differs from the last one, if the
    /// local share is newly known, not known any more or changed by more than [`POINTS`], or if other members are not
    /// well.
    fn is_news(&self, job: &Job, event: &Event) -> bool {
        let repeats = |schedule| {
            self.records
                .schedule(schedule)
                .is_some_and(|schedule| !schedule.spec.interval.is_zero())
        };
        let is_told = job.spec.policy.emit == Emit::Always;
        let Some(schedule) = event.schedule.as_ref().filter(|id| !is_told && repeats(id)) else {
            return true;
        };
        let Some(last) = self.records.last_end_of(schedule) else { return true };
        let ratios = last.after_percent.zip(event.after_percent);
        last.kind != event.kind
            || last.unwell != EventHead::unwell_of(event)
            || last.after_percent.is_some() != event.after_percent.is_some()
            || ratios.is_some_and(|(last, now)| (last - now).abs() > POINTS)
    }
}

/// At most [`MEMBERS`] members, those in the worst states first.
fn told(members: &[MemberResult]) -> Vec<MemberResult> {
    let mut told: Vec<&MemberResult> = members.iter().collect();
    told.sort_by_key(|member| Reverse(weight(member.state)));
    told.into_iter().take(MEMBERS).cloned().collect()
}

fn weight(state: MemberState) -> usize {
    match state {
        MemberState::Failed => 5,
        MemberState::Refused => 4,
        MemberState::Missing => 3,
        MemberState::Partial => 2,
        MemberState::Succeeded => 1,
        MemberState::Waiting | MemberState::Skipped => 0,
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn message(job: &Job, moved_bytes: u64, ratio: Option<(f64, f64)>) -> String {
    let mut message = job.state.name().to_ascii_lowercase();
    if moved_bytes > 0 {
        message.push_str(&format!(", {} moved", mib(moved_bytes)));
    }
    if let Some((before, after)) = ratio {
        message.push_str(&format!(", {before:.1} % -> {after:.1} % local"));
    }
    if !job.state_message.is_empty() {
        message.push_str(": ");
        message.push_str(&job.state_message);
    }
    message
}
