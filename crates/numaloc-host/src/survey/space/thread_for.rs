//! The thread that a call names, where the threads of a process are in different cpusets.

use super::AddressSpace;
use crate::files::read;
use numaloc_core::{NodeId, NodeSet};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Threads of one address space, by the node that they may have memory on.
#[derive(Debug, Default)]
pub(super) struct ThreadsFor(Mutex<BTreeMap<NodeId, i32>>);

impl AddressSpace {
    /// The id of a thread that has this memory and may have memory on this node, for a call that moves pages there: move_pages(2)
    /// refuses a node that the cpuset of the thread that it names does not allow (mm/migrate.c, `find_mm_struct` and `do_pages_move`).
    /// [`Self::tid`] if the threads do not differ in that, or no thread may.
    pub fn tid_for(&self, node: NodeId) -> i32 {
        if self.process.threads.iter().all(|group| group.mems_allowed.is_none()) {
            return self.tid();
        }
        let mut found = self.threads_for.0.lock();
        let known = found.get(&node).copied().filter(|&tid| self.allows(tid, node));
        let tid = known.or_else(|| self.find(node));
        match tid {
            Some(tid) => found.insert(node, tid),
            None => found.remove(&node),
        };
        tid.unwrap_or_else(|| self.tid())
    }

    /// The thread found last, if it may; else the first of all.
    fn find(&self, node: NodeId) -> Option<i32> {
        let last = Some(self.tid()).filter(|&tid| self.allows(tid, node));
        last.or_else(|| self.tids().find(|&tid| self.allows(tid, node)))
    }

    /// Whether a thread of one of the processes has its memory still and may have memory on this node.
    fn allows(&self, tid: i32, node: NodeId) -> bool {
        let status =
            |directory: PathBuf| read::text(&directory.join(tid.to_string()).join("status")).ok();
        let Some(status) = self.task_directories().find_map(status) else { return false };
        let mems = read::field(&status, "Mems_allowed_list");
        let mems = mems.and_then(|list| list.parse::<NodeSet>().ok());
        read::field(&status, "VmSize").is_some() && mems.is_some_and(|mems| mems.contains(node))
    }

    fn tids(&self) -> impl Iterator<Item = i32> {
        let entries = self.task_directories().filter_map(|directory| fs::read_dir(directory).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok())
    }

    fn task_directories(&self) -> impl Iterator<Item = PathBuf> {
        let proc: &Path = &self.roots.proc;
        self.pids().map(move |pid| proc.join(pid.to_string()).join("task"))
    }
}
