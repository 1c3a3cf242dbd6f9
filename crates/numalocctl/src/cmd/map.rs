//! `numalocctl locality --map`, and the picture of `numalocctl migrate --map`.

use super::{Surroundings, shown};
use crate::{
    args::{Cli, TargetArgs},
    clean::clean,
    doc::MapDoc,
    exit::{Code, Failure},
    inspect,
    map_file::MapFile,
    output::{CommandResult, complain},
    place::{self, Place},
    svg, text,
};
use numaloc_core::picture::Picture;
use numaloc_executor::PlannedMigration;
use numaloc_host::{Error, Resolved, Roots, Viewer, check_page_size};
use ratatui::crossterm::terminal;
use std::{
    env,
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
};

/// Draws where the memory of a target is: into a file, or as text.
pub fn run(
    cli: &Cli,
    around: &Surroundings,
    target: &TargetArgs,
    file: Option<&Path>,
    exact: bool,
) -> Result<CommandResult, Failure> {
    check_place(cli, around)?;
    check_page_size(&around.roots)?;
    let file = self::file(file)?;
    let canvas = canvas();
    let cells = if file.is_some() { svg::CELLS } else { canvas.blocks() as u64 };
    let (viewer, missing) = inspect::to_draw(&around.roots, target, cells, exact)?;
    let picture = viewer.look()?;
    if picture.panels.is_empty() {
        return Err(Error::Empty { target: target.to_string() }.into());
    }
    let path = file.map(|file| save(file, &picture)).transpose()?;
    let name = path.as_ref().map(|path| path.display().to_string());
    let document = MapDoc::new(&picture, viewer.source(), name, &missing);
    let report = shown(cli, &document, |document, _| {
        let shown = match &document.file {
            Some(file) => format!("{}\n", clean(file)),
            None => text::map(&picture, canvas),
        };
        shown + &text::left_out(&document.missing)
    })?;
    Ok(CommandResult { code: Code::left_out(&document.missing), ..report })
}

/// Refuses a picture where the daemon would do the work: it may be on another host, and has no call for pictures.
///
/// # Errors
/// A daemon is named or there.
pub fn check_place(cli: &Cli, around: &Surroundings) -> Result<(), Failure> {
    match place::choose(&cli.connect, &around.environment)? {
        Place::Daemon(_) => Err(Failure::NeedsStandalone { option: "--map" }),
        Place::Here => Ok(()),
    }
}

/// Makes sure that the file of a picture can be written, before anything is looked at.
///
/// # Errors
/// [`Failure::Write`].
pub fn file(path: Option<&Path>) -> Result<Option<MapFile>, Failure> {
    path.map(MapFile::create).transpose()
}

fn save(file: MapFile, picture: &Picture) -> Result<PathBuf, Failure> {
    let drawn = svg::svg(picture).map_err(|fault| file.failed(std::io::Error::other(fault)))?;
    file.write(&drawn)
}

/// The width of the terminal, and whether it has colours. The variable COLUMNS overrides the width, as with ls(1).
fn canvas() -> text::Canvas {
    let is_terminal = stdout().is_terminal();
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || Some(usize::from(terminal::size().ok()?.0)).filter(|_| is_terminal);
    let columns = asked.or_else(of_terminal).filter(|&columns| columns > 0).unwrap_or(80);
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || env::var_os("TERM").is_some_and(|value| value == "dumb");
    text::Canvas { columns: columns.clamp(40, 400), colours: is_terminal && !plain }
}

/// A picture of a move: looked at before it, and again after it.
#[derive(Debug)]
pub struct MoveMap<'a> {
    viewer: Viewer<'a>,
    picture: Picture,
    file: MapFile,
}

impl<'a> MoveMap<'a> {
    /// Looks at the processes of a plan before they are moved.
    ///
    /// # Errors
    /// Their pages cannot be read.
    pub fn before(
        roots: &'a Roots,
        planned: &PlannedMigration<Resolved>,
        file: MapFile,
        exact: bool,
    ) -> Result<Self, Failure> {
        let PlannedMigration { topology, plan, survey, .. } = planned;
        let processes = survey.processes();
        let viewer = Viewer::open(roots, topology, processes, &plan.options, svg::CELLS, exact)?;
        let picture = viewer.look()?;
        Ok(Self { viewer, picture, file })
    }

    /// Looks again, and draws. The move is done by then, so that a failure is only reported.
    pub fn after(mut self) {
        let seen = self.viewer.look_again(&mut self.picture).map_err(Failure::from);
        if let Err(failure) = seen.and_then(|()| save(self.file, &self.picture).map(|_| ())) {
            complain(&format!("no picture of the move: {failure}"));
        }
    }
}
