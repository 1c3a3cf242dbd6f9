//! Time that the threads of processes have waited for a CPU (Documentation/scheduler/sched-stats.rst,
//! /proc/PID/schedstat). The kernel counts it where SCHED_INFO is built in, also where pressure stall information is
//! off, as on RHEL.

use crate::{Roots, files::read};
use std::{collections::BTreeSet, fs::File, path::PathBuf, time::Duration};

/// Most threads that are watched. For threads that wait independently, this many are enough of a sample.
const MOST_THREADS: usize = 64;

/// A thread's schedstat, kept open.
#[derive(Debug)]
struct Thread {
    tid: i32,
    file: File,
    last: Duration,
}

/// The times that threads of some processes have waited for a CPU.
#[derive(Debug)]
pub struct RunDelay {
    proc: PathBuf,
    pids: Vec<i32>,
    threads: Vec<Thread>,
}

impl RunDelay {
    /// Begins to watch threads of these processes, at most 64 of them. `None` if the kernel counts nothing, or all processes have ended.
    pub fn of(roots: &Roots, pids: &[i32]) -> Option<Self> {
        let (proc, pids) = (roots.proc.clone(), pids.to_vec());
        let mut watched = Self { proc, pids, threads: Vec::new() };
        watched.find();
        (!watched.threads.is_empty()).then_some(watched)
    }

    /// Time that each thread has waited since the last read. Threads that have ended do not count; others take their
    /// places.
    pub fn read(&mut self) -> Vec<Duration> {
        let mut waited = Vec::with_capacity(self.threads.len());
        let before = self.threads.len();
        self.threads.retain_mut(|thread| {
            let Some(now) = delay(&read::kept(&thread.file)) else { return false };
            waited.push(now.saturating_sub(thread.last));
            thread.last = now;
            true
        });
        if self.threads.len() < before {
            self.find();
        }
        waited
    }

    /// Adds threads that are not watched yet, the same number of each process first.
    fn find(&mut self) {
        let known: BTreeSet<i32> = self.threads.iter().map(|thread| thread.tid).collect();
        let lists = self.pids.iter().map(|pid| self.proc.join(format!("{pid}/task")));
        let mut lists: Vec<_> =
            lists.map(|list| read::numbered::<i32>(&list).into_iter()).collect();
        while self.threads.len() < MOST_THREADS && !lists.is_empty() {
            lists.retain_mut(|list| {
                let Some((tid, path)) = list.find(|(tid, _)| !known.contains(tid)) else {
                    return false;
                };
                let file = File::open(path.join("schedstat")).ok();
                let thread = file.and_then(|file| {
                    let last = delay(&read::kept(&file))?;
                    Some(Thread { tid, file, last })
                });
                self.threads.extend(thread);
                true
            });
        }
        self.threads.truncate(MOST_THREADS);
    }
}

/// The second number: nanoseconds on a run queue. A kernel that does not count shows three zeros, also of a thread that has run
/// (fs/proc/base.c, `proc_pid_schedstat`).
fn delay(text: &str) -> Option<Duration> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let [ran, waited, slices] = [(); 3].map(|()| numbers.next().and_then(Result::ok));
    let counts = ran? > 0 || slices? > 0;
    counts.then_some(Duration::from_nanos(waited?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_thread_counts_from_the_last_read_on() {
        let fake = Fake::new();
        let stat = |thread: &str, ms: u64| {
            fake.write(&format!("proc/{thread}/schedstat"), &format!("9 {} 4\n", ms * 1_000_000));
        };
        stat("7/task/7", 100);
        stat("7/task/8", 0);
        stat("9/task/9", 5);
        let mut delay = RunDelay::of(&fake.roots(), &[7, 9, 11]).expect("threads");
        stat("7/task/7", 130);
        stat("9/task/9", 6);
        assert_eq!(delay.read().iter().sum::<Duration>(), 31 * MS);
        assert_eq!(delay.read(), [Duration::ZERO; 3], "all of it was read");
    }

    #[test]
    fn an_ended_thread_makes_room_for_another() {
        let fake = Fake::new();
        fake.write("proc/7/task/7/schedstat", "9 5 4\n");
        let mut delay = RunDelay::of(&fake.roots(), &[7]).expect("a thread");
        // The kernel's answer for a thread that has ended.
        fake.write("proc/7/task/7/schedstat", "");
        fake.write("proc/7/task/8/schedstat", "9 1000000 4\n");
        assert_eq!(delay.read(), []);
        fake.write("proc/7/task/8/schedstat", "9 3000000 4\n");
        assert_eq!(delay.read(), [2 * MS]);
    }

    #[test]
    fn many_threads_are_a_sample_of_each_process() {
        let fake = Fake::new();
        for thread in 100..300 {
            fake.write(&format!("proc/100/task/{thread}/schedstat"), "1 1 1\n");
        }
        fake.write("proc/400/task/400/schedstat", "1 1 1\n");
        let delay = RunDelay::of(&fake.roots(), &[100, 400]).expect("threads");
        assert_eq!(delay.threads.len(), MOST_THREADS);
        assert!(delay.threads.iter().any(|thread| thread.tid == 400));
    }

    #[test]
    fn a_kernel_that_does_not_count_has_nothing_to_watch() {
        let fake = Fake::new();
        fake.write("proc/7/task/7/schedstat", "0 0 0\n");
        assert!(RunDelay::of(&fake.roots(), &[7, 8]).is_none());
    }
}
