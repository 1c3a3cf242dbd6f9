//! The migration that the daemon was asked for.

use super::OptionsDoc;
use numaloc_api::value::Target;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// A migration as a client requests it.
#[derive(Clone, Debug, Serialize)]
pub struct SpecDoc {
    /// Whose memory.
    pub target: TargetDoc,
    /// What to move and where to.
    pub options: OptionsDoc,
    /// Its class: `lsr`, `ls` or `be`; null: the class of the registered workload.
    pub qos_class: Option<String>,
    /// What happens if the daemon stops or dies while the job runs: `stop` or `resume`.
    pub on_interrupt: String,
    /// What to do about the kernel's automatic NUMA balancing: `ignore`, `warn` or `pause`.
    pub numa_balancing: &'static str,
    /// Whether a DMA engine copies: `auto`, `off` or `require`.
    pub offload: &'static str,
    /// Which runs are reported as events: `always` or `on_change`.
    pub emit: &'static str,
    /// On whose behalf the owner asks; null: on its own.
    pub tenant: Option<String>,
    /// Bounds for the execution.
    pub limits: LimitsDoc,
}

/// Whose memory: the processes that all members name together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TargetDoc {
    /// Processes.
    pub pids: Vec<i32>,
    /// cgroups.
    pub cgroups: Vec<String>,
    /// systemd units.
    pub units: Vec<String>,
    /// Registered containers.
    pub container_ids: Vec<String>,
    /// Registered pods.
    pub pod_uids: Vec<String>,
    /// Labels of registered workloads.
    pub labels: BTreeMap<String, String>,
    /// More conditions on them.
    pub label_conditions: Vec<LabelConditionDoc>,
    /// The namespace that workloads must be in.
    pub namespace: Option<String>,
    /// Who has registered the workloads that are meant; empty: anybody whose workloads the owner may have moved.
    pub workload_creators: Vec<String>,
    /// Processes by pid, start time and boot, so that no later process with the same pid is meant.
    pub processes: Vec<TargetProcessDoc>,
}

impl From<&Target> for TargetDoc {
    /// What a target can be without the daemon.
    fn from(target: &Target) -> Self {
        let Target { pids, cgroups, units, .. } = target;
        Self {
            pids: pids.iter().copied().collect(),
            cgroups: cgroups.iter().cloned().collect(),
            units: units.iter().cloned().collect(),
            ..Self::default()
        }
    }
}

/// A condition on a label.
#[derive(Clone, Debug, Serialize)]
pub struct LabelConditionDoc {
    /// The label.
    pub key: String,
    /// What must hold for the label: `in`, `not_in`, `exists` or `does_not_exist`.
    pub operator: &'static str,
    /// The values that `in` and `not_in` compare with.
    pub values: Vec<String>,
}

impl fmt::Display for LabelConditionDoc {
    /// The condition in the text form of Kubernetes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            "in" => write!(f, "{key} in ({values})"),
            "not_in" => write!(f, "{key} notin ({values})"),
            "does_not_exist" => write!(f, "!{key}"),
            _ => f.write_str(key),
        }
    }
}

/// Identifies a process: a later process with the same pid has another start time or boot.
#[derive(Clone, Debug, Serialize)]
pub struct TargetProcessDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start time, in clock ticks after boot.
    pub start_time_ticks: u64,
    /// The boot in which it started.
    pub boot_id: String,
}

/// Bounds of a run; null: the daemon's default.
#[derive(Clone, Debug, Serialize)]
pub struct LimitsDoc {
    /// Largest amount in one call.
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time.
    pub workers: Option<u64>,
    /// Longest time of moving.
    pub timeout_seconds: Option<f64>,
    /// Most bytes per second.
    pub rate_bytes_per_second: Option<u64>,
}

impl fmt::Display for TargetDoc {
    /// Text for tables: the first members of each kind, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.processes.iter().map(|process| process.pid);
        let pids = self.pids.iter().copied().chain(named);
        let pids: Vec<_> = pids.map(|pid| pid.to_string()).collect();
        let named = [
            ("pid", &pids),
            ("cgroup", &self.cgroups),
            ("unit", &self.units),
            ("container", &self.container_ids),
            ("pod", &self.pod_uids),
        ];
        let mut parts: Vec<_> = named
            .into_iter()
            .filter_map(|(kind, names)| match &names[..] {
                [] => None,
                [only] => Some(format!("{kind} {only}")),
                [first, more @ ..] => Some(format!("{kind} {first} +{}", more.len())),
            })
            .collect();
        let labels = self.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let conditions = self.label_conditions.iter().map(ToString::to_string);
        let labels: Vec<_> = labels.chain(conditions).collect();
        parts.extend((!labels.is_empty()).then(|| labels.join(",")));
        parts.extend(self.namespace.as_ref().map(|namespace| format!("namespace {namespace}")));
        let creators = self.workload_creators.join(",");
        parts.extend((!creators.is_empty()).then(|| format!("workloads of {creators}")));
        f.write_str(&parts.join("; "))
    }
}
