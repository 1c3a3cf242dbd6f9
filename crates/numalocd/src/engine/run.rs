//! One order in its thread: plan, wait until the dispatcher says go, move, look again.

use super::turns::caught;
use crate::{
    log,
    order::{EngineReport, JobOrder},
};
use numaloc_engine::Local;
use tokio::sync::mpsc::UnboundedSender;

/// Carries an order out as far as the dispatcher wants it, and reports.
pub fn carry_out(local: &Local, order: JobOrder, reports: &UnboundedSender<EngineReport>) {
    let JobOrder { job, run: asked, go } = order;
    // Puts the job on each line that is logged from here on, also by the executor's threads.
    let _span = log::job(&job).entered();
    let (mut run, note) = match caught(|| Ok(local.plan(&asked)?)) {
        Ok((run, planned)) => {
            let note = planned.note.clone();
            report(reports, EngineReport::Planned(job.clone(), Ok(planned)));
            (run, note)
        }
        Err(refusal) => {
            tracing::info!(%refusal, "not planned");
            return report(reports, EngineReport::Planned(job, Err(refusal)));
        }
    };
    if go.blocking_recv().is_err() {
        tracing::debug!("no longer wanted");
        return;
    }
    if let Some(note) = note {
        tracing::warn!("{note}");
    }
    let ended = caught(|| Ok(run.execute(&asked)?));
    report(reports, EngineReport::Ended(job, ended));
}

/// Sends a report. If the dispatcher has ended, it is lost.
pub fn report(reports: &UnboundedSender<EngineReport>, report: EngineReport) {
    if reports.send(report).is_err() {
        tracing::debug!("no dispatcher to report to");
    }
}
