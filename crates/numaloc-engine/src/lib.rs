//! Scans targets, plans and moves, on this host: for the daemon's clients, and for the command line in its own process.
//!
//! **A target is what its owner means by it.** Names of workloads stand for workloads that the owner has registered or
//! may have moved; pids for the processes that had them when the record was made. Members that do not exist are data,
//! by the name that the client gave them ([`Aim`]): a target is gone only when all its members are.
//!
//! **A run is for processes or for files** (`files`), whose page cache is planned and moved by path, with the same
//! results.
//!
//! **Each member is judged on its own** ([`Members`]). One that is gone, owned by another user or not readable takes no
//! part, and the others continue. Counts of the planner and results of the executor by process are added up for the
//! processes of each member.
//!
//! **The right to a process is checked before and after it is held,** also of processes that join during a run
//! (`joining`) and of partners, whose registrar has to have it as well (`partners`).
//!
//! Every function blocks. The callers decide who may ask, and how many at a time.
//!
//! | modules | what they do |
//! |---|---|
//! | [`Aim`], `labelled` | a target, resolved on this host |
//! | [`Authority`], `authority` | owners whose memory may be scanned and moved |
//! | [`Look`], `advice` | locality, plans and advice |
//! | [`RunOrder`], [`PlannedRun`] | a migration: planned, then carried out |
//! | `answers` | the messages of the API for all of these |
//! | [`MoverGroup`] | the resctrl group in which memory is moved |
//! | [`balancing`] | pauses the kernel's own NUMA balancing for a run, and restores it |

// What counts pages must not wrap around: conversions are those of `numaloc_core::number`, or argued for one by one.
#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]
#![warn(missing_docs)]

mod advice;
mod aim;
mod answers;
pub mod authority;
pub mod balancing;
mod error;
mod files;
mod find;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod joining;
mod labelled;
mod local;
mod look;
mod members;
mod mover_group;
mod offers;
mod offload;
mod order;
mod partners;
mod planned;
mod result;
mod returned;
mod run;

pub use advice::{Advised, BeforeAdvice};
pub use aim::{Aim, Member, exactly, pin};
pub use authority::Authority;
pub use error::Error;
pub use local::Local;
pub use look::{Look, LookedAt};
pub use members::Members;
pub use mover_group::MoverGroup;
pub use offers::{Offer, Offers};
pub use offload::OffloadAccess;
pub use order::RunOrder;
pub use result::{Ended, FoundTarget, Planned, Returned, Trail};
pub use run::PlannedRun;
