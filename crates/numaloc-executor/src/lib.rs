//! Carries out a plan: scans afresh, builds batches of folios, calls move_pages(2), verifies where pages are, and keeps an
//! account that closes.
//!
//! The executor chooses no targets: it follows the plan's routes. It reads addresses just before it uses
//! them: a page's address is kept until its batch is full, and for a retry the page is looked up again.
//!
//! [`execute()`] begins a run. Its parts, in the order of their work:
//!
//! | modules | what they do |
//! |---|---|
//! | `assignment`, `limits`, `execute`, `work`, `windows` | what a run is given; start the workers, share out windows of the plan and room on the targets |
//! | `worker`, `cover`, `find`, `folio`, `row` | a worker finds the pages of a window that belong to it, as folios |
//! | `batch`, `pending`, `key`, `call`, `pagelist` | put folios into calls of move_pages(2) |
//! | `page_status`, `verify`, `fate` | what the kernel answered, where pages are now, what becomes of those that did not move |
//! | `hint`, `deferred`, `retry` | pages that are tried again: NUMA-hint entries at once, others later |
//! | `cache`, `ways`, `rooms`, `drops` | how room is made on a full target: the kernel drops page cache; what all runs together do there |
//! | `cache_moving`, `moved_cache` | how room is made by page cache that moves to another node |
//! | `beside`, `exchange`, `allowance`, `partners`, `others` | how others make room on a full target: their memory leaves it |
//! | `blocks`, `compaction` | free blocks on a target for huge pages |
//! | `pacer`, `stall`, `duty`, `rate`, `rest` | the pace: how much a call holds, and how long a worker rests |
//! | `watch`, `guard`, `spell`, `brake`, `splits` | what slows the run down: pressure, busy nodes, split huge pages |
//! | `affinity`, `placement` | the CPUs that the workers run on |
//! | [`calibrate`] | how fast this host moves memory, for whoever asks whether a DMA engine pays |
//! | `report`, `ledger`, `sample`, `control` | what was done, a sample of what was moved, and what others see meanwhile |
#![forbid(unsafe_code)]

mod affinity;
mod allowance;
mod assignment;
mod batch;
mod beside;
mod blocks;
mod brake;
mod cache;
mod cache_moving;
pub mod calibrate;
mod call;
mod compaction;
mod control;
mod cover;
mod deferred;
mod drops;
mod duty;
mod exchange;
mod execute;
mod fate;
mod find;
mod folio;
mod guard;
mod hint;
mod key;
mod ledger;
mod limits;
mod moved_cache;
mod others;
mod pacer;
mod page_status;
mod pagelist;
mod partners;
mod pending;
mod placement;
mod rate;
mod report;
mod rest;
mod retry;
mod rooms;
mod row;
mod sample;
#[cfg(test)]
mod simulation;
mod spell;
mod splits;
mod stall;
mod verify;
mod watch;
mod ways;
mod windows;
mod work;
mod worker;

pub use assignment::Assignment;
pub use beside::{Partner, Partners, execute_with};
pub use control::Control;
pub use execute::execute;
pub use limits::{RunLimits, Scheduling};
pub use numaloc_core::{CallStats, Outcome, ProcessOutcome};
pub use partners::{InOrder, homes};
pub use rate::SharedRate;
pub use rooms::SharedRooms;
