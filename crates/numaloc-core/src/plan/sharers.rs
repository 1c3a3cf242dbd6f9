//! Processes outside a target that map memory of it.

use crate::{
    machine::process::Identity, memory::extent::Mapping, plan::Plan, result::account::Reason,
};
use std::sync::Arc;

/// A process outside the target that maps memory which stays for that reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharer {
    /// Pid and start time.
    pub identity: Identity,
    /// Name from /proc/PID/comm.
    pub comm: String,
    /// Its cgroup v2, if it is known.
    pub cgroup: Option<String>,
    /// Bytes of the target that stay in ranges that it maps, too: an upper bound of the bytes that stay because of it.
    pub bytes: u64,
    /// The range with most of them: path or name as in /proc/PID/maps of the target.
    pub name: Arc<str>,
}

/// The processes outside a target that map memory of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharers {
    /// The processes with most bytes, the largest first.
    pub processes: Vec<Sharer>,
    /// Number of all such processes.
    pub count: usize,
}

/// Remote memory that stays because processes outside the target map it, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaysShared {
    /// One of its mappings in the target.
    pub mapping: Mapping,
    /// Path or name as in /proc/PID/maps.
    pub name: Arc<str>,
    /// Bytes that stay in this range.
    pub bytes: u64,
}

impl Plan {
    /// Memory that stays because processes outside the target map it, too, by range.
    pub fn stays_shared(&self) -> impl Iterator<Item = StaysShared> {
        let skipped = self.skipped.iter().filter(|skipped| skipped.reason == Reason::Shared);
        let skipped = skipped.map(|skipped| StaysShared {
            mapping: skipped.mapping,
            name: skipped.name.clone(),
            bytes: skipped.remote_bytes,
        });
        let moved = self.moves.iter().filter(|planned| planned.shared_bytes > 0);
        let moved = moved.map(|planned| StaysShared {
            mapping: planned.mappings[0],
            name: planned.name.clone(),
            bytes: planned.shared_bytes,
        });
        skipped.chain(moved)
    }
}
