//! Computes the most threads that the daemon has, and checks whether the host allows them. Without a thread nothing
//! more is done: so each kind has a bound, and all of them together have to fit into what the host allows: TasksMax of
//! the unit, or the limit of a container.

use crate::{
    config::{Config, Role},
    engine,
};
use numaloc_core::{Pacing, Profile};
use numaloc_executor::LEFT_CALLS;
use numaloc_host::{PAGE_MAP_THREADS, Roots, task_limit};
use numaloc_sys::COMPANION_TASKS;
use std::io;
use tokio::runtime::{Builder, Runtime};

/// Threads that serve clients. The engine's blocking work has threads of its own: what is left for these is little.
const SERVING: usize = 2;
/// Threads for work that may block: looks of clients and for schedules, reads of the store, copies of it. Looks whose
/// clients have gone are among them until the kernel lets them end.
const BLOCKING: usize = 96;
/// The thread of main, and the threads that look at the host for metrics, for live views and for real-time threads.
const SINGLE: usize = 4;

/// The runtime of the daemon.
///
/// # Errors
/// There can be no threads.
pub(super) fn runtime() -> io::Result<Runtime> {
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(SERVING).max_blocking_threads(BLOCKING).enable_all().build()
}

/// The tasks (threads and processes) that a daemon with a configuration needs at most.
#[derive(Clone, Copy, Debug)]
struct NeededTasks {
    jobs: usize,
    all: usize,
    /// The most workers of a job, and whether the configuration has set that.
    workers: (usize, bool),
}

/// Tasks of a look beside the thread that it is done in: threads that scan, the one that reads ahead, and systemctl(1).
fn looking(workers: usize) -> usize {
    workers + 2
}

/// Tasks of a run with this number of workers. Each has a companion and may have a thread for hint faults.
fn moving(workers: usize) -> usize {
    workers * (1 + COMPANION_TASKS + 1)
}

impl NeededTasks {
    /// With what the configuration allows its clients. Admins may name more workers than this.
    fn of(config: &Config) -> Self {
        let fast = Pacing { profile: Profile::Fast, ..Pacing::default() }.pace();
        let operators = config.grants.iter().filter(|grant| grant.role == Role::Operator);
        let declared = config.schedules.iter().filter_map(|it| it.spec.migration.limits.workers);
        let named = operators.map(|grant| grant.ceilings.workers).chain(declared);
        let set = named.chain(config.limits.workers).max().unwrap_or(0);
        let workers = set.max(fast.most_workers);
        // A moving job has a thread for partners and the same number of workers for them.
        // And another one in the resctrl group.
        let moves = 2 * (1 + moving(workers)) + usize::from(config.resctrl.group.is_some());
        let plans = 1 + looking(set.max(fast.workers));
        let jobs = config.queue.moves * moves + config.queue.plans * plans;
        // A look whose client has gone keeps only its own thread.
        let looks = engine::TURNS * engine::AT_ONCE * looking(fast.workers);
        // Companions of abandoned calls, of the check whether calls return at all, and of the query for room on a node.
        let companions = COMPANION_TASKS * (LEFT_CALLS + 2);
        let others = SINGLE + SERVING + BLOCKING + looks + PAGE_MAP_THREADS + companions;
        Self { jobs, all: jobs + others, workers: (workers, set == workers) }
    }
}

/// That a daemon with this configuration may need more threads than the host allows it, and what to do about it.
pub(super) fn shortage(roots: &Roots, config: &Config) -> Option<String> {
    let NeededTasks { jobs, all, workers: (workers, is_set) } = NeededTasks::of(config);
    let limit = task_limit(roots).filter(|limit| limit.most < all)?;
    let remedy = match limit.file {
        Some(_) => {
            "TasksMax= of the unit (systemctl edit numalocd), or the limit of the container,"
        }
        None => "LimitNPROC= of the unit (systemctl edit numalocd)",
    };
    let or = if is_set { ", or the workers of limits, ceilings or schedules" } else { "" };
    let (moves, plans) = (config.queue.moves, config.queue.plans);
    Some(format!(
        "the daemon may need {all} threads and processes, {jobs} of them for {moves} moves and {plans} plans with up to {workers} workers \
         each, and {limit}; without a thread, jobs and scans fail: raise {remedy} to {all} at least, or lower queue.moves, queue.plans{or}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Ceilings, Grant, Grantee, Queue};
    use numaloc_host::fake::Fake;
    use std::{fs, path::Path};

    /// The bound of the unit, which counts processes as well as threads.
    fn tasks_max() -> usize {
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd/numalocd.service");
        let text = fs::read_to_string(unit).expect("the unit");
        let value = text.lines().find_map(|line| line.strip_prefix("TasksMax="));
        value.expect("a bound").parse().expect("a number")
    }

    #[test]
    fn all_threads_together_fit_into_the_unit() {
        let (needed, most) = (NeededTasks::of(&Config::default()), tasks_max());
        assert!(needed.all < most, "{needed:?}, and TasksMax is {most}");
    }

    #[test]
    fn more_than_the_host_allows_is_reported_with_what_to_do() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "");
        fake.write("cgroup/unit/pids.max", &format!("{}\n", tasks_max()));
        fake.write("proc/self/cgroup", "0::/unit\n");
        let shortage = |config: &Config| shortage(&fake.roots(), config);
        let mut config = Config::default();
        assert_eq!(shortage(&config), None);
        config.queue = Queue { moves: 64, ..Queue::default() };
        let needed = NeededTasks::of(&config).all;
        let text = shortage(&config).expect("a line");
        assert!(text.contains("64 moves and 2 plans with up to 8 workers"), "{text}");
        assert!(text.contains(&format!("cgroup/unit/pids.max allows {}", tasks_max())), "{text}");
        assert!(text.contains("raise TasksMax= of the unit"), "{text}");
        assert!(text.contains(&format!("to {needed} at least")), "{text}");
        assert!(text.ends_with("or lower queue.moves, queue.plans"), "{text}");
        fake.write("cgroup/unit/pids.max", &format!("{needed}\n"));
        assert_eq!(shortage(&config), None, "what is asked for is enough");
    }

    #[test]
    fn workers_count_wherever_they_are_set() {
        let limits = Config {
            limits: numaloc_api::value::Limits { workers: Some(40), ..Default::default() },
            ..Config::default()
        };
        let ceilings = Ceilings { workers: 40, ..Ceilings::default() };
        let [operator, admin] = [Role::Operator, Role::Admin].map(|role| {
            let (cgroups, files, ceilings) = (Vec::new(), Vec::new(), ceilings);
            let grant = Grant { to: Grantee::Uid(7), role, cgroups, files, ceilings };
            Config { grants: vec![grant], ..Config::default() }
        });
        let needed = |config| NeededTasks::of(config).workers;
        assert_eq!([&limits, &operator].map(needed), [(40, true); 2]);
        assert_eq!(needed(&admin), (8, false));
        assert!(NeededTasks::of(&limits).all > tasks_max());
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
