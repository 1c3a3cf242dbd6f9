//! Removes ended jobs and events that are beyond the bounds of retention.

use super::{
    dispatcher::Dispatcher,
    retain::{Forgettable, RetentionBound, surplus},
};
use crate::{
    accounts::{Cohort, Resource},
    config::Retention,
    refusal::Refusal,
    store::{EventHead, Kept, Write},
};
use numaloc_api::value::JobId;
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Each schedule keeps at most this many ended jobs, so that they do not push out the jobs of clients.
const JOBS_OF_SCHEDULE: usize = 20;
/// A store's file of this size is left as it is, in bytes.
const SMALL_FILE: u64 = 32 << 20;
/// The store gives back room when its file is this many times as large as its records.
const UNUSED: u64 = 4;
/// At most this many records are removed in one commit.
const AT_ONCE: usize = 1000;

impl Dispatcher {
    /// Removes records that are too old or too many, [`AT_ONCE`] at most. Gives back whether there may be more.
    pub(super) fn forget(&mut self) -> Result<bool, Refusal> {
        let mut retention = self.config().retention;
        if self.jumps.hold(self.wall(), Instant::now()) {
            retention.age = Duration::MAX;
        }
        (self.ended_bytes, self.event_bytes) = (0, 0);
        let jobs = self.old_jobs(&retention).into_iter().map(Write::DropJob);
        let events = self.old_events(&retention).into_iter().map(Write::DropEvent);
        let mut writes: Vec<Write> = jobs.chain(events).collect();
        let more = writes.len() > AT_ONCE;
        writes.truncate(AT_ONCE);
        if !writes.is_empty() {
            self.commit(writes)?;
        }
        if !more {
            self.shrink()?;
        }
        Ok(more)
    }

    /// Has the store give back room once its file is much larger than its records, and than what was left of it the
    /// last time.
    fn shrink(&mut self) -> Result<(), Refusal> {
        let file = self.records.store_bytes();
        if file <= SMALL_FILE.max(2 * self.shrunk_to) {
            return Ok(());
        }
        let ended: usize = self.records.jobs().values().map(|kept| kept.bytes).sum();
        let events: usize = self.records.events().iter().map(|head| head.bytes).sum();
        let open = self.records.used().accounts().held(Resource::Records);
        if file <= UNUSED * (ended + events + open) as u64 {
            return Ok(());
        }
        let begin = Instant::now();
        if self.records.shrink(&*self.edges.measured)? {
            self.shrunk_to = self.records.store_bytes();
            tracing::info!(
                from_bytes = file,
                to_bytes = self.shrunk_to,
                seconds = begin.elapsed().as_secs_f64(),
                "the store has given back room that it no longer needs"
            );
        }
        Ok(())
    }

    /// Ended jobs to be removed. If there are more than [`AT_ONCE`], the list may be incomplete, but has more than
    /// [`AT_ONCE`].
    fn old_jobs(&self, retention: &Retention) -> Vec<JobId> {
        let now = self.wall();
        let is_old = |time| is_older(now, time, retention.age);
        let mut of_schedule: BTreeMap<(&str, Option<u64>), usize> = BTreeMap::new();
        let (mut old, mut kept) = (Vec::new(), Vec::new());
        let jobs = self.records.jobs().values();
        for Kept { job, bytes, .. } in jobs.rev().filter(|kept| kept.job.state.is_end()) {
            let schedule = job.schedule.as_ref().map(|schedule| (schedule.id(), schedule.number()));
            let runs = schedule.map(|schedule| of_schedule.entry(schedule).or_default());
            let too_many = runs.is_some_and(|runs| {
                *runs += 1;
                *runs > JOBS_OF_SCHEDULE
            });
            if too_many || job.ended.is_some_and(is_old) {
                old.push(job.id.clone());
            } else {
                let (creator, gid) = self.records.owner(job);
                let cohort = gid.map(Cohort::Group);
                kept.push(Forgettable { key: &job.id, creator, cohort, bytes: *bytes });
            }
        }
        // The oldest first, as for events.
        old.reverse();
        kept.reverse();
        let room = RetentionBound { records: retention.jobs, bytes: retention.bytes };
        old.extend(surplus(kept, room, AT_ONCE + 1).into_iter().cloned());
        old
    }

    /// Events to be removed, as [`Self::old_jobs`].
    fn old_events(&self, retention: &Retention) -> Vec<u64> {
        let (now, events) = (self.wall(), self.records.events());
        let old = events.iter().take_while(|head| is_older(now, head.time, retention.age));
        let mut old: Vec<u64> = old.map(|head| head.number).collect();
        let kept = || events.range(old.len()..);
        let room = RetentionBound { records: retention.events, bytes: retention.bytes };
        let bytes: usize = kept().map(|head| head.bytes).sum();
        if kept().len() <= room.records && bytes <= room.bytes {
            return old;
        }
        let more = surplus(kept().map(record), room, AT_ONCE + 1);
        old.extend(more);
        old
    }
}

fn record(head: &EventHead) -> Forgettable<'_, u64> {
    let cohort = head.creator_gid.map(Cohort::Group);
    Forgettable { key: head.number, creator: &head.creator, cohort, bytes: head.bytes }
}

fn is_older(now: SystemTime, time: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|since| since > age)
}
