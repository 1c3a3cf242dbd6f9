//! Removes ended jobs and events that are beyond the bounds of retention.

use super::{
    dispatcher::Dispatcher,
    retain::{Forgettable, RetentionBound, surplus},
};
use crate::{
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
/// At most this many records are removed in one commit.
const AT_ONCE: usize = 1000;

impl Dispatcher {
    /// Removes records that are too old or too many, [`AT_ONCE`] at most. Gives back whether there may be more.
    pub(super) fn forget(&mut self) -> Result<bool, Refusal> {
        let mut retention = self.config().retention;
        if self.jumps.hold(self.wall(), Instant::now()) {
            retention.age = Duration::MAX;
        }
        self.ended_bytes = 0;
        let jobs = self.old_jobs(&retention).into_iter().map(Write::DropJob);
        let events = self.old_events(&retention).into_iter().map(Write::DropEvent);
        let mut writes: Vec<Write> = jobs.chain(events).collect();
        let more = writes.len() > AT_ONCE;
        writes.truncate(AT_ONCE);
        if !writes.is_empty() {
            self.commit(writes)?;
        }
        Ok(more)
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
                kept.push(Forgettable {
                    key: &job.id,
                    creator: self.owner_name(job),
                    bytes: *bytes,
                });
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
    Forgettable { key: head.number, creator: &head.creator, bytes: head.bytes }
}

fn is_older(now: SystemTime, time: SystemTime, age: Duration) -> bool {
    now.duration_since(time).is_ok_and(|since| since > age)
}
