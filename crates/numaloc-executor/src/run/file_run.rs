//! Moves the page cache of files, piece by piece.
//!
//! A piece is looked at again just before it moves, and once more afterwards: what a call reports is not taken for where a page is. What was
//! dropped or read since the plan is not part of the account.

use crate::{
    Control, RunLimits,
    call::{
        page_status::{CallStatuses, PageStatus},
        pagelist::cut,
    },
    limits::rate::SharedRate,
    pace::{duty::Duty, stall::Stall},
    pages::{cached::CacheCalls, folio::Class},
};
use numaloc_core::{
    Account, CacheGoal, CallStats, FileCache, FilePlan, Flows, NodeId, NodeSet, Options, PAGE,
    Reason, Supply, Topology, cache_move::destination, file_cache::PIECE,
};
use numaloc_host::{
    CachedFile, CachedPiece, FileId, LookedFile, NodeMemoryReader, Roots, nodes_of, wait,
};
use std::{
    fmt,
    path::PathBuf,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// The pause before a page is tried for the second time; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(1);

/// Most pieces that are mapped at a time. A process may have 65,530 mappings (vm.max_map_count).
const PIECES: usize = 1024;
/// Of all calls: what folios a file has is not known, and their pages are passed one by one.
const CLASS: Class = Class::Base;

/// What a run over files is given.
#[derive(Clone, Copy)]
pub struct FileRun<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// The machine's nodes.
    pub topology: &'a Topology,
    /// Reads how much memory they have.
    pub memory: &'a NodeMemoryReader,
    /// Its pace, and what stays free on a node.
    pub options: &'a Options,
    /// Its bounds: attempts, time, rate, and share of time.
    pub limits: &'a RunLimits,
    /// Cancellation and progress, shared with the caller.
    pub control: &'a Control,
    /// Whether a file may be moved, asked once it is open.
    pub admits: &'a dyn Fn(&CachedFile) -> bool,
}

impl fmt::Debug for FileRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRun").finish_non_exhaustive()
    }
}

/// A file, what of it was found in memory, and where that belongs. It is not kept open: there may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it was under that path.
    pub id: FileId,
    /// What was found.
    pub cache: FileCache,
    /// Where it belongs.
    pub plan: FilePlan,
}

impl PlannedFile {
    /// The plan for a file that was looked at.
    pub fn new(goal: &CacheGoal, LookedFile { path, id, cache, .. }: LookedFile) -> Self {
        let plan = FilePlan::new(goal, &cache);
        Self { path, id, cache, plan }
    }
}

/// The result of a run over files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileOutcome {
    /// What was on other nodes than it belongs on, and what happened to it.
    pub account: Account,
    /// What moved, by the node that it was on and the node that it is on.
    pub flows: Flows,
    /// The calls.
    pub calls: CallStats,
}

impl FileOutcome {
    /// Adds the result for other files.
    pub fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        for (nodes, bytes) in &other.flows {
            *self.flows.entry(*nodes).or_default() += bytes;
        }
        self.calls.add(&other.calls);
    }
}

impl FileRun<'_> {
    /// Carries the plans out, one file after the other. The result is that of all files of each of the groups.
    pub fn carry_out(&self, groups: &[&[PlannedFile]]) -> Vec<FileOutcome> {
        let rate = self.limits.rate_bytes_per_second.map(SharedRate::new);
        let deadline = self.limits.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let pace = self.options.pacing.pace();
        let mut worker = Worker {
            run: *self,
            rate,
            deadline,
            stall: Stall::paced(&pace, self.limits.batch_bytes.unwrap_or(pace.batch_bytes)),
            duty: Duty::default(),
            since: Instant::now(),
            calls: CacheCalls::default(),
        };
        let group = |files: &&[PlannedFile]| {
            let mut sum = FileOutcome::default();
            files.iter().for_each(|file| sum.add(&worker.file(file)));
            sum
        };
        groups.iter().map(group).collect()
    }
}

struct Worker<'a> {
    run: FileRun<'a>,
    rate: Option<SharedRate>,
    /// How much a call may hold.
    stall: Stall,
    deadline: Option<Instant>,
    duty: Duty,
    /// From when on time has not been counted as work yet.
    since: Instant,
    calls: CacheCalls,
}

impl Worker<'_> {
    fn file(&mut self, planned: &PlannedFile) -> FileOutcome {
        let mut outcome = FileOutcome::default();
        let file = CachedFile::open(self.run.roots, &planned.path);
        // Another one may have this path by now, or another user this file.
        let file = file.ok().filter(|file| file.id() == planned.id && (self.run.admits)(file));
        let pieces = planned.cache.pieces();
        let pieces = pieces.map(|parts| (parts[0].piece, planned.plan.bytes_elsewhere(parts)));
        let mut pieces = pieces.filter(|(_, bytes)| *bytes > 0).peekable();
        while pieces.peek().is_some() {
            // As much as a call may hold, and one piece at least.
            let most = self.stall.bytes(CLASS).max(PIECE);
            let (mut span, mut bytes) = (Vec::new(), 0);
            while let Some(piece) =
                pieces.next_if(|piece| span.len() < PIECES && bytes + piece.1 <= most)
            {
                bytes += piece.1;
                span.push(piece);
            }
            self.span(file.as_ref(), &span, &planned.plan, &mut outcome);
            self.run.control.settled_bytes.fetch_add(bytes, Relaxed);
            self.rest(&mut outcome.calls);
        }
        outcome
    }

    /// Moves what is elsewhere of some pieces: their numbers, each with how much that was.
    fn span(
        &mut self,
        file: Option<&CachedFile>,
        span: &[(u64, u64)],
        plan: &FilePlan,
        outcome: &mut FileOutcome,
    ) {
        // The mappings have to last until their pages have moved.
        let mut mapped: Vec<CachedPiece> = Vec::new();
        let mut groups: Vec<(NodeId, NodeSet, Vec<u64>)> = Vec::new();
        for &(number, expected) in span {
            let piece = match self.stop() {
                Some(reason) => Err(reason),
                None => file.and_then(|file| file.piece(number).ok()).ok_or(Reason::Unreadable),
            };
            let piece = match piece {
                Ok(piece) => piece,
                Err(reason) => {
                    outcome.account.found(expected);
                    outcome.account.left(reason, expected);
                    continue;
                }
            };
            let nodes = plan.nodes_of(number);
            for (from, addresses) in piece.elsewhere(&nodes) {
                outcome.account.found(addresses.len() as u64 * PAGE);
                match groups.iter_mut().find(|group| group.0 == from && group.1 == nodes) {
                    Some((.., all)) => all.extend(addresses),
                    None => groups.push((from, nodes.clone(), addresses)),
                }
            }
            mapped.push(piece);
        }
        for (from, nodes, addresses) in groups {
            self.group(from, &nodes, &addresses, outcome);
        }
    }

    /// Moves pages of one node to any of `nodes`: as many at once as a call may hold and a node has room for.
    fn group(
        &mut self,
        from: NodeId,
        nodes: &NodeSet,
        addresses: &[u64],
        outcome: &mut FileOutcome,
    ) {
        let mut rest = addresses;
        while !rest.is_empty() {
            let among = nodes.minus(&self.calls.refused);
            let most = self.stall.bytes(CLASS).min(self.rate_bytes()) / PAGE;
            let mut count = rest.len().min(most.max(1) as usize);
            let mut to = self.destination(from, &among, count);
            while to.is_none() && count as u64 * PAGE > PIECE {
                count /= 2;
                to = self.destination(from, &among, count);
            }
            let reason = match (self.stop(), among.is_empty()) {
                (Some(reason), _) => reason,
                (None, true) => Reason::NotAllowed,
                (None, false) => Reason::NoMemory,
            };
            let Some(to) = to.filter(|_| self.stop().is_none()) else {
                // A large folio moves whole, so some may have come along with those before them.
                let left = self.settle(from, rest, |on| nodes.contains(on), outcome);
                outcome.account.left(reason, left.len() as u64 * PAGE);
                return;
            };
            let (now, later) = rest.split_at(count);
            self.carry((from, to), now.to_vec(), outcome);
            rest = later;
            if !rest.is_empty() {
                self.rest(&mut outcome.calls);
            }
        }
    }

    fn destination(&self, from: NodeId, among: &NodeSet, pages: usize) -> Option<NodeId> {
        destination(self.run.topology, from, among, pages as u64 * PAGE, |to| self.room(to))
    }

    /// Moves pages from a node to a node, with a few tries.
    fn carry(
        &mut self,
        (from, to): (NodeId, NodeId),
        mut addresses: Vec<u64>,
        outcome: &mut FileOutcome,
    ) {
        let mut reason = Reason::Busy;
        for attempt in 0..self.run.limits.attempts {
            if attempt > 0 {
                self.wait(PAUSE * (1 << (attempt - 1)), &mut outcome.calls);
            }
            if let Some(stop) = self.stop() {
                reason = stop;
                break;
            }
            reason = self.call(&addresses, to, attempt > 0, &mut outcome.calls);
            addresses = self.settle(from, &addresses, |on| on == to, outcome);
            if addresses.is_empty() {
                return;
            }
        }
        outcome.account.left(reason, addresses.len() as u64 * PAGE);
    }

    /// Counts pages that are where they belong as moved from a node, and returns the others. A page that cannot be seen any more has
    /// not arrived.
    fn settle(
        &self,
        from: NodeId,
        addresses: &[u64],
        is_there: impl Fn(NodeId) -> bool,
        outcome: &mut FileOutcome,
    ) -> Vec<u64> {
        let on = nodes_of(addresses).unwrap_or_else(|_| vec![None; addresses.len()]);
        let mut left = Vec::new();
        for (&address, on) in addresses.iter().zip(on) {
            let Some(to) = on.filter(|&on| is_there(on)) else {
                left.push(address);
                continue;
            };
            outcome.account.moved(PAGE);
            *outcome.flows.entry((from, to)).or_default() += PAGE;
        }
        let moved = (addresses.len() - left.len()) as u64 * PAGE;
        self.run.control.moved_bytes.fetch_add(moved, Relaxed);
        left
    }

    /// Passes pages to one call. Returns why those stay that do.
    fn call(
        &mut self,
        addresses: &[u64],
        to: NodeId,
        again: bool,
        stats: &mut CallStats,
    ) -> Reason {
        let bytes = addresses.len() as u64 * PAGE;
        self.pay(bytes, stats);
        let pace = self.run.options.pacing.pace();
        let cut = cut(addresses, pace.pagelist_bytes);
        let begin = Instant::now();
        let result = self.calls.call(&cut, to);
        let elapsed = begin.elapsed();
        self.stall.learn(CLASS, bytes, elapsed);
        stats.record(addresses.len() as u64, elapsed);
        stats.over_stall += u64::from(elapsed > pace.max_stall);
        stats.retried_addresses += if again { addresses.len() as u64 } else { 0 };
        match result.map(CallStatuses::new) {
            Ok(statuses) => {
                let reason = |index| reason_of(statuses.get(index));
                (0..cut.len()).find_map(reason).unwrap_or(Reason::Busy)
            }
            Err(_) if self.calls.refused.contains(to) => Reason::NotAllowed,
            Err(_) => Reason::Busy,
        }
    }

    /// Most bytes of a call within the rate.
    fn rate_bytes(&self) -> u64 {
        self.rate.as_ref().map_or(u64::MAX, SharedRate::batch_bytes)
    }

    /// Why the run has to stop, if so.
    fn stop(&self) -> Option<Reason> {
        if self.run.control.cancel.load(Relaxed) {
            return Some(Reason::Cancelled);
        }
        self.deadline.filter(|deadline| Instant::now() >= *deadline).map(|_| Reason::OutOfTime)
    }

    /// Bytes that a node can take while its high watermark and reserve stay free.
    fn room(&self, node: NodeId) -> u64 {
        let memory = self.run.memory.read_for(node, Supply::BASE);
        memory.map_or(0, |memory| {
            memory.room(Supply::BASE, self.run.options.reserve(memory.total_bytes))
        })
    }

    /// Waits until the rate allows `bytes`.
    fn pay(&mut self, bytes: u64, stats: &mut CallStats) {
        let pause = self.rate.as_ref().map_or(Duration::ZERO, |rate| rate.take(bytes));
        if !pause.is_zero() {
            stats.held_back += pause;
            self.wait(pause, &mut CallStats::default());
        }
    }

    /// Rests for the work since the last rest.
    fn rest(&mut self, stats: &mut CallStats) {
        self.duty.worked(self.since.elapsed());
        self.since = Instant::now();
        let rest = self.duty.rest(self.share());
        if !rest.is_zero() {
            self.wait(rest, stats);
        }
    }

    /// Waits, or until the run must stop.
    fn wait(&mut self, pause: Duration, stats: &mut CallStats) {
        self.duty.worked(self.since.elapsed());
        let begin = Instant::now();
        wait(pause, &|| self.stop().is_some());
        self.since = Instant::now();
        let waited = self.since - begin;
        stats.rested += waited;
        let share = self.share();
        self.duty.rested(waited, share);
    }

    /// The share of the time for work.
    fn share(&self) -> f64 {
        let pace = self.run.options.pacing.pace();
        f64::from(self.run.limits.duty_percent.unwrap_or(pace.duty_percent)) / 100.0
    }
}

/// Why a page with this status stays, if it does.
fn reason_of(status: PageStatus) -> Option<Reason> {
    match status {
        PageStatus::On(_) | PageStatus::Untried | PageStatus::Unseen => None,
        PageStatus::Tried => Some(Reason::Pinned),
        PageStatus::Busy | PageStatus::Refused(_) => Some(Reason::Busy),
        PageStatus::Shared => Some(Reason::Shared),
        PageStatus::NoMemory => Some(Reason::NoMemory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Node, NodeMemory};
    use std::{fs, io::Write, path::Path};

    /// A file in memory, and the plan to move all of it from the node that it is on to one that is not there.
    fn planned(directory: &Path) -> (PlannedFile, u64) {
        let path = directory.join("file");
        fs::File::create(&path).unwrap().write_all(&vec![7; 3 << 20]).unwrap();
        let file = CachedFile::open(&Roots::default(), &path).expect("tmpfs");
        let cache = file.look(&|| false, &mut |_| {}).expect("it can be mapped");
        let plan = FilePlan::new(&CacheGoal::On("63".parse().unwrap()), &cache);
        let bytes = plan.bytes_to_move;
        (PlannedFile { path, id: file.id(), cache, plan }, bytes)
    }

    fn outcome(admitted: bool, change: impl FnOnce(&Control, &mut RunLimits)) -> FileOutcome {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (file, bytes) = planned(directory.path());
        assert_eq!(bytes, 3 << 20);
        let node =
            |id| Node { id: NodeId(id), cpus: "0".parse().unwrap(), memory: NodeMemory::default() };
        let topology = Topology::new([node(0), node(63)], []);
        let (control, mut limits) = (Control::default(), RunLimits::default());
        change(&control, &mut limits);
        let memory = NodeMemoryReader::new(&Roots::default()).expect("this host has nodes");
        let options = Options::default();
        let (limits, control) = (&limits, &control);
        let (roots, topology) = (&Roots::default(), &topology);
        let (memory, options) = (&memory, &options);
        let run =
            FileRun { roots, topology, memory, options, limits, control, admits: &|_| admitted };
        let outcome = run.carry_out(&[&[file]]).remove(0);
        assert!(outcome.account.closes(), "{outcome:?}");
        assert_eq!(control.settled_bytes.load(Relaxed), bytes);
        outcome
    }

    #[test]
    fn the_account_closes_whatever_keeps_pages() {
        let full = outcome(true, |_, _| {});
        assert_eq!(full.account.left_for(Reason::NoMemory), 3 << 20, "{full:?}");
        let others = outcome(false, |_, _| {});
        assert_eq!(others.account.left_for(Reason::Unreadable), 3 << 20);
        let cancelled = outcome(true, |control, _| control.cancel.store(true, Relaxed));
        assert_eq!(cancelled.account.left_for(Reason::Cancelled), 3 << 20);
        let late = outcome(true, |_, limits| limits.timeout = Some(Duration::ZERO));
        assert_eq!(late.account.left_for(Reason::OutOfTime), 3 << 20);
    }
}
