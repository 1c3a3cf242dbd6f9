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
    pages::{folio::Folio, row::Row},
    work::Work,
};
use nix::libc::EIO;
use numaloc_core::{CallStats, NodeId};
use numaloc_host::AddressSpace;
use numaloc_sys::move_pages;
use std::time::Instant;

/// Calls move_pages, and learns from each call for the next.
#[derive(Debug)]
pub struct Caller<'a> {
    work: &'a Work<'a>,
    /// How many bytes of a call the kernel may unmap from the application at once.
    length: Length,
    hints: Hints,
    calls: CallStats,
}

/// What a call has said.
#[derive(Debug)]
pub struct Called {
    /// The errno of the call as a whole; `None`: it returned 0 or more.
    pub errno: Option<i32>,
    pagelists: Pagelists,
    call_statuses: CallStatuses,
}

impl Called {
    /// The status of the folio with this number among those that were passed.
    pub fn status(&self, folio: usize) -> PageStatus {
        self.call_statuses.get(self.pagelists.place(folio))
    }
}

impl<'a> Caller<'a> {
    /// Begins with the page list length of the plan's profile.
    pub fn new(work: &'a Work<'a>) -> Self {
        let length = Length::new(work.plan.options.pacing.pace().pagelist_bytes);
        Self { work, length, hints: Hints::new(work.roots), calls: CallStats::default() }
    }

    /// Passes all folios of `rows`, which are of one class, in one call.
    pub fn call(&mut self, space: &AddressSpace, key: Key, rows: &[Row]) -> Called {
        // The first page list would take the page table away through which the others are reached.
        let list_bytes = match rows.iter().any(|row| self.work.shares_tables(row)) {
            true => None,
            false => self.length.bytes(&rows[0].first),
        };
        let pagelists = Pagelists::new(rows, list_bytes);
        let mut statuses = vec![0; pagelists.addresses.len()];
        let class = rows[0].first.class();
        let splits = self.work.pacer.splits_before(class);
        let begin = Instant::now();
        let result = move_pages(
            space.tid_for(key.to),
            &pagelists.addresses,
            key.to.0,
            &mut statuses,
            key.flag,
        );
        let elapsed = begin.elapsed();
        self.length.learn(result.as_ref().is_ok_and(|&left| left > 0));
        let count = |rows: &mut dyn Iterator<Item = &Row>| rows.map(|row| row.count).sum::<u64>();
        let folios = count(&mut rows.iter());
        self.calls.record(folios, elapsed);
        let bytes = rows.iter().map(Row::bytes).sum();
        if let Some(before) = splits {
            self.work.pacer.learn_splits(before, folios);
        }
        let is_long = self.work.pacer.learn(class, bytes, elapsed);
        self.calls.over_stall += u64::from(is_long);
        self.calls.retried_addresses +=
            count(&mut rows.iter().filter(|row| row.first.attempts > 0));
        tracing::debug!(pid = space.pid(), to = key.to.0, folios, ?result, ?elapsed, "move_pages");
        let errno = result.err().map(|error| error.raw_os_error().unwrap_or(EIO));
        Called { errno, pagelists, call_statuses: CallStatuses::new(statuses) }
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

    /// What the calls of this worker have cost and returned so far.
    pub fn stats(&self) -> &CallStats {
        &self.calls
    }
}
