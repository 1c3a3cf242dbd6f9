//! Batches: each is one move_pages call and then a verification, which settles every folio of the batch.

use crate::{
    call::{
        Called, Caller,
        blocks::make_huge_pages,
        cache_moving,
        deferred::{self, Deferred},
        exchange_room,
        fate::{Fate, fate},
        find::{Finder, Found},
        key::Key,
        page_status::PageStatus,
        pending::Pending,
    },
    limits::rooms::Room,
    pages::{
        folio::{Class, Folio},
        row::{self, Row, fitting, take},
        verify::Verified,
    },
    room::{
        cache::Patience,
        exchange::Exchange,
        reclaim::{Reclaim, ask_for_room},
    },
    work::{Work, ledger::Ledger, report::Report, rest::Rests},
};
use numaloc_core::{CacheStop, Identity, MakeRoom, NodeId, NodeMemory, Reason, Supply};
use numaloc_host::{Roots, Survey};
use std::{
    collections::VecDeque,
    ops::Range,
    thread,
    time::{Duration, Instant},
};

/// Pause before the next try when other workers have reserved the last of the room or of the target ratio.
const UNSETTLED_PAUSE: Duration = Duration::from_millis(1);

/// What is known of a folio that a process no longer shows.
enum Unshared {
    /// It has gone.
    Not,
    /// The kernel has moved it, and this process has lost the page table.
    Arrived(Verified),
    /// Another process may still show it.
    Unseen,
}

/// Moves folios to their targets. Each part keeps what it knows to itself.
#[derive(Debug)]
pub struct Mover<'a> {
    work: &'a Work<'a>,
    /// What was found, moved and left.
    pub ledger: Ledger<'a>,
    /// Keeps to the pace.
    pub rests: Rests<'a>,
    /// Pages to try again later.
    pub deferred: Deferred<'a>,
    finder: Finder<'a>,
    caller: Caller<'a>,
    pending: Pending,
}

impl<'a> Mover<'a> {
    /// Opens the files that it needs.
    pub fn new(roots: &Roots, work: &'a Work<'a>, survey: &'a Survey) -> Self {
        Self {
            work,
            ledger: Ledger::new(work.plan, work.control),
            rests: Rests::new(work),
            deferred: Deferred::new(&work.plan.moves, deferred::MOST / work.workers),
            finder: Finder::new(roots, work, survey),
            caller: Caller::new(work),
            pending: Pending::default(),
        }
    }

    /// Finds the pages of a part of the extent of move `move_index` that are away from home, after this many failed visits. Notes
    /// the error if not all of it could be scanned.
    pub fn find(&mut self, move_index: usize, range: Range<u64>, attempts: u32) -> Found {
        let found = self.finder.find(move_index, range, attempts);
        if let Some(error) = &found.error {
            self.ledger.error(self.work.plan.moves[move_index].mappings[0].process, error);
        }
        found
    }

    /// Adds folios to the batch for their next target. Without a further target they are left, with the reason `NoMemory`.
    pub fn put(&mut self, row: Row) {
        let folio = row.first;
        let plan = self.work.plan;
        let route = plan.routes[plan.moves[folio.move_index].routes].from(folio.from);
        let Folio { process, flag, hugetlb_bytes, .. } = folio;
        // A folio goes round its targets once for each way to find room there.
        let way = folio.choice.checked_div(route.len());
        let way = way.and_then(|way| plan.options.ways(hugetlb_bytes).get(way));
        let Some(&make_room) = way else {
            self.ledger.left(folio.account, Reason::NoMemory, row.bytes());
            return;
        };
        let to = route[folio.choice % route.len()];
        self.pending.add(Key { process, flag, to, hugetlb_bytes, make_room }, row);
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

    /// Ends. All that was found is settled, unless it waits or is deferred.
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
        let pool = key.pool(&self.work.plan.options);
        let mut todo = VecDeque::from(rows);
        let mut patience: Option<Patience> = None;
        let rooms = &self.work.rooms;
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
            let most = self.work.pacer.batch_bytes(first.class());
            let wanted = fitting(&todo, most).max(first.bytes);
            let claimed = self.work.claim(wanted);
            let wanted = claimed.max(first.bytes);
            let is_quiet = patience.is_some_and(|patience| patience.is_quiet(Instant::now()));
            let room = match claimed {
                0 => Room::Unsettled,
                _ => rooms.take(pool, wanted, first.bytes, || self.room(key, wanted, is_quiet)),
            };
            match room {
                Room::Granted(taken) => {
                    let landing = rooms.landing(pool, taken);
                    let bytes = fitting(&todo, taken);
                    self.rests.pay(bytes);
                    if key.make_room == MakeRoom::Cache {
                        self.rests.pay_for_drops(bytes);
                    }
                    let before = self.ledger.moved_bytes();
                    patience = None;
                    // `pay` may have waited. If the run must stop by now, the next turn of the loop leaves everything.
                    if self.work.stop().is_none() {
                        let batch = take(&mut todo, bytes);
                        for row in self.batch(key, &batch).into_iter().rev() {
                            todo.push_front(row);
                        }
                    }
                    self.came(key, self.ledger.moved_bytes() - before);
                    drop(landing);
                    self.work.release(claimed, self.ledger.moved_bytes() - before);
                    self.rests.rest();
                }
                Room::Unsettled => {
                    self.work.release(claimed, 0);
                    match self.work.control.allowance {
                        // The run that makes the allowance decides when this one continues, so the wait is not work of this run.
                        Some(_) => {
                            self.rests.pause(exchange_room::PAUSE);
                        }
                        None => thread::sleep(UNSETTLED_PAUSE),
                    }
                }
                Room::None if self.awaits_room(key, &todo, wanted, &mut patience) => {
                    self.work.release(claimed, 0);
                }
                Room::None => {
                    self.work.release(claimed, 0);
                    todo.into_iter().for_each(|row| self.reroute(row));
                    return;
                }
            }
        }
    }

    /// The target's memory now, where such pages may be taken from, and the reserve in bytes. `None` if it cannot be read.
    fn target(&self, key: Key) -> Option<(NodeMemory, Supply, u64)> {
        let options = &self.work.plan.options;
        let supply = options.supply(key.hugetlb_bytes);
        let memory = self.work.memory.read_for(key.to, supply).ok()?;
        let reserve = options.reserve(memory.total_bytes);
        Some((memory, supply, reserve))
    }

    /// Bytes that the target can take now, if `wanted` are to be moved. `is_quiet`: nothing has become free for a while, so the little
    /// that is above the floor is taken as well, to wake a kswapd that sleeps above the low watermark.
    fn room(&self, key: Key, wanted: u64, is_quiet: bool) -> u64 {
        let Some((memory, supply, reserve)) = self.target(key) else { return 0 };
        let free = memory.room(supply, reserve);
        match key.make_room {
            MakeRoom::None => free,
            MakeRoom::Cache if self.work.dropped.stop(self.work.roots, key.to).is_some() => 0,
            MakeRoom::Cache => {
                let by_cache = memory.room_by_cache(supply, reserve, key.make_room);
                let way = self.work.dropped.way(self.work.roots, key.to);
                let may_sleep = memory.free_bytes >= memory.low_watermark_bytes;
                let wanted = if is_quiet && may_sleep { 0 } else { wanted };
                free.max(way.above_floor(&memory, wanted).min(by_cache))
            }
            MakeRoom::MoveCache => free.max(self.work.moved_cache.room(key.to, &memory, wanted)),
            MakeRoom::Exchange => {
                let vacated = |exchange: &Exchange| exchange.vacated(key.to, &memory);
                free.max(self.work.exchange.map_or(0, vacated))
            }
        }
    }

    /// Counts what has come to a target on which room was made.
    fn came(&mut self, key: Key, bytes: u64) {
        match key.make_room {
            MakeRoom::None => {}
            MakeRoom::Cache => {
                self.work.dropped.add(key.to, bytes);
                self.ledger.came_for_cache(bytes);
            }
            MakeRoom::MoveCache => self.work.moved_cache.came(key.to, bytes),
            MakeRoom::Exchange => {
                self.work.exchange.iter().for_each(|exchange| exchange.came(key.to, bytes));
                self.ledger.came_in_exchange(bytes);
            }
        }
    }

    /// Has room made on the target for `wanted` bytes, or waits a moment for it; false if no room is available, or not any more.
    fn awaits_room(
        &mut self,
        key: Key,
        todo: &VecDeque<Row>,
        wanted: u64,
        patience: &mut Option<Patience>,
    ) -> bool {
        match key.make_room {
            MakeRoom::None => false,
            MakeRoom::Cache => {
                let folio_bytes = todo.front().map_or(0, |row| row.first.bytes);
                self.awaits_cache(key, folio_bytes, wanted, patience)
            }
            MakeRoom::MoveCache => {
                let (rests, ledger) = (&mut self.rests, &mut self.ledger);
                cache_moving::await_room(self.work, rests, ledger, key.to, patience)
            }
            MakeRoom::Exchange => {
                let waiting_bytes = todo.iter().map(Row::bytes).sum();
                exchange_room::await_room(
                    self.work,
                    &mut self.rests,
                    key.to,
                    waiting_bytes,
                    patience,
                )
            }
        }
    }

    /// Has the kernel drop page cache on the target for `wanted` bytes, or waits a moment for it; false if none is available,
    /// or not any more.
    fn awaits_cache(
        &mut self,
        key: Key,
        folio_bytes: u64,
        wanted: u64,
        patience: &mut Option<Patience>,
    ) -> bool {
        if key.make_room == MakeRoom::None {
            return false;
        }
        let Some((memory, supply, reserve)) = self.target(key) else { return false };
        if memory.room_by_cache(supply, reserve, key.make_room) < folio_bytes {
            self.ledger.cache_stop(CacheStop::Spent);
            return false;
        }
        let now = Instant::now();
        let lasts = patience
            .get_or_insert_with(|| Patience::new(memory.free_bytes, now))
            .lasts(memory.free_bytes, now);
        if !lasts && self.work.dropped.other_way(key.to) {
            *patience = None;
            return true;
        }
        if !lasts {
            self.work.dropped.stuck(key.to);
            self.ledger.cache_stop(CacheStop::Stuck);
            return false;
        }
        if let Some(stop) = self.work.dropped.stop(self.work.roots, key.to) {
            self.ledger.cache_stop(stop);
            return false;
        }
        let way = self.work.dropped.way(self.work.roots, key.to);
        let is_made = way == Reclaim::Ask && {
            let is_made = ask_for_room(self.work.roots, key.to, &memory, wanted);
            self.ledger.reclaimed();
            // The time counts as the worker's own.
            self.rests.rest();
            is_made
        };
        if !is_made {
            self.rests.pause(UNSETTLED_PAUSE);
        }
        true
    }

    fn reroute(&mut self, row: Row) {
        let choice = row.first.choice + 1;
        self.put(Row { first: Folio { choice, ..row.first }, ..row });
    }

    /// Does one call and settles its folios. Returns the folios that are to be passed again at once.
    fn batch(&mut self, key: Key, rows: &[Row]) -> Vec<Row> {
        let space = &self.finder.space(key.process).clone();
        let called = self.caller.call(space, key, rows);
        let (results, failed) = self.finder.verify(key.process, rows, key.to);
        if let (Some(error), Some(row)) = (&failed, rows.first()) {
            self.ledger.error(row.first.account, error);
        }
        if !space.is_alive() {
            self.settle_orphans(space.process.identity, key.to, rows, &called);
            return Vec::new();
        }
        let (mut again, mut hinted) = (Vec::new(), Vec::new());
        let mut before = 0;
        for (row, verified) in results {
            let verified = match self.unshared(row, &verified, called.status(before), key.to) {
                Unshared::Not => verified,
                Unshared::Arrived(verified) => verified,
                Unshared::Unseen => {
                    self.defer_row(row, Reason::Busy);
                    before += row.count as usize;
                    continue;
                }
            };
            for folio in self.ledger.seen(space.process.identity, key.to, row, verified) {
                let index = (folio.address - row.first.address) / row.first.bytes;
                let is_part = folio.bytes < row.first.bytes;
                let status = called.status(before + index as usize);
                let decided = match fate(&folio, is_part, called.errno, status) {
                    // The target gets no processes that could be the ones that map it.
                    Fate::Later(Reason::Shared) if !self.finder.is_growing() => {
                        Fate::Leave(Reason::Shared)
                    }
                    Fate::Hint if !self.caller.hints() => Fate::Later(Reason::NotMovable),
                    decided => decided,
                };
                match decided {
                    Fate::Again => row::push(&mut again, folio),
                    Fate::Hint => hinted.push(Folio { hinted: true, ..folio }),
                    Fate::Later(reason) => self.defer_row(folio.into(), reason),
                    Fate::Leave(Reason::ProcessGone) => self.orphaned(folio.into()),
                    Fate::Reroute => self.reroute(folio.into()),
                    Fate::MovedBack => self.ledger.moved_back(&folio),
                    Fate::Leave(reason) => self.ledger.left(folio.account, reason, folio.bytes),
                    Fate::Refused(reason, errno) => self.ledger.refused(&folio, reason, errno),
                }
            }
            before += row.count as usize;
        }
        if !hinted.is_empty() {
            self.caller.hint(space, key.to, &hinted);
            hinted.into_iter().for_each(|folio| row::push(&mut again, folio));
        }
        again
    }

    /// Tells a folio that a call has taken out of this process's page tables, although it still exists: the kernel takes away page
    /// tables that processes share before it moves a page (mm/rmap.c, `try_to_migrate_one`, `huge_pmd_unshare`).
    fn unshared(&self, row: Row, verified: &Verified, status: PageStatus, to: NodeId) -> Unshared {
        let bytes = row.bytes();
        if verified.absent_bytes < bytes || row.count > 1 || !self.work.shares_tables(&row) {
            return Unshared::Not;
        }
        match status {
            PageStatus::On(node) if node == to => {
                Unshared::Arrived(Verified { arrived_bytes: bytes, ..Verified::default() })
            }
            _ => Unshared::Unseen,
        }
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
        match self.finder.outlives(move_index, account) {
            true => self.defer_row(row, Reason::Busy),
            false => self.ledger.left(account, Reason::ProcessGone, row.bytes()),
        }
    }

    fn defer_row(&mut self, row: Row, reason: Reason) {
        let Folio { move_index, account, attempts, .. } = row.first;
        let start = row.first.offset();
        self.defer((move_index, account), start..start + row.bytes(), attempts, reason);
    }

    /// Sets pages aside for a later try: those at `bytes` from the start of the extent of a move, in the account of a process,
    /// after this many failed visits. Leaves them if they have had all their tries, or if too much is set aside already.
    pub fn defer(
        &mut self,
        (move_index, account): (usize, usize),
        bytes: Range<u64>,
        attempts: u32,
        reason: Reason,
    ) {
        let all = bytes.end - bytes.start;
        match self.set_aside((move_index, account), bytes, attempts) {
            // A page that moves while it is looked for may be seen twice, through two processes.
            Some(new) => self.ledger.vanished(account, all - new),
            None => self.ledger.left(account, reason, all),
        }
    }

    /// As [`Self::defer`], but settles nothing. Returns how many bytes were not set aside before; `None`: they are not tried again.
    pub fn set_aside(
        &mut self,
        (move_index, account): (usize, usize),
        bytes: Range<u64>,
        attempts: u32,
    ) -> Option<u64> {
        let may_try = attempts + 1 < self.work.limits.attempts;
        may_try.then(|| self.deferred.add(move_index, account, bytes)).flatten()
    }

    /// Whether a process may still map pages of this account, in the extent of a move.
    pub fn outlives(&self, move_index: usize, account: usize) -> bool {
        self.finder.outlives(move_index, account)
    }
}
