//! CPU time of nodes and of processes, read again and again.

use crate::{
    Error, Roots,
    files::read,
    processes::{cgroup, process},
};
use numaloc_core::{CpuId, CpuSet};
use numaloc_sys::companions_cpu_time;
use std::{collections::BTreeSet, fs::File, path::Path, time::Duration};

/// Clock ticks per second of the times in /proc (USER_HZ, the same on all architectures that this runs on).
const TICKS: u64 = 100;

/// Up to this many processes are watched one by one. For more, their cgroups are watched instead.
const PROCESSES: usize = 64;

/// /proc/stat and the files with the CPU time of processes or cgroups, kept open.
#[derive(Debug)]
pub struct CpuUse {
    host: File,
    processes: Vec<File>,
    cgroups: Vec<File>,
    /// Whether this process is among the processes. Its companions are then, too.
    is_own_included: bool,
}

impl CpuUse {
    /// Opens the files for the host's CPUs, for this process, and for those of `pids` that exist. If `pids` are more
    /// than 64, their cgroups are read instead, which may contain other processes too. Where these cgroups cannot be
    /// read (cgroup v1), only 64 of the processes are watched.
    ///
    /// # Errors
    /// [`Error::Read`] when /proc/stat cannot be opened.
    pub fn open(roots: &Roots, pids: impl IntoIterator<Item = i32>) -> Result<Self, Error> {
        let path = roots.proc.join("stat");
        let host = File::open(&path).map_err(|source| read::unread(&path, source))?;
        let stat = |pid: i32| File::open(roots.proc.join(pid.to_string()).join("stat")).ok();
        let mut pids: Vec<i32> = pids.into_iter().collect();
        let mut cgroups = Vec::new();
        if pids.len() > PROCESSES {
            cgroups = cpu_stats(roots, &pids);
            pids.truncate(if cgroups.is_empty() { PROCESSES } else { 0 });
        }
        let own = process::own_pid(roots);
        let is_own_included = own.is_some();
        let processes = own.into_iter().chain(pids).filter_map(stat).collect();
        Ok(Self { host, processes, cgroups, is_own_included })
    }

    /// Sum of the times that these CPUs have been busy since boot.
    pub fn busy(&mut self, cpus: &CpuSet) -> Duration {
        busy(&read::kept(&self.host), cpus)
    }

    /// CPU time of the processes that still exist, or of all processes in their cgroups.
    pub fn used(&mut self) -> Duration {
        let sum = |files: &[File], used: fn(&str) -> Option<Duration>| {
            files.iter().filter_map(|file| used(&read::kept(file))).sum::<Duration>()
        };
        let companions = if self.is_own_included { companions_cpu_time() } else { Duration::ZERO };
        sum(&self.processes, used) + sum(&self.cgroups, used_within) + companions
    }
}

/// The cpu.stat files of the cgroups of these processes, at most [`PROCESSES`]. A cgroup below another one of them is
/// left out, because the upper one includes it. Empty if a process's cgroup is unknown or is the root cgroup, which
/// includes every process.
fn cpu_stats(roots: &Roots, pids: &[i32]) -> Vec<File> {
    let found: Option<BTreeSet<String>> = pids.iter().map(|&pid| cgroup::of(roots, pid)).collect();
    let found = found.filter(|found| !found.contains("/")).unwrap_or_default();
    let is_top = |path: &&String| {
        let mut above = Path::new(path.as_str()).ancestors().skip(1).filter_map(Path::to_str);
        !above.any(|above| found.contains(above))
    };
    let file = |path: &String| {
        let directories = cgroup::unified(roots, path).into_iter();
        directories.filter_map(|directory| File::open(directory.join("cpu.stat")).ok()).next()
    };
    found.iter().filter(is_top).filter_map(file).take(PROCESSES).collect()
}

/// CPU time of a cgroup and those below it (Documentation/admin-guide/cgroup-v2.rst, cpu.stat).
pub(crate) fn used_within(text: &str) -> Option<Duration> {
    let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    Some(Duration::from_micros(micros.parse().ok()?))
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS))
}

/// The lines `cpuN user nice system idle iowait irq softirq steal guest guest_nice` (proc_stat(5)); guests are in user.
pub(crate) fn busy(text: &str, cpus: &CpuSet) -> Duration {
    let mut ticks = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut words = line.split(' ');
        let cpu = words.next().and_then(|id| id.parse().ok()).map(CpuId);
        if cpu.is_some_and(|cpu| cpus.contains(cpu)) {
            let times: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            let busy = [0, 1, 2, 5, 6].map(|index| times.get(index).copied().unwrap_or(0));
            ticks += busy.iter().sum::<u64>();
        }
    }
    time(ticks)
}

/// utime and stime, fields 14 and 15 (proc_pid_stat(5)); the name in brackets may hold anything.
pub(crate) fn used(text: &str) -> Option<Duration> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields =
        fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some(time(fields.next()? + fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn idle_time_and_other_cpus_do_not_count() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9
cpu0 1 2 4 100 200 8 16 300 400 500
cpu1 1000 0 0 0 0 0 0 0 0 0
cpu10 10 0 0 0 0 0 0 0 0 0
intr 1 2 3\n";
        let cpus = [0, 10].map(CpuId).into_iter().collect();
        assert_eq!(busy(text, &cpus), Duration::from_millis(310 + 100));
        assert_eq!(busy("", &cpus), Duration::ZERO);
    }

    #[test]
    fn processes_are_summed_and_missing_ones_are_not_missed() {
        let fake = Fake::new();
        fake.write("proc/stat", "");
        fake.write("proc/7/stat", "7 (a) b) S 1 1 1 0 -1 4 5 6 7 8 20 30 40 50 20 0 1 0 9");
        fake.write("proc/8/stat", "nonsense");
        let mut cpu_use = CpuUse::open(&fake.roots(), [7, 8, 9]).unwrap();
        assert_eq!(cpu_use.used(), Duration::from_millis(500));
        assert!(CpuUse::open(&Fake::new().roots(), [7]).is_err());
    }

    #[test]
    fn of_many_processes_the_cgroups_tell() {
        let fake = Fake::new();
        fake.write("proc/stat", "");
        fake.write("cgroup/cgroup.procs", "");
        for (cgroup, micros) in [("a", 2_000_000), ("a/b", 1_000_000), ("c", 500_000)] {
            let stat = format!("usage_usec {micros}\nuser_usec 1\n");
            fake.write(&format!("cgroup/{cgroup}/cpu.stat"), &stat);
        }
        let pids = 1..=PROCESSES as i32 + 1;
        for pid in pids.clone() {
            let cgroup = ["/a", "/a/b", "/c"][pid as usize % 3];
            fake.write(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
            fake.write(&format!("proc/{pid}/stat"), "1 (a) S 1 1 1 0 -1 4 5 6 7 8 1 0 0 0 20");
        }
        let used = |pids| CpuUse::open(&fake.roots(), pids).unwrap().used();
        assert_eq!(used(pids.clone()), Duration::from_millis(2500), "b is in a");
        assert_eq!(used(1..=PROCESSES as i32), Duration::from_millis(PROCESSES as u64 * 10));
        // One process is in the root cgroup, whose time is that of all processes.
        fake.write("proc/7/cgroup", "0::/\n");
        assert_eq!(used(pids), Duration::from_millis(PROCESSES as u64 * 10));
    }
}
