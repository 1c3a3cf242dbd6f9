//! The account of a migration: every byte that was found remote ends in exactly one bucket.

use crate::memory::locality::Locality;
use std::{collections::BTreeMap, fmt};

/// Late bytes are reported only above this percentage of the movable bytes: a working process always has a few.
const LATE_PERCENT: u64 = 1;

/// Text that follows the number of late bytes in messages: see [`Account::late_bytes`].
pub const LATE: &str =
    "that can be moved now (during the run, other processes mapped them too, or none did)";

/// Why a remote page was left where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Could not be isolated: another part of the kernel is at work on it (-EBUSY).
    Busy,
    /// The kernel tried and failed each time: something holds a reference to the page (io_uring buffers, O_DIRECT,
    /// RDMA).
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
    /// The migration was cancelled before it reached the page.
    Cancelled,
    /// The time limit ran out before the migration reached the page.
    OutOfTime,
    /// File pages were excluded by request.
    FileExcluded,
    /// Page cache of a file on a network file system or FUSE: a call may wait for its server without end.
    NetworkFile,
    /// The requested target ratio was reached without moving the page.
    RatioReached,
    /// A single page so large that moving it takes longer than a call may.
    StallBound,
    /// The page is on a memory-only node of another memory tier. Pages stay there unless the request names the node as
    /// a source.
    OtherTier,
    /// The page is on none of the nodes that the request names as sources.
    NodeExcluded,
    /// The location of the pages could not be read.
    Unreadable,
    /// The page was to make room for a run's pages, which needed no more; or enough was free on the node to be relieved.
    NotNeeded,
    /// A page of the kernel or of a driver that is mapped into the process. The kernel never moves it.
    KernelPage,
    /// The call that was to move the page has not returned, or another one has not, which the page's call would wait for, too.
    NotReturned,
    /// The memory of the target node is used more than the request allows.
    TargetSaturated,
    /// As many bytes have moved as may move in an hour.
    OutOfBudget,
}

impl Reason {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Reason; 22] = [
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
        Self::NetworkFile,
        Self::RatioReached,
        Self::StallBound,
        Self::OtherTier,
        Self::NodeExcluded,
        Self::Unreadable,
        Self::NotNeeded,
        Self::KernelPage,
        Self::NotReturned,
        Self::TargetSaturated,
        Self::OutOfBudget,
    ];

    /// Stable name for people and machines.
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
            Self::NetworkFile => "network_file",
            Self::RatioReached => "ratio_reached",
            Self::StallBound => "stall_bound",
            Self::OtherTier => "other_tier",
            Self::NodeExcluded => "node_excluded",
            Self::Unreadable => "unreadable",
            Self::NotNeeded => "not_needed",
            Self::KernelPage => "kernel_page",
            Self::NotReturned => "not_returned",
            Self::TargetSaturated => "target_saturated",
            Self::OutOfBudget => "out_of_budget",
        }
    }

    /// Whether a page left for this reason means that the migration did less than was requested. False for pages that
    /// stay because of the request itself or because of the application's own memory policy.
    pub fn is_shortfall(self) -> bool {
        !matches!(
            self,
            Self::Shared
                | Self::Bound
                | Self::FileExcluded
                | Self::NetworkFile
                | Self::RatioReached
                | Self::StallBound
                | Self::OtherTier
                | Self::NodeExcluded
                | Self::NotNeeded
                | Self::KernelPage
        )
    }
}

impl fmt::Display for Reason {
    /// A phrase for messages to people.
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
            Self::NetworkFile => "file on a network file system or FUSE",
            Self::RatioReached => "target ratio reached",
            Self::StallBound => "one page takes longer to move than a call may",
            Self::OtherTier => "on a memory-only node of another tier",
            Self::NodeExcluded => "on a node excluded by request",
            Self::Unreadable => "page map could not be read",
            Self::NotNeeded => "not needed as room",
            Self::KernelPage => "page of the kernel or a driver",
            Self::NotReturned => "a call of the kernel has not returned",
            Self::TargetSaturated => "target node saturated",
            Self::OutOfBudget => "no budget left this hour",
        })
    }
}

/// Remote bytes, by what happened to them.
///
/// ```
/// use numaloc_core::{Account, Reason};
///
/// let mut account = Account::default();
/// account.found(3 << 20);
/// account.moved(2 << 20);
/// assert!(!account.closes(), "1 MiB is not settled yet");
/// account.left(Reason::Busy, 1 << 20);
/// assert!(account.closes() && account.is_partial());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    found_bytes: u64,
    moved_bytes: u64,
    nearer_bytes: u64,
    moved_back_bytes: u64,
    vanished_bytes: u64,
    left_bytes: BTreeMap<Reason, u64>,
}

impl Account {
    /// Records bytes that were found remote. One of the methods below settles each of them later.
    pub fn found(&mut self, bytes: u64) {
        self.found_bytes += bytes;
    }
    /// Settles bytes that the verification confirmed on their target.
    pub fn moved(&mut self, bytes: u64) {
        self.moved_bytes += bytes;
    }
    /// Notes that `bytes` of the moved bytes went to a node nearer than theirs, because home had no room.
    pub fn nearer(&mut self, bytes: u64) {
        self.nearer_bytes += bytes;
    }
    /// Settles bytes that the kernel reported as moved, but that the verification found off target again.
    pub fn moved_back(&mut self, bytes: u64) {
        self.moved_back_bytes += bytes;
    }
    /// Settles bytes that were meanwhile unmapped, swapped out, replaced, or moved by another program.
    pub fn vanished(&mut self, bytes: u64) {
        self.vanished_bytes += bytes;
    }
    /// Settles bytes that stay where they are.
    pub fn left(&mut self, reason: Reason, bytes: u64) {
        if bytes > 0 {
            *self.left_bytes.entry(reason).or_default() += bytes;
        }
    }
    /// Adds the bytes of another process or run, bucket by bucket.
    pub fn add(&mut self, other: &Account) {
        self.found_bytes += other.found_bytes;
        self.moved_bytes += other.moved_bytes;
        self.nearer_bytes += other.nearer_bytes;
        self.moved_back_bytes += other.moved_back_bytes;
        self.vanished_bytes += other.vanished_bytes;
        for (&reason, &bytes) in &other.left_bytes {
            *self.left_bytes.entry(reason).or_default() += bytes;
        }
    }
    /// The account of a run that was cancelled and then continued as `next`, which looked at all memory again. Bytes
    /// that the first run left in place or saw move back are found again by `next`, so only the account of `next`
    /// counts them. Bytes that moved, vanished or ended with their process are added up.
    pub fn continued_by(&self, next: &Account) -> Account {
        let gone_bytes = self.left_for(Reason::ProcessGone);
        let mut joined = next.clone();
        joined.found(self.moved_bytes + self.vanished_bytes + gone_bytes);
        joined.moved(self.moved_bytes);
        joined.nearer(self.nearer_bytes);
        joined.vanished(self.vanished_bytes);
        joined.left(Reason::ProcessGone, gone_bytes);
        joined
    }
    /// For a cancelled run whose process has since ended: bytes that the run had not reached count as
    /// [`Reason::ProcessGone`].
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
    /// The part of the moved bytes that found no room at home, and went to a node nearer than theirs.
    pub fn nearer_bytes(&self) -> u64 {
        self.nearer_bytes
    }
    /// Bytes that were moved and were off target again at the verification.
    pub fn moved_back_bytes(&self) -> u64 {
        self.moved_back_bytes
    }
    /// Bytes that were meanwhile unmapped, swapped out, replaced, or moved by another program.
    pub fn vanished_bytes(&self) -> u64 {
        self.vanished_bytes
    }
    /// Remote bytes that stayed, by the reason why.
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
    /// Whether remote pages are left that were requested and that a later attempt might move.
    pub fn is_partial(&self) -> bool {
        self.shortfall_bytes() > self.left_for(Reason::ProcessGone)
    }
    /// Bytes that a later look found remote and movable, beyond the bytes that this account reports as left. When the
    /// run reached them, processes outside the target mapped them too (clients of a server map the same libraries),
    /// or no process mapped them (processes map the pages of a shared segment one by one, such as a database's
    /// buffers), or they were new or on another node. 0 if the amount is small, or if `target_ratio` percent of the
    /// movable bytes are local.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Share;

    /// 100 bytes, each part with a number of its own.
    fn sample() -> Account {
        let mut account = Account::default();
        account.found(100);
        account.moved(50);
        account.moved_back(5);
        account.vanished(7);
        for (reason, bytes) in
            [(Reason::Busy, 11), (Reason::Shared, 13), (Reason::Cancelled, 8), (Reason::Pinned, 0)]
        {
            account.left(reason, bytes);
        }
        account.left(Reason::ProcessGone, 4);
        account.left(Reason::ProcessGone, 2);
        account
    }

    #[test]
    fn what_was_found_is_settled_in_one_place() {
        let account = sample();
        let parts = (
            account.found_bytes(),
            account.moved_bytes(),
            account.moved_back_bytes(),
            account.vanished_bytes(),
        );
        assert_eq!(parts, (100, 50, 5, 7));
        let left = [
            (Reason::Busy, 11),
            (Reason::Shared, 13),
            (Reason::ProcessGone, 6),
            (Reason::Cancelled, 8),
        ];
        assert_eq!(account.left_bytes(), &left.into(), "nothing was left for Pinned");
        assert_eq!((account.left_for(Reason::Shared), account.left_for(Reason::Pinned)), (13, 0));
        assert!(account.closes());
        let settle: [fn(&mut Account); 5] = [
            |account| account.found(1),
            |account| account.moved(1),
            |account| account.moved_back(1),
            |account| account.vanished(1),
            |account| account.left(Reason::Bound, 1),
        ];
        for settle in settle {
            let mut other = sample();
            settle(&mut other);
            assert!(!other.closes(), "{other:?}");
        }
    }

    #[test]
    fn a_sum_has_each_part_of_both() {
        let mut sum = sample();
        sum.add(&sample());
        let mut twice = Account::default();
        twice.found(200);
        twice.moved(100);
        twice.moved_back(10);
        twice.vanished(14);
        for (&reason, &bytes) in sample().left_bytes() {
            twice.left(reason, 2 * bytes);
        }
        assert_eq!(sum, twice);
    }

    #[test]
    fn a_shortfall_is_what_was_asked_for_and_not_done() {
        use Reason::*;
        let short = Reason::ALL.into_iter().filter(|reason| reason.is_shortfall());
        let expected = [
            Busy,
            Pinned,
            NoMemory,
            NotAllowed,
            NotMovable,
            ProcessGone,
            Cancelled,
            OutOfTime,
            Unreadable,
            NotReturned,
            TargetSaturated,
            OutOfBudget,
        ];
        assert_eq!(short.collect::<Vec<_>>(), expected);
        // Busy, cancelled, gone and moved back.
        assert_eq!(sample().shortfall_bytes(), 11 + 8 + 6 + 5);
    }

    #[test]
    fn what_has_ended_or_was_not_asked_for_leaves_nothing_to_try_again() {
        let mut account = Account::default();
        assert!(!account.is_partial());
        account.left(Reason::ProcessGone, 5);
        account.left(Reason::Bound, 5);
        assert!(!account.is_partial());
        account.moved_back(1);
        assert!(account.is_partial());
    }

    #[test]
    fn a_run_that_was_continued_counts_nothing_twice() {
        let mut next = Account::default();
        next.found(30);
        next.moved(20);
        next.left(Reason::Shared, 10);
        let joined = sample().continued_by(&next);
        let mut expected = Account::default();
        expected.found(30 + 50 + 7 + 6);
        expected.moved(20 + 50);
        expected.vanished(7);
        expected.left(Reason::Shared, 10);
        expected.left(Reason::ProcessGone, 6);
        assert_eq!(joined, expected);
        assert!(joined.closes());
    }

    #[test]
    fn what_a_cancelled_run_had_not_reached_goes_with_the_process() {
        let ended = sample().ended();
        assert_eq!(ended.left_for(Reason::Cancelled), 0);
        assert_eq!(ended.left_for(Reason::ProcessGone), 8 + 6);
        assert!(ended.closes());
    }

    #[test]
    fn memory_that_came_late_counts_if_it_is_much_and_was_asked_for() {
        let mut account = Account::default();
        account.left(Reason::Busy, 10);
        account.left(Reason::RatioReached, 20);
        let late = |local_bytes, remote_bytes, ratio| {
            let movable = Share { local_bytes, remote_bytes, ..Share::default() };
            account.late_bytes(&Locality { movable, ..Locality::default() }, ratio)
        };
        // 30 of the remote bytes are known.
        assert_eq!(late(900, 100, 100), 70);
        assert_eq!(late(900, 100, 91), 70);
        assert_eq!(late(900, 100, 90), 0, "that was asked for");
        assert_eq!(late(960, 40, 100), 0, "1 % of all");
        assert_eq!(late(959, 41, 100), 11);
        assert_eq!(late(100, 20, 100), 0, "all of it is known");
    }

    #[test]
    fn documented_reasons_are_all_there_are() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        for reason in Reason::ALL {
            let row = format!("| `{reason}` | `{}` |", reason.name());
            assert!(page.contains(&row), "docs/troubleshooting.md lacks {row}");
        }
    }
}
