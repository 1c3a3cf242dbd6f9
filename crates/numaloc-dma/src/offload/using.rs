//! A job's part: from its beginning to the report of what was used.

use super::session::{OffloadSession, SharedOffload};
use crate::kernel::Counters;
use numaloc_core::{Offload, OffloadUse};
use std::sync::Arc;

/// Keeps offload on for a job, if the job uses it. Dropping this value ends that, too.
#[derive(Debug)]
pub struct Using {
    report: OffloadUse,
    part: Option<JobUse>,
}

/// The part of a job that uses it.
#[derive(Debug)]
struct JobUse {
    shared: Arc<SharedOffload>,
    number: u64,
    /// Whether others used it when this job began.
    joined_others: bool,
    /// The kernel's counters when this job began.
    before: Option<Counters>,
}

impl Using {
    /// A job that does not use it.
    pub(super) fn without(report: OffloadUse) -> Self {
        Self { report, part: None }
    }

    /// A job that has just joined the session.
    pub(super) fn begin(
        shared: Arc<SharedOffload>,
        session: &mut OffloadSession,
        requested: Offload,
    ) -> Self {
        let interface = session.interface().map_or("", |interface| interface.name()).to_owned();
        let report = OffloadUse { requested, used: true, interface, ..OffloadUse::default() };
        let (number, joined_others) = (session.joined, session.jobs > 1);
        let before = session.counters();
        Self { report, part: Some(JobUse { shared, number, joined_others, before }) }
    }

    /// Ends the use. `folios` were passed to the kernel by the job. Blocks for a moment.
    pub fn end(mut self, folios: u64) -> OffloadUse {
        let mut report = std::mem::take(&mut self.report);
        match self.part.take() {
            // The kernel's counters are not of this job. CPUs have copied all of its folios, unless another program has
            // switched offload on.
            None => report.cpu_folios = (report.requested != Offload::Off).then_some(folios),
            Some(part) => part.end(&mut report, folios),
        }
        report
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            part.shared.leave(&mut part.shared.session());
        }
    }
}

impl JobUse {
    fn end(self, report: &mut OffloadUse, folios: u64) {
        let mut session = self.shared.session();
        // Failures since the last look count, too.
        self.shared.look(&mut session);
        let counted = self.before.zip(session.counters());
        // A counter that is smaller than before was reset meanwhile.
        let since = |of: fn(&Counters) -> u64| {
            counted.and_then(|(before, after)| of(&after).checked_sub(of(&before)))
        };
        report.offloaded_folios = since(|counters| counters.offloaded);
        report.failed_folios = since(|counters| counters.failed);
        report.shared = self.joined_others || session.joined != self.number;
        let own = report.offloaded_folios.filter(|_| !report.shared);
        report.cpu_folios = own.map(|offloaded| folios.saturating_sub(offloaded));
        if let Some(trouble) = session.trouble() {
            report.reason = format!("failed: {trouble}");
            report.failed = true;
        }
        self.shared.leave(&mut session);
    }
}
