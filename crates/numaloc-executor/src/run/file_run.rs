//! Moves the page cache of files, piece by piece.
//!
//! A piece is looked at again just before it moves, and once more afterwards: what a call reports is not taken for
//! where a page is. Pages that were dropped or read since the plan are not part of the account.

mod cut;
mod work;

use self::{
    cut::{cut, cut_length},
    work::FileWork,
};
use crate::{
    Control, RunLimits,
    call::{
        page_status::{CallStatuses, PageStatus},
        pagelist,
    },
    limits::{
        calls::Subject,
        rooms::{Reservation, Room},
    },
    pages::{
        cached::{CacheCallError, CacheCalls},
        folio::Class,
    },
    work::rest::{Paced as _, Rests},
};
use numaloc_core::{
    Account, CacheGoal, CallStats, FileCache, FilePlan, Flows, NodeId, NodeSet, Options, Reason,
    Supply, Topology, cache_move::destination, file_cache::piece_bytes, number, page_size,
};
use numaloc_host::{
    CachedFile, CachedPiece, FileId, LookedFile, MappedPages, NodeMemoryReader, Roots, nodes_of,
};
use std::{
    collections::VecDeque,
    fmt,
    path::PathBuf,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

/// The pause before a page is tried for the second time; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(1);

/// Most pieces that are mapped at a time. A process may have 65,530 mappings (vm.max_map_count).
const PIECES: usize = 1024;
/// The inputs of a run over files.
#[derive(Clone, Copy)]
pub struct FileRun<'a> {
    /// Where the host's files are read.
    pub roots: &'a Roots,
    /// Nodes of this machine, with their distances.
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
    pub admits: &'a (dyn Fn(&CachedFile) -> bool + Sync),
    /// Set if only pages move that no process maps; `None`: all of them.
    pub unmapped: Option<Unmapped<'a>>,
}

/// A run over pages that no process maps at this moment, as a part of a migration.
#[derive(Clone, Copy)]
pub struct Unmapped<'a> {
    /// The nodes that they leave.
    pub sources: &'a NodeSet,
    /// Why the migration has to stop, if so.
    pub stop: &'a (dyn Fn() -> Option<Reason> + Sync),
}

impl fmt::Debug for Unmapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmapped").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl fmt::Debug for FileRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRun").finish_non_exhaustive()
    }
}

/// A file, what of it was found in memory, and where that belongs. It is not kept open: there may be many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Path by which the file was named.
    pub path: PathBuf,
    /// Device and inode under that path at that time.
    pub id: FileId,
    /// The cache of the file by node, before the move.
    pub cache: FileCache,
    /// The plan for that cache.
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
    /// Bytes that were on other nodes than they belong on, and their outcome.
    pub account: Account,
    /// Bytes moved, by the node that they were on and the node that they are on.
    pub flows: Flows,
    /// Counts and times of the calls of move_pages(2).
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
    /// Bytes that a node can take while its high watermark and reserve stay free.
    fn free(&self, node: NodeId, supply: Supply) -> u64 {
        let memory = self.memory.read_for(node, supply);
        memory.map_or(0, |memory| memory.room(supply, self.options.reserve(memory.total_bytes)))
    }

    /// Carries the plans out, one file after the other. The result is that of all files of each of the groups.
    pub fn carry_out(&self, groups: &[&[PlannedFile]]) -> Vec<FileOutcome> {
        let planned = groups.iter().flat_map(|files| files.iter());
        let targets = planned.fold(NodeSet::new(), |all, file| all.or(&file.plan.nodes()));
        let work = FileWork::new(self, &targets);
        let mut worker = FileWorker {
            run: *self,
            work: &work,
            rests: Rests::new(&work),
            subject: Subject::File(PathBuf::new()),
            hugetlb_bytes: None,
            calls: match self.unmapped {
                // A page that a process maps meanwhile is not this run's to move.
                Some(_) => CacheCalls::own_only(),
                None => CacheCalls::default(),
            },
            mapped: self.unmapped.and_then(|_| MappedPages::open(self.roots)),
        };
        let group = |files: &&[PlannedFile]| {
            let (mut sum, before) = (FileOutcome::default(), worker.rests.stats());
            files.iter().for_each(|file| sum.add(&worker.file(file)));
            let after = worker.rests.stats();
            sum.calls.rested += after.rested - before.rested;
            sum.calls.held_back += after.held_back - before.held_back;
            sum
        };
        work.pacer.while_at_work(|| groups.iter().map(group).collect())
    }
}

struct FileWorker<'a> {
    run: FileRun<'a>,
    work: &'a FileWork<'a>,
    rests: Rests<'a>,
    /// The file whose cache is moved.
    subject: Subject,
    /// hugetlb page size in bytes, if its pages are such ones.
    hugetlb_bytes: Option<u64>,
    calls: CacheCalls,
    /// Tells which pages others map; `None` if that does not matter, or cannot be read.
    mapped: Option<MappedPages>,
}

impl<'a> FileWorker<'a> {
    fn file(&mut self, planned: &PlannedFile) -> FileOutcome {
        let mut outcome = FileOutcome::default();
        self.subject = Subject::File(planned.path.clone());
        let open =
            if self.run.unmapped.is_some() { CachedFile::open_memory } else { CachedFile::open };
        let file = open(self.run.roots, &planned.path);
        // Another one may have this path by now, or another user this file.
        let file = file.ok().filter(|file| file.id() == planned.id && (self.run.admits)(file));
        self.hugetlb_bytes = file
            .as_ref()
            .map(CachedFile::page_bytes)
            .filter(|page_bytes| *page_bytes > page_size());
        let pieces = planned.cache.pieces();
        let pieces = pieces.map(|parts| (parts[0].piece, planned.plan.bytes_elsewhere(parts)));
        let mut pieces = pieces.filter(|(_, bytes)| *bytes > 0).peekable();
        while pieces.peek().is_some() {
            // As much as a call may hold, and one piece at least.
            let most = self.work.pacer.batch_bytes(self.class()).max(piece_bytes());
            let (mut span, mut bytes) = (Vec::new(), 0);
            while let Some(piece) =
                pieces.next_if(|piece| span.len() < PIECES && bytes + piece.1 <= most)
            {
                bytes += piece.1;
                span.push(piece);
            }
            self.span(file.as_ref(), &span, &planned.plan, &mut outcome);
            self.run.control.settled_bytes.fetch_add(bytes, Relaxed);
            self.rests.rest();
        }
        outcome
    }

    fn page_bytes(&self) -> u64 {
        self.hugetlb_bytes.unwrap_or(page_size())
    }

    /// Where pages for the file are taken from.
    fn supply(&self) -> Supply {
        self.run.options.supply(self.hugetlb_bytes)
    }

    /// The folios of a file are not known, and their pages are passed one by one.
    fn class(&self) -> Class {
        self.hugetlb_bytes.map_or(Class::Base, Class::Hugetlb)
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
        let mut groups: Vec<(NodeId, NodeSet, VecDeque<Vec<u64>>)> = Vec::new();
        for &(number, expected) in span {
            let piece = match self.work.stop() {
                Some(reason) => Err(reason),
                None => file.and_then(|file| self.piece(file, number)).ok_or(Reason::Unreadable),
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
            let sources = self.run.unmapped.map(|unmapped| unmapped.sources);
            let elsewhere = piece.elsewhere(&nodes).into_iter();
            let is_source = |(from, _): &(NodeId, Vec<u64>)| {
                sources.is_none_or(|sources| sources.contains(*from))
            };
            for (from, addresses) in elsewhere.filter(is_source) {
                outcome.account.found(addresses.len() as u64 * self.page_bytes());
                match groups.iter_mut().find(|group| group.0 == from && group.1 == nodes) {
                    Some((.., all)) => all.push_back(addresses),
                    None => groups.push((from, nodes.clone(), [addresses].into())),
                }
            }
            mapped.push(piece);
        }
        for (from, nodes, addresses) in groups {
            self.group(&Group { from, nodes, mapped: &mapped }, addresses, outcome);
        }
    }

    /// The pages of a piece that the run is about; `None` if they cannot be looked at.
    fn piece(&mut self, file: &CachedFile, number: u64) -> Option<CachedPiece> {
        match self.run.unmapped {
            Some(_) => self.mapped.as_mut()?.unmapped_piece(file, number),
            None => file.piece(number).ok(),
        }
    }

    /// Moves pages of some pieces: up to the size of a call and the room on the node at once.
    fn group(
        &mut self,
        group: &Group<'_>,
        mut pieces: VecDeque<Vec<u64>>,
        outcome: &mut FileOutcome,
    ) {
        while let Some(first) = pieces.front() {
            let among = group.nodes.minus(&self.calls.refused);
            let first = first.len();
            let most = number::index(
                (self.work.pacer.batch_bytes(self.class()) / self.page_bytes()).max(1),
            );
            let all = cut_length(pieces.iter().map(Vec::len), most);
            let granted = self.room(group.from, &among, all, first);
            let Some((room, to)) = granted.filter(|_| self.work.stop().is_none()) else {
                let reason = match (self.work.stop(), among.is_empty()) {
                    (Some(reason), _) => reason,
                    (None, true) => Reason::NotAllowed,
                    (None, false) => Reason::NoMemory,
                };
                let rest: Vec<u64> = pieces.into_iter().flatten().collect();
                // A large folio moves whole, so some may have moved with the pages before them.
                let left = self.settle(group, rest, |on| group.nodes.contains(on), outcome);
                outcome.account.left(reason, left.len() as u64 * self.page_bytes());
                return;
            };
            let room_pages = number::index(room.bytes / self.page_bytes());
            let count = cut_length(pieces.iter().map(Vec::len), room_pages);
            let now = cut(&mut pieces, count);
            self.carry(group, to, now.addresses, outcome);
            drop(room);
            if now.is_within_piece
                && let Some(rest) = pieces.pop_front()
            {
                let left = self.settle(group, rest, |on| group.nodes.contains(on), outcome);
                pieces.extend(Some(left).filter(|left| !left.is_empty()));
                pieces.rotate_right(usize::from(!pieces.is_empty()));
            }
            if !pieces.is_empty() {
                self.rests.rest();
            }
        }
    }

    /// Reserves room for `all` pages on one of the nodes, or for fewer: at least for those of the `first` piece, or for a whole piece
    /// ([`piece_bytes`]). Waits for runs that share the room.
    fn room(
        &mut self,
        from: NodeId,
        among: &NodeSet,
        all: usize,
        first: usize,
    ) -> Option<(Reservation<'a>, NodeId)> {
        let work = self.work;
        let (page_bytes, supply) = (self.page_bytes(), self.supply());
        let least = all.min(first.min(number::index(piece_bytes() / page_bytes)));
        loop {
            let mut count = all;
            let mut to = self.destination(from, among, count);
            while to.is_none() && count > least {
                count = (count / 2).max(least);
                to = self.destination(from, among, count);
            }
            let to = to?;
            let pages = |count: usize| count as u64 * page_bytes;
            let free = || self.run.free(to, supply);
            match work.rooms.take((to, self.hugetlb_bytes), pages(count), pages(least), true, free)
            {
                Room::Granted(room) => return Some((room, to)),
                Room::Unsettled if work.stop().is_none() => self.rests.await_others(),
                Room::Unsettled | Room::None => return None,
            }
        }
    }

    fn destination(&self, from: NodeId, among: &NodeSet, pages: usize) -> Option<NodeId> {
        let (supply, bytes) = (self.supply(), pages as u64 * self.page_bytes());
        destination(self.run.topology, from, among, bytes, |to| self.run.free(to, supply))
    }

    /// Moves pages to a node, with a few tries.
    fn carry(
        &mut self,
        group: &Group<'_>,
        to: NodeId,
        mut addresses: Vec<u64>,
        outcome: &mut FileOutcome,
    ) {
        let mut reason = Reason::Busy;
        for attempt in 0..self.run.limits.attempts {
            if attempt > 0 {
                self.rests.pause(PAUSE * (1 << (attempt - 1)));
            }
            if let Some(stop) = self.work.stop() {
                reason = stop;
                break;
            }
            reason = match self.call(&addresses, to, attempt > 0, &mut outcome.calls) {
                Ok(reason) => reason,
                Err(stop) => {
                    reason = stop;
                    break;
                }
            };
            addresses = self.settle(group, addresses, |on| on == to, outcome);
            if addresses.is_empty() {
                return;
            }
        }
        outcome.account.left(reason, addresses.len() as u64 * self.page_bytes());
    }

    /// Counts pages that are where they belong as moved and uncached ones as vanished, and returns the others.
    fn settle(
        &self,
        group: &Group<'_>,
        addresses: Vec<u64>,
        is_there: impl Fn(NodeId) -> bool,
        outcome: &mut FileOutcome,
    ) -> Vec<u64> {
        let on = nodes_of(&addresses).unwrap_or_else(|_| vec![None; addresses.len()]);
        let (mut left, mut moved_bytes, page_bytes) = (Vec::new(), 0, self.page_bytes());
        for (address, on) in addresses.into_iter().zip(on) {
            match on {
                Some(to) if is_there(to) => {
                    moved_bytes += page_bytes;
                    *outcome.flows.entry((group.from, to)).or_default() += page_bytes;
                }
                None if group.is_gone(address) => outcome.account.vanished(page_bytes),
                _ => left.push(address),
            }
        }
        outcome.account.moved(moved_bytes);
        self.run.control.moved_bytes.fetch_add(moved_bytes, Relaxed);
        left
    }

    /// Passes pages to one call, once the rates allow it. Returns why those stay that do.
    ///
    /// # Errors
    /// Why no call may be made any more.
    fn call(
        &mut self,
        addresses: &[u64],
        to: NodeId,
        again: bool,
        stats: &mut CallStats,
    ) -> Result<Reason, Reason> {
        let bytes = addresses.len() as u64 * self.page_bytes();
        self.rests.pay(bytes);
        if let Some(stop) = self.work.stop() {
            return Err(stop);
        }
        let pace = self.run.options.pacing.pace();
        let list_bytes = pace.pagelist_bytes.map(|bytes| bytes * page_size() / self.page_bytes());
        let cut = pagelist::cut(addresses, list_bytes);
        let begin = Instant::now();
        let result = self.calls.call(&self.work.bounds(), &self.subject, &cut, to);
        let elapsed = result.as_ref().map_or_else(|_| begin.elapsed(), |(_, took)| *took);
        let is_long = self.work.pacer.learn(self.class(), bytes, elapsed);
        stats.record(addresses.len() as u64, elapsed);
        stats.over_stall += u64::from(is_long);
        stats.retried_addresses += if again { addresses.len() as u64 } else { 0 };
        Ok(match result.map(|(statuses, _)| CallStatuses::new(statuses)) {
            Ok(statuses) => {
                let reason = |index| reason_of(statuses.get(index));
                (0..cut.len()).find_map(reason).unwrap_or(Reason::Busy)
            }
            Err(CacheCallError::NotReturned) => return Err(Reason::NotReturned),
            Err(_) if self.calls.refused.contains(to) => Reason::NotAllowed,
            Err(_) => Reason::Busy,
        })
    }
}

/// Pages that go to the same nodes.
struct Group<'a> {
    /// The node that they were on.
    from: NodeId,
    /// The nodes that they may be on.
    nodes: NodeSet,
    /// The pieces that they are of.
    mapped: &'a [CachedPiece],
}

impl Group<'_> {
    /// Whether a page is no longer in the page cache.
    fn is_gone(&self, address: u64) -> bool {
        self.mapped.iter().find_map(|piece| piece.is_gone(address)).unwrap_or(false)
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
mod tests;
