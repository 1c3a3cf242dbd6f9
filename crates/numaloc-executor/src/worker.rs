//! A worker: takes windows, finds folios in them, and moves these in batches.

use crate::{
    deferred::{self, Deferred},
    duty::Duty,
    folio::{Folio, Shape, folios},
    key::Key,
    report::Report,
    row::Row,
    runs,
    windows::Window,
    work::Work,
};
use numaloc_core::{Kind, Reason};
use numaloc_host::{FrameFile, Ownership, Precision, Roots, Run, Scanned, Scanner, Survey};
use numaloc_sys::MoveFlag;
use std::{collections::BTreeMap, ops::Range, sync::atomic::Ordering, time::Instant};

/// Moves the pages of the windows that it takes.
#[derive(Debug)]
pub struct Worker<'a> {
    pub(crate) work: &'a Work<'a>,
    pub(crate) survey: &'a Survey,
    pub(crate) scanner: Scanner,
    pub(crate) report: Report,
    /// Pages to try again later.
    pub(crate) deferred: Deferred<'a>,
    /// How often the windows that are visited now were visited before.
    pub(crate) tries: u32,
    /// Busy time still to be paid for by rest, up to `since`.
    pub(crate) duty: Duty,
    /// The same time, if only the profile's own pace slowed the run down. It tells rests for the pace from other waits.
    pub(crate) owed: Duty,
    pub(crate) since: Instant,
    /// Bytes that this worker has moved to their targets.
    pub(crate) moved_bytes: u64,
    /// How many bytes of a call the kernel may unmap from the application at once.
    pub(crate) run: runs::Length,
    flags: Option<FrameFile>,
    pending: BTreeMap<Key, Vec<Row>>,
    pub(crate) pending_bytes: u64,
}

/// The pages of a part of an extent that are away from home.
#[derive(Debug)]
pub struct Found {
    /// What to move.
    pub(crate) rows: Vec<Row>,
    /// Pages that stay because strangers map them: index of the process, and bytes from the extent's start.
    pub(crate) strangers: Vec<(usize, Range<u64>)>,
    /// Whether the whole part could be scanned.
    pub(crate) is_all: bool,
}

impl<'a> Worker<'a> {
    /// Opens the files that a worker needs.
    pub fn new(roots: &Roots, work: &'a Work<'a>, survey: &'a Survey) -> Self {
        Self {
            work,
            survey,
            scanner: Scanner::new(roots, &survey.sight, Precision::Exact),
            report: Report::new(work.plan),
            deferred: Deferred::new(&work.plan.moves, deferred::MOST / work.workers),
            tries: 0,
            duty: Duty::default(),
            owed: Duty::default(),
            since: Instant::now(),
            moved_bytes: 0,
            run: runs::Length::new(work.plan.options.pacing.pace().run_bytes),
            flags: FrameFile::flags(roots),
            pending: BTreeMap::new(),
            pending_bytes: 0,
        }
    }

    /// Takes windows until there are no more or the run must stop. Settles all bytes that it found.
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
        self.retry();
        self.report
    }

    /// Moves the pages of a window that are away from home.
    fn visit(&mut self, Window { step, range, .. }: Window) {
        let Found { rows, strangers, is_all } = self.find(step, range);
        self.report.unread[step] |= !is_all;
        for (process, Range { start, end }) in strangers {
            self.report.found(step, process, end - start);
            self.leave(process, Reason::Shared, end - start);
        }
        for row in rows {
            self.report.found(step, row.first.process, row.bytes());
            self.put(row);
        }
    }

    /// Finds the pages of a part of an extent that are away from home.
    pub(crate) fn find(&mut self, index: usize, range: Range<u64>) -> Found {
        let plan = self.work.plan;
        let step = &plan.moves[index];
        let routes = &plan.routes[step.routes];
        let files = matches!(step.kind, Kind::File | Kind::Shmem);
        let mut shape = Shape {
            hugetlb_bytes: step.hugetlb_bytes,
            small_folios: self.work.small_folios || files,
            flags: self.flags.as_mut(),
        };
        shape.refresh();
        let attempts = self.tries;
        let mut rows = Vec::new();
        let mut strangers = Vec::new();
        let Survey { spaces, claims, .. } = self.survey;
        let scanned = Scanned { spaces, claims, mappings: &step.mappings, pages: &step.pages };
        let result = self.scanner.scan(&scanned, range, &mut |run: Run| {
            let Some(from) = run.node.filter(|&node| !routes.from(node).is_empty()) else { return };
            let mapping = step.mappings[run.mapping];
            let process = mapping.process;
            if !self.work.cover.takes(index, step, mapping, &run) {
                return;
            }
            let is_strangers = matches!(run.ownership, Ownership::Stranger | Ownership::Several);
            if is_strangers && !plan.options.include_shared {
                strangers.push((process, run.offset..run.offset + run.bytes));
                return;
            }
            let flag =
                if run.ownership == Ownership::Exclusive { MoveFlag::Own } else { MoveFlag::All };
            let hugetlb_bytes = step.hugetlb_bytes;
            folios(&run, mapping.start + run.offset, &mut shape, &mut |address, bytes, count| {
                let (choice, hinted, step) = (0, false, index);
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
                rows.push(Row { first, count });
            });
        });
        let is_all = result.is_ok();
        if let Err(error) = result {
            self.report.error(step.mappings[0].process, error);
        }
        Found { rows, strangers, is_all }
    }

    /// Adds folios to the batch for their next target. Without a further target they are left, with the reason `NoMemory`.
    pub(crate) fn put(&mut self, row: Row) {
        let folio = row.first;
        let plan = self.work.plan;
        let route = plan.routes[plan.moves[folio.step].routes].from(folio.from);
        let Folio { process, flag, hugetlb_bytes, .. } = folio;
        // A folio goes round its targets once for each way to find room there.
        let way = folio.choice.checked_div(route.len());
        let way = way.and_then(|way| plan.options.ways(hugetlb_bytes).get(way));
        let Some(&make_room) = way else {
            self.leave(folio.process, Reason::NoMemory, row.bytes());
            return;
        };
        let to = route[folio.choice % route.len()];
        self.pending_bytes += row.bytes();
        self.pending
            .entry(Key { process, flag, to, hugetlb_bytes, make_room })
            .or_default()
            .push(row);
    }

    pub(crate) fn flush(&mut self) {
        // Folios that find no room are put into `pending` again, for their next target.
        while let Some((key, rows)) = self.pending.pop_first() {
            self.pending_bytes -= rows.iter().map(Row::bytes).sum::<u64>();
            self.drive(key, rows);
        }
    }

    /// Settles bytes that are no longer there.
    pub(crate) fn vanished(&mut self, process: usize, bytes: u64) {
        self.report.accounts[process].vanished(bytes);
        self.work.control.settled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Settles bytes that stay, with the reason.
    pub(crate) fn leave(&mut self, process: usize, reason: Reason, bytes: u64) {
        self.report.accounts[process].left(reason, bytes);
        self.work.control.settled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
