//! One order in its thread: plan, wait for the word, move, look again.

use super::{Order, Planned, Report, authority, check_any, turns::caught};
use crate::{dispatch::Refusal, log};
use numaloc_api::value;
use numaloc_core::{Locality, Plan, Topology};
use numaloc_executor::{Control, Limits, execute};
use numaloc_host::{Error, Roots, Survey, resolve, survey_unless, topology};
use std::{
    sync::Arc,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// How long the second look may take once the run has been cancelled: somebody waits for its end.
const CANCELLED_LOOK: Duration = Duration::from_secs(2);

/// What has been planned, with the processes held open.
struct Run<'a> {
    roots: &'a Roots,
    topology: Topology,
    plan: Plan,
    survey: Survey,
}

/// Carries an order out as far as the dispatcher wants it, and reports.
pub fn carry_out(roots: &Roots, order: Order, reports: &UnboundedSender<Report>) {
    let job = order.job.clone();
    // On each line that is logged from here on, by the executor's threads too.
    let _span = log::job(&job).entered();
    let run = match caught(|| Run::plan(roots, &order)) {
        Ok((run, planned)) => {
            report(reports, Report::Planned(job.clone(), Ok(planned)));
            run
        }
        Err(refusal) => {
            tracing::info!(%refusal, "not planned");
            return report(reports, Report::Planned(job, Err(refusal)));
        }
    };
    if order.go.blocking_recv().is_err() {
        tracing::debug!("not wanted any more");
        return;
    }
    let outcome = caught(|| run.execute(&limits(&order.limits), &order.control));
    report(reports, Report::Ended(job, outcome.map(Arc::new)));
}

/// Reports; to nobody, when the dispatcher has ended.
pub fn report(reports: &UnboundedSender<Report>, report: Report) {
    if reports.send(report).is_err() {
        tracing::debug!("nobody to report to");
    }
}

/// Bounds with the executor's own where none are given.
fn limits(limits: &value::Limits) -> Limits {
    let default = Limits::default();
    Limits {
        batch_bytes: limits.batch_bytes.unwrap_or(default.batch_bytes),
        workers: limits.workers.unwrap_or(default.workers),
        timeout: limits.timeout,
        rate_bytes_per_second: limits.rate_bytes_per_second,
        ..default
    }
}

impl<'a> Run<'a> {
    fn plan(roots: &'a Roots, order: &Order) -> Result<(Self, Planned), Refusal> {
        let Order { targets, options, authority, control, .. } = order;
        let cancelled = || control.cancel.load(Relaxed);
        let topology = topology::topology(roots)?;
        if let Some(nodes) = &options.to {
            topology::check_nodes(roots, &topology, nodes)?;
        }
        let processes = resolve(roots, targets, &topology)?;
        authority::check(roots, &processes, authority)?;
        let mut survey = survey_unless(&cancelled, roots, &topology, processes.clone(), options)?;
        // Again, now that the processes are held open: one that has become somebody else's by an exec since then has
        // other memory than what is held, and is not touched.
        authority::check(roots, &survey.processes(), authority)?;
        let plan = survey.plan(&topology, options);
        check_any(&plan, targets)?;
        let planned = Planned::new(&plan, &processes);
        tracing::info!(
            processes = planned.found.processes.len(),
            planned_bytes = planned.planned_bytes,
            local_percent = planned.local_percent,
            nothing = planned.nothing.as_deref(),
            "planned"
        );
        Ok((Self { roots, topology, plan, survey }, planned))
    }

    fn execute(&self, limits: &Limits, control: &Control) -> Result<value::Outcome, Refusal> {
        let Self { roots, topology, plan, survey } = self;
        let outcome = execute(roots, topology, plan, survey, limits, control)?;
        let account = outcome.account();
        tracing::info!(
            found_bytes = account.found_bytes(),
            moved_bytes = account.moved_bytes(),
            shortfall_bytes = account.shortfall_bytes(),
            calls = outcome.calls.calls,
            elapsed_ms = outcome.elapsed.as_millis() as u64,
            cancelled = outcome.cancelled,
            "ended"
        );
        Ok(value::Outcome::new(outcome, plan.locality, self.look_again(control)))
    }

    /// Where the processes stand now; `None` if there are none any more, or nobody has the time to look.
    fn look_again(&self, control: &Control) -> Option<Locality> {
        let Self { roots, topology, plan, survey } = self;
        let begin = Instant::now();
        let stop = || control.cancel.load(Relaxed) && begin.elapsed() > CANCELLED_LOOK;
        let processes = survey.processes();
        let again = survey_unless(&stop, roots, topology, processes, &plan.options);
        match again.map(|mut survey| survey.plan(topology, &plan.options)) {
            Ok(plan) if plan.processes.is_empty() => None,
            Ok(plan) => Some(plan.locality),
            Err(Error::Stopped) => None,
            Err(error) => {
                tracing::warn!(%error, "cannot tell the locality afterwards");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_are_not_given_are_the_executors() {
        assert_eq!(limits(&value::Limits::default()), Limits::default());
        let given = value::Limits {
            batch_bytes: Some(4096),
            workers: Some(7),
            timeout: Some(Duration::from_secs(9)),
            rate_bytes_per_second: Some(8192),
        };
        let Limits { batch_bytes, workers, timeout, rate_bytes_per_second, attempts } =
            limits(&given);
        assert_eq!((batch_bytes, workers, attempts), (4096, 7, Limits::default().attempts));
        assert_eq!((timeout, rate_bytes_per_second), (given.timeout, Some(8192)));
    }
}
