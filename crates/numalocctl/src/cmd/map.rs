//! `numalocctl locality --draw`.

use super::{Surroundings, chosen, shown};
use crate::{
    args::{Cli, Colour, DrawArgs, TargetArgs},
    clean::clean,
    doc::MapDoc,
    engine::LocalEngine,
    exit::{Code, Failure},
    output::CommandResult,
    picture, svg, text,
};
use numaloc_host::Error;
use ratatui::crossterm::terminal;
use std::{
    env,
    io::{IsTerminal, stdout},
    path::Path,
};

/// Draws where the memory of a target is: into a file, or as text.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    target: &TargetArgs,
    file: Option<&Path>,
    args: &DrawArgs,
) -> Result<CommandResult, Failure> {
    check_place(cli, around)?;
    let file = picture::file(file)?;
    let canvas = canvas(cli.color);
    let cells = if file.is_some() { svg::CELLS } else { canvas.blocks() as u64 };
    let engine = LocalEngine::new(around.roots.clone());
    let (viewer, missing) = engine.viewer(&target.request(), cells, args.draw_exact)?;
    let mut picture = viewer.look()?;
    if picture.panels.is_empty() {
        return Err(Error::Empty { target: target.to_string() }.into());
    }
    picture::arrange(&mut picture, args.sort);
    let path = file.map(|file| picture::save(file, &picture, &around.roots)).transpose()?;
    let name = path.as_ref().map(|path| path.display().to_string());
    let document = MapDoc::new(&picture, viewer.source(), name, &missing);
    let report = shown(cli, &document, |document, _| {
        let shown = match &document.file {
            Some(file) => format!("{}\n", clean(file)),
            None => text::map(&picture::drawn(&picture), canvas),
        };
        shown + &text::left_out(&document.missing)
    })?;
    Ok(CommandResult { code: Code::left_out(&document.missing), ..report })
}

/// Refuses a picture where the daemon would do the work: it may be on another host, and has no call for pictures.
///
/// # Errors
/// A daemon is configured or running.
pub fn check_place(cli: &Cli, around: &Surroundings) -> Result<(), Failure> {
    match chosen(cli, around)?.is_own() {
        true => Ok(()),
        false => Err(Failure::NeedsStandalone { option: "--draw" }),
    }
}

/// The width of the terminal, and whether it has colours. The variable COLUMNS overrides the width, as with ls(1).
fn canvas(colour: Colour) -> text::Canvas {
    let is_terminal = stdout().is_terminal();
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || Some(usize::from(terminal::size().ok()?.0)).filter(|_| is_terminal);
    let columns = asked.or_else(of_terminal).filter(|&columns| columns > 0).unwrap_or(80);
    text::Canvas { columns: columns.clamp(40, 400), colours: colour.is_on(is_terminal) }
}
