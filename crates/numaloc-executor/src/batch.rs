//! Batches: each is one move_pages call and then a second look, which settles every folio of the batch.

use crate::{
    cache::{Patience, above_floor},
    fate::{Fate, fate},
    folio::Folio,
    hint::take_faults,
    key::Key,
    look::{Sighting, look},
    row::{self, Row, fitting, take},
    runs::Runs,
    verdict::Verdicts,
    work::Room,
    worker::Worker,
};
use nix::libc::EIO;
use numaloc_core::{CacheStop, MakeRoom, Moved, PAGE, Reason};
use numaloc_sys::move_pages;
use std::{
    collections::VecDeque,
    io,
    ops::Range,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// Pause before the next try when other workers have reserved the last of the room or of the target ratio.
const UNSETTLED_PAUSE: Duration = Duration::from_millis(1);

impl Worker<'_> {
    /// Moves folios in batches, until each is settled, set aside for a later try, or waiting for another target.
    pub(crate) fn drive(&mut self, key: Key, mut rows: Vec<Row>) {
        // Each call holds folios of one class, because the time per byte differs between classes.
        rows.sort_unstable_by_key(|row| (row.first.class(), row.first.address));
        let pool = key.pool(&self.work.plan.options);
        let mut todo = VecDeque::from(rows);
        let mut patience = None;
        while let Some(first) = todo.front().map(|row| row.first) {
            let gone = !self.survey.spaces[key.process].is_alive();
            if let Some(reason) = gone.then_some(Reason::ProcessGone).or_else(|| self.work.stop()) {
                todo.iter().for_each(|row| self.leave(key.process, reason, row.bytes()));
                return;
            }
            // Take at least one folio, even if it alone is larger than a batch or than what may still be moved.
            let most = self.work.pacer.batch_bytes(first.class());
            let wanted = fitting(&todo, most).max(first.bytes);
            let claimed = self.work.claim(wanted);
            let room = match claimed {
                0 => Room::Unsettled,
                _ => {
                    let most = claimed.max(first.bytes);
                    self.work.take_room(pool, most, first.bytes, || self.room(key, most))
                }
            };
            match room {
                Room::Granted(taken) => {
                    let bytes = fitting(&todo, taken);
                    self.pay(bytes);
                    let before = self.moved_bytes;
                    patience = None;
                    // `pay` may have waited. If the run must stop by now, the next turn of the loop leaves everything.
                    if self.work.stop().is_none() {
                        let batch = take(&mut todo, bytes);
                        for row in self.batch(key, &batch).into_iter().rev() {
                            todo.push_front(row);
                        }
                    }
                    if key.make_room == MakeRoom::Cache {
                        let bytes = self.moved_bytes - before;
                        self.work.dropped.add(key.to, bytes);
                        self.report.calls.cache_bytes += bytes;
                    }
                    self.work.landed(pool, taken);
                    self.work.release(claimed, self.moved_bytes - before);
                    self.rest();
                }
                Room::Unsettled => {
                    self.work.release(claimed, 0);
                    thread::sleep(UNSETTLED_PAUSE);
                }
                Room::None if self.awaits_room(key, first.bytes, &mut patience) => {
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

    /// Bytes that the target can take now, if `wanted` are to be moved.
    fn room(&self, key: Key, wanted: u64) -> u64 {
        let options = &self.work.plan.options;
        let supply = options.supply(key.hugetlb_bytes);
        let Ok(memory) = self.work.memory.read_for(key.to, supply) else { return 0 };
        let reserve = options.reserve(memory.total_bytes);
        let free = memory.room(supply, reserve);
        match key.make_room {
            MakeRoom::None => free,
            MakeRoom::Cache if self.work.dropped.stop(self.work.roots, key.to).is_some() => 0,
            MakeRoom::Cache => {
                let by_cache = memory.room_by_cache(supply, reserve, key.make_room);
                free.max(above_floor(&memory, wanted).min(by_cache))
            }
        }
    }

    /// Waits a moment for the kernel to drop page cache on the target; false if that is not to be had, or not any more.
    fn awaits_room(&mut self, key: Key, folio_bytes: u64, patience: &mut Option<Patience>) -> bool {
        let options = &self.work.plan.options;
        let supply = options.supply(key.hugetlb_bytes);
        let Ok(memory) = self.work.memory.read_for(key.to, supply) else { return false };
        let reserve = options.reserve(memory.total_bytes);
        if memory.room_by_cache(supply, reserve, key.make_room) < folio_bytes {
            return false;
        }
        let now = Instant::now();
        let lasts = patience
            .get_or_insert_with(|| Patience::new(memory.free_bytes, now))
            .lasts(memory.free_bytes, now);
        let stop = self.work.dropped.stop(self.work.roots, key.to);
        if let Some(stop) = stop.or((!lasts).then_some(CacheStop::Stuck)) {
            self.report.calls.cache_stop.get_or_insert(stop);
            return false;
        }
        self.pause(UNSETTLED_PAUSE);
        true
    }

    fn reroute(&mut self, row: Row) {
        let choice = row.first.choice + 1;
        self.put(Row { first: Folio { choice, ..row.first }, ..row });
    }

    /// Does one call and settles its folios. Returns the folios that are to be passed again at once.
    fn batch(&mut self, key: Key, rows: &[Row]) -> Vec<Row> {
        let space = &self.survey.spaces[key.process];
        let runs = Runs::new(rows, self.run.bytes(&rows[0].first));
        let mut statuses = vec![0; runs.addresses.len()];
        let class = rows[0].first.class();
        let splits = self.work.pacer.splits_before(class);
        let begin = Instant::now();
        let result = move_pages(space.tid(), &runs.addresses, key.to.0, &mut statuses, key.flag);
        let elapsed = begin.elapsed();
        self.run.learn(result.as_ref().is_ok_and(|&left| left > 0));
        let count = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.count).sum::<u64>();
        let folios = count(&mut rows.iter());
        let calls = &mut self.report.calls;
        calls.record(folios, elapsed);
        let bytes = rows.iter().map(Row::bytes).sum();
        if let Some(before) = splits {
            self.work.pacer.learn_splits(before, folios);
        }
        let is_long = self.work.pacer.learn(class, bytes, elapsed);
        calls.over_stall += u64::from(is_long);
        calls.retried_addresses += count(&mut rows.iter().filter(|row| row.first.attempts > 0));
        tracing::debug!(pid = space.pid(), to = key.to.0, folios, ?result, ?elapsed, "move_pages");

        let errno = result.err().map(|error| error.raw_os_error().unwrap_or(EIO));
        let verdicts = Verdicts::new(statuses);
        let verdict = |folio| verdicts.get(runs.place(folio));
        let (sightings, failed) = look(rows, key.to, |address, pages, places| {
            self.scanner.locate(space, address, pages, places)
        });
        failed.iter().for_each(|error| self.report.error(key.process, error));
        let alive = space.is_alive();
        let (mut again, mut hinted) = (Vec::new(), Vec::new());
        let mut before = 0;
        for (row, sighting) in sightings {
            for folio in self.settle(key, row, sighting) {
                let index = (folio.address - row.first.address) / row.first.bytes;
                let is_part = folio.bytes < row.first.bytes;
                match fate(&folio, is_part, errno, verdict(before + index as usize)) {
                    _ if !alive => self.leave(folio.process, Reason::ProcessGone, folio.bytes),
                    Fate::Again => row::push(&mut again, folio),
                    Fate::Hint => hinted.push(Folio { hinted: true, ..folio }),
                    Fate::Later(reason) => self.defer(folio, reason),
                    Fate::Reroute => self.reroute(folio.into()),
                    Fate::MovedBack => self.moved_back(folio),
                    Fate::Leave(reason) => self.leave(folio.process, reason, folio.bytes),
                    Fate::Refused(reason, errno) => self.refused(folio, reason, errno),
                }
            }
            before += row.count as usize;
        }
        if !hinted.is_empty() {
            let addresses: Vec<u64> = hinted.iter().map(|folio| folio.address).collect();
            self.report.calls.hinted_addresses += addresses.len() as u64;
            take_faults(space.tid(), &addresses, &self.work.target_cpus(key.to));
            hinted.into_iter().for_each(|folio| row::push(&mut again, folio));
        }
        again
    }

    /// Accounts for what the second look saw. Returns the folios that are still off their target.
    fn settle(
        &mut self,
        key: Key,
        row: Row,
        sighting: Sighting,
    ) -> impl Iterator<Item = Folio> + use<> {
        let folio = row.first;
        let process = self.survey.spaces[folio.process].process.identity;
        let all = folio.address..folio.address + row.bytes();
        for Range { start, end } in sighting.arrived(all) {
            let first = Moved { process, address: start, to: key.to };
            self.report.sample.add(first, end - start);
        }
        let Sighting { arrived_bytes, absent_bytes, elsewhere, unread_bytes } = sighting;
        self.leave(folio.process, Reason::Unreadable, unread_bytes);
        let account = &mut self.report.accounts[folio.process];
        account.moved(arrived_bytes);
        if arrived_bytes > 0 {
            let flows = &mut self.report.flows[folio.process];
            *flows.entry((folio.from, key.to)).or_default() += arrived_bytes;
        }
        self.moved_bytes += arrived_bytes;
        self.work.control.moved_bytes.fetch_add(arrived_bytes, Ordering::Relaxed);
        self.work.control.settled_bytes.fetch_add(arrived_bytes, Ordering::Relaxed);
        self.vanished(folio.process, absent_bytes);
        // A folio of which a part arrived or vanished was split, or unmapped in part: what is left of it counts as base pages.
        let bytes = if arrived_bytes + absent_bytes == 0 { folio.bytes } else { PAGE };
        elsewhere.into_iter().map(move |address| Folio { address, bytes, ..folio })
    }

    /// Sets a folio aside for a later try. Leaves it if it has had all its tries, or if too much is set aside already.
    fn defer(&mut self, folio: Folio, reason: Reason) {
        let start = self.offset(&folio);
        let may_try = folio.attempts + 1 < self.work.limits.attempts;
        if !may_try || !self.deferred.add(folio.step, folio.process, start..start + folio.bytes) {
            self.leave(folio.process, reason, folio.bytes);
        }
    }

    fn moved_back(&mut self, folio: Folio) {
        self.report.accounts[folio.process].moved_back(folio.bytes);
        self.work.control.settled_bytes.fetch_add(folio.bytes, Ordering::Relaxed);
    }

    fn refused(&mut self, folio: Folio, reason: Reason, errno: i32) {
        let (address, error) = (folio.address, io::Error::from_raw_os_error(errno));
        self.report.error(folio.process, format_args!("move_pages at {address:#x}: {error}"));
        self.leave(folio.process, reason, folio.bytes);
    }
}
