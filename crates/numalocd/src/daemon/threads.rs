//! How many threads the daemon has at most. The unit bounds them (TasksMax), and without a thread nothing more is done: so each kind has
//! a bound, and all of them together fit.

use std::io;
use tokio::runtime::{Builder, Runtime};

/// Threads that serve clients. The engine's blocking work has threads of its own: what is left for these is little.
const SERVING: usize = 2;
/// Threads for work that may block: looks of clients and for schedules, reads of the store, copies of it. Looks whose clients have gone
/// are among them until the kernel lets them end.
const BLOCKING: usize = 96;

/// The runtime of the daemon.
///
/// # Errors
/// There can be no threads.
pub(super) fn runtime() -> io::Result<Runtime> {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(SERVING).max_blocking_threads(BLOCKING).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Queue, engine};
    use numaloc_core::{Pacing, Profile};
    use numaloc_executor::LEFT_CALLS;
    use numaloc_host::PAGE_MAP_THREADS;
    use numaloc_sys::COMPANION_TASKS;
    use std::{fs, path::Path};

    /// The thread of main, and those that look at the host for metrics, for live views and for real-time threads.
    const SINGLE: usize = 4;

    /// The bound of the unit, which counts processes as well as threads.
    fn tasks_max() -> usize {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd/numalocd.service");
        let text = fs::read_to_string(unit).expect("the unit");
        let value = text.lines().find_map(|line| line.strip_prefix("TasksMax="));
        value.expect("a bound").parse().expect("a number")
    }

    /// Tasks of a look beside the thread that it is done in: threads that scan, the one that reads ahead, and systemctl(1).
    fn looking(workers: usize) -> usize {
        workers + 2
    }

    /// Tasks of a run with so many workers. Each has a companion and may have a thread for hint faults.
    fn moving(workers: usize) -> usize {
        workers * (1 + COMPANION_TASKS + 1)
    }

    /// Tasks of all jobs: those that move, with a thread for partners and as many workers of theirs, and those that are planned.
    fn jobs(queue: &Queue, profile: Profile) -> usize {
        let pace = Pacing { profile, ..Pacing::default() }.pace();
        let moves = 1 + moving(pace.most_workers) + 1 + moving(pace.most_workers);
        let plans = 1 + looking(pace.workers);
        queue.moves * moves + queue.plans * plans
    }

    #[test]
    fn all_threads_together_fit_into_the_unit() {
        let fast = Pacing { profile: Profile::Fast, ..Pacing::default() }.pace();
        // Of a look whose client has gone nothing but its own thread is left.
        let looks = engine::TURNS * engine::AT_ONCE * looking(fast.workers);
        // Those that are left behind, and those that ask whether calls return at all and for room on a node.
        let companions = COMPANION_TASKS * (LEFT_CALLS + 2);
        let runs = jobs(&Queue::default(), Profile::Fast);
        let parts = [SINGLE, SERVING, BLOCKING, looks, PAGE_MAP_THREADS, companions, runs];
        let (all, most) = (parts.iter().sum::<usize>(), tasks_max());
        assert!(all < most, "{parts:?} are {all}, and TasksMax is {most}");
    }

    #[test]
    fn blocking_work_has_as_many_threads_as_are_counted() {
        let runtime = runtime().expect("threads");
        let (begun, count) = std::sync::mpsc::channel();
        let (release, released) = tokio::sync::watch::channel(());
        for _ in 0..BLOCKING + 4 {
            let (begun, mut released) = (begun.clone(), released.clone());
            let handle = runtime.handle().clone();
            runtime.spawn_blocking(move || {
                let _ = begun.send(());
                let _ = handle.block_on(released.changed());
            });
        }
        (0..BLOCKING).for_each(|_| count.recv().expect("it has begun"));
        assert!(count.try_recv().is_err(), "there are more threads");
        drop(release);
        (0..4).for_each(|_| count.recv().expect("the others are next"));
    }
}
