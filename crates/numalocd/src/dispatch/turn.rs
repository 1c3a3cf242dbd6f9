//! Starts jobs whose turn it is.

use super::{
    dispatcher::Dispatcher,
    limits::{limits, pacing},
    measured::Measured,
    queue::{
        Active, JobStage, SLICE, Waiting, has_place, makes_room, next, overstayed, preempted,
        take_turns,
    },
    run::{Run, Shown},
};
use crate::{
    access::{Caller, Creators, Grants},
    order::JobOrder,
    refusal::Refusal,
    store::{Holds, Work},
};
use numaloc_api::value::{Job, JobState, Limits, MigrationSpec, QosClass};
use numaloc_core::Options;
use numaloc_dma::Asked;
use numaloc_engine::RunOrder;
use numaloc_executor::Control;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

impl Dispatcher {
    /// Hands queued jobs to the engine for planning, up to the allowed number, and starts the moves of planned jobs.
    ///
    /// # Errors
    /// The store cannot be written. Jobs that could not be started stay queued.
    pub(super) fn start_jobs(&mut self) -> Result<(), Refusal> {
        self.give_up_ready()?;
        if self.stopping.is_some() || !self.recovered {
            return Ok(());
        }
        match self.records.holds() {
            Holds { paused: Some(_), .. } => {
                self.pause_all();
                return Ok(());
            }
            // Planned jobs go back into the queue.
            Holds { drained: Some(_), .. } => return self.move_ready(),
            Holds { .. } => {}
        }
        for number in self.turn() {
            let Some(kept) = self.records.jobs().get(&number).cloned() else { continue };
            self.start_job(number, &kept.job)?;
        }
        self.move_ready()
    }

    /// Ends the jobs that wait for a place to move and were ordered to end. The engine has nothing more to report of
    /// them.
    fn give_up_ready(&mut self) -> Result<(), Refusal> {
        for number in self.ready() {
            if !self.runs.get(&number).is_some_and(Run::is_cancelled) {
                continue;
            }
            if let Some(kept) = self.records.jobs().get(&number).cloned() {
                self.stopped(&kept.job, None)?;
            }
            self.drop_run(number);
            self.changed = true;
        }
        Ok(())
    }

    /// Starts the moves of planned jobs, by class, then by age. A job moves if there is a place for it and its owner
    /// has the same rights as when the job was planned.
    fn move_ready(&mut self) -> Result<(), Refusal> {
        for number in self.ready() {
            let Some(kept) = self.records.jobs().get(&number).cloned() else { continue };
            self.proceed(number, (*kept.job).clone())?;
        }
        Ok(())
    }

    fn ready(&self) -> Vec<u64> {
        let now = Instant::now();
        let ready = self.runs.iter().filter(|(_, run)| run.stage(now) == JobStage::Ready);
        let mut ready: Vec<_> = ready.map(|(&number, run)| (run.qos_class, number)).collect();
        ready.sort_unstable();
        ready.into_iter().map(|(_, number)| number).collect()
    }

    /// Whether there is a place to move for a planned job.
    pub(super) fn has_place(&self, number: u64) -> bool {
        let active = self.active();
        let class = self.runs.get(&number).map(|run| run.qos_class);
        class.is_some_and(|class| has_place(class, &active, &self.config().queue))
    }

    fn active(&self) -> Vec<Active<'_>> {
        let now = Instant::now();
        let active = self.runs.iter().map(|(&number, run)| {
            let kept = self.records.jobs().get(&number);
            Active {
                number,
                qos_class: run.qos_class,
                owner: kept.map_or("", |kept| self.owner_name(&kept.job)),
                tenant: kept.map_or("", |kept| tenant(&kept.job)),
                stage: run.stage(now),
                found: run.found.as_ref(),
            }
        });
        active.collect()
    }

    /// Makes best-effort runs give way while jobs of other classes are under way, and continue once these are done.
    pub(super) fn make_room(&self) {
        let active: Vec<_> = self.runs.values().map(|run| run.qos_class).collect();
        for run in self.runs.values() {
            let yielding = makes_room(run.qos_class, &active);
            run.control.yielding.store(yielding, Ordering::Relaxed);
        }
    }

    /// Jobs to start now. Jobs that are in the way of others are ordered to end after their current batches and are
    /// queued again then: best-effort jobs in the way of other classes, and jobs that have moved for a whole slice (see
    /// [`overstayed`]).
    fn turn(&mut self) -> Vec<u64> {
        let limits = self.config().queue;
        let active = self.active();
        let waiting = self.waiting(&active);
        let preempted = preempted(&waiting, &active, &limits);
        // Only one at a time: a run that is ending already may free what others wait for.
        let is_ending = self.runs.values().any(Run::is_cancelled) || !preempted.is_empty();
        let late = (!is_ending).then(|| overstayed(&waiting, &active, &limits)).flatten();
        let next = next(waiting, &active, &limits);
        for number in preempted {
            self.put_back(number, "waits: a job of a better class has what it needs");
        }
        if let Some(number) = late {
            self.open.put_behind(number, self.records.last().job + 1);
            self.put_back(number, "waits: it is the turn of others");
        }
        next
    }

    pub(super) fn put_back(&mut self, number: u64, why: &'static str) {
        // A run that is ending already is not notified again.
        let Some(run) = self.runs.get_mut(&number).filter(|run| !run.is_cancelled()) else {
            return;
        };
        run.back = Some(why);
        run.cancel();
        // A job that only waits for a place to move is given up at once.
        self.changed = true;
    }

    /// When the next moving job has used up its slice.
    pub(super) fn next_slice(&self, now: Instant) -> Option<Instant> {
        let ends = self.runs.values().filter_map(|run| Some(run.moving? + SLICE));
        ends.filter(|end| *end > now).min()
    }

    /// Queued jobs, with their turns.
    fn waiting<'a>(&'a self, active: &[Active<'a>]) -> Vec<Waiting<'a>> {
        let config = self.config();
        let mut owners = Creators::new(Grants::from(&*config));
        let waiting = self.records.jobs_in(JobState::Queued).filter_map(|job| {
            let (owner, gid) = self.records.owner(job);
            let bound = |owner: &Caller| owner.ceilings.bound_class(job.spec.policy.class());
            // If the owner has lost its rights, the job is ended at its turn. Until then it counts as best effort, so
            // that no other job has to go back for it.
            let qos_class = owners.get(owner, gid).map_or(QosClass::Be, bound);
            let number = job.id.number()?;
            let line = self.open.place(number);
            let found = self.open.found(number);
            let (tenant, turn, tenant_turn) = (tenant(job), 0, 0);
            Some(Waiting { number, line, qos_class, owner, tenant, turn, tenant_turn, found })
        });
        let mut waiting: Vec<_> = waiting.collect();
        take_turns(&mut waiting, active);
        waiting
    }

    /// The name of a job's owner: its creator, or the creator of its schedule.
    pub(super) fn owner_name<'a>(&'a self, job: &'a Job) -> &'a str {
        self.records.owner(job).0
    }

    fn start_job(&mut self, number: u64, job: &Job) -> Result<(), Refusal> {
        let aim = self.owner_of(job).and_then(|owner| {
            // The class may come from a workload, so it is lowered further down and not refused here.
            let mut asked = job.spec.clone();
            asked.policy.qos_class = None;
            owner.ceilings.check(&asked)?;
            Ok((self.select(&job.spec.target, Some(&owner), Some(&job.pins))?.aim, owner))
        });
        let (aim, owner) = match aim {
            Ok(aim) => aim,
            Err(refusal) => {
                return self.end_job(job, JobState::Failed, refusal.to_string(), None);
            }
        };
        self.put_job(job, JobState::Planning, String::new())?;
        if job.plan.is_none() {
            // Zero if the wall clock was set back meanwhile.
            let waited = self.wall().duration_since(job.created).unwrap_or_default();
            (self.edges.measured)(Measured::Dequeued(waited));
        }
        let qos_class = owner.ceilings.bound_class(job.spec.policy.class());
        let (go, told) = oneshot::channel();
        let control = Arc::new(Control::default());
        let run = Run {
            control: control.clone(),
            owner: owner.clone(),
            qos_class,
            go: Some(go),
            is_planned: false,
            moving: None,
            back: None,
            ended_by: None,
            cancelled: None,
            found: self.open.found(number).cloned(),
            planned_bytes: 0,
            note: None,
            returned: None,
            trail: None,
            shown: Shown::new(Instant::now()),
            listed: Shown::new(Instant::now()),
        };
        self.runs.insert(number, run);
        self.records.under_way().begin(work_of(job));
        let own = owner.ceilings.bound(&job.spec, &self.config().limits);
        let own = Limits {
            timeout: own.timeout.map(|timeout| left_of(timeout, job)),
            hourly_budget_bytes: self.budget_left(job),
            ..own
        };
        let mut bounded = MigrationSpec { limits: own, ..job.spec.clone() };
        bounded.policy.qos_class = Some(qos_class);
        let shared = self.shared_rate.at(self.config().queue.rate_bytes_per_second);
        let pacing = pacing(&bounded, &self.config());
        let limits = limits(&bounded, &self.config(), shared);
        let offers = self.offers(&bounded, &owner);
        let run = RunOrder {
            aim,
            options: self.config().bounded(Options {
                pacing,
                ..self.sparing(&job.spec.policy.options, job.schedule.as_ref())
            }),
            limits: numaloc_executor::RunLimits { rooms: Some(self.rooms.clone()), ..limits },
            offload: Asked {
                policy: job.spec.policy.offload,
                rules: self.config().offload,
                is_granted: owner.ceilings.offload,
            },
            authority: owner.authority,
            offers,
            numa_balancing: job.spec.policy.numa_balancing,
            trail: self.trail(job),
            control,
        };
        let order = JobOrder { job: job.id.clone(), run, go: told };
        // This fails only when the daemon ends.
        let _ = self.edges.orders.send(order);
        Ok(())
    }

    /// Forgets a run. The engine does not move for it any more.
    pub(super) fn drop_run(&mut self, number: u64) {
        self.runs.remove(&number);
        if let Some(work) = self.records.jobs().get(&number).map(|kept| work_of(&kept.job)) {
            self.records.under_way().end(work);
        }
    }

    /// The owner of a job, with its present rights: the job's creator, or the creator of its schedule.
    pub(super) fn owner_of(&self, job: &Job) -> Result<Caller, Refusal> {
        let Some(id) = &job.schedule else { return self.creator(&job.creator, job.creator_gid) };
        let schedule = self.records.schedule(id).ok_or_else(|| {
            let message = format!("{id} was removed before this run began");
            Refusal::NotPermitted { message }
        })?;
        self.creator(&schedule.creator, schedule.creator_gid)
    }
}

/// The identity of a job's run in the notes of work under way.
pub(super) fn work_of(job: &Job) -> Work {
    match job.schedule.as_ref().and_then(|schedule| schedule.number()) {
        Some(schedule) => Work::Schedule(schedule),
        None => Work::Job(job.id.number().unwrap_or_default()),
    }
}

/// On whose behalf a job's owner asks; empty: on its own.
fn tenant(job: &Job) -> &str {
    job.spec.policy.tenant.as_deref().unwrap_or_default()
}

/// The rest of the time for which a job may move, but at least 1 ms. A job with no time left ends as soon as it begins,
/// and its result reports that.
fn left_of(timeout: Duration, job: &Job) -> Duration {
    let moved = job.outcome.as_ref().map_or(Duration::ZERO, |outcome| outcome.elapsed);
    timeout.saturating_sub(moved).max(Duration::from_millis(1))
}
