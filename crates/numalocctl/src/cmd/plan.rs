//! Carries out `numalocctl plan` and `numalocctl migrate --dry-run`.

use super::{Surroundings, chosen, name_left_out, shown_by};
use crate::{
    args::{Cli, PlanArgs},
    exit::{Code, Failure},
    output::CommandResult,
    text,
};
use numaloc_api::value::Limits;

/// Shows what a migration would do.
pub fn run(cli: &Cli, around: &Surroundings, args: &PlanArgs) -> Result<CommandResult, Failure> {
    if args.files.is_given() {
        args.check_files()?;
    }
    let engine = chosen(cli, around)?.open()?;
    engine.check(args)?;
    let spec = args.spec(&engine.with_memory_for(&args.options)?)?;
    let mut answer = engine.plan(&spec, &args.exchange.exchange_with)?;
    let topology = engine.topology()?.topology.unwrap_or_default();
    if let Some(plan) = answer.plan.as_mut().filter(|_| !args.benefit) {
        plan.benefit = None;
    }
    let limits = (&args.limits.change(Limits::default())).into();
    let text = |answer: &_, view| text::plan(answer, &topology, &limits, view);
    let shown = shown_by(cli, &*engine, &answer, text)?;
    name_left_out(cli, &answer.missing);
    Ok(CommandResult { code: Code::left_out(&answer.missing), ..shown })
}
