//! Carries out `numalocctl locality`.

use super::{Surroundings, chosen, map, name_left_out, shown_by};
use crate::{
    args::{Cli, LocalityArgs, refuse_for_files},
    exit::{Code, Failure},
    output::CommandResult,
    text,
};

/// Shows where the memory of a target is, or the page cache of files.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    LocalityArgs { target, files, draw: picture }: &LocalityArgs,
) -> Result<CommandResult, Failure> {
    if files.is_given() {
        refuse_for_files(&[("--draw", picture.draw.is_some())])?;
    }
    if let Some(file) = &picture.draw {
        return map::run(cli, around, target, file.as_deref(), picture);
    }
    let engine = chosen(cli, around)?.open()?;
    let answer = engine.locality(&files.target(target)?, &|| false)?;
    let topology = engine.topology()?.topology.unwrap_or_default();
    let text = |answer: &_, view| text::locality(answer, &topology, view);
    let shown = shown_by(cli, &*engine, &answer, text)?;
    name_left_out(cli, &answer.missing);
    Ok(CommandResult { code: Code::left_out(&answer.missing), ..shown })
}
