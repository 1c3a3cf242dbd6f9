//! Carries out a plan: scans afresh, builds batches of folios, calls move_pages(2), verifies where pages are, and keeps an
//! account that closes.
//!
//! The executor chooses no targets: it follows the plan's routes. It reads addresses just before it uses
//! them: a page's address is kept until its batch is full, and for a retry the page is looked up again.
//!
//! [`Migration`] is the way in: it plans, runs and looks again. `execute` begins a run. Its parts, in the order of their work:
//!
//! | room | what happens there |
//! |---|---|
//! | `limits` | what a run is given and bounded by, what others see of it, and what all runs of a daemon share: room, rates, compactions |
//! | `run` | a migration as a whole: survey, plan, the run, its partners, the look afterwards; the workers of a run |
//! | `work` | what the workers share: windows of the plan, reports, rests |
//! | `pages` | the pages of a window that belong to a worker, as folios, and where they are after a call |
//! | `call` | folios are put into calls of move_pages(2), the kernel's answers and the verification settle them; pages that are tried again |
//! | `room` | how much a target can take, and how room is made on a full one: a `RoomMaker` each for dropped cache, moved cache and an exchange |
//! | `pace` | how much a call holds, how long a worker rests, and what slows it down: pressure, busy nodes, split huge pages |
//! | `threads` | the CPUs that the workers run on |
//!
//! ## How memory is moved
//!
//! **The kernel's answer is a hint, the verification is the result.** The statuses of a call tell why a page did not move
//! (`page_status`); whether it moved is read from the page map again, page by page (`verify`), because a folio may have been split, or
//! unmapped in part, since it was found. A call that ends early leaves statuses unwritten: the first unwritten stretch was tried, what
//! follows was not. Pages that failed are visited again at the end, with growing pauses and a fresh scan (`retry`). Until then a bit is
//! kept for each (`deferred`), which tells what a scan has found before: so the account closes, and memory that
//! cannot be moved costs next to none of ours. Beyond 256 GiB of such memory the rest is not tried again.
//!
//! **A call is long, its page lists are short.** Within a call the kernel unmaps all pages that it has queued, 2 MiB
//! from 6.3 on, and an application that writes all over its memory waits for one such page list after the other. An
//! address that cannot be queued makes the kernel move what it has: `pagelist` puts one after every 64 or 256 KiB.
//! Shorter calls would have the same effect, but each has a fixed price that all processes of the host pay
//! (mm/swap.c, `lru_cache_disable`). Earlier kernels go page by page.
//!
//! **A call may never return.** While it waits for a server, a device or a CPU that a real-time thread keeps, nothing can end it. So it is
//! made by a companion, a process that shares this one's memory (`numaloc_sys::Companion`). A worker waits for it no longer than is
//! reasonable (`limits/bounded`): then the call is left behind, the run ends with a message that names what the call waits for, and no
//! other is made that would wait for the same (`limits/calls`). While a call waits before it begins to move pages, the
//! application is not stalled: if a real-time thread uses a whole CPU, the pace does not learn from a call that took long.
//!
//! **The pace is learnt.** How many bytes fit into the longest call is known only from calls: `stall` keeps an estimate for each class of
//! folios, which is why a call is of one class. Where calls are too long however small (on a busy host each has a price), it makes them
//! larger as long as they take no more than twice that. A worker rests for what it has done (`duty`), scans and verifications included.
//! A `brake` lowers the share of time: it halves when something is over its bound, and doubles once all is below half of it. At the
//! least, 1/32 of the pace and calls of 256 KiB or one folio, a run still completes. There are three brakes: for the `guard`, for what
//! has a bound for all causes together (`watch`), and for huge pages that are split (`splits`).
//!
//! **A further worker is on trial.** Only a measurement shows how far threads help past links, locks and interrupts that they share. So
//! `scaling` adds one worker at a time, compares the rate with the one before, and keeps the worker if it adds half
//! of the rate that each had before. From time to time it does without the latest worker and compares again, because
//! a slow call beside a trial can make a useless worker pass. CPUs of the target and CPUs that others have for
//! themselves do not count as room (`spare`).
//!
//! **Only pressure that the run causes slows it down.** Pressure is measured in intervals of 120 ms (`interval`). As long as it is below its
//! bound, so is the part that the run causes. Beyond, the `guard` makes trials: an interval of moving and one of resting, in an order without
//! a period (Thue-Morse). Their difference is what the run causes; steps, slopes and rhythms of others cancel out, and it takes two
//! trials that agree to change the pace. Once the pressure is known to be of others, trials are seven intervals apart, and their rests cost
//! a tenth of the time. `simulation` has all of it on a simulated clock.
//!
//! **Room is made by the kernel, within bounds.** No call reclaims: either kswapd drops cache while the worker waits, or the worker asks
//! the node for it before the call (`reclaim`). The plan counts on clean, inactive cache that no cgroup protects
//! (`numaloc_core::protection`), and a run stops when refaults show that what was dropped was in use (`cache`). Refaults are counted by
//! node: which cgroup owns the cache of a node is known only from memory.numa_stat of each, and to read it makes the kernel sum up the
//! counters of all of them.
//!
//! **An exchange is two runs that take turns.** The kernel cannot swap pages between nodes. A run whose pages find no room asks for it
//! (`exchange`); a second run in a thread beside it moves memory of partners the other way, never more than it was allowed by then
//! (`allowance`). Memory that has left and memory that has come in its place stay within 64 MiB of each other
//! (`numaloc_core::exchange`). Both are ordinary runs with an account that closes. Partners are read one after the
//! other, when room is asked for (`partners`): those without a CPU on the full node first, those pinned to it last.
//!
//! **What is used most comes first,** if it is known (`Plan::order`). It is measured just before the run (`numaloc_host::heat`), because
//! it ages, and all windows are sorted by it: their number is bounded by batches and by chunks, 32 bytes each. Without scores windows are
//! cut as they are taken, by address.
//!
//! **Entries that are marked for NUMA balancing (kernels 6.1 to 6.4).** move_pages takes them for absent. For a page that the page map
//! shows and the call does not see, `hint` reads one byte from a CPU of the target node, which takes the hint fault, and passes the page
//! again, once.
#![forbid(unsafe_code)]
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

mod call;
mod limits;
mod pace;
mod pages;
mod room;
mod run;
mod threads;
mod work;

pub use limits::{
    RunLimits, Scheduling,
    calls::MOST as LEFT_CALLS,
    control::Control,
    party::{Partners, Party, identities},
    rate::SharedRate,
    rooms::SharedRooms,
};
pub use numaloc_core::{CallStats, Outcome, ProcessOutcome};
pub use run::{
    file_run::{FileOutcome, FileRun, PlannedFile},
    migration::{Migration, PlannedMigration},
    tier_ways::TierWays,
};
