//! A migration: planned, then carried out, then looked at again.

use crate::{
    Ended, Error, Local, Planned, RunOrder, Trail,
    authority::{self, Authority},
    balancing::Paused,
    files::PlannedFiles,
    members::Members,
    offload::OffloadInUse,
    partners,
    returned::returned,
};
use numaloc_api::value::{self, NamedOutcome};
use numaloc_core::{Plan, Topology, exchange, number};
use numaloc_executor::{Control, Migration, PlannedMigration, RunLimits, identities};
use numaloc_host::{Error as HostError, Policies, tiering};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Longest duration of the scan after the move once the run has been cancelled. It is short, because its caller waits
/// for the end.
const CANCELLED_LOOK: Duration = Duration::from_secs(2);

/// A planned run. Its processes are held open.
#[derive(Debug)]
pub struct PlannedRun {
    local: Local,
    kind: PlannedKind,
}

#[derive(Debug)]
enum PlannedKind {
    Memory(Box<MemoryRun>),
    Files(Box<PlannedFiles>),
}

/// A planned run for processes, which are held open.
#[derive(Debug)]
struct MemoryRun {
    planned: PlannedMigration<Members>,
    /// Bytes that an earlier run had moved and that are remote again.
    returned_bytes: Option<u64>,
}

impl Local {
    /// Plans a run, and holds its processes or files open.
    ///
    /// # Errors
    /// As [`Self::find`]; stopped if its control cancels it.
    pub fn plan(&self, order: &RunOrder) -> Result<(PlannedRun, Planned), Error> {
        let (kind, planned) = if order.aim.files.is_empty() {
            let (run, mut planned) = MemoryRun::plan(self, order)?;
            if run.planned.plan.can_be_undone() {
                planned.note = self.balancing.warning(order.numa_balancing);
            }
            if let Some(tiers) = order.options.placement.by_use() {
                planned.note = tiering::beside_kernel(&self.roots, tiers)?.or(planned.note);
            }
            (PlannedKind::Memory(Box::new(run)), planned)
        } else {
            let (run, planned) = PlannedFiles::plan(self, order)?;
            (PlannedKind::Files(Box::new(run)), planned)
        };
        Ok((PlannedRun { local: self.clone(), kind }, planned))
    }
}

impl PlannedRun {
    /// The plan for processes; `None`: it is for files.
    pub fn memory(&self) -> Option<&PlannedMigration<Members>> {
        match &self.kind {
            PlannedKind::Memory(run) => Some(&run.planned),
            PlannedKind::Files(_) => None,
        }
    }

    /// Moves, and looks again. `order` is the one that it was planned for.
    ///
    /// # Errors
    /// The host does not allow what the order requires, or cannot be read.
    pub fn execute(&mut self, order: &RunOrder) -> Result<Ended, Error> {
        let RunOrder { limits, control, authority, .. } = order;
        let Self { local, kind } = self;
        match kind {
            PlannedKind::Files(files) => files.execute(local, limits, control, authority),
            PlannedKind::Memory(run) => {
                let paused = local.balancing.begin(order.numa_balancing)?;
                let bytes = run.planned.plan.planned_bytes();
                let using = local.offload.begin(&local.roots, &order.offload, bytes)?;
                run.execute(limits, control, authority, (paused, using), local)
            }
        }
    }
}

impl MemoryRun {
    fn plan(local: &Local, order: &RunOrder) -> Result<(Self, Planned), Error> {
        let RunOrder { aim, options, authority, control, offers, .. } = order;
        let roots = &local.roots;
        let cancelled = || control.cancel.load(Relaxed);
        let find = |topology: &Topology| Members::look(local, aim, topology, authority, &cancelled);
        let migration = Migration::on(roots)?.with_ways(&local.tier_ways);
        let mut run = migration.plan(options, Policies::Ask, &cancelled, find)?;
        let PlannedMigration { topology, survey, .. } = &run;
        let returned =
            order.trail.as_ref().map(|trail| returned(roots, topology, survey, options, trail));
        let returned_bytes = returned.as_ref().map(|returned| returned.bytes);
        partners::take_in(local, &mut run, offers, authority, &cancelled);
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
        limits: &RunLimits,
        control: &Control,
        authority: &Authority,
        (paused, using): (Option<Paused>, OffloadInUse),
        local: &Local,
    ) -> Result<Ended, Error> {
        let limits = &RunLimits { cache_of: authority::whose(authority), ..limits.clone() };
        let Self { planned, returned_bytes } = self;
        let profile = planned.plan.options.pacing.profile;
        let (mut outcome, made_room) =
            local.mover_group.run(profile, || planned.run(limits, control))?;
        local.tier_ways.note(&planned.plan);
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
            elapsed_ms = number::amount(outcome.elapsed.as_millis()),
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
) -> Result<Option<Plan>, HostError> {
    let begin = Instant::now();
    let stop = || control.cancel.load(Relaxed) && begin.elapsed() > CANCELLED_LOOK;
    match planned.look_again(&stop) {
        Err(HostError::Stopped) => Ok(None),
        after => after.inspect_err(|error| {
            tracing::warn!(%error, "cannot determine the locality after the run");
        }),
    }
}
