//! Counts and measurements of the dispatcher. It does not know where they are shown.

use numaloc_api::value::{Job, QosClass, WorkloadId};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// Something that the dispatcher has counted or measured. Each is reported once.
#[derive(Debug)]
pub enum Measured<'a> {
    /// The store begins a commit; [`Self::Commit`] follows.
    Committing,
    /// The store took `elapsed` for a commit. `done`: the commit took effect.
    Commit { elapsed: Duration, done: bool },
    /// The size of the store's file.
    StoreBytes(u64),
    /// A job's turn has come after it was queued for so long.
    Dequeued(Duration),
    /// When the oldest queued job of each class was created. Classes without a queued job are left out.
    OldestQueued(&'a BTreeMap<QosClass, SystemTime>),
    /// A job has reached an end state, which its commit has stored.
    Ended(&'a Job),
    /// Percentage of a workload's movable memory that is local.
    Local(&'a WorkloadId, f64),
    /// A workload is not registered any more.
    WorkloadGone(&'a WorkloadId),
}
