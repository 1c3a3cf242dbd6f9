//! The account of a migration: every byte that was found remote ends in exactly one bucket.

use crate::locality::Locality;
use std::{collections::BTreeMap, fmt};

/// More than so many percent of what may be moved has to be late for a word about it: a process at work always has some.
const LATE_PERCENT: u64 = 1;

/// What late bytes are, behind their number: see [`Account::late_bytes`].
pub const LATE: &str =
    "to be moved by now, which strangers mapped too, or nobody, when it came to them";

/// Why a remote page was left where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Could not be isolated: another part of the kernel is at work on it (-EBUSY).
    Busy,
    /// The kernel tried and failed each time: somebody holds a reference (io_uring buffers, O_DIRECT, RDMA).
    Pinned,
    /// Processes outside the target map it too.
    Shared,
    /// The application's own memory policy keeps it there.
    Bound,
    /// The target node has no room above its high watermark and the reserve, or no free huge page.
    NoMemory,
    /// The target node is outside cpuset.mems of the process or of the caller.
    NotAllowed,
    /// A kind of memory that the kernel cannot move.
    NotMovable,
    /// The process ended or replaced its memory.
    ProcessGone,
    /// The migration was cancelled before it came to it.
    Cancelled,
    /// The time given ran out before it came to it.
    OutOfTime,
    /// File pages were excluded by request.
    FileExcluded,
    /// The asked-for ratio was reached without it.
    RatioReached,
    /// A single page so large that moving it takes longer than a call may.
    StallBound,
    /// It is on a memory-only node of another tier, which is left alone unless asked for.
    OtherTier,
    /// It is on none of the nodes that the request names as sources.
    NodeExcluded,
    /// Where its pages are could not be read.
    Unreadable,
}

impl Reason {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Reason; 16] = [
        Self::Busy,
        Self::Pinned,
        Self::Shared,
        Self::Bound,
        Self::NoMemory,
        Self::NotAllowed,
        Self::NotMovable,
        Self::ProcessGone,
        Self::Cancelled,
        Self::OutOfTime,
        Self::FileExcluded,
        Self::RatioReached,
        Self::StallBound,
        Self::OtherTier,
        Self::NodeExcluded,
        Self::Unreadable,
    ];

    /// Stable name for machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Pinned => "pinned",
            Self::Shared => "shared",
            Self::Bound => "bound",
            Self::NoMemory => "no_memory",
            Self::NotAllowed => "not_allowed",
            Self::NotMovable => "not_movable",
            Self::ProcessGone => "process_gone",
            Self::Cancelled => "cancelled",
            Self::OutOfTime => "out_of_time",
            Self::FileExcluded => "file_excluded",
            Self::RatioReached => "ratio_reached",
            Self::StallBound => "stall_bound",
            Self::OtherTier => "other_tier",
            Self::NodeExcluded => "node_excluded",
            Self::Unreadable => "unreadable",
        }
    }

    /// Whether a page left for this reason means that the migration fell short of what was asked. What the
    /// request itself or the application's own wish keeps in place does not.
    pub fn is_shortfall(self) -> bool {
        !matches!(
            self,
            Self::Shared
                | Self::Bound
                | Self::FileExcluded
                | Self::RatioReached
                | Self::StallBound
                | Self::OtherTier
                | Self::NodeExcluded
        )
    }
}

impl fmt::Display for Reason {
    /// A sentence part for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "busy in the kernel",
            Self::Pinned => "pinned (DMA or I/O in flight)",
            Self::Shared => "shared with processes outside the target",
            Self::Bound => "bound by the application's own memory policy",
            Self::NoMemory => "no room on the target node",
            Self::NotAllowed => "target node not in cpuset.mems",
            Self::NotMovable => "not movable",
            Self::ProcessGone => "process gone",
            Self::Cancelled => "cancelled",
            Self::OutOfTime => "out of time",
            Self::FileExcluded => "file pages excluded by request",
            Self::RatioReached => "target ratio reached",
            Self::StallBound => "one page takes longer to move than a call may",
            Self::OtherTier => "on a memory-only node of another tier",
            Self::NodeExcluded => "on a node excluded by request",
            Self::Unreadable => "page map could not be read",
        })
    }
}

/// Bytes by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    found_bytes: u64,
    moved_bytes: u64,
    moved_back_bytes: u64,
    vanished_bytes: u64,
    left_bytes: BTreeMap<Reason, u64>,
}

impl Account {
    /// Records bytes that were found remote. Each of them is later settled by one of the methods below.
    pub fn found(&mut self, bytes: u64) {
        self.found_bytes += bytes;
    }
    /// Settles bytes that a second look confirmed on their target.
    pub fn moved(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
    }
    /// Settles bytes that the kernel reported moved and that were off target again at the second look.
    pub fn moved_back(&mut self, bytes: u64) {
        self.moved_back_bytes += bytes;
    }
    /// Settles bytes that were unmapped, swapped out, replaced, or moved by somebody else meanwhile.
    pub fn vanished(&mut self, bytes: u64) {
        self.vanished_bytes += bytes;
    }
    /// Settles bytes that stay where they are.
    pub fn left(&mut self, reason: Reason, bytes: u64) {
        if bytes > 0 {
            *self.left_bytes.entry(reason).or_default() += bytes;
        }
    }
    /// Adds another account.
    pub fn add(&mut self, other: &Account) {
        self.found_bytes += other.found_bytes;
        self.moved_bytes += other.moved_bytes;
        self.moved_back_bytes += other.moved_back_bytes;
        self.vanished_bytes += other.vanished_bytes;
        for (&reason, &bytes) in &other.left_bytes {
            *self.left_bytes.entry(reason).or_default() += bytes;
        }
    }
    /// The account of a run that was cancelled on its way and went on as `next` with a fresh look. What the first leg
    /// left in place, or saw come back, is found again by the next one, for whatever reason it was left; so it stands in
    /// that one's account only. What moved, vanished or went with a process adds up.
    pub fn continued_by(&self, next: &Account) -> Account {
        let gone_bytes = self.left_for(Reason::ProcessGone);
        let mut joined = next.clone();
        joined.found(self.moved_bytes + self.vanished_bytes + gone_bytes);
        joined.moved(self.moved_bytes);
        joined.vanished(self.vanished_bytes);
        joined.left(Reason::ProcessGone, gone_bytes);
        joined
    }
    /// The account of a cancelled run of whose process a later look found nothing: what it had not come to is gone.
    pub fn ended(&self) -> Account {
        let mut ended = self.clone();
        let bytes = ended.left_bytes.remove(&Reason::Cancelled).unwrap_or(0);
        ended.left(Reason::ProcessGone, bytes);
        ended
    }
    /// All bytes that were found remote.
    pub fn found_bytes(&self) -> u64 {
        self.found_bytes
    }
    /// Bytes confirmed on their target.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes
    }
    /// Bytes that went and came back.
    pub fn moved_back_bytes(&self) -> u64 {
        self.moved_back_bytes
    }
    /// Bytes that ceased to be.
    pub fn vanished_bytes(&self) -> u64 {
        self.vanished_bytes
    }
    /// Bytes left, by reason.
    pub fn left_bytes(&self) -> &BTreeMap<Reason, u64> {
        &self.left_bytes
    }
    /// Bytes left for reasons that mean the migration fell short.
    pub fn shortfall_bytes(&self) -> u64 {
        let left = self
            .left_bytes
            .iter()
            .filter(|(reason, _)| reason.is_shortfall())
            .map(|(_, bytes)| bytes);
        left.sum::<u64>() + self.moved_back_bytes
    }
    /// Whether remote pages are left that were asked for and could, at another time, have been moved.
    pub fn is_partial(&self) -> bool {
        self.shortfall_bytes() > self.left_for(Reason::ProcessGone)
    }
    /// Bytes that a look afterwards has found remote although they may be moved, beyond those that this account says were
    /// left. When the run came to them they were mapped by strangers too (clients of a server map the same libraries), or by
    /// nobody: pages of a shared segment that its processes map one by one, as a database does its buffers; or they were
    /// new or elsewhere. 0 if they are hardly any, or so many percent of what may be moved as were asked for are local.
    pub fn late_bytes(&self, after: &Locality, target_ratio: u8) -> u64 {
        let known = self.shortfall_bytes() + self.left_for(Reason::RatioReached);
        let movable = after.movable;
        let late = movable.remote_bytes.saturating_sub(known);
        let all = movable.local_bytes + movable.remote_bytes;
        let is_enough = after.movable.percent() >= f64::from(target_ratio);
        if late > all / 100 * LATE_PERCENT && !is_enough { late } else { 0 }
    }
    /// Bytes left for one reason.
    pub fn left_for(&self, reason: Reason) -> u64 {
        self.left_bytes.get(&reason).copied().unwrap_or(0)
    }
    /// Whether the buckets add up to what was found.
    pub fn closes(&self) -> bool {
        let left: u64 = self.left_bytes.values().sum();
        self.found_bytes == self.moved_bytes + self.moved_back_bytes + self.vanished_bytes + left
    }
}
