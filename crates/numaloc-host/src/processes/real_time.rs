//! Real-time threads that use a whole CPU.
//!
//! Calls of move_pages(2) wait for CPUs whose lists of pages are not empty: a kernel thread of each has to empty them (mm/swap.c,
//! `__lru_add_drain_all`, `flush_work`). Where a thread with SCHED_FIFO or SCHED_RR never sleeps, that kernel thread has only the
//! part of the time that the kernel keeps for others (kernel.sched_rt_runtime_us; from 6.12 on a fair server, kernel/sched/deadline.c), or
//! none.

use crate::{Error, Roots, files::read};
use numaloc_core::CpuId;
use procfs::{FromRead, process::Stat};
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Time between two looks. CPU time is counted in ticks of 10 ms, and two may be missing.
const INTERVAL: Duration = Duration::from_millis(200);
/// From this share of its time on, in percent, a CPU or a thread counts as one that never sleeps. The kernel may keep 5 % for others.
const WHOLE_PERCENT: u64 = 75;
/// Most threads of one process that are looked at.
const THREADS_MOST: usize = 4096;
/// Most processes whose threads are looked at.
const PROCESSES_MOST: usize = 64;

/// Scheduling policy of a real-time thread (sched(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealTimePolicy {
    /// SCHED_FIFO (sched(7)): runs until it sleeps.
    Fifo,
    /// SCHED_RR (sched(7)): takes turns with threads of its priority.
    RoundRobin,
}

impl RealTimePolicy {
    /// By the field `policy` of /proc/PID/stat (include/uapi/linux/sched.h).
    fn of(policy: u32) -> Option<Self> {
        match policy {
            1 => Some(Self::Fifo),
            2 => Some(Self::RoundRobin),
            _ => None,
        }
    }
}

/// A real-time thread that uses a whole CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealTimeHog {
    /// The CPU that it ran on last.
    pub cpu: CpuId,
    /// Id of its process.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// Name from /proc/PID/task/TID/comm.
    pub comm: String,
    /// Scheduling policy.
    pub policy: RealTimePolicy,
    /// Its priority, from 1 to 99.
    pub priority: u32,
    /// Whether the kernel keeps a part of the CPU's time for others, usually 5 %.
    pub is_limited: bool,
}

/// As messages say it: `CPU 3 runs thread 812 (poll) of process 811 at real-time priority 99 without a pause`.
impl fmt::Display for RealTimeHog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, pid, tid, comm, priority, .. } = self;
        write!(
            f,
            "CPU {cpu} runs thread {tid} ({comm}) of process {pid} at real-time priority {priority} without a pause"
        )
    }
}

/// Looks for real-time threads that use a whole CPU, for 200 ms, and for 600 ms if any CPU is busy all the time. Reads one file of each
/// process, and those of the threads of at most 64 busy ones.
///
/// # Errors
/// /proc/stat or /proc cannot be read. Processes and threads that cannot be read are left out.
pub fn real_time_hogs(roots: &Roots) -> Result<Vec<RealTimeHog>, Error> {
    look(roots, &mut || {
        let begin = Instant::now();
        thread::sleep(INTERVAL);
        begin.elapsed()
    })
}

/// Whether the kernel keeps a part of a CPU's time for others than real-time threads: from Linux 6.12 on by a server of each CPU
/// (kernel/sched/debug.c, `fair_server`), before that by kernel.sched_rt_runtime_us (-1: none). Where debugfs cannot be read, the latter tells.
fn is_limited(roots: &Roots, cpu: CpuId) -> bool {
    let server = format!("kernel/debug/sched/fair_server/cpu{cpu}/runtime");
    let setting = read::text(&roots.sys.join(server))
        .or_else(|_| read::text(&roots.proc.join("sys/kernel/sched_rt_runtime_us")));
    setting.is_ok_and(|text| text.trim().parse::<i64>().is_ok_and(|time| time > 0))
}

/// `pause` waits, and returns for how long.
fn look(roots: &Roots, pause: &mut dyn FnMut() -> Duration) -> Result<Vec<RealTimeHog>, Error> {
    let stat = roots.proc.join("stat");
    let before = cpu_times(&read::text(&stat)?);
    pause();
    let after = cpu_times(&read::text(&stat)?);
    let is_busy = |cpu: &CpuId| {
        before.get(cpu).zip(after.get(cpu)).is_some_and(|(before, after)| {
            let all = after.all.saturating_sub(before.all);
            after.busy.saturating_sub(before.busy) * 100 >= all * WHOLE_PERCENT && all > 0
        })
    };
    if !after.keys().any(is_busy) {
        return Ok(Vec::new());
    }
    let processes = || stats(&roots.proc, usize::MAX);
    let (then, wall, mut busy) = (processes(), pause(), processes());
    busy.retain(|pid, now| then.get(pid).is_some_and(|then| is_whole(then, now, wall)));
    let threads = || -> BTreeMap<i32, (i32, Stat)> {
        let of_one = |pid: &i32| {
            let tasks = stats(&roots.proc.join(format!("{pid}/task")), THREADS_MOST);
            let pid = *pid;
            tasks.into_iter().map(move |(tid, stat)| (tid, (pid, stat)))
        };
        busy.keys().take(PROCESSES_MOST).flat_map(of_one).collect()
    };
    let (then, wall, now) = (threads(), pause(), threads());
    let hogs = now.into_iter().filter_map(|(tid, (pid, now))| {
        let (_, then) = then.get(&tid)?;
        let cpu = CpuId(now.processor?.try_into().ok()?);
        let policy = RealTimePolicy::of(now.policy?)?;
        let (priority, comm) = (now.rt_priority?, now.comm.clone());
        if !is_whole(then, &now, wall) || !is_busy(&cpu) {
            return None;
        }
        let is_limited = is_limited(roots, cpu);
        Some(RealTimeHog { cpu, pid, tid, comm, policy, priority, is_limited })
    });
    Ok(hogs.collect())
}

/// Whether a process or thread has used a whole CPU between two looks.
fn is_whole(then: &Stat, now: &Stat, wall: Duration) -> bool {
    let ticks = |stat: &Stat| stat.utime.saturating_add(stat.stime);
    let used = u128::from(ticks(now).saturating_sub(ticks(then)));
    let is_same = then.starttime == now.starttime;
    let per_second = u128::from(procfs::ticks_per_second());
    is_same && used * 100_000 >= wall.as_millis() * per_second * u128::from(WHOLE_PERCENT)
}

/// The `stat` files of the processes or threads in a directory, at most this many.
fn stats(directory: &Path, most: usize) -> BTreeMap<i32, Stat> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let stat = |id: i32| {
        let text = read::text(&directory.join(format!("{id}/stat"))).ok()?;
        Some((id, Stat::from_read(text.as_bytes()).ok()?))
    };
    ids.take(most).filter_map(stat).collect()
}

/// Ticks of a CPU since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuBusy {
    busy: u64,
    all: u64,
}

/// By the lines `cpuN` of /proc/stat.
fn cpu_times(text: &str) -> BTreeMap<CpuId, CpuBusy> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = CpuId(words.next()?.parse().ok()?);
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
        let times: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        let idle: u64 = times.iter().skip(3).take(2).sum();
        let all: u64 = times.iter().sum();
        Some((cpu, CpuBusy { busy: all - idle, all }))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// A thread on a CPU, with its ticks, its policy and its priority.
    struct Task {
        path: &'static str,
        cpu: u32,
        policy: u32,
        ticks_each: u64,
    }

    /// A host whose CPUs and threads use these numbers of ticks, of 20 in each interval.
    fn hogs(cpus: &[u64], tasks: &[Task]) -> Vec<String> {
        let fake = Fake::new();
        let write = |interval: u64| {
            let cpus = cpus.iter().enumerate().map(|(cpu, busy)| {
                format!("cpu{cpu} {} 0 0 {} 0 0 0 0 0 0\n", busy * interval, (20 - busy) * interval)
            });
            fake.write("proc/stat", &cpus.collect::<String>());
            for Task { path, cpu, policy, ticks_each } in tasks {
                let id = path.rsplit('/').next().expect("an id");
                let (ticks, priority) = (ticks_each * interval, if *policy == 0 { 0 } else { 99 });
                let zeros = ["0"; 16].join(" ");
                let text = format!(
                    "{id} (poll er) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 7 {zeros} {cpu} {priority} {policy} 0 0 0 0 0 0 0 0 0 0 0"
                );
                fake.write(&format!("proc/{path}/stat"), &text);
            }
        };
        write(0);
        let mut interval = 0;
        let mut pause = || {
            interval += 1;
            write(interval);
            INTERVAL
        };
        let found = look(&fake.roots(), &mut pause).expect("it can be read");
        found.iter().map(ToString::to_string).collect()
    }

    fn task(path: &'static str, cpu: u32, policy: u32, ticks_each: u64) -> Task {
        Task { path, cpu, policy, ticks_each }
    }

    #[test]
    fn a_real_time_thread_that_never_sleeps_is_found() {
        let tasks = [
            task("7", 3, 0, 20),
            task("7/task/7", 0, 0, 0),
            task("7/task/8", 3, 1, 20),
            task("9", 1, 0, 20),
            task("9/task/9", 1, 0, 20),
            task("11", 2, 2, 6),
            task("11/task/11", 2, 2, 6),
        ];
        assert_eq!(
            hogs(&[0, 20, 6, 20], &tasks),
            ["CPU 3 runs thread 8 (poll er) of process 7 at real-time priority 99 without a pause"],
            "not the busy one without such a policy, nor the one that sleeps"
        );
    }

    #[test]
    fn a_throttled_one_is_found_too_and_an_idle_host_is_hardly_looked_at() {
        let tasks = [task("7", 3, 1, 18), task("7/task/7", 3, 1, 18)];
        assert_eq!(hogs(&[0, 0, 0, 18], &tasks).len(), 1);
        assert!(hogs(&[14, 10, 0, 4], &tasks).is_empty(), "no CPU is busy");
    }

    #[test]
    fn whether_others_get_any_time_is_read() {
        let fake = Fake::new();
        let is_limited = || is_limited(&fake.roots(), CpuId(3));
        assert!(!is_limited());
        for (text, expected) in [("950000\n", true), ("-1\n", false)] {
            fake.write("proc/sys/kernel/sched_rt_runtime_us", text);
            assert_eq!(is_limited(), expected);
        }
        // From Linux 6.12 on.
        for (text, expected) in [("50000000\n", true), ("0\n", false)] {
            fake.write("sys/kernel/debug/sched/fair_server/cpu3/runtime", text);
            assert_eq!(is_limited(), expected);
        }
    }
}
