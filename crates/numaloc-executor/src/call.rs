//! Calls of move_pages: how many folios one takes, what it says of each, and how long all of them took.

pub(crate) mod batch;
pub(crate) mod blocks;
pub(crate) mod deferred;
pub(crate) mod fate;
pub(crate) mod find;
pub(crate) mod hint;
pub(crate) mod page_status;
pub(crate) mod pagelist;
pub(crate) mod pending;
pub(crate) mod retry;

use crate::{
    call::{
        hint::Hints,
        page_status::{CallStatuses, PageStatus},
        pagelist::{Length, Pagelists},
        pending::Key,
    },
    limits::{bounded::NotReturned, calls::Subject},
    pages::{folio::Folio, row::Row},
    work::Work,
};
use nix::libc::EIO;
use numaloc_core::{CallStats, NodeId};
use numaloc_host::AddressSpace;
use numaloc_sys::{Answer, Companion, Request, UNWRITTEN};
use std::time::Duration;

/// Only calls that take longer may have waited for a real-time thread: it is looked for no more often than that is worth.
const MAY_WAIT: Duration = Duration::from_millis(200);

/// Calls move_pages, and learns from each call for the next.
#[derive(Debug)]
pub struct Caller<'a> {
    work: &'a Work<'a>,
    /// The process that makes the calls, from the first one on.
    companion: Option<Companion>,
    /// Bytes of a call that the kernel may unmap from the application at once.
    length: Length,
    hints: Hints,
    calls: CallStats,
}

/// The result of a call.
#[derive(Debug)]
pub struct Called {
    /// The errno of the call as a whole; `None`: it returned 0 or more.
    pub errno: Option<i32>,
    pagelists: Pagelists,
    call_statuses: CallStatuses,
}

impl Called {
    /// The status of the folio with this number among the passed ones.
    pub fn status(&self, folio: usize) -> PageStatus {
        self.call_statuses.get(self.pagelists.place(folio))
    }

    /// Whether it reported all folios on `to`.
    pub fn are_all_on(&self, to: NodeId) -> bool {
        self.errno.is_none() && self.call_statuses.count_on(to) == self.pagelists.folios()
    }
}

impl<'a> Caller<'a> {
    /// Begins with the page list length of the plan's profile.
    pub fn new(work: &'a Work<'a>) -> Self {
        let length = Length::new(work.plan.options.pacing.pace().pagelist_bytes);
        let (hints, calls) = (Hints::new(work.roots), CallStats::default());
        Self { work, companion: None, length, hints, calls }
    }

    /// Passes all folios of `rows`, which are of one class, in one call.
    ///
    /// # Errors
    /// It has not returned, or was not made because another one has not: the run ends.
    pub fn call(
        &mut self,
        space: &AddressSpace,
        key: Key,
        rows: &[Row],
    ) -> Result<Called, NotReturned> {
        // The first page list would take the page table away through which the others are reached.
        let list_bytes = if rows.iter().any(|row| self.work.shares_tables(row)) {
            None
        } else {
            self.length.bytes(&rows[0].first)
        };
        let pagelists = Pagelists::new(rows, list_bytes);
        let class = rows[0].first.class();
        let splits = self.work.pacer.splits_before(class);
        let request = Request::Move {
            pid: space.tid_for(key.to),
            addresses: pagelists.addresses.clone(),
            node: key.to.0,
            flag: key.flag,
        };
        let subject = Subject::Process(space.process.identity);
        let answer =
            self.work.bounds().call(&mut self.companion, "move_pages", &subject, request)?;
        let failed =
            |error| Answer { result: Err(error), statuses: Vec::new(), took: Duration::ZERO };
        let Answer { result, mut statuses, took: elapsed } = answer.unwrap_or_else(failed);
        statuses.resize(pagelists.addresses.len(), UNWRITTEN);
        self.length.learn(result.as_ref().is_ok_and(|&left| left > 0));
        let count = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.count).sum::<u64>();
        let folios = count(&mut rows.iter());
        self.calls.record(folios, elapsed);
        let bytes = rows.iter().map(Row::bytes).sum();
        if let Some(before) = splits {
            self.work.pacer.learn_splits(before, folios);
        }
        if !self.has_waited_for_others(elapsed) {
            let is_long = self.work.pacer.learn(class, bytes, elapsed);
            self.calls.over_stall += u64::from(is_long);
        }
        self.calls.retried_addresses +=
            count(&mut rows.iter().filter(|row| row.first.attempts > 0));
        tracing::debug!(pid = space.pid(), to = key.to.0, folios, ?result, ?elapsed, "move_pages");
        let errno = result.err().map(|error| error.raw_os_error().unwrap_or(EIO));
        Ok(Called { errno, pagelists, call_statuses: CallStatuses::new(statuses) })
    }

    /// Whether a call of this length has waited for a CPU that a real-time thread uses, before it took any page away (mm/swap.c,
    /// `__lru_add_drain_all`). Then the application was not stalled, and the next call need not take as long.
    fn has_waited_for_others(&self, elapsed: Duration) -> bool {
        if elapsed < MAY_WAIT || elapsed < 2 * self.work.pacer.longest_call() {
            return false;
        }
        let hogs = self.work.rooms.calls.real_time.hogs(self.work.roots, false);
        if let Some(hog) = hogs.first() {
            tracing::debug!(%hog, ?elapsed, "a call has waited");
        }
        !hogs.is_empty()
    }

    /// Whether the kernel needs [`Self::hint`].
    pub fn hints(&self) -> bool {
        self.hints.are_taken()
    }

    /// Takes the NUMA-hint faults of folios that are to go to `to`.
    pub fn hint(&mut self, space: &AddressSpace, to: NodeId, folios: &[Folio]) {
        let addresses: Vec<u64> = folios.iter().map(|folio| folio.address).collect();
        self.calls.hinted_addresses += addresses.len() as u64;
        self.hints.take(space.tid(), addresses, self.work.target_cpus(to));
    }

    /// Costs and results of this worker's calls so far.
    pub fn stats(&self) -> &CallStats {
        &self.calls
    }
}
