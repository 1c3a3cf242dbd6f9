//! Finds the remote pages of an extent, and looks again where they are after a call.

use crate::{
    pages::{
        folio::{Folio, Shape, account, folios},
        row::{self, Row, append},
        verify::{self, Verified},
    },
    work::Work,
};
use numaloc_core::{Kind, Mappers, Mapping, Move, NodeId, Pages, Plan, page_size};
use numaloc_host::{
    AddressSpace, Crew, Cut, Error, FolioPart, Folios, FrameFile, Neighbours, Ownership,
    PageLocation, PageRun, Precision, RuledOut, Scanned, Scanner, SeenStretch, Survey,
};
use numaloc_sys::MoveFlag;
use std::{ops::Range, sync::Arc};

/// Number of scans of a part, at once, because processes have come to the target that may be its strangers. A server
/// that forks 40 times a second gets one within every other look and scan: after two looks a fourth of its memory
/// stayed.
const LOOKS: u32 = 8;

/// Sees pages, with files of its own.
#[derive(Debug)]
pub struct Finder<'a> {
    work: &'a Work<'a>,
    survey: &'a Survey,
    /// The processes at the last look, if the target gets others.
    crew: Option<Arc<Crew>>,
    /// The ruled-out memory of the extent under the scan.
    ruled_out: RuledOut,
    scanner: Scanner,
    flags: FrameFile,
    /// For extents that are divided into stripes.
    folios: Folios,
}

/// The remote pages of a part of an extent.
#[derive(Debug)]
pub struct Found {
    /// The remote pages of the part, in the order of their addresses.
    pub rows: Vec<Row>,
    /// Pages that stay because strangers map them: index of the process in whose account they are, and bytes from the extent's
    /// start.
    pub strangers: Vec<(usize, Range<u64>)>,
    /// Whether processes map this part that have come to the target since the survey. Others may have come while it was scanned,
    /// so that a later scan finds fewer strangers.
    pub is_growing: bool,
    /// Why not the whole part could be scanned.
    pub error: Option<Error>,
}

impl<'a> Finder<'a> {
    /// Opens the files that it needs.
    pub fn new(work: &'a Work<'a>, survey: &'a Survey) -> Self {
        let scanner = Scanner::new(work.roots, &survey.page_access, Precision::Exact);
        let (flags, folios) = (FrameFile::flags(work.roots), Folios::new(work.roots));
        let ruled_out = RuledOut::default();
        Self { work, survey, crew: None, ruled_out, scanner, flags, folios }
    }

    /// Whether the target may get processes during the run.
    pub fn is_growing(&self) -> bool {
        self.crew.is_some()
    }

    /// A process by its index.
    pub fn space(&self, process: usize) -> &AddressSpace {
        match &self.crew {
            Some(crew) => &crew.spaces[process],
            None => &self.survey.spaces[process],
        }
    }

    /// Whether pages of this account may still be shown by a process, in the extent of move `move_index`.
    pub fn outlives(&self, move_index: usize, account: usize) -> bool {
        let planned_move = &self.work.plan.moves[move_index];
        match planned_move.pages {
            Pages::All | Pages::Unmapped => {
                let mut mappings = planned_move.mappings.iter();
                mappings.any(|mapping| self.space(mapping.process).is_alive())
                    || self.crew.as_ref().is_some_and(|crew| crew.has_newcomers())
            }
            Pages::Own | Pages::Common(_) => self.space(account).is_alive(),
        }
    }

    /// Reads the page map of neighbouring mappings in one go, which the searches in them then use. `None`: they read it themselves.
    pub fn read_ahead(&mut self, neighbours: Option<&Neighbours>) {
        self.scanner.forget();
        if let Some(Neighbours { process, addresses }) = neighbours {
            let space = self.space(*process).clone();
            if let Err(error) = self.scanner.read_ahead(&space, addresses.clone()) {
                // Each search finds the same, and notes it.
                tracing::debug!(%error, "reading ahead");
            }
        }
    }

    /// Finds the remote pages of a part of an extent. `attempts` is how often they were visited before. Where
    /// strangers map some, looks whether these have come to the target meanwhile.
    pub fn find(&mut self, index: usize, range: Range<u64>, attempts: u32) -> Found {
        self.crew = self.survey.newcomers.crew();
        self.ruled_out = RuledOut::default();
        let mut found = self.find_now(index, range.clone(), attempts);
        if let Some(crew) = self.crew.as_ref().filter(|_| !found.strangers.is_empty()) {
            let (newcomers, mappings) =
                (&self.survey.newcomers, &self.work.plan.moves[index].mappings);
            let is_stopped = || self.work.stop().is_some();
            self.ruled_out = newcomers.ruled_out(crew, mappings, &range, &is_stopped);
            if self.ruled_out != RuledOut::default() {
                self.scanner.forget();
                found = self.find_now(index, range.clone(), attempts);
            }
        }
        for _ in 0..LOOKS {
            let Some(crew) = self.crew.as_ref().filter(|_| !found.strangers.is_empty()) else {
                break;
            };
            let now = self.survey.newcomers.look(crew);
            if Arc::ptr_eq(&now, crew) {
                break;
            }
            self.crew = Some(now);
            self.scanner.forget();
            found = self.find_now(index, range.clone(), attempts);
        }
        found
    }

    /// As [`Self::find`], with the processes of the last look.
    fn find_now(&mut self, index: usize, range: Range<u64>, attempts: u32) -> Found {
        let planned_move = &self.work.plan.moves[index];
        let mappings = &planned_move.mappings;
        let cuts = match &self.crew {
            Some(crew) => crew.cuts(mappings, &planned_move.pages, range),
            None => vec![Cut { range, mappings: mappings.clone(), is_shared: false }],
        };
        let is_growing = cuts.iter().any(|cut| cut.mappings.len() > mappings.len());
        let mut found = Found { rows: Vec::new(), strangers: Vec::new(), is_growing, error: None };
        for cut in cuts {
            if let Err(error) = self.find_in(&cut, index, attempts, &mut found) {
                found.error = Some(error);
                break;
            }
        }
        found
    }

    fn find_in(
        &mut self,
        cut: &Cut,
        index: usize,
        attempts: u32,
        found: &mut Found,
    ) -> Result<(), Error> {
        for (range, seen) in self.parts(cut, index, attempts) {
            match seen {
                Some(stretch) => add_seen(stretch, self.work.plan, index, range, &mut found.rows),
                None => self.scan(cut, range, index, attempts, found)?,
            }
        }
        Ok(())
    }

    /// Divides a cut into stretches whose remote pages the survey has seen, and parts that are to be scanned.
    fn parts(
        &self,
        cut: &Cut,
        index: usize,
        attempts: u32,
    ) -> Vec<(Range<u64>, Option<&'a SeenStretch>)> {
        let seen = &self.survey.seen;
        let is_divided = self.work.plan.moves[index].stripe.is_some();
        let is_first = attempts == 0 && self.crew.is_none() && !is_divided;
        match *cut.mappings {
            [mapping] if is_first && seen.are_fresh() => seen.divide(mapping, cut.range.clone()),
            _ => vec![(cut.range.clone(), None)],
        }
    }

    /// Notes that much of what the survey has seen does not hold any more.
    pub fn outdate_seen(&self) {
        self.survey.seen.outdate();
    }

    /// Scans a part of a cut.
    fn scan(
        &mut self,
        cut: &Cut,
        range: Range<u64>,
        index: usize,
        attempts: u32,
        found: &mut Found,
    ) -> Result<(), Error> {
        let plan = self.work.plan;
        let planned_move = &plan.moves[index];
        let routes = &plan.routes[planned_move.routes];
        let files = planned_move.kind.is_file() || planned_move.kind == Kind::Shmem;
        let mut shape = Shape {
            hugetlb_bytes: planned_move.hugetlb_bytes,
            small_folios: self.work.small_folios || files,
            flags: &mut self.flags,
        };
        shape.refresh();
        let whole = &mut self.folios;
        whole.refresh();
        let (spaces, claims) = match &self.crew {
            Some(crew) => (&crew.spaces, &crew.claims),
            None => (&self.survey.spaces, &self.survey.claims),
        };
        let (mappings, pages) = (&cut.mappings, &planned_move.pages);
        let &Move { mappers, hugetlb_bytes, .. } = planned_move;
        let ruled_out = self.ruled_out;
        let scanned =
            Scanned { spaces, claims, mappings, pages, mappers, hugetlb_bytes, ruled_out };
        self.scanner.scan(&scanned, range, &mut |run: PageRun| {
            let Some(from) = run.node.filter(|&node| !routes.from(node).is_empty()) else { return };
            let mapping = mappings[run.mapping];
            let is_copy = !cut.is_shared && run.mapping >= planned_move.mappings.len();
            if is_copy || !self.work.move_index.takes(index, planned_move, mapping, &run) {
                return;
            }
            let account = account(planned_move, mapping);
            let is_strangers = matches!(run.ownership, Ownership::Stranger | Ownership::Several);
            let stays = is_strangers && !plan.options.include_shared;
            if stays && planned_move.stripe.is_none() {
                found.strangers.push((account, run.offset..run.offset + run.bytes));
                return;
            }
            let flag =
                if run.ownership == Ownership::Exclusive { MoveFlag::Own } else { MoveFlag::All };
            let hugetlb_bytes = planned_move.hugetlb_bytes;
            let first = Folio::first(planned_move, index, mapping, from);
            let folio = |address, bytes| Folio { address, bytes, flag, attempts, ..first };
            let address = mapping.start + run.offset;
            let Some(stripe) = &planned_move.stripe else {
                folios(&run, address, &mut shape, &mut |address, bytes, count| {
                    found.rows.push(Row { first: folio(address, bytes), count });
                });
                return;
            };
            let kind = planned_move.kind;
            whole.parts(&run, address, kind, hugetlb_bytes, &mut |part: FolioPart| {
                let head = part.head.wrapping_sub(mapping.start).cast_signed();
                if !stripe.takes(head, part.folio_bytes) {
                    return;
                }
                let offset = part.address - mapping.start;
                match hugetlb_bytes {
                    _ if stays => found.strangers.push((account, offset..offset + part.bytes)),
                    // Kernels before 6.12 take only the address of the head, and its run shows the whole page.
                    Some(bytes) if part.address == part.head => {
                        row::push(&mut found.rows, folio(part.address, bytes));
                    }
                    Some(_) => {}
                    None => row::push(&mut found.rows, folio(part.address, part.bytes)),
                }
            });
        })
    }

    /// Whether a folio is a page of the kernel or a driver, as far as this process may know.
    pub fn is_kernel_page(&mut self, folio: &Folio) -> bool {
        let (spaces, claims) = match &self.crew {
            Some(crew) => (&crew.spaces, &crew.claims),
            None => (&self.survey.spaces, &self.survey.claims),
        };
        let mappings = &[Mapping { process: folio.process, start: folio.address }];
        let (pages, mappers) = (&Pages::All, Mappers::Counted);
        let (hugetlb_bytes, ruled_out) = (None, RuledOut::default());
        let scanned =
            Scanned { spaces, claims, mappings, pages, mappers, hugetlb_bytes, ruled_out };
        let mut pfn = None;
        let looked = self.scanner.scan(&scanned, 0..page_size(), &mut |run: PageRun| {
            pfn = run.entries.get(0).map(|entry| entry.pfn()).filter(|&pfn| pfn != 0);
        });
        self.flags.refresh();
        looked.is_ok() && pfn.is_some_and(|pfn| self.flags.is_kernel_page(pfn))
    }

    /// Whether pages of a process that were reported on `to` are there, by a sample that begins with the piece numbered `first`
    /// ([`verify::sample`]).
    pub fn sample(&mut self, process: usize, rows: &[Row], to: NodeId, first: u64) -> bool {
        verify::sample(rows, to, first, |address, pages, places| {
            self.locate(process, address, pages, places)
        })
    }

    /// Looks at all pages of some folios of a process that were to go to `to`. Returns what was seen, and the first error
    /// ([`verify::verify`]).
    pub fn verify(
        &mut self,
        process: usize,
        rows: &[Row],
        to: NodeId,
    ) -> (Vec<(Row, Verified)>, Option<Error>) {
        verify::verify(rows, to, |address, pages, places| {
            self.locate(process, address, pages, places)
        })
    }

    /// Where the base pages of a process from an address on are ([`Scanner::locate`]).
    fn locate(
        &mut self,
        process: usize,
        address: u64,
        pages: usize,
        places: &mut Vec<PageLocation>,
    ) -> Result<(), Error> {
        let spaces = self.crew.as_ref().map_or(&self.survey.spaces, |crew| &crew.spaces);
        self.scanner.locate(&spaces[process], address, pages, places)
    }
}

/// Adds the remote pages of a stretch that are in a range of the extent of move `move_index`.
fn add_seen(
    stretch: &SeenStretch,
    plan: &Plan,
    move_index: usize,
    range: Range<u64>,
    rows: &mut Vec<Row>,
) {
    let planned_move = &plan.moves[move_index];
    if plan.routes[planned_move.routes].from(stretch.node).is_empty() {
        return;
    }
    let mapping = planned_move.mappings[0];
    let first = Folio::first(planned_move, move_index, mapping, stretch.node);
    for Range { start, end } in
        stretch.remote(mapping.start + range.start..mapping.start + range.end)
    {
        let count = (end - start) / page_size();
        append(rows, Row { first: Folio { address: start, ..first }, count });
    }
}
