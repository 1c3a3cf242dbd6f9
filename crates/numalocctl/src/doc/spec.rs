//! What the daemon was asked for.

use super::OptionsDoc;
use serde::Serialize;
use std::{collections::BTreeMap, fmt};

/// A migration that is asked for.
#[derive(Clone, Debug, Serialize)]
pub struct SpecDoc {
    /// Whose memory.
    pub target: TargetDoc,
    /// What to move and where to.
    pub options: OptionsDoc,
    /// Place in the queue: `lsr`, `ls` or `be`; null: as the workload says.
    pub qos_class: Option<String>,
    /// What becomes of it if the daemon dies: `stop` or `resume`.
    pub on_interrupt: String,
    /// What is done about the kernel's own balancing: `ignore`, `warn` or `pause`.
    pub numa_balancing: &'static str,
    /// Which runs are told as events: `always` or `on_change`.
    pub emit: &'static str,
    /// Bounds.
    pub limits: LimitsDoc,
}

/// Whose memory: the union of all that is named.
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
    /// The namespace that they are in.
    pub namespace: Option<String>,
    /// Who has registered the workloads that are meant; empty: anybody whose workloads the owner may have moved.
    pub workload_creators: Vec<String>,
    /// Processes, and none that get their pids later.
    pub processes: Vec<TargetProcessDoc>,
}

/// A condition on a label.
#[derive(Clone, Debug, Serialize)]
pub struct LabelConditionDoc {
    /// The label.
    pub key: String,
    /// What holds for it: `in`, `not_in`, `exists` or `does_not_exist`.
    pub operator: &'static str,
    /// The values that `in` and `not_in` are about.
    pub values: Vec<String>,
}

impl fmt::Display for LabelConditionDoc {
    /// As Kubernetes writes it.
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

/// A process, told from each other one that has or gets its pid.
#[derive(Clone, Debug, Serialize)]
pub struct TargetProcessDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks after boot.
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
    /// When to give up.
    pub timeout_seconds: Option<f64>,
    /// Most bytes per second.
    pub rate_bytes_per_second: Option<u64>,
}

impl fmt::Display for TargetDoc {
    /// For tables: the first of each kind, and how many more there are.
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
