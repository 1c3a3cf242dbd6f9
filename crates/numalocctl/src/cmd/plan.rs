//! `numalocctl plan`.

use crate::{
    args::{Cli, PlanArgs, TargetArgs},
    doc::PlanDoc,
    exit::{Code, Failure},
    look,
    output::{Report, render},
    text,
};
use numaloc_host::Roots;

/// Shows what a migration would do.
pub fn run(
    cli: &Cli,
    roots: &Roots,
    target: &TargetArgs,
    options: &PlanArgs,
) -> Result<Report, Failure> {
    let (look, _survey) = look::to_move(roots, target, options)?;
    let document = PlanDoc::from(&look);
    let text = render(&document, cli.output, !cli.no_headers, text::plan)?;
    Ok(Report { text, code: Code::Done })
}
