//! One worker: windows -> folios -> batches.

use crate::{
    batch::Key,
    duty::Duty,
    folio::{Folio, Shape, folios},
    report::Report,
    row::Row,
    runs,
    windows::Window,
    work::Work,
};
use numaloc_core::{Kind, Reason};
use numaloc_host::{
    Error, FrameFile, NodeMemoryReader, Ownership, Precision, Roots, Run, Scanned, Scanner, Survey,
    probe,
};
use numaloc_sys::MoveFlag;
use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

/// The first pause before pages that could not be moved are tried again; it grows fourfold each time.
const PAUSE: Duration = Duration::from_millis(5);

/// Moves the pages of the windows that it takes.
#[derive(Debug)]
pub struct Worker<'a> {
    pub(crate) work: &'a Work<'a>,
    pub(crate) survey: &'a Survey,
    pub(crate) scanner: Scanner,
    pub(crate) memory: NodeMemoryReader,
    pub(crate) report: Report,
    pub(crate) deferred: Vec<Folio>,
    /// What it has not rested for yet, without what it has done since `since`.
    pub(crate) duty: Duty,
    /// The same, were it not for what holds the run back beyond its pace.
    pub(crate) owed: Duty,
    pub(crate) since: Instant,
    /// Bytes that this worker has brought to their targets.
    pub(crate) moved_bytes: u64,
    /// How much of a call the kernel is to take from the application at once.
    pub(crate) run: runs::Length,
    flags: Option<FrameFile>,
    small_folios: bool,
    pending: BTreeMap<Key, Vec<Row>>,
    pending_bytes: u64,
}

impl<'a> Worker<'a> {
    /// Opens what a worker needs.
    ///
    /// # Errors
    /// If the memory of nodes cannot be read.
    pub fn new(roots: &Roots, work: &'a Work<'a>, survey: &'a Survey) -> Result<Self, Error> {
        Ok(Self {
            work,
            survey,
            scanner: Scanner::new(roots, survey.frames.clone(), survey.source, Precision::Exact),
            memory: NodeMemoryReader::new(roots)?,
            report: Report::new(work.plan),
            deferred: Vec::new(),
            duty: Duty::default(),
            owed: Duty::default(),
            since: Instant::now(),
            moved_bytes: 0,
            run: runs::Length::new(work.plan.options.pacing.pace().run_bytes),
            flags: FrameFile::flags(roots),
            small_folios: probe::small_folios(roots),
            pending: BTreeMap::new(),
            pending_bytes: 0,
        })
    }

    /// Takes windows until there are no more or the run is to stop, and settles all that it found.
    pub fn run(mut self) -> Report {
        while self.work.stop().is_none()
            && let Some(window) = self.work.next()
        {
            let fill = window.fill;
            self.visit(window);
            if self.pending_bytes >= fill {
                self.flush();
            }
            self.rest();
        }
        self.flush();
        let mut pause = PAUSE;
        while !self.deferred.is_empty() {
            self.pause(pause);
            self.rest();
            pause *= 4;
            for folio in std::mem::take(&mut self.deferred) {
                self.put(folio.into());
            }
            self.flush();
        }
        self.report
    }

    /// Finds the folios of a window that are off their home.
    fn visit(&mut self, window: Window) {
        let (plan, index) = (self.work.plan, window.step);
        let step = &plan.moves[index];
        let routes = &plan.routes[step.routes];
        let files = matches!(step.kind, Kind::File | Kind::Shmem);
        let mut shape = Shape {
            hugetlb_bytes: step.hugetlb_bytes,
            small_folios: self.small_folios || files,
            flags: self.flags.as_mut(),
        };
        shape.refresh();
        let mut found = Vec::new();
        let mut strangers = Vec::new();
        let Survey { spaces, claims, .. } = self.survey;
        let scanned = Scanned { spaces, claims, mappings: &step.mappings, pages: &step.pages };
        let result = self.scanner.scan(&scanned, window.range, &mut |run: Run| {
            let Some(from) = run.node.filter(|&node| !routes.from(node).is_empty()) else { return };
            let mapping = step.mappings[run.mapping];
            let process = mapping.process;
            if !self.work.cover.takes(index, step, mapping, &run) {
                return;
            }
            let is_strangers = matches!(run.ownership, Ownership::Stranger | Ownership::Several);
            if is_strangers && !plan.options.include_shared {
                strangers.push((process, run.bytes));
                return;
            }
            let flag =
                if run.ownership == Ownership::Exclusive { MoveFlag::Own } else { MoveFlag::All };
            let hugetlb_bytes = step.hugetlb_bytes;
            folios(&run, mapping.start + run.offset, &mut shape, &mut |address, bytes, count| {
                let (choice, attempts, hinted) = (0, 0, false);
                let step = index;
                let first = Folio {
                    address,
                    bytes,
                    hugetlb_bytes,
                    from,
                    process,
                    flag,
                    step,
                    choice,
                    attempts,
                    hinted,
                };
                found.push(Row { first, count });
            });
        });
        if let Err(error) = result {
            self.report.unread[index] = true;
            self.report.error(step.mappings[0].process, error);
        }
        for (process, bytes) in strangers {
            self.report.found(index, process, bytes);
            self.leave(process, Reason::Shared, bytes);
        }
        for row in found {
            self.report.found(index, row.first.process, row.bytes());
            self.put(row);
        }
    }

    /// Puts folios into the batch that is being filled for their target; without one they are left.
    pub(crate) fn put(&mut self, row: Row) {
        let folio = row.first;
        let plan = self.work.plan;
        let route = plan.routes[plan.moves[folio.step].routes].from(folio.from);
        let Some(&to) = route.get(folio.choice) else {
            self.leave(folio.process, Reason::NoMemory, row.bytes());
            return;
        };
        let Folio { process, flag, hugetlb_bytes, .. } = folio;
        self.pending_bytes += row.bytes();
        self.pending.entry(Key { process, flag, to, hugetlb_bytes }).or_default().push(row);
    }

    fn flush(&mut self) {
        // Folios that find no room come back with their next target.
        while let Some((key, rows)) = self.pending.pop_first() {
            self.pending_bytes -= rows.iter().map(Row::bytes).sum::<u64>();
            self.drive(key, rows);
        }
    }

    /// Settles bytes as left.
    pub(crate) fn leave(&mut self, process: usize, reason: Reason, bytes: u64) {
        self.report.accounts[process].left(reason, bytes);
        self.work.control.settled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
