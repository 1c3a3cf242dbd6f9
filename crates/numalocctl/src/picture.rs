//! Pictures of where memory is, as files: of a target, and of a move.

use crate::{
    args::{DrawMoveArgs, DrawSort},
    captions::Origin,
    exit::Failure,
    fields,
    output::complain,
    svg,
    whole_file::WholeFile,
};
use numaloc_api::timestamp;
use numaloc_core::picture::{After, AreaRow, Picture, leave_bars};
use numaloc_engine::Members;
use numaloc_executor::PlannedMigration;
use numaloc_host::{Roots, Viewer, read};
use std::{
    cmp::Reverse,
    env,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Makes sure that the file of a picture can be written, before anything is looked at.
///
/// # Errors
/// [`Failure::Write`].
pub fn file(path: Option<&Path>) -> Result<Option<WholeFile>, Failure> {
    path.map(WholeFile::create).transpose()
}

pub fn save(file: WholeFile, picture: &Picture, roots: &Roots) -> Result<PathBuf, Failure> {
    file.write(&svg::svg(&drawn(picture), &origin(roots)))
}

/// A picture with the mappings that are drawn: documents have all of them.
pub fn drawn(picture: &Picture) -> Picture {
    let mut drawn = picture.clone();
    leave_bars(&mut drawn);
    drawn
}

/// Place, time and command of a picture.
fn origin(roots: &Roots) -> Origin {
    Origin {
        host: read::host_name(roots).unwrap_or_else(|_| "unknown host".to_owned()),
        time: fields::short(timestamp(SystemTime::now())),
        command: command(),
    }
}

/// The arguments of the command line.
pub fn command() -> String {
    let words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// Puts the mappings of each process into the order that was asked for; those of before and after alike.
pub fn arrange(picture: &mut Picture, sort: DrawSort) {
    if sort == DrawSort::Address {
        return;
    }
    for panel in &mut picture.panels {
        let bytes = |row: &AreaRow| row.total().resident_bytes();
        let before = panel.before.rows.iter().map(|row| (bytes(row), row.area.start));
        let after = match &panel.after {
            After::Seen(side) => side.rows.iter().map(bytes).collect(),
            After::None | After::Ended => Vec::new(),
        };
        let mut order: Vec<_> = before.enumerate().collect();
        order.sort_by_key(|&(index, (bytes, start))| {
            (Reverse(bytes.max(after.get(index).copied().unwrap_or(0))), start)
        });
        let sorted = |rows: &[AreaRow]| -> Vec<AreaRow> {
            order.iter().filter_map(|(index, _)| rows.get(*index).cloned()).collect()
        };
        panel.before.rows = sorted(&panel.before.rows);
        if let After::Seen(side) = &mut panel.after {
            side.rows = sorted(&side.rows);
        }
    }
}

/// A picture of a move: looked at before it, and again after it.
#[derive(Debug)]
pub struct MoveMap<'a> {
    roots: &'a Roots,
    viewer: Viewer<'a>,
    picture: Picture,
    file: WholeFile,
    sort: DrawSort,
}

impl<'a> MoveMap<'a> {
    /// Looks at the processes of a plan before they are moved.
    ///
    /// # Errors
    /// Their pages cannot be read.
    pub fn before(
        roots: &'a Roots,
        planned: &PlannedMigration<Members>,
        file: WholeFile,
        args: &DrawMoveArgs,
    ) -> Result<Self, Failure> {
        let PlannedMigration { topology, plan, survey, .. } = planned;
        let processes = survey.processes();
        let viewer =
            Viewer::open(roots, topology, processes, &plan.options, svg::CELLS, args.draw_exact)?;
        let picture = viewer.look()?;
        Ok(Self { roots, viewer, picture, file, sort: args.sort })
    }

    /// Looks again, and draws. The move is done by then, so that a failure is only reported.
    pub fn after(mut self) {
        let seen = self.viewer.look_again(&mut self.picture).map_err(Failure::from);
        // The second look needs the rows by address.
        arrange(&mut self.picture, self.sort);
        let saved = seen.and_then(|()| save(self.file, &self.picture, self.roots));
        if let Err(failure) = saved {
            complain(&format!("no picture of the move: {failure}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::pictures;

    #[test]
    fn the_largest_mapping_comes_first_or_the_lowest_address() {
        let names = |sort| {
            let mut picture = pictures::tebibyte(16);
            // A picture has them by address; here the smallest is at the lowest one.
            picture.panels[0].before.rows.swap(0, 2);
            arrange(&mut picture, sort);
            let rows = picture.panels[0].before.rows.iter();
            rows.map(|row| row.area.name.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(DrawSort::Size), ["", "buffer-pool", "segment.0001.dat"]);
        assert_eq!(names(DrawSort::Address), ["segment.0001.dat", "buffer-pool", ""]);
    }

    #[test]
    fn before_and_after_have_one_order() {
        let mut picture = pictures::moved(16);
        picture.panels[0].before.rows.reverse();
        let After::Seen(side) = &mut picture.panels[0].after else { panic!("it was moved") };
        side.rows.reverse();
        arrange(&mut picture, DrawSort::Size);
        for side in picture.panels[0].sides() {
            let starts: Vec<_> = side.rows.iter().map(|row| row.area.start).collect();
            assert_eq!(starts, [0x5555_5575_6000, 0x7f10_0000_0000]);
        }
    }
}
