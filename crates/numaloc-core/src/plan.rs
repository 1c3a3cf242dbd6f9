//! A plan: decisions and totals, never page addresses.

mod aside;
pub mod benefit;
pub mod blocks;
pub mod cache_move;
pub mod exchange;
pub mod file_plan;
pub mod offload;
mod planned_cell;
pub mod planner;
pub mod route;
mod sharers;
pub mod surplus;
pub mod tier_use;

pub use aside::Aside;
pub use planned_cell::PlannedCell;
pub use sharers::{Sharer, Sharers, StaysShared};

use crate::{
    ask::{
        heat::{HeatSource, MEASURING},
        options::Options,
        pace::{Order, Profile},
    },
    machine::{
        ids::{CpuSet, NodeId, NodeSet},
        process::{Process, Thread, Threads},
        room::Taken,
    },
    memory::{
        chunks::Chunks,
        extent::{Kind, Mappers, Mapping, Pages, Residency},
        fixed::FixedMemory,
        held::HeldFile,
        locality::{Locality, Share},
        of_kind::MemoryOfKind,
        reservation::search_seconds,
        rule::Rule,
        stripe::Stripe,
    },
    plan::{
        benefit::{Benefit, Waits},
        route::Routes,
        tier_use::TierUse,
    },
    result::{account::Reason, outcome::Flows},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Why nothing of a process is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// All nodes with memory are local to it, so no node is remote.
    NoTargetNode,
    /// It has no online CPU.
    NoLocalMemory,
    /// Its memory is to be on several nodes, and its CPUs are on one.
    OneNode,
}

impl Skip {
    /// Stable text, in words that users of other page movers know.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoTargetNode => "no target node",
            Self::NoLocalMemory => "no local node has memory",
            Self::OneNode => "only one node for a placement on several",
        }
    }
}

/// A process with its local nodes and where its memory is.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedProcess {
    /// The process as the survey found it; [`Mapping::process`] is its index in the plan.
    pub process: Process,
    /// Nodes where its memory belongs.
    pub home: NodeSet,
    /// Home nodes that the request names and that are local to none of the process's CPUs.
    pub away: NodeSet,
    /// Its threads that may run on nodes where the busiest threads may not: the reason for a home of several nodes.
    pub wide_threads: Vec<Threads>,
    /// Set if nothing of it is moved.
    pub skip: Option<Skip>,
    /// Resident bytes by node of the memory that it alone maps within the target.
    pub resident: BTreeMap<NodeId, u64>,
    /// The share of its resident memory on home nodes.
    pub locality: Locality,
    /// Locality of all memory that is counted for this process. Memory that several processes map is counted for the
    /// first of them. The sum over all processes is the plan's locality.
    pub counted: Locality,
    /// Bytes of the counted memory that are not at home, by the node they are on.
    pub remote: BTreeMap<NodeId, u64>,
    /// The cells of the guest that it runs, if their memory belongs on the nodes of their vCPUs.
    pub cells: Vec<PlannedCell>,
}

/// Largest number of wide threads that are shown by name.
const WIDE_SHOWN: usize = 16;

/// One of the [`PlannedProcess::wide_threads`]: a thread that may run beyond the home of its process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WideThread<'a> {
    /// The thread, with the CPUs of its own.
    pub thread: &'a Thread,
    /// CPUs that it may run on.
    pub cpus: &'a CpuSet,
    /// Its share of the CPU time that all threads have used since they started, in percent.
    pub cpu_percent: f64,
}

impl PlannedProcess {
    /// Number of wide threads.
    pub fn wide_thread_count(&self) -> usize {
        self.wide_threads.iter().map(|threads| threads.count).sum()
    }

    /// The busiest of the wide threads, busiest first.
    pub fn wide_threads_by_name(&self) -> Vec<WideThread<'_>> {
        let all: Duration = self.process.threads.iter().map(|threads| threads.cpu_time).sum();
        let percent = |time: Duration| {
            if all.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / all.as_secs_f64() }
        };
        let named = self
            .wide_threads
            .iter()
            .flat_map(|threads| threads.busiest.iter().map(|thread| (thread, &threads.cpus)));
        let mut named: Vec<_> = named
            .map(|(thread, cpus)| WideThread {
                thread,
                cpus,
                cpu_percent: percent(thread.cpu_time),
            })
            .collect();
        named.sort_by_key(|wide| (Reverse(wide.thread.cpu_time), wide.thread.tid));
        named.truncate(WIDE_SHOWN);
        named
    }
}

/// Devices that a process has open and that access its memory themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDevices {
    /// The index of the process in the plan.
    pub process: usize,
    /// The paths of the files.
    pub paths: Vec<String>,
}

/// Shared memory that processes with different homes map, and that is on one of those nodes for the most part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneSided {
    /// Path or name as in /proc/PID/maps.
    pub name: Arc<str>,
    /// The homes of the processes together.
    pub home: NodeSet,
    /// The node with most of it.
    pub node: NodeId,
    /// Bytes there.
    pub bytes: u64,
    /// All of it that is resident, in bytes.
    pub total_bytes: u64,
    /// Number of processes of the target that map it.
    pub processes: usize,
}

/// An extent with pages to move.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// All mappings of the extent in the target.
    pub mappings: Vec<Mapping>,
    /// The pages of the range that belong to the extent.
    pub pages: Pages,
    /// The part of these pages on one node, if they belong on several nodes in turn.
    pub stripe: Option<Stripe>,
    /// The rule or cell that decides where it belongs, as [`Extent::rule`](crate::Extent).
    pub rule: Option<Rule>,
    /// Length of its range in bytes, resident or not.
    pub bytes: u64,
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// hugetlb page size in bytes, if it is hugetlb memory.
    pub hugetlb_bytes: Option<u64>,
    /// The source from which the mappers of its pages are known.
    pub mappers: Mappers,
    /// Path or name as in /proc/PID/maps.
    pub name: Arc<str>,
    /// Index into [`Plan::routes`]: the targets of its pages by source node.
    pub routes: usize,
    /// Bytes to move, by the node they are on.
    pub remote: BTreeMap<NodeId, u64>,
    /// Remote bytes of the extent that stay because processes outside the target map them too.
    pub shared_bytes: u64,
    /// Chunks that hold all remote bytes; other chunks need not be looked at.
    pub away: Chunks,
}

impl Move {
    /// All remote bytes: bytes to move, and bytes that stay because they are shared.
    pub fn remote_bytes(&self) -> u64 {
        self.remote.values().sum::<u64>() + self.shared_bytes
    }
}

/// The memory that one of the rules of a request names ([`Options::maps`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedMemory {
    /// Resident bytes by node, each page counted once.
    pub resident: BTreeMap<NodeId, u64>,
    /// Bytes to move, whether there is room for them now or not.
    pub bytes_to_move: u64,
}

impl NamedMemory {
    /// Adds an extent of which this many bytes are to move.
    pub(crate) fn count(&mut self, residency: &Residency, bytes_to_move: u64) {
        for (&node, on_node) in &residency.nodes {
            *self.resident.entry(node).or_default() += on_node.total_bytes();
        }
        self.bytes_to_move += bytes_to_move;
    }
}

/// A range of private memory whose pages with several mappings stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonStay {
    /// Where the processes of the target map it.
    pub mappings: Vec<Mapping>,
    /// Length of the range in bytes.
    pub bytes: u64,
}

/// Remote bytes of an extent that no batch will touch, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// One of its mappings, with the address there.
    pub mapping: Mapping,
    /// Kind of memory that backs its pages.
    pub kind: Kind,
    /// Path or name as in /proc/PID/maps.
    pub name: Arc<str>,
    /// Why no batch will touch these pages.
    pub reason: Reason,
    /// Remote bytes that stay; local ones are not counted.
    pub remote_bytes: u64,
}

/// The planned moves, what stays and why, and the expected result.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The options of the request that this plan answers.
    pub options: Options,
    /// The target's processes; mappings refer to them by index.
    pub processes: Vec<PlannedProcess>,
    /// Resident bytes by node of the memory that several of the processes map.
    pub family_resident: BTreeMap<NodeId, u64>,
    /// The share of that memory on home nodes.
    pub family_locality: Locality,
    /// All resident memory of the target by kind.
    pub kinds: Vec<MemoryOfKind>,
    /// One entry for each set of target nodes in use.
    pub routes: Vec<Routes>,
    /// Extents to visit, in order.
    pub moves: Vec<Move>,
    /// Extents with remote pages that stay.
    pub skipped: Vec<Skipped>,
    /// Ranges of pages with several mappings ([`Pages::Common`]) of which no move takes any. Their remote bytes are
    /// counted in `skipped`, and do not belong to the moves of single-mapped pages in the same places.
    pub common_stays: Vec<CommonStay>,
    /// The memory that each rule of the request names, in the order of the rules.
    pub named: Vec<NamedMemory>,
    /// Mapped memory that can never move, by kind.
    pub fixed: FixedMemory,
    /// Locality of the target now, each page counted once. Without what can never move.
    pub locality: Locality,
    /// Bytes that will move if nothing intervenes.
    pub expected_bytes: u64,
    /// The part of them that finds no room at home, and goes to nodes that are nearer to it than where it is.
    pub nearer_bytes: u64,
    /// The part of them that leaves nodes near to home.
    pub near_left_bytes: u64,
    /// The part of them that goes to nodes near to home.
    pub near_came_bytes: u64,
    /// The part of `nearer_bytes` that is not hugetlb memory, by (source, best home node) and the node that it goes to.
    pub aside: BTreeMap<(NodeId, NodeId), BTreeMap<NodeId, Aside>>,
    /// Bytes by (source, target) that will move if nothing intervenes.
    pub expected_flows: BTreeMap<(NodeId, NodeId), u64>,
    /// Bytes to move that are in transparent huge pages, as far as they were looked at.
    pub huge_bytes: u64,
    /// Where the room for the expected bytes comes from, by target.
    pub expected_room: BTreeMap<NodeId, Taken>,
    /// Nodes whose memory the kernel demotes when it makes room ([`Topology::demoting`](crate::Topology::demoting)).
    pub demoting: NodeSet,
    /// Hugetlb pools of which this takes the last unreserved page, by target and page size in bytes.
    pub used_up_pools: BTreeSet<(NodeId, u64)>,
    /// Page cache on targets that is not dropped although room is short, because cgroups protect it (memory.min, memory.low).
    pub protected_cache: BTreeMap<NodeId, u64>,
    /// Bytes that are to move but have no room on any target now.
    pub no_room_bytes: u64,
    /// The part that is not hugetlb memory, by (source, best target).
    pub no_room: BTreeMap<(NodeId, NodeId), u64>,
    /// Bytes of hugetlb memory for which the pools of the target nodes have no pages. The options
    /// ([`HugetlbSource`](crate::HugetlbSource)) decide: either they get fresh pages from free memory and are expected
    /// to move, or they have no room.
    pub beyond_pool_bytes: u64,
    /// The run ends when this number of bytes has moved. Set for a target ratio or a relief that needs less than all remote bytes.
    pub limit_bytes: Option<u64>,
    /// A guess at the time that the copying takes on bare metal, in seconds.
    pub expected_seconds: f64,
    /// Present pages whose node could not be determined, in bytes.
    pub unplaced_bytes: u64,
    /// Resident bytes by node of attached shared memory that no process maps at this moment ([`Pages::Unmapped`]). They are part of
    /// all sums.
    pub unmapped: BTreeMap<NodeId, u64>,
    /// Most bytes of attached shared memory that may be resident, mapped by no process, and that could not be looked at
    /// ([`Surveyed::unseen_bytes`](crate::planner::Surveyed)). They are part of no sum.
    pub unseen_bytes: u64,
    /// Whether page frames are hidden from this process ([`Surveyed::frames_hidden`](crate::planner::Surveyed)).
    pub frames_hidden: bool,
    /// Bytes to move in memory whose policy was not read ([`crate::Mempolicy::Unasked`]). If the application has bound
    /// this memory, it stays after all.
    pub unasked_bytes: u64,
    /// The method that finds the most used memory, which is moved first: see [`Self::hottest_first`].
    pub order: HeatSource,
    /// Mean latency of the memory to move, before and after the move; `None` if nothing is to move.
    pub waits: Option<Waits>,
    /// Bytes that a placement on several nodes is about and that no memory policy binds, so that kernel.numa_balancing may move them
    /// again; 0 where that is off.
    pub exposed_bytes: u64,
    /// Bytes to be moved that the kernel's NUMA balancing could move away again if it is on: neither hugetlb memory, nor with a policy, nor
    /// of processes whose cpuset allows one node alone. Without the ranges of placements by amounts.
    pub undoable_bytes: u64,
    /// Devices that processes have open and that access memory themselves. Looked up for placements on several nodes alone.
    pub devices: Vec<OpenDevices>,
    /// Shared memory that counts as local and is remote to some of the processes that use it, the largest first, at most 16.
    pub one_sided: Vec<OneSided>,
    /// Files in memory that processes have open and none has mapped, the largest first, where they were looked up. They are part of no sum.
    pub held: Vec<HeldFile>,
    /// Bytes of attached shared memory that are in swap. They are part of no sum.
    pub swapped_shared_bytes: u64,
    /// The processes that map memory which stays shared, where they were looked up.
    pub sharers: Option<Sharers>,
    /// How much of the memory is used, of a placement on two tiers by use.
    pub tiers: Option<TierUse>,
}

/// With [`Order::Probed`], measure only if the move takes at least this many times as long. So the measurement delays a
/// move by at most a tenth.
const WORTH: u32 = 10;

impl Plan {
    /// Whether the kernel's NUMA balancing, if it is on, could undo part of this plan's moves.
    pub fn can_be_undone(&self) -> bool {
        self.undoable_bytes > 0 || self.exposed_bytes > 0
    }

    /// Has the most used memory moved first, found as `source` says. With [`Order::Probed`] it is asked only if that is worth it: the
    /// profile is not `fast`, and the move takes long enough.
    ///
    /// # Errors
    /// The errors of `source`.
    pub fn hottest_first<E>(
        self,
        source: impl FnOnce() -> Result<HeatSource, E>,
    ) -> Result<Self, E> {
        let pacing = &self.options.pacing;
        let takes = f64::from(WORTH) * MEASURING.as_secs_f64();
        let is_worth_it = pacing.profile != Profile::Fast && self.paced_seconds() >= takes;
        match self.options.order {
            Order::Probed if !is_worth_it => Ok(self),
            _ => Ok(Self { order: source()?, ..self }),
        }
    }

    /// Bytes that a run will try to move.
    pub fn planned_bytes(&self) -> u64 {
        let remote: u64 = self.moves.iter().flat_map(|each| each.remote.values()).sum();
        remote.min(self.limit_bytes.unwrap_or(u64::MAX))
    }

    /// A guess at the time that the move takes on bare metal at its pace, in seconds: copying, what room for it takes beyond that, and
    /// reading through the holes of reservations.
    pub fn paced_seconds(&self) -> f64 {
        let share = f64::from(self.options.pacing.pace().duty_percent) / 100.0;
        let search = |each: &Move| search_seconds(each.away.bytes(), each.remote_bytes());
        let searching: f64 = self.moves.iter().map(search).sum();
        self.expected_seconds / share + self.room_seconds(share) + searching
    }

    /// Seconds that the pace allows for room by page cache, beyond the copying of the memory that takes the room,
    /// which has this share of the time: both continue together. Free memory costs nothing, and what the pace does
    /// not bound is not known.
    fn room_seconds(&self, share: f64) -> f64 {
        let Some(rate) = self.options.pacing.pace().drop_bytes_per_second else { return 0.0 };
        let cache_bytes: u64 = self.expected_room.values().map(|taken| taken.cache_bytes).sum();
        if cache_bytes == 0 || self.expected_bytes == 0 {
            return 0.0;
        }
        let cache_bytes = cache_bytes as f64;
        let copying = self.expected_seconds * cache_bytes / self.expected_bytes as f64;
        (cache_bytes / rate as f64 - copying / share).max(0.0)
    }

    /// Room on targets: where what is expected to move finds it, and bytes of page cache that are left because cgroups protect
    /// them.
    pub fn rooms(&self) -> impl Iterator<Item = (NodeId, Taken, u64)> {
        let nodes: BTreeSet<&NodeId> =
            self.expected_room.keys().chain(self.protected_cache.keys()).collect();
        nodes.into_iter().map(|node| {
            let taken = self.expected_room.get(node).copied().unwrap_or_default();
            (*node, taken, self.protected_cache.get(node).copied().unwrap_or(0))
        })
    }

    /// Bytes that the plan itself leaves where they are, by reason.
    pub fn skipped_bytes(&self) -> BTreeMap<Reason, u64> {
        let mut by_reason = BTreeMap::new();
        for skipped in &self.skipped {
            *by_reason.entry(skipped.reason).or_default() += skipped.remote_bytes;
        }
        let shared: u64 = self.moves.iter().map(|planned_move| planned_move.shared_bytes).sum();
        if shared > 0 {
            *by_reason.entry(Reason::Shared).or_default() += shared;
        }
        by_reason
    }

    /// Locality of the movable memory once the plan has been carried out in full.
    pub fn expected_share(&self) -> Share {
        self.after(self.locality.movable)
    }

    /// Locality of all memory once the plan has been carried out in full.
    pub fn expected_overall(&self) -> Share {
        self.after(self.locality.overall)
    }

    fn after(&self, before: Share) -> Share {
        let homecoming = self.expected_bytes - self.nearer_bytes;
        let near_bytes = before.near_bytes + self.near_came_bytes;
        Share {
            local_bytes: before.local_bytes + homecoming,
            remote_bytes: before.remote_bytes.saturating_sub(homecoming),
            near_bytes: near_bytes.saturating_sub(self.near_left_bytes),
            demoted_bytes: before.demoted_bytes,
        }
    }

    /// The part of the bytes moved of a process that went to a node nearer than its own, because home had no room.
    pub fn nearer_of(&self, process: usize, flows: &Flows) -> u64 {
        let home = &self.processes[process].home;
        let is_beyond = |from: NodeId, to: NodeId| {
            self.routes.iter().any(|routes| routes.nearer(from).contains(&to))
        };
        let beyond =
            flows.iter().filter(|((from, to), _)| !home.contains(*to) && is_beyond(*from, *to));
        beyond.map(|(_, bytes)| bytes).sum()
    }

    /// The benefit of the move; `None` if nothing is expected to move.
    pub fn benefit(&self) -> Option<Benefit> {
        self.waits?.benefit(self.expected_bytes, self.locality.overall.bytes())
    }

    /// Whether every process is skipped.
    pub fn is_skipped(&self) -> bool {
        self.processes.iter().all(|process| process.skip.is_some())
    }
}
