//! CPU time of nodes and of processes, to be read again and again.

use crate::{Error, Roots, process, read};
use numaloc_core::{CpuId, CpuSet};
use std::{fs::File, time::Duration};

/// Times in /proc are given in so many a second (USER_HZ, the same on all architectures that this runs on).
const TICKS: u64 = 100;

/// /proc/stat and the stat files of processes, kept open.
#[derive(Debug)]
pub struct CpuUse {
    host: File,
    processes: Vec<File>,
}

impl CpuUse {
    /// Opens what tells of the host's CPUs, of this very process and of those of `pids` that are there.
    ///
    /// # Errors
    /// [`Error::Read`] when /proc/stat cannot be opened.
    pub fn open(roots: &Roots, pids: impl IntoIterator<Item = i32>) -> Result<Self, Error> {
        let path = roots.proc.join("stat");
        let host = File::open(&path).map_err(|source| Error::Read { path, source })?;
        let stat = |pid: i32| File::open(roots.proc.join(pid.to_string()).join("stat")).ok();
        let own = process::own_pid(roots);
        Ok(Self { host, processes: own.into_iter().chain(pids).filter_map(stat).collect() })
    }

    /// Time that these CPUs have been busy since boot, each counted.
    pub fn busy(&mut self, cpus: &CpuSet) -> Duration {
        busy(&read::kept(&self.host), cpus)
    }

    /// Time that the processes have used, those of them that are there still.
    pub fn used(&mut self) -> Duration {
        let used = |file: &File| used(&read::kept(file)).unwrap_or_default();
        self.processes.iter().map(used).sum()
    }
}

fn time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS))
}

/// The lines `cpuN user nice system idle iowait irq softirq steal guest guest_nice` (proc_stat(5)); guests are in user.
fn busy(text: &str, cpus: &CpuSet) -> Duration {
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
fn used(text: &str) -> Option<Duration> {
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
}
