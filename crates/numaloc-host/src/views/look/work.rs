//! CPU time: of threads, with the node where each of them ran last, and of cgroups.

use super::subjects::{FoundSubject, SubjectMembers};
use crate::{Roots, files::read, processes::cpu_use};
use numaloc_core::{CpuId, CpuSet, NodeId, Topology, advise::Who};
use std::{collections::BTreeMap, fs, time::Duration};

/// Number of threads that are read one by one; later ones are not.
const THREADS: usize = 50_000;

/// CPU times at one moment.
#[derive(Debug)]
pub struct CpuTimes(Vec<CpuTime>);

/// The CPU time of a subject.
#[derive(Clone, Debug, Default)]
struct CpuTime {
    /// CPU time since its start, also of threads that have ended; `None` if that is not known.
    total: Option<Duration>,
    /// CPU time of its threads, with the CPU that each ran on last.
    threads: BTreeMap<i32, (Duration, CpuId)>,
    /// CPUs that it may run on, for work that no thread is known for.
    cpus: CpuSet,
}

impl CpuTimes {
    /// Reads those of all subjects, in their order.
    pub fn read(roots: &Roots, subjects: &[FoundSubject]) -> Self {
        let mut left = THREADS;
        Self(subjects.iter().map(|found| used_by(roots, found, &mut left)).collect())
    }
}

fn used_by(roots: &Roots, found: &FoundSubject, left: &mut usize) -> CpuTime {
    let mut threads = BTreeMap::new();
    for pid in found.pids() {
        let tasks = fs::read_dir(roots.proc.join(format!("{pid}/task")));
        for task in tasks.into_iter().flatten().filter_map(Result::ok) {
            if *left == 0 {
                break;
            }
            let tid = task.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
            let stat = read::text(&task.path().join("stat")).ok();
            if let Some((tid, thread)) = tid.zip(stat.as_deref().and_then(thread)) {
                *left -= 1;
                threads.insert(tid, thread);
            }
        }
    }
    CpuTime { total: total(roots, found), threads, cpus: found.cpus.clone() }
}

/// cpu.stat of a cgroup (v2), or the times of all threads in /proc/PID/stat.
fn total(roots: &Roots, found: &FoundSubject) -> Option<Duration> {
    match (&found.who, &found.member) {
        (Who::Cgroup(_), SubjectMembers::Group { directory, .. }) => {
            cpu_use::used_within(&read::text(&directory.join("cpu.stat")).ok()?)
        }
        (Who::Process(identity), _) => {
            let path = roots.proc.join(format!("{}/stat", identity.pid));
            cpu_use::used(&read::text(&path).ok()?)
        }
        (Who::Cgroup(_), SubjectMembers::Process(_)) => None,
    }
}

/// The CPU time of a thread, and where it ran last: field 39 (proc_pid_stat(5)).
fn thread(text: &str) -> Option<(Duration, CpuId)> {
    let (_, fields) = text.rsplit_once(')')?;
    let cpu = fields.split_whitespace().nth(39 - 3)?.parse().ok()?;
    Some((cpu_use::used(text)?, CpuId(cpu)))
}

/// Two readings of the CPU times of all subjects.
#[derive(Clone, Copy, Debug)]
pub struct Readings<'a> {
    pub before: &'a CpuTimes,
    pub after: &'a CpuTimes,
    /// Time between both.
    pub seconds: f64,
}

/// The CPUs that a subject has used between two readings, by node. Each thread's time counts where it ran
/// last; what no thread is known for is spread over the CPUs that it may run on.
pub fn used(
    Readings { before, after, seconds }: Readings<'_>,
    index: usize,
    topology: &Topology,
) -> BTreeMap<NodeId, f64> {
    let (before, after) = (&before.0[index], &after.0[index]);
    let mut used: BTreeMap<NodeId, f64> = BTreeMap::new();
    let mut known = Duration::ZERO;
    for (tid, (time, cpu)) in &after.threads {
        let begun = before.threads.get(tid).map_or(Duration::ZERO, |(time, _)| *time);
        // A thread that was not there before may be one that was not read before.
        if before.total.is_none() && !before.threads.contains_key(tid) {
            continue;
        }
        let spent = time.saturating_sub(begun);
        let node = topology.nodes().find(|node| node.cpus.contains(*cpu));
        if let Some(node) = node.filter(|_| !spent.is_zero()) {
            known += spent;
            *used.entry(node.id).or_default() += spent.as_secs_f64() / seconds;
        }
    }
    let total = match (before.total, after.total) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => known,
    };
    if known > total && !known.is_zero() {
        // The threads were read a moment later, or a thread is new with time from before.
        let factor = total.as_secs_f64() / known.as_secs_f64();
        used.values_mut().for_each(|cpus| *cpus *= factor);
    }
    let rest = total.saturating_sub(known).as_secs_f64() / seconds;
    let on = |cpus: &CpuSet| cpus.and(&after.cpus).len() as f64;
    let all = after.cpus.len().max(1) as f64;
    for node in topology.nodes().filter(|node| rest > 0.0 && on(&node.cpus) > 0.0) {
        *used.entry(node.id).or_default() += rest * on(&node.cpus) / all;
    }
    used.retain(|_, cpus| *cpus > 0.0);
    used
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Node, NodeMemory};

    fn work(total: Option<u64>, threads: &[(i32, u64, u32)]) -> CpuTimes {
        let ms = Duration::from_millis;
        let threads = threads.iter().map(|&(tid, time, cpu)| (tid, (ms(time), CpuId(cpu))));
        let cpus = "0-3".parse().unwrap();
        CpuTimes(vec![CpuTime { total: total.map(ms), threads: threads.collect(), cpus }])
    }

    fn by_node(before: CpuTimes, after: CpuTimes) -> Vec<(u32, f64)> {
        let node = |id, cpus: &str| Node {
            id: NodeId(id),
            cpus: cpus.parse().unwrap(),
            memory: NodeMemory::default(),
        };
        let topology = Topology::new([node(0, "0-1"), node(8, "2-3")], []);
        let used = used(Readings { before: &before, after: &after, seconds: 2.0 }, 0, &topology);
        used.into_iter().map(|(node, cpus)| (node.0, (cpus * 1000.0).round() / 1000.0)).collect()
    }

    #[test]
    fn work_counts_where_threads_ran_last() {
        let before = work(Some(500), &[(1, 100, 0), (2, 50, 0)]);
        let after = work(Some(2500), &[(1, 1100, 1), (2, 1050, 3)]);
        assert_eq!(by_node(before, after), [(0, 0.5), (8, 0.5)]);
    }

    #[test]
    fn work_of_unknown_threads_is_spread_over_the_cpus() {
        let before = work(Some(0), &[]);
        assert_eq!(by_node(before, work(Some(1000), &[])), [(0, 0.25), (8, 0.25)]);
        let [before, after] = [work(Some(0), &[(1, 0, 0)]), work(Some(2000), &[(1, 1000, 0)])];
        assert_eq!(by_node(before, after), [(0, 0.75), (8, 0.25)]);
        assert!(by_node(work(None, &[]), work(None, &[(1, 1000, 0)])).is_empty());
    }

    #[test]
    fn a_thread_is_read_whatever_its_name() {
        let zeros = " 0".repeat(18);
        let text = format!("7 (a) b) S 1 1 1 0 -1 4 5 6 7 8 20 30 40 50 20 0 1{zeros} 3 0 0");
        let read = thread(&text).unwrap();
        assert_eq!((read.0, read.1), (Duration::from_millis(500), CpuId(3)));
        assert!(thread("nonsense").is_none() && thread("1 (a) S 1").is_none());
    }
}
