//! Batches: each is one move_pages call and then a verification, which settles every folio of the batch.

use crate::{
    call::{
        Called, Caller,
        blocks::make_huge_pages,
        deferred::{self, Deferred},
        fate::{Fate, fate},
        find::{Finder, Found},
        page_status::PageStatus,
        pending::{Key, Pending},
    },
    limits::rooms::Room,
    pages::{
        folio::{Class, Folio},
        row::{self, Row, fitting, take},
        verify::{SAMPLED_FROM, Verified},
    },
    room::{Need, RoomMakers},
    work::{Work, ledger::Ledger, report::Report, rest::Rests},
};
use numaloc_core::{Identity, MakeRoom, NodeId, Reason, number};
use numaloc_host::{Neighbours, Survey};
use numaloc_sys::MoveFlag;
use std::{collections::VecDeque, ops::Range};

/// If more than this part of a call's bytes is gone, memory changes too fast for pages to be passed that an earlier scan has seen.
const MUCH_GONE: u64 = 16;

/// Moves folios to their targets. Each part keeps what it knows to itself.
#[derive(Debug)]
pub struct Mover<'a> {
    work: &'a Work<'a>,
    makers: &'a RoomMakers<'a>,
    /// The account of folios found, moved and left.
    pub ledger: Ledger<'a>,
    /// Waits between calls as the pace asks.
    pub rests: Rests<'a>,
    /// Pages to try again later.
    pub deferred: Deferred<'a>,
    /// The number of processes of the survey.
    surveyed: usize,
    finder: Finder<'a>,
    caller: Caller<'a>,
    pending: Pending,
}

/// Whose pages are meant, besides where they are in their extent.
#[derive(Clone, Copy, Debug)]
pub struct PagesOf {
    /// The move, by which their extent is known.
    pub move_index: usize,
    /// The account of the process that they were found through.
    pub account: usize,
}

impl<'a> Mover<'a> {
    /// Opens the files that it needs.
    pub fn new(work: &'a Work<'a>, makers: &'a RoomMakers<'a>, survey: &'a Survey) -> Self {
        Self {
            work,
            makers,
            ledger: Ledger::new(work.plan, work.control),
            rests: Rests::new(work),
            deferred: Deferred::new(&work.plan.moves, deferred::MOST / work.workers),
            surveyed: survey.spaces.len(),
            finder: Finder::new(work, survey),
            caller: Caller::new(work),
            pending: Pending::default(),
        }
    }

    /// Reads the page map of neighbouring mappings in one go, for the searches that follow. `None`: they read what they need.
    pub fn read_ahead(&mut self, neighbours: Option<&Neighbours>) {
        self.finder.read_ahead(neighbours);
    }

    /// Finds the pages of a part of the extent of move `move_index` that are remote, after this many failed visits.
    /// Notes the error if not all of it could be scanned.
    pub fn find(&mut self, move_index: usize, range: Range<u64>, attempts: u32) -> Found {
        // Another process may get the index of one that has come since the survey.
        if self.pending.has_from(self.surveyed) {
            self.flush();
        }
        let found = self.finder.find(move_index, range, attempts);
        if let Some(error) = &found.error {
            self.ledger.error(self.work.plan.moves[move_index].mappings[0].process, error);
        }
        found
    }

    /// Adds folios to the batch for their next target. Without a further target they are left, with the reason `NoMemory`.
    pub fn put(&mut self, rows: &[Row]) {
        for rows in rows.chunk_by(|one, next| one.first.goes_with(&next.first)) {
            match self.next_target(rows[0].first) {
                Some(key) => self.pending.add(key, rows),
                None => rows.iter().for_each(|&row| self.without_room(row)),
            }
        }
    }

    /// Leaves folios that have no further target. Under a placement by use they wait: other memory leaves the same nodes in this run.
    fn without_room(&mut self, row: Row) {
        match self.work.plan.options.placement.by_use() {
            Some(_) => self.defer_row(row, Reason::NoMemory),
            None => self.ledger.left(row.first.account, Reason::NoMemory, row.bytes()),
        }
    }

    /// The call that a folio waits for; `None`: it has no further target.
    fn next_target(&self, folio: Folio) -> Option<Key> {
        let plan = self.work.plan;
        let routes = &plan.routes[plan.moves[folio.move_index].routes];
        let (route, nearer) = (routes.from(folio.from), routes.nearer(folio.from));
        let Folio { process, flag, hugetlb_bytes, .. } = folio;
        // A folio goes round its targets once for each way to find room there, and then to memory that is free on nearer nodes.
        let ways = plan.options.ways(hugetlb_bytes);
        let (make_room, to) = match ways.get(folio.choice.checked_div(route.len())?) {
            Some(&make_room) => (make_room, route[folio.choice % route.len()]),
            None => (MakeRoom::None, *nearer.get(folio.choice - ways.len() * route.len())?),
        };
        Some(Key { process, flag, to, hugetlb_bytes, make_room })
    }

    /// Moves all folios that wait, if these are `bytes` or more.
    pub fn flush_from(&mut self, bytes: u64) {
        if self.pending.bytes() >= bytes {
            self.flush();
        }
    }

    /// Moves all folios that wait.
    pub fn flush(&mut self) {
        // Folios that find no room wait again, for their next target.
        while let Some((key, rows)) = self.pending.pop() {
            self.drive(key, rows);
        }
    }

    /// Ends. All found bytes are settled, unless it waits or is deferred.
    pub fn into_report(self) -> Report {
        let mut report = self.ledger.into_report();
        report.calls.add(self.caller.stats());
        report.calls.add(&self.rests.stats());
        report
    }

    /// Moves folios in batches, until each is settled, set aside for a later try, or waiting for another target.
    fn drive(&mut self, key: Key, mut rows: Vec<Row>) {
        // Each call holds folios of one class, because the time per byte differs between classes.
        rows.sort_unstable_by_key(|row| (row.first.class(), row.first.address));
        let mut need = self.makers.need(key.to, key.hugetlb_bytes, key.make_room);
        let mut todo = VecDeque::from(rows);
        while let Some(first) = todo.front().map(|row| row.first) {
            if let Some(reason) = self.work.stop() {
                todo.iter()
                    .for_each(|row| self.ledger.left(row.first.account, reason, row.bytes()));
                return;
            }
            if !self.finder.space(key.process).is_alive() {
                todo.into_iter().for_each(|row| self.orphaned(row));
                return;
            }
            if first.class() == Class::Huge {
                make_huge_pages(self.work, &mut self.rests, &mut self.ledger, key.to);
            }
            // Take at least one folio, even if it alone is larger than a batch or than what may still be moved.
            let share = row::share(&todo, self.work.pacer.batch_bytes(first.class()));
            let wanted = fitting(&todo, share).max(first.bytes);
            let claimed = self.work.claim(wanted);
            let room = match claimed {
                0 => Room::Unsettled,
                _ => need.take(claimed.max(first.bytes), first.bytes),
            };
            match room {
                Room::Granted(reservation) => {
                    let bytes = fitting(&todo, reservation.bytes);
                    need.maker.pay(bytes, &mut self.rests);
                    let before = self.ledger.moved_bytes();
                    // `pay` may have waited. If the run must stop by now, the next turn of the loop leaves everything.
                    if self.work.stop().is_none() {
                        let batch = take(&mut todo, bytes);
                        for row in self.batch(key, &batch, &need).into_iter().rev() {
                            todo.push_front(row);
                        }
                    }
                    let moved_bytes = self.ledger.moved_bytes() - before;
                    need.maker.came(key.to, moved_bytes, self.ledger.calls());
                    drop(reservation);
                    self.work.release(claimed, moved_bytes);
                    self.rests.rest();
                }
                Room::Unsettled => {
                    self.work.release(claimed, 0);
                    self.rests.await_others();
                }
                Room::None => {
                    let waiting_bytes = todo.iter().map(Row::bytes).sum();
                    let made = need.make(waiting_bytes, &mut self.rests, &mut self.ledger);
                    self.work.release(claimed, 0);
                    if made.is_err() {
                        todo.into_iter().for_each(|row| self.reroute(row));
                        return;
                    }
                }
            }
        }
    }

    fn reroute(&mut self, row: Row) {
        let choice = row.first.choice + 1;
        self.put(&[Row { first: Folio { choice, ..row.first }, ..row }]);
    }

    /// Does one call, for whose `need` there was room, and settles its folios. Returns the folios that are to be passed again at once.
    fn batch(&mut self, key: Key, rows: &[Row], need: &Need<'_>) -> Vec<Row> {
        let space = &self.finder.space(key.process).clone();
        let Ok(called) = self.caller.call(space, key, rows) else {
            // Where they are is not looked at: the page map may not answer either.
            for row in rows {
                self.ledger.left(row.first.account, Reason::NotReturned, row.bytes());
            }
            self.ledger.publish();
            return Vec::new();
        };
        let bytes: u64 = rows.iter().map(Row::bytes).sum();
        let (results, failed) = if self.is_believed(key, rows, &called) {
            self.ledger.calls().sampled_bytes += bytes;
            let arrived = |row: &Row| {
                let arrived_bytes = row.bytes();
                (*row, Verified { arrived_bytes, ..Verified::default() })
            };
            (rows.iter().map(arrived).collect(), None)
        } else {
            self.finder.verify(key.process, rows, key.to)
        };
        let absent_bytes: u64 = results.iter().map(|(_, seen)| seen.absent_bytes).sum();
        if absent_bytes > bytes / MUCH_GONE {
            self.finder.outdate_seen();
        }
        if let (Some(error), Some(row)) = (&failed, rows.first()) {
            self.ledger.error(row.first.account, error);
        }
        if !space.is_alive() {
            self.settle_orphans(space.process.identity, key.to, rows, &called);
            self.ledger.publish();
            return Vec::new();
        }
        let (mut again, mut hinted) = (Vec::new(), Vec::new());
        let mut is_made_otherwise = None;
        let mut before = 0;
        for (row, verified) in results {
            let has_arrived = called.status(before) == PageStatus::On(key.to);
            let Some(verified) = self.with_unshared(row, verified, has_arrived) else {
                self.defer_row(row, Reason::Busy);
                before += number::index(row.count);
                continue;
            };
            for folio in self.ledger.seen(space.process.identity, key.to, row, verified) {
                let index = (folio.address - row.first.address) / row.first.bytes;
                let is_part = folio.bytes < row.first.bytes;
                let status = called.status(before + number::index(index));
                let decided = match fate(&folio, is_part, called.errno, status) {
                    // The target gets no processes that could be the ones that map it.
                    Fate::Later(Reason::Shared) if !self.finder.is_growing() => {
                        Fate::Leave(Reason::Shared)
                    }
                    Fate::Later(Reason::Busy)
                        if status == PageStatus::Busy && self.finder.is_kernel_page(&folio) =>
                    {
                        Fate::Leave(Reason::KernelPage)
                    }
                    Fate::Hint if !self.caller.hints() => Fate::Later(Reason::NotMovable),
                    decided => decided,
                };
                match decided {
                    Fate::Again => row::push(&mut again, folio),
                    Fate::Reroute if *is_made_otherwise.get_or_insert_with(|| need.refused()) => {
                        row::push(&mut again, folio);
                    }
                    Fate::Hint => hinted.push(Folio { hinted: true, ..folio }),
                    Fate::Later(reason) => self.defer_row(folio.into(), reason),
                    Fate::Leave(Reason::ProcessGone) => self.orphaned(folio.into()),
                    Fate::Reroute => self.reroute(folio.into()),
                    Fate::MovedBack => self.ledger.moved_back(&folio),
                    Fate::Leave(reason) => self.ledger.left(folio.account, reason, folio.bytes),
                    Fate::Refused(reason, errno) => self.ledger.refused(&folio, reason, errno),
                }
            }
            before += number::index(row.count);
        }
        if !hinted.is_empty() {
            self.caller.hint(space, key.to, &hinted);
            hinted.into_iter().for_each(|folio| row::push(&mut again, folio));
        }
        self.ledger.publish();
        again
    }

    /// Whether all folios of a call count as moved by its statuses and a sample: of many base pages that one process maps, each
    /// reported on the target. All others are looked at, also those that failed before.
    fn is_believed(&mut self, key: Key, rows: &[Row], called: &Called) -> bool {
        let are_plain = |row: &Row| {
            row.first.class() == Class::Base
                && row.first.attempts == 0
                && !row.first.hinted
                && !self.work.shares_tables(row)
        };
        let pages: u64 = rows.iter().map(|row| row.count).sum();
        key.flag == MoveFlag::Own
            && pages >= SAMPLED_FROM
            && rows.iter().all(are_plain)
            && called.are_all_on(key.to)
            && self.finder.sample(key.process, rows, key.to, self.caller.stats().calls)
    }

    /// The verification of folios after a call. The kernel takes away page tables that processes share before it
    /// moves a page (mm/rmap.c, `try_to_migrate_one`, `huge_pmd_unshare`): a folio that it then moved has arrived
    /// although this process no longer shows it, and any other (`None`) may still be shown by another process.
    fn with_unshared(&self, row: Row, seen: Verified, has_arrived: bool) -> Option<Verified> {
        let bytes = row.bytes();
        if seen.absent_bytes < bytes || row.count > 1 || !self.work.shares_tables(&row) {
            return Some(seen);
        }
        has_arrived.then(|| Verified { arrived_bytes: bytes, ..Verified::default() })
    }

    /// Settles folios of a process that has ended, as far as the call has answered for them: its page map tells nothing any more.
    fn settle_orphans(&mut self, process: Identity, to: NodeId, rows: &[Row], called: &Called) {
        for (index, folio) in rows.iter().flat_map(|row| row.folios()).enumerate() {
            match called.status(index) {
                PageStatus::On(node) if node == to => {
                    let verified = Verified { arrived_bytes: folio.bytes, ..Verified::default() };
                    self.ledger.seen(process, to, folio.into(), verified).for_each(drop);
                }
                _ => self.orphaned(folio.into()),
            }
        }
    }

    /// Sets folios aside whose process has ended, if another process may still map them. Leaves them otherwise.
    fn orphaned(&mut self, row: Row) {
        let Folio { move_index, account, .. } = row.first;
        if self.finder.outlives(move_index, account) {
            self.defer_row(row, Reason::Busy)
        } else {
            self.ledger.left(account, Reason::ProcessGone, row.bytes())
        }
    }

    fn defer_row(&mut self, row: Row, reason: Reason) {
        let Folio { move_index, account, attempts, .. } = row.first;
        let start = row.first.offset();
        self.defer(PagesOf { move_index, account }, start..start + row.bytes(), attempts, reason);
    }

    /// Sets pages aside for a later try: those at `bytes` from the start of the extent, after this many failed visits. Leaves them if they have had all their tries, or if too much is set aside already.
    pub fn defer(&mut self, of: PagesOf, bytes: Range<u64>, attempts: u32, reason: Reason) {
        let all = bytes.end - bytes.start;
        match self.set_aside(of, bytes, attempts) {
            // A page that moves while it is looked for may be seen twice, through two processes.
            Some(new) => self.ledger.vanished(of.account, all - new),
            None => self.ledger.left(of.account, reason, all),
        }
    }

    /// Leaves pages that strangers map; sets them aside if these may have come to the target since (`is_growing`).
    pub fn leave_shared(
        &mut self,
        of: PagesOf,
        bytes: Range<u64>,
        attempts: u32,
        is_growing: bool,
    ) {
        if is_growing {
            self.defer(of, bytes, attempts, Reason::Shared)
        } else {
            self.ledger.left(of.account, Reason::Shared, bytes.end - bytes.start)
        }
    }

    /// As [`Self::defer`], but settles nothing. Returns how many bytes were not set aside before; `None`: they are not tried again.
    pub fn set_aside(&mut self, of: PagesOf, bytes: Range<u64>, attempts: u32) -> Option<u64> {
        let may_try = attempts + 1 < self.work.limits.attempts;
        may_try.then(|| self.deferred.add(of.move_index, of.account, bytes)).flatten()
    }

    /// Whether a process may still map pages of this account, in the extent of a move.
    pub fn outlives(&self, move_index: usize, account: usize) -> bool {
        self.finder.outlives(move_index, account)
    }
}
