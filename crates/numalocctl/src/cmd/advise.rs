//! Carries out `numalocctl advise`. This program applies the advice itself: it changes its own host.

mod apply;
mod carry;
mod memory;
mod own_host;
mod undo;

use super::{Surroundings, chosen, shown};
use crate::{
    args::{AdviseArgs, CarryArgs, Cli},
    exit::{Code, Failure},
    output::CommandResult,
    text,
};
use numaloc_api::{v1, value::Target};

/// Scans the host once and prints advice. Findings are not a failure.
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

/// Scans once.
pub(super) fn answer(
    cli: &Cli,
    around: &Surroundings,
    args: &AdviseArgs,
) -> Result<v1::GetAdviceResponse, Failure> {
    chosen(cli, around)?.open()?.advice(request(args).as_ref(), args.seconds, args.min_bytes)
}

/// The target; `None`: all processes of the host.
fn request(args: &AdviseArgs) -> Option<Target> {
    (!args.target.is_empty()).then(|| args.target.request())
}
