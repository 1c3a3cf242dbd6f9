//! A migration that is asked for.

use super::Selector;
use numaloc_core::{NumaBalancing, Options};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// Whose memory: the union of all that is named. In order and without repetition, so that equal targets are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Processes.
    pub pids: BTreeSet<i32>,
    /// cgroups with their children: absolute paths as in /proc/PID/cgroup.
    pub cgroups: BTreeSet<String>,
    /// systemd units.
    pub units: BTreeSet<String>,
    /// Registered workloads by container id.
    pub container_ids: BTreeSet<String>,
    /// Registered workloads by pod uid.
    pub pod_uids: BTreeSet<String>,
    /// Registered workloads that this picks; none if it is empty.
    pub labels: Selector,
    /// Whose registered workloads are meant; all that its owner may have moved if it is empty.
    pub workload_creators: BTreeSet<String>,
    /// Processes, and none that get their pids later.
    pub processes: BTreeSet<TargetProcess>,
}

/// A process, told from each other one that has or gets its pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetProcess {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks after boot.
    pub start_time: u64,
    /// The boot in which it started.
    pub boot_id: String,
}

/// The processes that pids, or ids of threads, named when a record was created.
pub type Pins = BTreeMap<i32, TargetProcess>;

/// A part of a target that was not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// A target with one member.
    pub member: Target,
    /// Why, for people.
    pub reason: String,
}

/// So many names are told.
const TOLD: usize = 3;

impl fmt::Display for Target {
    /// For messages: the first few of each sort.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids = self.processes.iter().map(|process| process.pid);
        let pids: BTreeSet<i32> = self.pids.iter().copied().chain(pids).collect();
        let parts = [
            few("process", &pids),
            few("cgroup", &self.cgroups),
            few("unit", &self.units),
            few("container", &self.container_ids),
            few("pod", &self.pod_uids),
            self.labels.in_short(),
            few("workloads of", &self.workload_creators),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

fn few<T: fmt::Display>(sort: &str, names: &BTreeSet<T>) -> Option<String> {
    first_few(names.iter()).map(|names| format!("{sort} {names}"))
}

/// For messages: the first few names, and how many more there are; `None`: there are none.
pub fn first_few(names: impl ExactSizeIterator<Item: ToString>) -> Option<String> {
    let more = names.len().saturating_sub(TOLD);
    let first: Vec<_> = names.take(TOLD).map(|name| name.to_string()).collect();
    match (first.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(first.join(", ")),
        (false, _) => Some(format!("{} and {more} more", first.join(", "))),
    }
}

impl Target {
    /// A cgroup and nothing else.
    pub fn cgroup(path: &str) -> Self {
        Self { cgroups: [path.to_owned()].into(), ..Self::default() }
    }

    /// A container and nothing else.
    pub fn container(id: &str) -> Self {
        Self { container_ids: [id.to_owned()].into(), ..Self::default() }
    }

    /// Whether a workload that this client has registered may be meant.
    pub fn means_workloads_of(&self, creator: &str) -> bool {
        self.workload_creators.is_empty() || self.workload_creators.contains(creator)
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// Quality-of-service classes, first served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// Latency-sensitive with reserved CPUs.
    Lsr,
    /// Latency-sensitive.
    Ls,
    /// Best effort.
    Be,
}

/// What becomes of a job that was running when the daemon died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupt {
    /// It ends as interrupted.
    #[default]
    Stop,
    /// It is planned anew.
    Resume,
}

/// Which runs are told as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// Each start and each end.
    Always,
    /// Each end; of a repeating schedule those alone that differ from the one before.
    #[default]
    OnChange,
}

/// What goes where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// What the planner is asked.
    pub options: Options,
    /// Place in the queue; `None`: as the workload says.
    pub qos_class: Option<QosClass>,
    /// What becomes of it if the daemon dies.
    pub on_interrupt: OnInterrupt,
    /// What is done about the kernel's own balancing.
    pub numa_balancing: NumaBalancing,
    /// Which runs are told as events.
    pub emit: Emit,
}

impl Policy {
    /// The class that holds: latency-sensitive where none is given.
    pub fn class(&self) -> QosClass {
        self.qos_class.unwrap_or(QosClass::Ls)
    }
}

/// Bounds of an execution; `None`: the daemon's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes in one call.
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time.
    pub workers: Option<usize>,
    /// When to give up.
    pub timeout: Option<Duration>,
    /// Most bytes per second.
    pub rate_bytes_per_second: Option<u64>,
}

/// A migration that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSpec {
    /// Whose memory; never empty once checked.
    pub target: Target,
    /// What goes where.
    pub policy: Policy,
    /// Bounds.
    pub limits: Limits,
}
