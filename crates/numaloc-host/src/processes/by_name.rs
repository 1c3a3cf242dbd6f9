//! Processes by the name that ps and pidof show.

use crate::{
    Roots,
    files::read::{self, numbered},
    processes::{
        cgroup,
        process::{OpenProcess, PF_KTHREAD, own_pid},
    },
};
use std::{cmp::Reverse, collections::BTreeMap};

/// The kernel cuts the name of a thread to this number of bytes (include/linux/sched.h, `TASK_COMM_LEN` without its zero byte).
const COMM_MAX: usize = 15;

/// The processes of this name, in ascending order of pid: those whose first thread has it (/proc/PID/comm), or, where the kernel has
/// cut that name, whose argv[0] is a path to it. Left out are kernel threads, processes that have ended, and this process.
pub fn processes_named(roots: &Roots, name: &str) -> Vec<i32> {
    let named = living(roots).filter(|(pid, comm)| has_name(roots, *pid, comm, name));
    named.map(|(pid, _)| pid).collect()
}

/// All processes with memory of their own and the names of their first threads, in ascending order of pid, but for this process.
pub(crate) fn living(roots: &Roots) -> impl Iterator<Item = (i32, String)> {
    let own_pid = own_pid(roots);
    let pids = numbered::<i32>(&roots.proc).into_keys().filter(move |&pid| Some(pid) != own_pid);
    pids.filter_map(|pid| Some((pid, living_comm(roots, pid)?)))
}

/// Names of processes that have this one as a part, the most frequent first: what may have been meant.
pub fn names_like(roots: &Roots, name: &str) -> Vec<String> {
    const MOST: usize = 3;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, comm) in living(roots) {
        if !name.is_empty() && comm.contains(name) {
            *counts.entry(comm).or_default() += 1;
        }
    }
    let mut names: Vec<(String, usize)> = counts.into_iter().collect();
    names.sort_by_key(|(_, count)| Reverse(*count));
    names.into_iter().take(MOST).map(|(name, _)| name).collect()
}

/// A process, for lists to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProcess {
    /// Process id.
    pub pid: i32,
    /// The name of its first thread.
    pub comm: String,
    /// The path of its cgroup, if it has one.
    pub cgroup: Option<String>,
}

/// All processes in ascending order of pid, but for kernel threads, processes that have ended, and this process.
pub fn named_processes(roots: &Roots) -> Vec<NamedProcess> {
    let named = |(pid, comm)| NamedProcess { pid, comm, cgroup: cgroup::of(roots, pid) };
    living(roots).map(named).collect()
}

fn has_name(roots: &Roots, pid: i32, comm: &str, name: &str) -> bool {
    let is_cut = || is_cut_of(comm, name) && first_argument(roots, pid).as_deref() == Some(name);
    comm == name || is_cut()
}

/// Whether `comm` is what the kernel leaves of `name`.
fn is_cut_of(comm: &str, name: &str) -> bool {
    comm.len() == COMM_MAX && name.len() > COMM_MAX && name.starts_with(comm)
}

/// The name of a process that has memory of its own.
fn living_comm(roots: &Roots, pid: i32) -> Option<String> {
    let stat = OpenProcess::new(roots, pid).and_then(|process| process.stat()).ok()?;
    let has_memory = stat.flags & PF_KTHREAD == 0 && !matches!(stat.state, 'Z' | 'X' | 'x');
    has_memory.then_some(stat.comm)
}

/// The last component of argv[0].
fn first_argument(roots: &Roots, pid: i32) -> Option<String> {
    let text = read::text(&roots.proc.join(format!("{pid}/cmdline"))).ok()?;
    let first = text.split('\0').next().filter(|first| !first.is_empty())?;
    first.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::fs::symlink;

    #[test]
    fn all_of_a_name_are_found_and_no_others() {
        let fake = Fake::new();
        for (pid, comm) in
            [(5, "redis-server"), (9, "redis"), (30, "redis-server"), (31, "redis-server")]
        {
            fake.process(pid, comm, &["0"]);
        }
        fake.stat("proc/2", 2, "redis-server", 'S', PF_KTHREAD);
        fake.stat("proc/3", 3, "redis-server", 'Z', 0);
        symlink("31", fake.path("proc/self")).expect("a link");
        let found = |name| processes_named(&fake.roots(), name);
        assert_eq!(
            found("redis-server"),
            [5, 30],
            "neither the kernel's, nor a zombie, nor itself"
        );
        assert_eq!(found("redis"), [9]);
        fake.write("proc/9/cgroup", "0::/system.slice/redis.service\n");
        let all = named_processes(&fake.roots());
        let pids: Vec<i32> = all.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [5, 9, 30]);
        assert_eq!(
            (all[1].comm.as_str(), all[1].cgroup.as_deref()),
            ("redis", Some("/system.slice/redis.service"))
        );
        assert!(found("redis-serve").is_empty() && found("").is_empty());
        let like = |name| names_like(&fake.roots(), name);
        assert_eq!(like("redis"), ["redis-server", "redis"], "the most frequent first");
        assert!(like("nginx").is_empty() && like("").is_empty());
    }

    #[test]
    fn a_name_that_the_kernel_has_cut_is_compared_as_a_whole() {
        let fake = Fake::new();
        let cases = [
            (5, "memcached-worke", "/usr/bin/memcached-worker\0-m\0"),
            (6, "memcached-worke", "memcached-worker-2\0"),
            (7, "memcached-worke", ""),
            (8, "short", "/usr/bin/memcached-worker\0"),
        ];
        for (pid, comm, cmdline) in cases {
            fake.process(pid, comm, &["0"]);
            fake.write(&format!("proc/{pid}/cmdline"), cmdline);
        }
        let found = |name| processes_named(&fake.roots(), name);
        assert_eq!(found("memcached-worker"), [5]);
        assert_eq!(found("memcached-worker-2"), [6]);
        assert_eq!(found("memcached-worke"), [5, 6, 7], "as ps shows it");
    }
}
