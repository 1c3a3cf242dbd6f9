//! The end of a job: its last record, its event and its schedule's next run, in one commit.

use super::{contest::Contest, dispatcher::Dispatcher, measured::Measured};
use crate::{
    access::Caller,
    refusal::Refusal,
    store::{Weight, Write},
};
use numaloc_api::value::{
    Job, JobState, MemberResult, MemberState, Outcome, ScheduleId, Target, first_few,
};
use std::sync::Arc;
use tokio::time::Instant;

impl Dispatcher {
    /// Ends a job. If `outcome` is `None`, the job keeps the outcome of its earlier runs.
    pub(super) fn end_job(
        &mut self,
        job: &Job,
        state: JobState,
        message: String,
        outcome: Option<Arc<Outcome>>,
    ) -> Result<(), Refusal> {
        let outcome = outcome.or_else(|| job.outcome.clone());
        self.end(Job { outcome, ..job.clone() }, state, message, None)
    }

    /// Ends a job that had nothing to do. `local_percent` is the local share that was found.
    pub(super) fn end_without_moving(
        &mut self,
        job: &Job,
        state: JobState,
        message: String,
        local_percent: Option<f64>,
    ) -> Result<(), Refusal> {
        // A job with the outcome of an earlier run has done its work.
        let state = match state {
            JobState::Skipped if job.outcome.is_some() => JobState::Succeeded,
            state => state,
        };
        self.end(job.clone(), state, message, local_percent)
    }

    fn end(
        &mut self,
        job: Job,
        state: JobState,
        state_message: String,
        local_percent: Option<f64>,
    ) -> Result<(), Refusal> {
        let now = self.wall();
        let state_message = joined([state_message, left_out(&job)]);
        let members = all_ended(&job.members, state, &state_message);
        let ended = Some(now);
        let job = Arc::new(Job { state, state_message, wanted: None, ended, members, ..job });
        let mut writes = vec![Write::Job(job.clone())];
        let contest = self.contest_after(&job);
        let event = self.end_event(&job, local_percent);
        let events = event.into_iter().chain(self.contest_event(&job, contest.as_ref()));
        let events = events.chain(self.offload_event(&job));
        writes.extend(self.tell(events));
        let follow_up = self.after_run(&job, contest.as_ref());
        writes.extend(follow_up.iter().map(|(schedule, _)| Write::Schedule(schedule.clone())));
        self.commit(writes)?;
        self.ended_bytes += job.weight();
        let follow_up = follow_up.map(|(schedule, due)| (schedule.id.clone(), due));
        self.then(move |dispatcher| dispatcher.after_end(&job, contest, follow_up));
        Ok(())
    }

    /// Effects of an end, once it is stored.
    fn after_end(
        &mut self,
        job: &Job,
        contest: Option<Contest>,
        follow_up: Option<(ScheduleId, Option<Instant>)>,
    ) {
        let number = job.id.number().unwrap_or_default();
        self.remember(number, job);
        self.open.forget(number);
        if let Some((schedule, contest)) = job.schedule.as_ref().zip(contest) {
            self.set_contest(schedule, contest);
        }
        if let Some((schedule, due)) = follow_up {
            self.set_due(&schedule, due);
        }
        self.note_relief(job);
        (self.edges.measured)(Measured::Ended(job));
        if let Ok(owner) = self.owner_of(job) {
            self.measure(job, &owner);
        }
        // A field `message` would be a second MESSAGE in the journal.
        tracing::info!(job = %job.id, state = job.state.name(), why = job.state_message, "job ended");
    }

    /// Updates the metric of the local share for each member that is a workload of `owner`.
    fn measure(&self, job: &Job, owner: &Caller) {
        for result in &job.members {
            if let Some(after) = result.after
                && let Some(id) = self.only_workload(&result.member, &job.spec.target, owner)
            {
                (self.edges.measured)(Measured::Local(id, after.movable.percent()));
            }
        }
    }
}

/// The members of a job that has ended. Those still waiting get a state and a reason from the job's end.
fn all_ended(members: &[MemberResult], state: JobState, why: &str) -> Vec<MemberResult> {
    let state = match state {
        JobState::Failed | JobState::Interrupted => MemberState::Failed,
        _ => MemberState::Skipped,
    };
    let one = |member: &MemberResult| match member.state {
        MemberState::Waiting => MemberResult { state, reason: why.to_owned(), ..member.clone() },
        _ => member.clone(),
    };
    members.iter().map(one).collect()
}

/// Names the members that took no part, or not with all of their processes, for people; empty if there are none.
fn left_out(job: &Job) -> String {
    let of = |words, fits: fn(&MemberResult) -> bool| {
        let fitting = job.members.iter().filter(|member| fits(member));
        let names: Vec<&Target> = fitting.map(|member| &member.member).collect();
        first_few(names.into_iter()).map(|names| format!("{words}: {names}")).unwrap_or_default()
    };
    let more = match job.more_members {
        0 => String::new(),
        more => format!("{more} more take no part"),
    };
    let missing = of("not there", |member| member.state == MemberState::Missing);
    let refused = of("left out", |member| member.state == MemberState::Refused);
    let in_part = of("some of its processes are not readable", |member| member.unreadable > 0);
    joined([missing, refused, in_part, more])
}

/// Joins those parts of a message that are not empty.
pub(super) fn joined(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}
