//! The ledger of a worker: bytes found, moved and left. Every byte that was found is settled here, once.

use crate::{
    limits::control::Control,
    pages::{folio::Folio, row::Row, verify::Verified},
    work::report::Report,
};
use numaloc_core::{CallStats, Identity, Moved, NodeId, Plan, Reason, page_size};
use std::{
    fmt, io, mem,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// Keeps a worker's report, and the part of it that the watchers of the run see.
#[derive(Debug)]
pub struct Ledger<'a> {
    control: &'a Control,
    report: Report,
    moved_bytes: u64,
    /// The part of `moved_bytes` that the control does not show yet.
    unpublished_moved: u64,
    /// Settled bytes that are not shown there yet.
    unpublished_settled: u64,
}

impl<'a> Ledger<'a> {
    /// Begins with an empty report.
    pub fn new(plan: &Plan, control: &'a Control) -> Self {
        let report = Report::new(plan);
        Self { control, report, moved_bytes: 0, unpublished_moved: 0, unpublished_settled: 0 }
    }

    /// Counts bytes of the extent of move `move_index` that were found remote, in the account of `process`.
    pub fn found(&mut self, move_index: usize, process: usize, bytes: u64) {
        self.report.found(move_index, process, bytes);
    }

    /// Notes that a part of the extent of move `move_index` could not be scanned.
    pub fn unread(&mut self, move_index: usize) {
        self.report.unread[move_index] = true;
    }

    /// Notes an error of a process. Only the first one is kept.
    pub fn error(&mut self, process: usize, error: impl fmt::Display) {
        self.report.error(process, error);
    }

    /// Settles what was seen of `row`, which was to go from its place in `process` to `to`. Returns the folios that
    /// are still off their target.
    pub fn seen(
        &mut self,
        process: Identity,
        to: NodeId,
        row: Row,
        verified: Verified,
    ) -> impl Iterator<Item = Folio> + use<> {
        let folio = row.first;
        let all = folio.address..folio.address + row.bytes();
        for Range { start, end } in verified.arrived(all) {
            self.report.sample.add(Moved { process, address: start, to }, end - start);
        }
        let Verified { arrived_bytes, absent_bytes, elsewhere, unread_bytes } = verified;
        self.left(folio.account, Reason::Unreadable, unread_bytes);
        self.report.accounts[folio.account].moved(arrived_bytes);
        self.report.moved[folio.move_index] += arrived_bytes;
        if arrived_bytes > 0 {
            let flows = &mut self.report.flows[folio.account];
            *flows.entry((folio.from, to)).or_default() += arrived_bytes;
        }
        self.moved_bytes += arrived_bytes;
        self.unpublished_moved += arrived_bytes;
        self.settled(arrived_bytes);
        self.vanished(folio.account, absent_bytes);
        // A folio of which a part arrived or vanished was split, or unmapped in part: what is left of it counts as base pages.
        let bytes = if arrived_bytes + absent_bytes == 0 { folio.bytes } else { page_size() };
        elsewhere.into_iter().map(move |address| Folio { address, bytes, ..folio })
    }

    /// Settles bytes that do not exist any more.
    pub fn vanished(&mut self, process: usize, bytes: u64) {
        self.report.accounts[process].vanished(bytes);
        self.settled(bytes);
    }

    /// Settles bytes that stay, with the reason.
    pub fn left(&mut self, process: usize, reason: Reason, bytes: u64) {
        self.report.accounts[process].left(reason, bytes);
        self.settled(bytes);
    }

    /// Settles a folio that the kernel reported on a node and that was then found off its target.
    pub fn moved_back(&mut self, folio: &Folio) {
        self.report.accounts[folio.account].moved_back(folio.bytes);
        self.settled(folio.bytes);
    }

    /// Settles a folio that the kernel refused to move, with the reason and its errno.
    pub fn refused(&mut self, folio: &Folio, reason: Reason, errno: i32) {
        let (address, error) = (folio.address, io::Error::from_raw_os_error(errno));
        // The words of the kernel come first: the contract of Koordinator has them alone.
        self.error(folio.account, format_args!("{error}: move_pages at {address:#x}"));
        self.left(folio.account, reason, folio.bytes);
    }

    /// Counts page cache that went from a target to another node.
    pub fn cache_moved(&mut self, from: NodeId, to: NodeId, bytes: u64) {
        if bytes > 0 {
            *self.report.cache_flows.entry((from, to)).or_default() += bytes;
        }
    }

    /// Statistics of this worker, without those of its calls and rests.
    pub fn calls(&mut self) -> &mut CallStats {
        &mut self.report.calls
    }

    /// Bytes that were seen on their targets so far.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }

    /// The report. Its calls have only what was counted in [`Self::calls`].
    pub fn into_report(mut self) -> Report {
        self.publish();
        self.report
    }

    /// Shows the watchers of the run what was settled since the last time. Workers share these counters, so this is
    /// done once for many rows.
    pub fn publish(&mut self) {
        let show = |counter: &AtomicU64, bytes: &mut u64| {
            if *bytes > 0 {
                counter.fetch_add(mem::take(bytes), Ordering::Relaxed);
            }
        };
        show(&self.control.moved_bytes, &mut self.unpublished_moved);
        show(&self.control.settled_bytes, &mut self.unpublished_settled);
    }

    fn settled(&mut self, bytes: u64) {
        self.unpublished_settled += bytes;
    }
}
