//! Starts jobs whose turn it is.

use super::{
    Refusal,
    dispatcher::Dispatcher,
    limits::limits,
    queue::{Active, Waiting, makes_room, next, preempted},
    run::Run,
};
use crate::{
    access::Caller,
    engine::{Found, Order},
};
use numaloc_api::value::{Job, JobState, MigrationSpec, QosClass};
use numaloc_executor::{Control, SharedRate};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};
use tokio::{sync::oneshot, time::Instant};

impl Dispatcher {
    /// Hands as many queued jobs to the engine as may be under way.
    ///
    /// # Errors
    /// The store: what could not be started stays queued.
    pub(super) fn start_jobs(&mut self) -> Result<(), Refusal> {
        if self.stopping.is_some() || !self.recovered {
            return Ok(());
        }
        for number in self.turn() {
            let Some(kept) = self.book.jobs().get(&number).cloned() else { continue };
            self.start_job(number, &kept.job)?;
        }
        Ok(())
    }

    /// Has best-effort runs make room for those of other classes, and go on once these are done.
    pub(super) fn make_room(&self) {
        let active: Vec<_> = self.runs.values().map(|run| run.qos_class).collect();
        for run in self.runs.values() {
            let yielding = makes_room(run.qos_class, &active);
            run.control.yielding.store(yielding, Ordering::Relaxed);
        }
    }

    /// Jobs to start now. Best-effort jobs that are in the way of others are told to end after their batches in hand, and are
    /// queued again then.
    fn turn(&self) -> Vec<u64> {
        let (unknown, limits) = (Found::default(), self.config().queue);
        let active = self.runs.iter().map(|(&number, run)| Active {
            number,
            qos_class: run.qos_class,
            found: run.found.as_ref().unwrap_or(&unknown),
        });
        let active: Vec<_> = active.collect();
        let waiting = self.waiting();
        for number in preempted(&waiting, &active, &limits) {
            self.runs.get(&number).into_iter().for_each(Run::cancel);
        }
        next(waiting, active.iter().map(|job| job.found), &limits)
    }

    /// Jobs that wait, with their turns.
    fn waiting(&self) -> Vec<Waiting<'_>> {
        let mut ahead: HashMap<(QosClass, &str), usize> = HashMap::new();
        for job in self.runs.keys().filter_map(|number| self.book.jobs().get(number)) {
            let job = &job.job;
            *ahead.entry((job.spec.policy.class(), self.owner_name(job))).or_default() += 1;
        }
        let waiting = self.book.jobs_in(JobState::Queued).filter_map(|job| {
            let (number, qos_class) = (job.id.number()?, job.spec.policy.class());
            let ahead = ahead.entry((qos_class, self.owner_name(job))).or_default();
            let turn = *ahead;
            *ahead += 1;
            Some(Waiting { number, qos_class, turn, found: self.found.get(&number) })
        });
        waiting.collect()
    }

    /// The name of who a job belongs to: its creator, or that of its schedule.
    fn owner_name<'a>(&'a self, job: &'a Job) -> &'a str {
        let schedule = job.schedule.as_ref().and_then(|id| self.book.schedule(id));
        schedule.map_or(&job.creator, |schedule| &schedule.creator)
    }

    fn start_job(&mut self, number: u64, job: &Job) -> Result<(), Refusal> {
        let aim = self.owner_of(job).and_then(|owner| {
            // Its class was looked at when it was made, and may be that of a workload.
            let mut asked = job.spec.clone();
            asked.policy.qos_class = None;
            owner.ceilings.check(&asked)?;
            Ok((self.select(&job.spec.target, Some((&owner, &job.pins)))?.aim, owner))
        });
        let (aim, owner) = match aim {
            Ok(aim) => aim,
            Err(refusal) => {
                return self.end_job(job, JobState::Failed, refusal.to_string(), None);
            }
        };
        self.put_job(job, JobState::Planning, String::new())?;
        if job.plan.is_none() {
            // A clock that was set back meanwhile makes it zero.
            let waited = self.wall().duration_since(job.created).unwrap_or_default();
            self.edges.metrics.job_dequeued(waited);
        }
        let (go, told) = oneshot::channel();
        let control = Arc::new(Control::default());
        let run = Run {
            control: control.clone(),
            qos_class: job.spec.policy.class(),
            go: Some(go),
            found: self.found.get(&number).cloned(),
            planned_bytes: 0,
            note: None,
            returned: None,
            trail: None,
            shown: (0, String::new()),
            shown_at: Instant::now(),
        };
        self.runs.insert(number, run);
        let own = owner.ceilings.bound(&job.spec, &self.config().limits);
        let bounded = MigrationSpec { limits: own, ..job.spec.clone() };
        let order = Order {
            job: job.id.clone(),
            aim,
            options: job.spec.policy.options.clone(),
            limits: limits(&bounded, &self.config(), self.shared_rate()),
            authority: owner.authority,
            numa_balancing: job.spec.policy.numa_balancing,
            trail: self.trail(job),
            control,
            go: told,
        };
        // Fails only when the daemon ends.
        let _ = self.edges.orders.send(order);
        Ok(())
    }

    /// What all runs together keep to: another one once the configuration names another rate, and runs under way keep theirs.
    fn shared_rate(&mut self) -> Option<Arc<SharedRate>> {
        let wanted = self.config().queue.rate_bytes_per_second;
        if wanted != self.shared_rate.as_ref().map(|(bytes_per_second, _)| *bytes_per_second) {
            self.shared_rate = wanted.map(|rate| (rate, Arc::new(SharedRate::new(rate))));
        }
        self.shared_rate.as_ref().map(|(_, rate)| rate.clone())
    }

    /// Who a job belongs to, as what it may do now: its creator, or that of its schedule.
    pub(super) fn owner_of(&self, job: &Job) -> Result<Caller, Refusal> {
        let Some(id) = &job.schedule else { return self.creator(&job.creator, job.creator_gid) };
        let schedule = self.book.schedule(id).ok_or_else(|| {
            let message = format!("{id} was removed before this run began");
            Refusal::NotPermitted { message }
        })?;
        self.creator(&schedule.creator, schedule.creator_gid)
    }
}
