//! Values and the pure planner of numaloc.
//!
//! Nothing here does IO, reads a clock or holds global state: the host's readers fill these values in,
//! the planner decides over them, the executor reports in them. All amounts of memory are in bytes.
//!
//! | room | what it holds |
//! |---|---|
//! | `machine` | nodes and CPUs, distances, free memory and pools, what room is made of; processes, and where their threads may run |
//! | `memory` | what a survey finds: extents with the nodes that their pages are on, their policies, and who may have them where |
//! | `result` | accounts that close, flows between nodes, calls |
//! | `ask` | what a request asks for: which memory moves, where to, how gently, and what goes first |
//! | [`amount`] | sizes, durations and percentages as people write them |
//! | [`home`] | where the memory of a process belongs, and where it may be |
//! | [`plan`] | the decision ([`planner`]): what moves, by which routes, and what stays and why; the turns of an exchange; copies by DMA |
//! | `views` | looks that move nothing: advice for a host ([`mod@advise`]), the live view and its rotation, pictures by address, what memory of a node costs ([`speed`]) |
//!
//! ## What the planner rests on
//!
//! **An extent is never split by page or node.** It is a range of memory with a fixed set of mappings: a VMA, or the part of a file or
//! shared segment that the same processes map. It carries totals by node, so the size of a plan follows the number of VMAs, however the
//! pages alternate, and addresses are read just before they are used.
//!
//! **A page belongs to the home of the process that maps it.** Equal addresses mean nothing: private memory is an extent of its process
//! alone. Where private memory of several processes has the same origin (a fork, a file) or the same address, the survey first counts
//! the pages that a process maps alone as its own ([`Pages::Own`]; the page map tells which, at no extra cost) and notes where there are
//! others. Only these places are scanned again, through all processes that map them: what they share is an extent of its own for each
//! set of claims ([`Pages::Common`]). Shared claims are joined: at home where it is home for one, allowed where it is allowed for all.
//! Memory that is mapped shared (`MAP_SHARED`) is the same for all processes: one extent, cut at offsets of the object ([`Pages::All`]).
//!
//! **The account closes.** [`Account::found`] is fed by the scan, the other amounts by the settling of each page, and they must agree
//! ([`Account::closes`]). Bytes that no window reached are accounted for by the numbers of the plan, with the reason.
//!
//! **A placement on several nodes divides an extent into stripes.** Which node a folio belongs on is a function of its index, which the
//! kernel uses in the same way (`memory/stripe`). The survey's one pass counts the pages of each stripe by the node that they are on.
//! Each [`Stripe`] is an extent of its own with that one node as its home, so each later step (routes, windows,
//! calls, accounts) is as for a home of one node. The extents of one range are the columns of a sparse matrix: node a
//! page is on, node it belongs on.
//!
//! ## The way from a survey to a plan
//!
//! ```
//! use numaloc_core::{
//!     Extent, Identity, Kind, Mapping, Mempolicy, Node, NodeId, NodeMemory, NodeResidency, Options, Pages, Process,
//!     Residency, Topology,
//!     planner::{Scene, plan},
//! };
//!
//! // Two nodes, each with two CPUs and 8 GiB of free memory.
//! let memory = NodeMemory { total_bytes: 16 << 30, free_bytes: 8 << 30, ..NodeMemory::default() };
//! let node = |id, cpus: &str| Node { id: NodeId(id), cpus: cpus.parse().unwrap(), memory: memory.clone() };
//! let topology = Topology::new([node(0, "0-1"), node(1, "2-3")], []);
//!
//! // A process that runs on node 0.
//! let process = Process {
//!     identity: Identity { pid: 100, start_time: 1 },
//!     comm: "app".into(),
//!     cpus: "0-1".parse().unwrap(),
//!     threads: Vec::new(),
//!     mems_allowed: "0-1".parse().unwrap(),
//!     device_nodes: Default::default(),
//!     swap_bytes: 0,
//!     page_table_bytes: 0,
//!     guest: None,
//! };
//! // Its heap of 64 MiB: 48 MiB of it are on node 1.
//! let on = |bytes| NodeResidency { owned_bytes: bytes, ..NodeResidency::default() };
//! let heap = Extent {
//!     mappings: vec![Mapping { process: 0, start: 0x5555_0000_0000 }],
//!     pages: Pages::All,
//!     bytes: 64 << 20,
//!     kind: Kind::Heap,
//!     policy: Mempolicy::Default,
//!     hugetlb_bytes: None,
//!     mappers: Default::default(),
//!     stripe: None,
//!     rule: None,
//!     name: "[heap]".into(),
//!     residency: Residency {
//!         nodes: [(NodeId(0), on(16 << 20)), (NodeId(1), on(48 << 20))].into(),
//!         ..Residency::default()
//!     },
//! };
//!
//! let scene = Scene { topology: &topology, processes: &[process], caller_mems: &topology.ids() };
//! let plan = plan(scene, [heap], &Options::default());
//! assert_eq!(plan.expected_flows, [((NodeId(1), NodeId(0)), 48 << 20)].into());
//! assert_eq!(plan.locality.movable.percent(), 25.0);
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// What counts pages must not wrap around: conversions are those of `number`, or argued for one by one.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod amount;
mod ask;
pub mod home;
mod machine;
mod memory;
pub mod number;
pub mod plan;
mod result;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
mod views;

pub use ask::{
    compact::{self, Compact},
    directions::{Directions, Resting},
    glob::{Glob, covers_cgroup},
    heat::{self, Heat, HeatSource, Sightings},
    home_rule::{self, HomeRule, NEAR, NEAR_BOUNDS},
    map_rule::{
        self, BadMapRule, MapRule,
        pattern::{BadPattern, Pattern},
    },
    mover_group::{self, DomainValues, GroupName, MoverGroup, Notation},
    options::{self, Options},
    pace::{self, GuardBounds, NumaBalancing, Order, Pace, Pacing, Profile},
    placement::{
        self, BadPlacement, Placement, Portions,
        balance::Shares,
        bandwidth::{ByBandwidth, KnownWeights, UnknownBandwidth, WeightSource},
        tiers::{self, BadTiers, BesideKernel, KeepFast, Tiers, Watch},
        weighted::Weights,
    },
    relief::{self, BadRelief, NodeUse, Relief, ReliefBound},
    temperatures::{Sights, Temperature, Temperatures},
};
pub use home::claim::{self, Belonging, CellHome, Claim, Claims};
pub use machine::{
    guest::{self, Backing, Guest, GuestCell, GuestMemory},
    ids::{self, CpuId, CpuSet, IdSet, NodeId, NodeSet},
    nature::{self, MemoryOrigin, NodeNature, SideCache, StorageDevice, StorageMode},
    process::{self, Identity, Process, Thread, Threads},
    protection::{self, Protection},
    room::{self, CacheStop, MakeRoom, Taken},
    speeds::{self, LatencySource, Speed, SpeedTable, Speeds},
    supply::{self, HugetlbSource, Reserve, Supply},
    tier::{self, NodeKind, Tier, TierSource},
    topology::{self, DaxMemory, HugePool, Node, NodeMemory, Topology},
    traffic::{self, HostTraffic, NodeTraffic, Traffic, TrafficDomain},
};
pub use memory::{
    cell_memory::{self, MappedRange},
    chunks::{self, Chunks},
    claim_set::{self, ClaimSet},
    cycle::{self, Cycle},
    extent::{self, Extent, Kind, Mappers, Mapping, NodeResidency, Pages, Residency},
    file_cache::{self, CachedPart, FileCache},
    fixed::{self, Fixed, FixedKind, FixedMemory},
    grains::{self, Grains},
    held::HeldFile,
    locality::{self, Locality, Share},
    mempolicy::{self, Mempolicy},
    of_kind::MemoryOfKind,
    phase, reservation,
    rule::Rule,
    stripe::{self, Indexing, Origin, Stripe},
};
pub use plan::{
    CommonStay, Move, NamedMemory, OneSided, OpenDevices, Plan, PlannedCell, PlannedProcess,
    Sharer, Sharers, Skip, Skipped, StaysShared, WideThread,
    benefit::{self, Benefit, Waits},
    cache_move, exchange,
    file_plan::{self, BadGoal, CacheGoal, FilePlan},
    offload::{self, Offload, OffloadUse},
    planner,
    route::{self, Route, Routes},
    tier_use::{TierMove, TierUse, UseAmounts},
};
pub use result::{
    account::{self, Account, LATE, Reason},
    outcome::{self, CALL_BOUNDS_US, CallStats, Flows, Moved, Outcome, ProcessOutcome},
};
pub use views::{advise, contents, layout, live, picture, rotation, speed};

/// The smallest base page of kernels that this project supports, in bytes. Bounds of requests and settings are in it, so
/// that a request is valid on each host or on none.
pub const SMALLEST_PAGE: u64 = 4096;

/// The size in bytes of a base page of the kernel that this process runs on (the kernel's PAGE_SIZE): 4 KiB on x86-64;
/// 4, 16 or 64 KiB on arm64. The compiler sees a shift of 1, so that a division by it is one. Loops over single pages read it
/// once, because an atomic stays in a loop.
#[inline]
pub fn page_size() -> u64 {
    1 << numaloc_sys::page_shift()
}

/// The size in bytes of a huge page that one entry of a page middle directory maps (the kernel's HPAGE_PMD_SIZE): 2 MiB,
/// 32 MiB or 512 MiB with base pages of 4, 16 or 64 KiB.
#[inline]
pub fn pmd_size() -> u64 {
    1 << numaloc_sys::pmd_shift()
}

/// Base pages of such a huge page (the kernel's HPAGE_PMD_NR): 512, 2048 or 8192.
#[inline]
pub fn pmd_pages() -> u64 {
    1 << (numaloc_sys::pmd_shift() - numaloc_sys::page_shift())
}
