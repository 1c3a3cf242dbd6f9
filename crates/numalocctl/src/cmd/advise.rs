//! `numalocctl advise`.

use super::{Surroundings, daemon, shown_part};
use crate::{
    args::{AdviseArgs, Cli, TargetArgs},
    doc::AdviceDoc,
    exit::Failure,
    inspect::missing_of,
    output::Report,
    text,
};
use numaloc_core::advise::advise;
use numaloc_host::{Roots, Wanted, look};
use std::time::Duration;

/// Looks at the host once and says what would help. Findings are no failure.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<Report, Failure> {
    let target = TargetArgs {
        pid: args.pid.clone(),
        cgroup: args.cgroup.clone(),
        unit: args.unit.clone(),
        ..TargetArgs::default()
    };
    let interval = args.seconds;
    let document = match daemon(cli, around)? {
        Some(daemon) => {
            let target = (!target.is_empty()).then(|| target.request());
            daemon.patient(interval).advice(target.as_ref(), interval, args.min_bytes)?
        }
        None => here(&around.roots, &target, interval, args.min_bytes)?,
    };
    let is_whole = document.missing.is_empty() && document.unreadable_count == 0;
    shown_part(cli, &document, is_whole, text::advice)
}

fn here(
    roots: &Roots,
    target: &TargetArgs,
    interval: Duration,
    min_bytes: u64,
) -> Result<AdviceDoc, Failure> {
    let targets = target.targets()?;
    let looked = look(&|| false, roots, &Wanted { targets: targets.clone(), min_bytes, interval })?;
    let missing = missing_of(&targets, &looked.missing);
    Ok(AdviceDoc::new(&looked, &advise(&looked.look, min_bytes), &missing))
}
