//! Finds the pages of an extent that are away from home, and looks again where they are after a call.

use crate::{
    folio::{Folio, Shape, folios},
    row::Row,
    verify::{self, Sighting},
    work::Work,
};
use numaloc_core::{Kind, NodeId};
use numaloc_host::{
    Error, FrameFile, Ownership, PageRun, Precision, Roots, Scanned, Scanner, Survey,
};
use numaloc_sys::MoveFlag;
use std::ops::Range;

/// Sees pages, with files of its own.
#[derive(Debug)]
pub struct Finder<'a> {
    work: &'a Work<'a>,
    survey: &'a Survey,
    scanner: Scanner,
    flags: Option<FrameFile>,
}

/// The pages of a part of an extent that are away from home.
#[derive(Debug)]
pub struct Found {
    /// What to move.
    pub rows: Vec<Row>,
    /// Pages that stay because strangers map them: index of the process, and bytes from the extent's start.
    pub strangers: Vec<(usize, Range<u64>)>,
    /// Why not the whole part could be scanned.
    pub error: Option<Error>,
}

impl<'a> Finder<'a> {
    /// Opens the files that it needs.
    pub fn new(roots: &Roots, work: &'a Work<'a>, survey: &'a Survey) -> Self {
        let scanner = Scanner::new(roots, &survey.sight, Precision::Exact);
        Self { work, survey, scanner, flags: FrameFile::flags(roots) }
    }

    /// Finds the pages of a part of an extent that are away from home. `attempts` is how often they were visited before.
    pub fn find(&mut self, index: usize, range: Range<u64>, attempts: u32) -> Found {
        let plan = self.work.plan;
        let planned_move = &plan.moves[index];
        let routes = &plan.routes[planned_move.routes];
        let files = matches!(planned_move.kind, Kind::File | Kind::Shmem);
        let mut shape = Shape {
            hugetlb_bytes: planned_move.hugetlb_bytes,
            small_folios: self.work.small_folios || files,
            flags: self.flags.as_mut(),
        };
        shape.refresh();
        let mut rows = Vec::new();
        let mut strangers = Vec::new();
        let Survey { spaces, claims, .. } = self.survey;
        let scanned = Scanned {
            spaces,
            claims,
            mappings: &planned_move.mappings,
            pages: &planned_move.pages,
        };
        let result = self.scanner.scan(&scanned, range, &mut |run: PageRun| {
            let Some(from) = run.node.filter(|&node| !routes.from(node).is_empty()) else { return };
            let mapping = planned_move.mappings[run.mapping];
            let process = mapping.process;
            if !self.work.cover.takes(index, planned_move, mapping, &run) {
                return;
            }
            let is_strangers = matches!(run.ownership, Ownership::Stranger | Ownership::Several);
            if is_strangers && !plan.options.include_shared {
                strangers.push((process, run.offset..run.offset + run.bytes));
                return;
            }
            let flag =
                if run.ownership == Ownership::Exclusive { MoveFlag::Own } else { MoveFlag::All };
            let hugetlb_bytes = planned_move.hugetlb_bytes;
            folios(&run, mapping.start + run.offset, &mut shape, &mut |address, bytes, count| {
                let (choice, hinted, move_index) = (0, false, index);
                let first = Folio {
                    address,
                    bytes,
                    hugetlb_bytes,
                    from,
                    process,
                    flag,
                    move_index,
                    choice,
                    attempts,
                    hinted,
                };
                rows.push(Row { first, count });
            });
        });
        Found { rows, strangers, error: result.err() }
    }

    /// Looks at all pages of some folios of a process that were to go to `to`. Returns what was seen, and the first error
    /// ([`verify::verify`]).
    pub fn verify(
        &mut self,
        process: usize,
        rows: &[Row],
        to: NodeId,
    ) -> (Vec<(Row, Sighting)>, Option<Error>) {
        let space = &self.survey.spaces[process];
        verify::verify(rows, to, |address, pages, places| {
            self.scanner.locate(space, address, pages, places)
        })
    }
}
