//! Starts jobs whose turn it is.

use super::{
    Refusal,
    dispatcher::Dispatcher,
    limits::limits,
    queue::{Waiting, makes_room, next},
    run::Run,
};
use crate::{access::Authority, engine::Order};
use numaloc_api::value::{Job, JobState};
use numaloc_executor::{Control, SharedRate};
use std::sync::{Arc, atomic::Ordering};
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

    fn turn(&self) -> Vec<u64> {
        let unknown = crate::engine::Found::default();
        let waiting = self.book.jobs_in(JobState::Queued).filter_map(|job| {
            let number = job.id.number()?;
            let qos_class = job.spec.policy.class();
            Some(Waiting { number, qos_class, found: self.found.get(&number) })
        });
        let active = self.runs.values().map(|run| run.found.as_ref().unwrap_or(&unknown));
        next(waiting.collect(), active, &self.config().queue)
    }

    fn start_job(&mut self, number: u64, job: &Job) -> Result<(), Refusal> {
        let selected = self.select(&job.spec.target);
        let (targets, authority) = match (selected, self.authority_of(job)) {
            (Ok(selected), Ok(authority)) => (selected.targets, authority),
            (Err(refusal), _) | (_, Err(refusal)) => {
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
        let order = Order {
            job: job.id.clone(),
            targets,
            options: job.spec.policy.options.clone(),
            limits: limits(&job.spec, &self.config(), self.shared_rate()),
            authority,
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

    /// Whose memory a job may move: what its creator, or that of its schedule, may now.
    fn authority_of(&self, job: &Job) -> Result<Authority, Refusal> {
        let creator = match &job.schedule {
            None => &job.creator,
            Some(id) => match self.book.schedule(id) {
                Some(schedule) => &schedule.creator,
                None => {
                    let message = format!("{id} was removed before this run began");
                    return Err(Refusal::NotPermitted { message });
                }
            },
        };
        (self.edges.authorities)(creator).ok_or_else(|| Refusal::NotPermitted {
            message: format!("{creator} may not have memory moved any more"),
        })
    }
}
