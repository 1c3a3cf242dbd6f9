//! The dispatcher: one task that owns jobs, schedules, workloads and events.
//!
//! **A change is a list of writes, committed first, then taken over.** The store commits them durably, all or none, and
//! only then the book (the records in memory) takes them over and the caller gets its answer. So the book never knows
//! more than the disk, and what was answered survives. Changes that wait together share a commit: each is made as if
//! those before it were stored, what else follows is put off (`then`), and all are answered when the commit is done; if
//! it fails, the book is put back. Questions are answered before, from a book that is not ahead of the disk: none waits
//! for more than one commit.
//!
//! **What cannot be stored waits.** On a full disk, changes of clients are refused and running jobs continue. A report
//! of the engine is kept with its run and taken in again each second, in order; the processes and nodes of the run stay
//! taken until then.
//!
//! **Slow work is done elsewhere.** Ended jobs and older events are read from the store in threads of their own, by a
//! read transaction that the dispatcher hands out (`rest`); the last events are in memory, for all watchers. Label
//! selectors are intersected sets of workloads (`labels`), not a look at each workload.
//!
//! **The queue keeps what an earlier job waits for** (`queue`, pure). Jobs come by class (LSR, LS, BE), then by owner
//! in turn, then by age. A job that has to wait for an address space or a node has those kept for it, so that none is
//! passed over forever; jobs that want others go ahead. A job of which nothing is known yet (after a restart) is
//! planned to find out. After planning it is compared with the jobs that move already, and returns to the queue if one
//! is in the way. A job that is planned and only lacks a place keeps its plan (`Stage::Ready`). A job that has moved
//! for a slice of time goes behind others of its class that wait for what it has (`overstayed`). Three pure functions
//! decide what a class means for a run: its bounds (`limits`, half of what others get), whether it pauses at the moment
//! (`makes_room`), and whether it returns to the queue because others wait (`preempted`). The executor knows no
//! classes.
//!
//! **Pausing is cancelling, resuming is planning again.** A run ends after its batches in hand and its outcome is kept;
//! the next one starts from a fresh survey, and the accounts of both are joined (`Outcome::continued_by`). A job that a
//! restart interrupted continues in the same way. No address is ever stored. Drained and paused are two times in the
//! store (`Holds`), changed by commits like all else.
//!
//! **Watches are pulled and never queue.** An answer is made when the client takes it. `changes` numbers the changes of
//! a kind of record and keeps the last of each; a watch reads those after the last that it has sent, and a resume token
//! is such a number. Progress of a job is a second number beside its last change, so that it can hide none. A slow
//! client costs what an idle one does and misses what was overtaken.
//!
//! **Events are what was done** (`events`): written with the change that they report, in its commit, and small: a
//! bounded number of members, failed ones first. Whether the end of a run is reported depends on the last one that was.
//!
//! **A set of workloads is declared, not edited.** ReplaceWorkloads compares what a client declares with what the book
//! has of the same client and source (`names` has the index), and commits the difference. Leases are kept in memory
//! alone (`leases`): a restart begins them again, so a renewal writes nothing.
//!
//! **What is in memory counts for its owner.** Open jobs are whole in the book. Each counts with its present weight for
//! its owner, a schedule's job for the owner of the schedule. Ended jobs are kept encoded, as lists show them; the
//! store has their plan and outcome.
//!
//! **Schedules of files are compared, too** (`declare`): at the start and at a reload, with the book's schedules of
//! files.
//!
//! **A schedule whose work does not last slows down.** A run leaves a trail: a sample of what it moved. The next run of
//! the schedule looks where these pages are; a schedule that finds much of them remote again and again reports so and
//! slows down (`contest`, pure).
//!
//! **Spans of time are measured by the monotonic clock.** The wall clock is shown, stored and used to forget old
//! records. A due time is an `Instant`; after a restart it comes from the stored time, and is never later than the
//! schedule's own interval and jitter.

mod agenda;
mod book;
mod budget;
mod changes;
mod collection;
mod command;
mod commits;
mod contest;
mod contests;
mod cpusets;
mod declare;
mod delete;
mod dispatcher;
mod ends;
mod events;
mod forget;
mod group;
mod handle;
mod holds;
mod jobs;
mod jumps;
mod labels;
mod leases;
mod limits;
mod lists;
mod measured;
mod names;
mod open;
mod owned;
mod page;
mod partners;
pub mod queue;
mod records;
mod recover;
mod relief;
mod relieved;
mod reports;
mod rest;
mod retain;
mod run;
mod schedules;
mod select;
mod selected;
mod shown;
mod standing;
mod status;
mod task;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
mod turn;
mod used;
mod working;
mod workloads;

pub use changes::{Begin, RecordChange, RecordChanges};
pub use command::{Hold, Made, MadeSchedule, Registering, Replaced};
pub use dispatcher::{Dispatcher, Edges, Lookup, Probe, ProbeAnswer};
pub use handle::Handle;
pub use lists::Listable;
pub use measured::Measured;
pub use page::Listed;
pub use records::Records;
pub use selected::Selected;
pub use shown::JobNow;
pub use status::{DaemonStatus, JobCount};
pub use task::{Ears, Pulse, start};
pub use working::LiveWork;
