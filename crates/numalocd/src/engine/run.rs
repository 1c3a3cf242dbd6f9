//! One order in its thread: plan, wait until the dispatcher says go, move, look again.

use super::{check_any, members::Members, returned::returned, turns::caught};
use crate::{
    balancing::{Balancing, Paused},
    log,
    order::{Ended, Order, Planned, Report, Trail},
    refusal::Refusal,
};
use numaloc_api::value;
use numaloc_core::{Plan, Topology};
use numaloc_executor::{Control, RunLimits, execute};
use numaloc_host::{Error, Policies, Roots, Survey, heat, survey_unless, topology};
use std::{
    sync::Arc,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// How long the look after the move may take once the run has been cancelled. It is short, because somebody waits for the
/// end.
const CANCELLED_LOOK: Duration = Duration::from_secs(2);

/// A planned order, with its processes held open.
struct Run<'a> {
    roots: &'a Roots,
    topology: Topology,
    plan: Plan,
    survey: Survey,
    members: Members,
    /// Bytes that an earlier run had moved and that are remote again.
    returned_bytes: Option<u64>,
}

/// Carries an order out as far as the dispatcher wants it, and reports.
pub fn carry_out(
    roots: &Roots,
    balancing: &Balancing,
    order: Order,
    reports: &UnboundedSender<Report>,
) {
    let job = order.job.clone();
    // Puts the job on each line that is logged from here on, also by the executor's threads.
    let _span = log::job(&job).entered();
    let (run, note) = match caught(|| Run::plan(roots, &order)) {
        Ok((run, mut planned)) => {
            planned.note = balancing.warning(order.numa_balancing);
            let note = planned.note.clone();
            report(reports, Report::Planned(job.clone(), Ok(planned)));
            (run, note)
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
    if let Some(note) = note {
        tracing::warn!("{note}");
    }
    let ended = caught(|| {
        let paused = balancing.begin(order.numa_balancing)?;
        run.execute(&order.limits, &order.control, paused)
    });
    report(reports, Report::Ended(job, ended));
}

/// Sends a report. If the dispatcher has ended, nobody gets it.
pub fn report(reports: &UnboundedSender<Report>, report: Report) {
    if reports.send(report).is_err() {
        tracing::debug!("nobody to report to");
    }
}

impl<'a> Run<'a> {
    fn plan(roots: &'a Roots, order: &Order) -> Result<(Self, Planned), Refusal> {
        let Order { aim, options, authority, control, .. } = order;
        let cancelled = || control.cancel.load(Relaxed);
        let topology = topology::topology(roots)?;
        if let Some(nodes) = &options.to {
            topology::check_nodes(roots, &topology, nodes)?;
        }
        let mut members = Members::look(roots, aim, &topology, authority)?;
        let host = (roots, &topology);
        let mut survey = members.survey(&cancelled, Policies::Ask, host, options, authority)?;
        let mut plan = survey.take_seen().plan(&topology, options);
        check_any(&plan, aim)?;
        plan.order = heat::choose(roots, &plan)?;
        let returned =
            order.trail.as_ref().map(|trail| returned(roots, &topology, &survey, options, trail));
        let returned_bytes = returned.as_ref().map(|returned| returned.bytes);
        let planned = Planned { returned, ..Planned::new(&plan, &members) };
        tracing::info!(
            processes = planned.found.processes.len(),
            members = planned.found.members.len(),
            left_out = members.missing().len(),
            planned_bytes = planned.planned_bytes,
            local_percent = planned.local_percent,
            order = plan.order.name(),
            nothing = planned.nothing.as_deref(),
            returned_bytes,
            "planned"
        );
        Ok((Self { roots, topology, plan, survey, members, returned_bytes }, planned))
    }

    /// Moves. The kernel's NUMA balancing stays `paused` until that is done.
    fn execute(
        &self,
        limits: &RunLimits,
        control: &Control,
        paused: Option<Paused>,
    ) -> Result<Ended, Refusal> {
        let Self { roots, topology, plan, survey, members, returned_bytes } = self;
        let mut outcome = execute(roots, topology, plan, survey, limits, control)?;
        drop(paused);
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
        let (moved_bytes, sample) = (account.moved_bytes(), std::mem::take(&mut outcome.sample));
        let trail = (!sample.is_empty()).then(|| Arc::new(Trail { moved_bytes, sample }));
        let after = self.look_again(control);
        let members = members.ended(plan, &outcome, after.as_ref());
        let after = after.map(|plan| plan.locality);
        let outcome = value::Outcome::new(outcome, plan.locality, after);
        let outcome = Arc::new(value::Outcome { returned_bytes: *returned_bytes, ..outcome });
        Ok(Ended { outcome, members, trail })
    }

    /// The plan of a look after the move. `None` if no process is left, or if the look was stopped after a cancel or
    /// failed.
    fn look_again(&self, control: &Control) -> Option<Plan> {
        let Self { roots, topology, plan, survey, .. } = self;
        let begin = Instant::now();
        let stop = || control.cancel.load(Relaxed) && begin.elapsed() > CANCELLED_LOOK;
        let processes = survey.processes();
        let again = survey_unless(&stop, survey.known(), roots, topology, processes, &plan.options);
        match again.map(|mut survey| survey.take_seen().plan(topology, &plan.options)) {
            Ok(plan) if plan.processes.is_empty() => None,
            Ok(plan) => Some(plan),
            Err(Error::Stopped) => None,
            Err(error) => {
                tracing::warn!(%error, "cannot tell the locality afterwards");
                None
            }
        }
    }
}
