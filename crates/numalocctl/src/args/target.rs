//! Whose memory.

use clap::Args;
use numaloc_host::Target;
use std::fmt;

/// What a request names; at least one of them.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub struct TargetArgs {
    /// A process by its pid; several with commas or by repeating the option.
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(i32).range(1..), allow_hyphen_values = true)]
    pub pid: Vec<i32>,
    /// All processes of a cgroup and its children: its path as in /proc/PID/cgroup (repeatable).
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// All processes of a systemd unit (repeatable).
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
}

impl TargetArgs {
    /// The targets in the host's words.
    pub fn targets(&self) -> Vec<Target> {
        let pids = self.pid.iter().copied().map(Target::Pid);
        let cgroups = self.cgroup.iter().cloned().map(Target::Cgroup);
        let units = self.unit.iter().cloned().map(Target::Unit);
        pids.chain(cgroups).chain(units).collect()
    }
}

impl fmt::Display for TargetArgs {
    /// For messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let targets = self.targets().into_iter().map(|target| target.to_string());
        f.write_str(&targets.collect::<Vec<_>>().join(", "))
    }
}
