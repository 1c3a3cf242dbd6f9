//! Values and the pure planner of numaloc.
//!
//! Nothing here does IO, reads a clock or holds global state: the host's readers fill these values in,
//! the planner decides over them, the executor reports in them. All amounts of memory are in bytes.
#![forbid(unsafe_code)]

pub mod account;
pub mod chunks;
pub mod claim;
pub mod claim_set;
pub mod extent;
pub mod heat;
pub mod home;
pub mod home_rule;
pub mod ids;
pub mod locality;
pub mod mempolicy;
pub mod options;
pub mod outcome;
pub mod pace;
pub mod plan;
pub mod planner;
pub mod process;
pub mod room;
pub mod route;
pub mod supply;
pub mod topology;

pub use account::{Account, LATE, Reason};
pub use chunks::Chunks;
pub use claim::{Claim, Claims};
pub use claim_set::ClaimSet;
pub use extent::{Extent, Kind, Mapping, NodeResidency, Pages, Residency};
pub use heat::{Heat, HeatSource, Sightings};
pub use home_rule::HomeRule;
pub use ids::{CpuId, CpuSet, IdSet, NodeId, NodeSet};
pub use locality::{Locality, Share};
pub use mempolicy::Mempolicy;
pub use options::Options;
pub use outcome::{CALL_BOUNDS_US, CallStats, Flows, Moved, Outcome, ProcessOutcome};
pub use pace::{Guard, NumaBalancing, Order, Pace, Pacing, Profile};
pub use plan::{CommonStay, Move, Plan, PlannedProcess, Skip, Skipped, WideThread};
pub use process::{Identity, Process, Thread, Threads};
pub use room::{CacheStop, MakeRoom, Taken};
pub use route::{Route, Routes};
pub use supply::{HugetlbSource, Supply};
pub use topology::{HugePool, Node, NodeMemory, Topology};

/// Size of a base page in bytes on every platform that this project supports (x86-64 and arm64 with 4 KiB pages).
pub const PAGE: u64 = 4096;

/// Size in bytes of a PMD-mapped huge page with 4 KiB base pages.
pub const HUGE: u64 = 2 << 20;
