//! `workloads`.

use super::{names::parse_workload, run::Qos, target::parse_label};
use clap::{Args, Subcommand};
use numaloc_api::value::WorkloadId;

/// What to do with workloads.
#[derive(Clone, Debug, Subcommand)]
pub enum WorkloadsCommand {
    /// List registered workloads in the order of their names.
    #[command(visible_alias = "list")]
    Ls {
        /// Print names only.
        #[arg(short, long)]
        quiet: bool,
    },
    /// Register a workload, or replace what is registered under its name.
    Register(RegisterArgs),
    /// Forget workloads. Their jobs go on.
    Unregister {
        /// The workloads, such as redis or workloads/redis.
        #[arg(required = true, value_name = "NAME", value_parser = parse_workload)]
        workloads: Vec<WorkloadId>,
    },
}

/// A workload.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl workloads register redis --cgroup /system.slice/redis.service --label app=redis"
)]
pub struct RegisterArgs {
    /// Its name: letters, digits, '.', '_', '-'.
    #[arg(value_name = "NAME", value_parser = parse_workload)]
    pub workload: WorkloadId,
    /// Its cgroup, as in /proc/PID/cgroup. It need not exist yet.
    #[arg(long, value_name = "PATH")]
    pub cgroup: String,
    /// Id of its container.
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
    /// Uid of its pod.
    #[arg(long, value_name = "UID")]
    pub pod: Option<String>,
    /// Labels to select it by; several with commas or by repeating the option.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// The class of its jobs that name none.
    #[arg(long, value_enum, value_name = "CLASS")]
    pub qos: Option<Qos>,
}
