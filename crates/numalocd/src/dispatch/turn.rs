//! Starts jobs whose turn it is.

use super::{
    Refusal,
    dispatcher::Dispatcher,
    queue::{Waiting, next},
    run::Run,
};
use crate::{access::Authority, engine::Order};
use numaloc_api::value::{Job, JobState, Limits, QosClass};
use numaloc_executor::Control;
use std::sync::Arc;
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
            let Some(job) = self.book.jobs().get(&number).cloned() else { continue };
            self.start_job(number, &job)?;
        }
        Ok(())
    }

    fn turn(&self) -> Vec<u64> {
        let unknown = crate::engine::Found::default();
        let waiting = self.book.jobs_in(JobState::Queued).filter_map(|job| {
            let number = job.id.number()?;
            let qos_class = job.spec.policy.qos_class.unwrap_or(QosClass::Ls);
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
            go: Some(go),
            found: self.found.get(&number).cloned(),
            planned_bytes: 0,
            shown_bytes: 0,
            shown: Instant::now(),
        };
        self.runs.insert(number, run);
        let order = Order {
            job: job.id.clone(),
            targets,
            options: job.spec.policy.options.clone(),
            limits: limits(&job.spec.limits, &self.config().limits),
            authority,
            control,
            go: told,
        };
        // Fails only when the daemon ends.
        let _ = self.edges.orders.send(order);
        Ok(())
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

/// A job's limits, those of the configuration where it has none.
fn limits(own: &Limits, default: &Limits) -> Limits {
    Limits {
        batch_bytes: own.batch_bytes.or(default.batch_bytes),
        workers: own.workers.or(default.workers),
        timeout: own.timeout.or(default.timeout),
        rate_bytes_per_second: own.rate_bytes_per_second.or(default.rate_bytes_per_second),
    }
}
