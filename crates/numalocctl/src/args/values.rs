//! Values of arguments that a shell completes because this program knows them.

use clap::{Arg, ValueEnum};

/// What values name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueKind {
    Pids,
    /// Processes by name or pid.
    Processes,
    Units,
    Cgroups,
    Containers,
    Jobs,
    Schedules,
    Workloads,
    Columns,
    Nodes,
}

impl ValueKind {
    /// The kind of an argument's values; `None`: they are not known.
    pub fn of(arg: &Arg) -> Option<Self> {
        match arg.get_id().as_str() {
            "pid" => Some(Self::Pids),
            "process" => Some(Self::Processes),
            "unit" => Some(Self::Units),
            "cgroup" => Some(Self::Cgroups),
            "container" => Some(Self::Containers),
            "job" | "jobs" => Some(Self::Jobs),
            "schedule" | "schedules" => Some(Self::Schedules),
            "workload" | "workloads" => Some(Self::Workloads),
            "to" | "from" | "node" | "nodes" => Some(Self::Nodes),
            "columns" | "sort" => Some(Self::Columns),
            _ => None,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
