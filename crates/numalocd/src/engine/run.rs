//! One order in its thread: plan, wait until the dispatcher says go, move, look again.

use super::{
    authority, files::PlannedFiles, members::Members, partners, returned::returned, turns::caught,
};
use crate::{
    access::Authority,
    balancing::{Balancing, Paused},
    log,
    order::{Ended, EngineReport, JobOrder, Offers, Planned, Trail},
    refusal::Refusal,
};
use numaloc_api::value::{self, NamedOutcome};
use numaloc_core::{Plan, Topology, exchange};
use numaloc_dma::{Offloading, Using};
use numaloc_executor::{Control, Migration, PlannedMigration, RunLimits, identities};
use numaloc_host::{Error, Policies, Roots};
use std::{
    sync::Arc,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedSender;

/// How long the look after the move may take once the run has been cancelled. It is short, because somebody waits for the
/// end.
const CANCELLED_LOOK: Duration = Duration::from_secs(2);

/// A planned order.
enum PlannedRun {
    Memory(Box<MemoryRun>),
    Files(Box<PlannedFiles>),
}

/// A planned order for processes, which are held open.
struct MemoryRun {
    planned: PlannedMigration<Members>,
    /// Bytes that an earlier run had moved and that are remote again.
    returned_bytes: Option<u64>,
}

/// Carries an order out as far as the dispatcher wants it, and reports.
pub fn carry_out(
    roots: &Roots,
    (balancing, offloading): (&Balancing, &Offloading),
    mut order: JobOrder,
    reports: &UnboundedSender<EngineReport>,
) {
    let job = order.job.clone();
    // Puts the job on each line that is logged from here on, also by the executor's threads.
    let _span = log::job(&job).entered();
    let offers = std::mem::take(&mut order.offers);
    let (mut run, bytes, note) = match caught(|| PlannedRun::plan(roots, &order, offers)) {
        Ok((run, mut planned)) => {
            if let PlannedRun::Memory(run) = &run
                && run.planned.plan.can_be_undone()
            {
                planned.note = balancing.warning(order.numa_balancing);
            }
            let (bytes, note) = (planned.planned_bytes, planned.note.clone());
            report(reports, EngineReport::Planned(job.clone(), Ok(planned)));
            (run, bytes, note)
        }
        Err(refusal) => {
            tracing::info!(%refusal, "not planned");
            return report(reports, EngineReport::Planned(job, Err(refusal)));
        }
    };
    if order.go.blocking_recv().is_err() {
        tracing::debug!("not wanted any more");
        return;
    }
    if let Some(note) = note {
        tracing::warn!("{note}");
    }
    let (limits, control, authority) = (&order.limits, &*order.control, &order.authority);
    let ended = caught(|| {
        let run = match &mut run {
            PlannedRun::Files(files) => return files.execute(limits, control, authority),
            PlannedRun::Memory(run) => run,
        };
        let paused = balancing.begin(order.numa_balancing)?;
        let using = offloading.begin(&order.offload, bytes)?;
        run.execute((limits, control, authority), (paused, using))
    });
    report(reports, EngineReport::Ended(job, ended));
}

/// Sends a report. If the dispatcher has ended, nobody gets it.
pub fn report(reports: &UnboundedSender<EngineReport>, report: EngineReport) {
    if reports.send(report).is_err() {
        tracing::debug!("nobody to report to");
    }
}

impl PlannedRun {
    fn plan(roots: &Roots, order: &JobOrder, offers: Offers) -> Result<(Self, Planned), Refusal> {
        if order.aim.files.is_empty() {
            let (run, planned) = MemoryRun::plan(roots, order, offers)?;
            return Ok((Self::Memory(Box::new(run)), planned));
        }
        let (run, planned) = PlannedFiles::plan(roots, order)?;
        Ok((Self::Files(Box::new(run)), planned))
    }
}

impl MemoryRun {
    fn plan(roots: &Roots, order: &JobOrder, offers: Offers) -> Result<(Self, Planned), Refusal> {
        let JobOrder { aim, options, authority, control, .. } = order;
        let cancelled = || control.cancel.load(Relaxed);
        let find = |topology: &Topology| Members::look(roots, aim, topology, authority, &cancelled);
        let mut run = Migration::on(roots)?.plan(options, Policies::Ask, &cancelled, find)?;
        let PlannedMigration { topology, survey, .. } = &run;
        let returned =
            order.trail.as_ref().map(|trail| returned(roots, topology, survey, options, trail));
        let returned_bytes = returned.as_ref().map(|returned| returned.bytes);
        partners::take_in(&mut run, offers, authority, &cancelled);
        let (plan, members) = (&run.plan, &run.party);
        let mut planned = Planned { returned, ..Planned::new(plan, members) };
        // Meanwhile no other job works on these, and where they go counts as where memory is brought.
        let partners = run.partners().iter().flat_map(identities);
        Arc::make_mut(&mut planned.found.processes).extend(partners);
        for to in exchange::sides(plan).values().filter(|_| !run.partners().is_empty()) {
            planned.found.nodes = planned.found.nodes.or(to);
        }
        tracing::info!(
            processes = planned.found.processes.len(),
            members = planned.found.members.len(),
            left_out = members.missing().len(),
            planned_bytes = planned.planned_bytes,
            local_percent = planned.local_percent,
            order = plan.order.name(),
            nothing = planned.nothing.as_ref().map(|(_, why)| why),
            returned_bytes,
            "planned"
        );
        Ok((Self { planned: run, returned_bytes }, planned))
    }

    /// Moves. The kernel's NUMA balancing stays `paused`, and offload is in use, until that is done.
    fn execute(
        &mut self,
        (limits, control, authority): (&RunLimits, &Control, &Authority),
        (paused, using): (Option<Paused>, Using),
    ) -> Result<Ended, Refusal> {
        let limits = &RunLimits { cache_of: authority::whose(authority), ..limits.clone() };
        let Self { planned, returned_bytes } = self;
        let (mut outcome, made_room) = planned.run(limits, control)?;
        drop(paused);
        // Each address names one folio.
        let calls = &outcome.calls;
        let offload = using.end(calls.addresses.saturating_sub(calls.retried_addresses));
        let partners = partners::moved(planned, &made_room);
        let account = outcome.account();
        tracing::info!(
            found_bytes = account.found_bytes(),
            moved_bytes = account.moved_bytes(),
            shortfall_bytes = account.shortfall_bytes(),
            calls = outcome.calls.calls,
            exchanged_bytes = outcome.calls.exchanged_bytes,
            partners = partners.len(),
            elapsed_ms = outcome.elapsed.as_millis() as u64,
            cancelled = outcome.cancelled,
            offloaded = offload.used,
            not_offloaded = offload.reason,
            "ended"
        );
        let (moved_bytes, sample) = (account.moved_bytes(), std::mem::take(&mut outcome.sample));
        let trail = (!sample.is_empty()).then(|| Arc::new(Trail { moved_bytes, sample }));
        let (after, look_error) = match look_again(planned, control) {
            Ok(after) => (after, String::new()),
            Err(error) => (None, error.to_string()),
        };
        let plan = &planned.plan;
        let members = planned.party.ended(plan, &outcome, after.as_ref());
        let named = NamedOutcome::all(plan, &outcome.named_bytes, after.as_ref());
        let after = after.map(|plan| plan.locality);
        let outcome = value::Outcome::new(outcome, plan.locality, after);
        let returned_bytes = *returned_bytes;
        let offload = Some(offload);
        let outcome =
            value::Outcome { returned_bytes, partners, offload, named, look_error, ..outcome };
        let outcome = Arc::new(outcome);
        Ok(Ended { outcome, members, trail })
    }
}

/// The plan of a look after the move. `None` if no process is left, or if the look was stopped after a cancel.
///
/// # Errors
/// The look failed.
fn look_again(
    planned: &PlannedMigration<Members>,
    control: &Control,
) -> Result<Option<Plan>, Error> {
    let begin = Instant::now();
    let stop = || control.cancel.load(Relaxed) && begin.elapsed() > CANCELLED_LOOK;
    match planned.look_again(&stop) {
        Err(Error::Stopped) => Ok(None),
        after => after.inspect_err(|error| {
            tracing::warn!(%error, "cannot tell the locality afterwards");
        }),
    }
}
