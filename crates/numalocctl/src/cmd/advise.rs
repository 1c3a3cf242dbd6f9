//! Carries out `numalocctl advise`, by the daemon or this program itself. What it advises is carried out by this program: it changes
//! its own host.

mod apply;
mod carry;
mod memory;
mod own_host;
mod undo;

use super::{Surroundings, daemon, shown};
use crate::{
    args::{AdviseArgs, CarryArgs, Cli},
    exit::{Code, Failure},
    inspect::missing_of,
    output::CommandResult,
    text,
};
use numaloc_api::{AdviceView, v1};
use numaloc_core::advise::{Finding, advise};
use numaloc_host::{LookRequest, Roots, Target, look};
use std::time::SystemTime;

/// Looks at the host once and says what would help. Findings are no failure.
pub fn run(cli: &Cli, around: &Surroundings, args: &AdviseArgs) -> Result<CommandResult, Failure> {
    match args.carry {
        CarryArgs { apply: true, .. } => return apply::run(cli, around, args),
        CarryArgs { undo: true, .. } => return undo::run(cli, around, args),
        _ => {}
    }
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
        None => here(&around.roots, args),
    }
}

fn here(roots: &Roots, args: &AdviseArgs) -> Result<v1::GetAdviceResponse, Failure> {
    let looked = Looked::here(roots, args)?;
    Ok(looked.answer(&looked.findings))
}

/// What this program has seen of its host.
struct Looked {
    targets: Vec<Target>,
    seen: numaloc_host::Looked,
    findings: Vec<Finding>,
}

impl Looked {
    fn here(roots: &Roots, args: &AdviseArgs) -> Result<Self, Failure> {
        let (targets, interval, min_bytes) = (args.target.targets()?, args.seconds, args.min_bytes);
        let request = LookRequest { targets: targets.clone(), min_bytes, interval };
        let seen = look(&|| false, roots, &request)?;
        let findings = advise(&seen.look, min_bytes);
        Ok(Self { targets, seen, findings })
    }

    /// The answer with these findings.
    fn answer(&self, findings: &[Finding]) -> v1::GetAdviceResponse {
        let view = AdviceView {
            look: &self.seen.look,
            findings,
            unreadable: self.seen.unreadable,
            left_out: self.seen.left_out,
            ended: self.seen.ended,
            time: SystemTime::now(),
        };
        let missing = missing_of(&self.targets, &self.seen.missing);
        let missing = missing.iter().map(Into::into).collect();
        v1::GetAdviceResponse { advice: Some(view.into()), missing }
    }
}
