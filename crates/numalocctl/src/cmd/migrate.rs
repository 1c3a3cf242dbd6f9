//! `numalocctl migrate`.

use crate::{
    args::{Cli, MigrateArgs},
    doc::{MigrationDoc, MigrationParts},
    exit::Failure,
    look::{self, Look},
    output::{Report, complain, render},
    progress::{Progress, Wish},
    signals, text,
};
use numaloc_core::Locality;
use numaloc_executor::{Control, Limits, Outcome, execute};
use numaloc_host::{Roots, Survey};
use std::sync::{atomic::Ordering::Relaxed, mpsc, mpsc::RecvTimeoutError};
use std::time::Duration;

/// How often a run is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Moves, then looks again.
pub fn run(cli: &Cli, roots: &Roots, args: &MigrateArgs) -> Result<Report, Failure> {
    let (look, survey) = look::to_move(roots, &args.target, &args.options)?;
    let (outcome, after) = match look.plan.is_skipped() {
        true => (Outcome::default(), None),
        false => {
            let outcome = watch(roots, &look, &survey, &args.limits(), wish(args))?;
            (outcome, second_look(roots, &look, &survey))
        }
    };
    let parts = MigrationParts { plan: &look.plan, outcome: &outcome, after };
    let document = MigrationDoc::from(parts);
    let text = render(&document, cli.output, !cli.no_headers, text::migration)?;
    Ok(Report { text, code: document.result.code() })
}

fn wish(args: &MigrateArgs) -> Wish {
    match (args.progress, args.no_progress) {
        (true, _) => Wish::Always,
        (_, true) => Wish::Never,
        _ => Wish::Auto,
    }
}

/// Carries the plan out in a thread, shows how it goes and passes Ctrl-C on.
fn watch(
    roots: &Roots,
    look: &Look,
    survey: &Survey,
    limits: &Limits,
    wish: Wish,
) -> Result<Outcome, Failure> {
    let (plan, topology) = (&look.plan, &look.topology);
    let interrupted = signals::interrupted()?;
    let control = Control::default();
    let to_move: u64 = plan.moves.iter().flat_map(|step| step.remote.values()).sum();
    let mut progress = Progress::new(wish, to_move.min(plan.limit_bytes.unwrap_or(u64::MAX)));
    std::thread::scope(|scope| {
        let (done, ended) = mpsc::channel::<()>();
        let control = &control;
        let worker = scope.spawn(move || {
            // Dropped at the end of this closure, also by a panic: wakes the loop below at once.
            let _done = done;
            execute(roots, topology, plan, survey, limits, control)
        });
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if interrupted.load(Relaxed) {
                control.cancel.store(true, Relaxed);
            }
            progress.update(control.settled_bytes.load(Relaxed));
        }
        progress.finish();
        let outcome = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(outcome?)
    })
}

/// Where the processes stand now. They may be gone: that is no failure of the migration.
fn second_look(roots: &Roots, look: &Look, survey: &Survey) -> Option<Locality> {
    match look::again(roots, look, survey) {
        Ok(after) if after.plan.processes.is_empty() => None,
        Ok(after) => Some(after.plan.locality),
        Err(failure) => {
            complain(&format!("cannot tell the locality afterwards: {failure}"));
            None
        }
    }
}
