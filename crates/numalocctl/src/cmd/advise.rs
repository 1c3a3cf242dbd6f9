//! Carries out `numalocctl advise`, by the daemon or this program itself.

use super::{Surroundings, daemon, shown};
use crate::{
    args::{AdviseArgs, Cli, TargetArgs},
    exit::{Code, Failure},
    inspect::missing_of,
    output::CommandResult,
    text,
};
use numaloc_api::{AdviceView, v1};
use numaloc_core::advise::advise;
use numaloc_host::{LookRequest, Roots, look};
use std::time::{Duration, SystemTime};

/// Looks at the host once and says what would help. Findings are no failure.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<CommandResult, Failure> {
    let answer = answer(cli, around, args)?;
    let unreadable = answer.advice.as_ref().map_or(0, |advice| advice.unreadable_count);
    let code = match Code::left_out(&answer.missing) {
        Code::Done if unreadable > 0 => Code::Partly,
        code => code,
    };
    Ok(CommandResult { code, ..shown(cli, &answer, text::advice)? })
}

/// Looks, by the daemon where there is one.
pub(super) fn answer(
    cli: &Cli,
    around: &Surroundings,
    args: &AdviseArgs,
) -> Result<v1::GetAdviceResponse, Failure> {
    let (target, interval) = (&args.target, args.seconds);
    match daemon(cli, around)? {
        Some(daemon) => {
            let target = (!target.is_empty()).then(|| target.request());
            daemon.patient(interval).advice(target.as_ref(), interval, args.min_bytes)
        }
        None => here(&around.roots, target, interval, args.min_bytes),
    }
}

fn here(
    roots: &Roots,
    target: &TargetArgs,
    interval: Duration,
    min_bytes: u64,
) -> Result<v1::GetAdviceResponse, Failure> {
    let targets = target.targets()?;
    let looked =
        look(&|| false, roots, &LookRequest { targets: targets.clone(), min_bytes, interval })?;
    let findings = advise(&looked.look, min_bytes);
    let view = AdviceView {
        look: &looked.look,
        findings: &findings,
        unreadable: looked.unreadable,
        left_out: looked.left_out,
        ended: looked.ended,
        time: SystemTime::now(),
    };
    let missing = missing_of(&targets, &looked.missing);
    let missing = missing.iter().map(Into::into).collect();
    Ok(v1::GetAdviceResponse { advice: Some(view.into()), missing })
}
