//! The threads of one process: where they may run, where they ran, and how busy they are.

use super::stat::{Use, parse};
use crate::{Roots, files::read};
use numaloc_core::{CpuId, CpuSet, Identity, Topology, live::ThreadNow};
use std::{collections::BTreeMap, time::Duration};

/// Largest number of threads that are read.
const MOST: usize = 4096;

/// The threads of the process that is watched closely.
#[derive(Debug, Default)]
pub(super) struct ThreadUses {
    uses: BTreeMap<i32, Use>,
    pub(super) now: Vec<ThreadNow>,
}

impl ThreadUses {
    /// Reads them. Threads that end meanwhile are left out.
    pub(super) fn read(&mut self, roots: &Roots, topology: &Topology, of: Identity, at: Duration) {
        let tasks = roots.proc.join(of.pid.to_string()).join("task");
        let mut uses = BTreeMap::new();
        self.now.clear();
        for (tid, path) in read::numbered::<i32>(&tasks).into_iter().take(MOST) {
            let stat = read::text(&path.join("stat")).ok().and_then(|text| parse(&text));
            let Some(stat) = stat else { continue };
            let used = Use::next(self.uses.get(&tid).copied(), stat.cpu_ticks, at);
            uses.insert(tid, used);
            let status = read::text(&path.join("status")).unwrap_or_default();
            let list = read::field(&status, "Cpus_allowed_list").unwrap_or_default();
            let cpus: CpuSet = list.parse().unwrap_or_default();
            let ran_on = |cpu: &u32| topology.nodes().find(|node| node.cpus.contains(CpuId(*cpu)));
            self.now.push(ThreadNow {
                tid,
                comm: stat.comm,
                home: topology.local_nodes(&cpus),
                node: stat.cpu.as_ref().and_then(ran_on).map(|node| node.id),
                cpu_percent: used.percent,
            });
        }
        self.uses = uses;
    }
}

/// Base pages that the kernel's balancing has moved of the living threads of a process. None where it does not count, or if there
/// are too many threads, whose reading would cost more than it is worth.
pub(super) fn migrated_pages(roots: &Roots, pid: i32, threads: u64) -> Option<u64> {
    const THREADS: u64 = 64;
    if threads > THREADS {
        return None;
    }
    let tasks = read::numbered::<i32>(&roots.proc.join(pid.to_string()).join("task"));
    let mut sum = None;
    for path in tasks.into_values() {
        let text = read::text(&path.join("sched")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("numa_pages_migrated"));
        let count = line.and_then(|line| line.trim_start_matches([' ', ':']).trim().parse().ok());
        sum = sum.into_iter().chain(count).reduce(|left: u64, right| left + right);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Crowd, Fake};
    use numaloc_core::NodeId;

    #[test]
    fn threads_have_homes_and_what_the_kernel_moved_is_summed() {
        let fake = Fake::new();
        fake.process(100, "x", &["0-3", "4-7"]);
        let of = Identity { pid: 100, start_time: 1100 };
        let mut threads = ThreadUses::default();
        threads.read(&fake.roots(), &Crowd::topology(), of, Duration::from_secs(1));
        let homes: Vec<_> = threads.now.iter().map(|each| (each.tid, each.home.clone())).collect();
        let node = |id| [NodeId(id)].into_iter().collect();
        assert_eq!(homes, [(100, node(0)), (101, node(1))]);
        assert_eq!(migrated_pages(&fake.roots(), 100, 2), None);
        fake.write("proc/100/task/100/sched", "x\nnuma_pages_migrated        :      5\n");
        fake.write("proc/100/task/101/sched", "numa_pages_migrated  :  7\n");
        assert_eq!(migrated_pages(&fake.roots(), 100, 2), Some(12));
        assert_eq!(migrated_pages(&fake.roots(), 100, 65), None);
    }
}
