//! Migrations as clients request them, and their targets.

use super::{few::first_few, selector::Selector};
use numaloc_core::{HomeRule, MapRule, NumaBalancing, Offload, Options, Placement};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// Processes whose memory is meant: all that the members name together. The members are sorted and unique, so that
/// equal targets compare as equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Pids in the daemon's pid namespace, as they are now.
    pub pids: BTreeSet<i32>,
    /// cgroups with their children: absolute paths as in /proc/PID/cgroup.
    pub cgroups: BTreeSet<String>,
    /// systemd units by their full names.
    pub units: BTreeSet<String>,
    /// Containers: registered workloads by container id, or those of the host by name or id.
    pub containers: BTreeSet<String>,
    /// Pods: registered workloads by pod uid, or those of the host by name or uid.
    pub pods: BTreeSet<String>,
    /// Virtual machines of libvirt by name.
    pub virtual_machines: BTreeSet<String>,
    /// Containers of the host that run, by a label of their own: `KEY=VALUE` or `KEY`.
    pub container_labels: BTreeSet<String>,
    /// Registered workloads that this selects; none if it is empty.
    pub labels: Selector,
    /// Creators whose registered workloads are meant; if empty, all workloads that the owner may have moved.
    pub workload_creators: BTreeSet<String>,
    /// Processes by pid, start time and boot, so that no later process with the same pid is meant.
    pub processes: BTreeSet<TargetProcess>,
    /// Files and directories whose page cache is meant, by absolute path. A target with files has no other members.
    pub files: BTreeSet<String>,
}

/// Identifies a process: a later process with the same pid has another start time or boot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetProcess {
    /// Its pid in the daemon's pid namespace.
    pub pid: i32,
    /// Its start time in clock ticks after boot.
    pub start_time: u64,
    /// The boot in which it started.
    pub boot_id: String,
}

/// The processes that pids, or ids of threads, stand for, as found when the target of a record was set.
pub type Pins = BTreeMap<i32, TargetProcess>;

/// Where a unit, container, pod or virtual machine was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAt {
    /// The cgroup whose processes are meant; `None`: the one process that `by` names.
    pub cgroup: Option<String>,
    /// The source that knew it, for people.
    pub by: String,
}

/// A member of a target that was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMember {
    /// A target with one member.
    pub member: Target,
    /// The cgroup or process that the member stands for.
    pub at: FoundAt,
}

/// A member of a target that is left out, or some of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// A target with one member.
    pub member: Target,
    /// Why it is left out, as text for people; for processes, why the first of them is.
    pub reason: String,
    /// Number of its processes that may not be read, while others take part. 0: the member is left out as a whole.
    pub processes: usize,
}

impl fmt::Display for Target {
    /// For messages: the first few members of each sort.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids = self.processes.iter().map(|process| process.pid);
        let pids: BTreeSet<i32> = self.pids.iter().copied().chain(pids).collect();
        let parts = [
            few("process", &pids),
            few("cgroup", &self.cgroups),
            few("unit", &self.units),
            few("container", &self.containers),
            few("pod", &self.pods),
            few("virtual machine", &self.virtual_machines),
            few("container with label", &self.container_labels),
            self.labels.in_short(),
            few("workloads of", &self.workload_creators),
            few("file", &self.files),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }
}

fn few<T: fmt::Display>(sort: &str, names: &BTreeSet<T>) -> Option<String> {
    first_few(names.iter()).map(|names| format!("{sort} {names}"))
}

impl Target {
    /// A target with one cgroup.
    pub fn cgroup(path: &str) -> Self {
        Self { cgroups: [path.to_owned()].into(), ..Self::default() }
    }

    /// A target with one container.
    pub fn container(id: &str) -> Self {
        Self { containers: [id.to_owned()].into(), ..Self::default() }
    }

    /// A target with one file or directory.
    pub fn file(path: &str) -> Self {
        Self { files: [path.to_owned()].into(), ..Self::default() }
    }

    /// Whether a workload that this client has registered may be meant.
    pub fn means_workloads_of(&self, creator: &str) -> bool {
        self.workload_creators.is_empty() || self.workload_creators.contains(creator)
    }

    /// A member that both targets name; a cgroup has those below it. Members of different kinds are not compared: what they stand for can
    /// change.
    pub fn common(&self, other: &Self) -> Option<Self> {
        let is_within = |path: &str, of: &str| {
            path.strip_prefix(of.trim_end_matches('/'))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let cgroups = self.cgroups.iter().find(|&path| {
            other.cgroups.iter().any(|of| is_within(path, of) || is_within(of, path))
        });
        if let Some(path) = cgroups {
            return Some(Self::cgroup(path));
        }
        let labels = match self.labels == other.labels {
            true => self.labels.clone(),
            false => Selector::default(),
        };
        let both = |of: fn(&Self) -> &BTreeSet<String>| {
            of(self).intersection(of(other)).cloned().collect()
        };
        let common = Self {
            pids: self.pids.intersection(&other.pids).copied().collect(),
            processes: self.processes.intersection(&other.processes).cloned().collect(),
            units: both(|target| &target.units),
            containers: both(|target| &target.containers),
            pods: both(|target| &target.pods),
            virtual_machines: both(|target| &target.virtual_machines),
            container_labels: both(|target| &target.container_labels),
            files: both(|target| &target.files),
            labels,
            ..Self::default()
        };
        (!common.is_empty()).then_some(common)
    }

    /// Whether it has no member.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// Quality-of-service classes. The order is that in which the queue serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QosClass {
    /// LSR of Koordinator: latency-sensitive, with CPUs reserved for it.
    Lsr,
    /// LS of Koordinator: latency-sensitive, on shared CPUs.
    Ls,
    /// BE of Koordinator: best effort, which makes way for the other classes.
    Be,
}

/// Whether a job that was running when the daemon stopped or died ends or resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInterrupt {
    /// The job ends in the state interrupted.
    #[default]
    Stop,
    /// It is planned again when the daemon is back.
    Resume,
}

/// The runs that are reported as events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emit {
    /// The start and the end of each run.
    Always,
    /// The end of each run. For a schedule that repeats, only ends that differ from the last one reported.
    #[default]
    OnChange,
}

/// The memory that moves, its destination and the manner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The options of the planner.
    pub options: Options,
    /// Its class; `None`: the class of the registered workload.
    pub qos_class: Option<QosClass>,
    /// Whether the job ends or resumes after the daemon has stopped or died.
    pub on_interrupt: OnInterrupt,
    /// Treatment of the kernel's automatic NUMA balancing.
    pub numa_balancing: NumaBalancing,
    /// Whether a DMA engine copies.
    pub offload: Offload,
    /// The runs that are reported as events.
    pub emit: Emit,
    /// On whose behalf the owner asks: tenants of one owner take turns. `None`: on its own.
    pub tenant: Option<String>,
}

impl Policy {
    /// The class that applies: latency-sensitive if none is given.
    pub fn class(&self) -> QosClass {
        self.qos_class.unwrap_or(QosClass::Ls)
    }
}

/// Bounds for an execution. `None` means the daemon's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of bytes in one call.
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time.
    pub workers: Option<usize>,
    /// Longest time that a run may take.
    pub timeout: Option<Duration>,
    /// Most bytes that are passed to calls per second.
    pub rate_bytes_per_second: Option<u64>,
    /// Most bytes that move in an hour.
    pub hourly_budget_bytes: Option<u64>,
}

/// A migration as a client requests it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationSpec {
    /// Processes whose memory is meant. Never empty after the check.
    pub target: Target,
    /// The memory that moves, its destination and the manner.
    pub policy: Policy,
    /// Bounds on the speed and duration of the job.
    pub limits: Limits,
}

impl MigrationSpec {
    /// Whether 0.1.0, which drops fields that it does not know, would do something else with it.
    pub fn is_newer_than_0_1(&self) -> bool {
        let Self { target, policy, limits } = self;
        let options = &policy.options;
        let has_nodes = |rule: &MapRule| matches!(rule.placement, Placement::Nodes(_));
        !target.container_labels.is_empty()
            || !target.files.is_empty()
            || options.include_network
            || options.near_distance != Options::default().near_distance
            || options.pool_reserve_percent != Options::default().pool_reserve_percent
            || options.node_bandwidth_max_bytes_per_second.is_some()
            || options.relief.is_some()
            || limits.hourly_budget_bytes.is_some()
            || matches!(options.home, HomeRule::Devices | HomeRule::Near)
            || options.maps.iter().any(has_nodes)
            || options.placement.by_use().is_some()
    }
}
