//! Recovery of jobs that the last daemon left under way, and removal of old records.

use super::{
    dispatcher::{Dispatcher, Lookup},
    retain::{Record, Room, surplus},
};
use crate::{
    config::Retention,
    order::Found,
    refusal::Refusal,
    store::{EventHead, Kept, Weight, Write},
};
use numaloc_api::value::{Job, JobId, JobState, OnInterrupt};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Each schedule keeps at most this many ended jobs, so that they do not push out the jobs of clients.
const JOBS_OF_SCHEDULE: usize = 20;
/// At most this many records are removed in one commit.
const FORGET: usize = 1000;

impl Dispatcher {
    /// Handles the jobs that the last daemon left under way. If something cannot be stored, this is called again later.
    pub(super) fn recover(&mut self) -> Result<(), Refusal> {
        if self.recovered {
            return Ok(());
        }
        let is_left = |job: &&Job| {
            matches!(job.state, JobState::Planning | JobState::Running | JobState::Suspended)
                // An older version of the daemon, without SUSPENDED, has left it so.
                || (job.state == JobState::Interrupted && resumes(job))
        };
        let left = self.records.jobs().values().map(|kept| &*kept.job).filter(is_left);
        for id in left.map(|job| job.id.clone()).collect::<Vec<_>>() {
            let job = self.get_job(&id)?;
            match (job.state, job.wanted) {
                (_, Some(JobState::Cancelled)) => {
                    let message = "cancelled; the daemon ended meanwhile".to_owned();
                    self.end_job(&job, JobState::Cancelled, message, None)?;
                }
                (_, Some(_)) => {
                    let message = "held; the daemon ended meanwhile".to_owned();
                    self.put_job(&job, JobState::Paused, message)?;
                }
                // Nothing has been moved yet.
                (JobState::Planning, None) => {
                    self.put_job(&job, JobState::Queued, String::new())?;
                }
                (_, None) if resumes(&job) => {
                    let again = Job { ended: None, ..(*job).clone() };
                    let message = "interrupted by the end of the daemon, planned anew".to_owned();
                    self.put_job(&again, JobState::Queued, message)?;
                }
                (_, None) => {
                    let message = "the daemon ended while it was under way".to_owned();
                    self.end_job(&job, JobState::Interrupted, message, None)?;
                }
            }
        }
        self.recovered = true;
        self.set_all_due();
        self.begin_all_leases();
        self.look_up();
        Ok(())
    }

    /// Asks the engine for the processes of open jobs. Only the last daemon knew which jobs share memory.
    fn look_up(&self) {
        for job in self.records.open_jobs() {
            // A job whose target cannot be resolved now ends at its turn.
            let Ok(owner) = self.owner_of(job) else { continue };
            let (target, options) = (&job.spec.target, job.spec.policy.options.clone());
            let Ok(selected) = self.select(target, Some(&owner), Some(&job.pins)) else { continue };
            let lookup = Lookup { job: job.id.clone(), aim: selected.aim, options, owner };
            // This fails only when the daemon ends.
            let _ = self.edges.lookups.send(lookup);
        }
    }

    /// Notes the processes and nodes of a job that was open at the start, unless more is known by now.
    pub(super) fn on_looked_up(&mut self, id: &JobId, found: Found) {
        let is_open = self.records.job(id).is_some_and(|job| !job.state.is_end());
        if let Some(number) = id.number().filter(|_| is_open) {
            // The job's record has the members already.
            self.open.learn_first(number, &found);
        }
    }

    /// Removes records that are too old or too many, [`FORGET`] at most. Gives back whether there may be more.
    pub(super) fn forget(&mut self) -> Result<bool, Refusal> {
        let retention = self.config().retention;
        self.ended_bytes = 0;
        let jobs = self.old_jobs(&retention).into_iter().map(Write::DropJob);
        let events = self.old_events(&retention).into_iter().map(Write::DropEvent);
        let mut writes: Vec<Write> = jobs.chain(events).collect();
        let more = writes.len() > FORGET;
        writes.truncate(FORGET);
        if !writes.is_empty() {
            self.commit(writes)?;
        }
        Ok(more)
    }

    /// Ended jobs to be removed. If there are more than [`FORGET`], the list may be incomplete, but has more than
    /// [`FORGET`].
    fn old_jobs(&self, retention: &Retention) -> Vec<JobId> {
        let now = self.wall();
        let is_old = |time| is_older(now, time, retention.age);
        let mut of_schedule: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut old, mut kept) = (Vec::new(), Vec::new());
        let jobs = self.records.jobs().values();
        for Kept { job, listed } in jobs.rev().filter(|kept| kept.job.state.is_end()) {
            let schedule = job.schedule.as_ref().map(|schedule| schedule.id());
            let runs = schedule.map(|schedule| of_schedule.entry(schedule).or_default());
            let too_many = runs.is_some_and(|runs| {
                *runs += 1;
                *runs > JOBS_OF_SCHEDULE
            });
            if too_many || job.ended.is_some_and(is_old) {
                old.push(job.id.clone());
            } else {
                let bytes = listed.as_ref().map_or(0, Weight::weight);
                kept.push(Record { key: &job.id, creator: self.owner_name(job), bytes });
            }
        }
        // The oldest first, as for events.
        old.reverse();
        kept.reverse();
        let room = Room { records: retention.jobs, bytes: retention.bytes };
        old.extend(surplus(kept, room, FORGET + 1).into_iter().cloned());
        old
    }

    /// Events to be removed, as [`Self::old_jobs`].
    fn old_events(&self, retention: &Retention) -> Vec<u64> {
        let (now, events) = (self.wall(), self.records.events());
        let old = events.iter().take_while(|head| is_older(now, head.time, retention.age));
        let mut old: Vec<u64> = old.map(|head| head.number).collect();
        let kept = || events.range(old.len()..);
        let room = Room { records: retention.events, bytes: retention.bytes };
        let bytes: usize = kept().map(|head| head.bytes).sum();
        if kept().len() <= room.records && bytes <= room.bytes {
            return old;
        }
        let more = surplus(kept().map(record), room, FORGET + 1);
        old.extend(more);
        old
    }
}

fn record(head: &EventHead) -> Record<'_, u64> {
    Record { key: head.number, creator: &head.creator, bytes: head.bytes }
}

fn is_older(now: SystemTime, time: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|since| since > age)
}

/// Whether the job's policy is to go on at the next start after the daemon has ended.
pub(super) fn resumes(job: &Job) -> bool {
    job.spec.policy.on_interrupt == OnInterrupt::Resume
}
