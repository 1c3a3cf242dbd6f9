//! The arguments of `numalocctl workloads`.

use super::{ApplyArgs, names::parse_workload, run::Qos, target::parse_label};
use crate::units::parse_duration;
use clap::{Args, Subcommand};
use numaloc_api::value::{Selector, WorkloadId};
use std::{path::PathBuf, time::Duration};

/// What to do with workloads.
#[derive(Clone, Debug, Subcommand)]
pub enum WorkloadsCommand {
    /// List registered workloads in the order of their names.
    #[command(visible_alias = "list")]
    Ls(ListWorkloadsArgs),
    /// Show workloads in full.
    Get {
        /// The workloads, such as redis or workloads/redis.
        #[arg(required = true, value_name = "NAME", value_parser = parse_workload)]
        workloads: Vec<WorkloadId>,
    },
    /// Register a workload, or replace the one of its name.
    Register(RegisterArgs),
    /// Register, change or unregister workloads to match a file.
    #[command(
        after_help = "The file has workloads in YAML or JSON: what `workloads ls -o json` prints, a list, or one document after the other. \
The daemon checks all changes before the first one is made. A workload keeps the source that it has; `workloads replace` is for programs that \
own the whole set of a source.\n\nExamples:\n  numalocctl workloads apply -f workloads.yaml --dry-run\n  \
numalocctl workloads apply -f workloads.yaml --prune --label team=db"
    )]
    Apply(ApplyArgs),
    /// Replace the workloads of a source with those in a file.
    ///
    /// Workloads of the source that the file does not have are unregistered.
    Replace(ReplaceArgs),
    /// Renew the leases of all of your workloads of a source.
    Renew {
        /// The source that they were registered with; without it the workloads that have none.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
    },
    /// Unregister workloads. Their jobs under way continue.
    Unregister(UnregisterArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ListWorkloadsArgs {
    /// Print names only.
    #[arg(short, long)]
    pub quiet: bool,
    /// Continue with changes to them; with -o json one object per line.
    #[arg(short, long, conflicts_with = "quiet")]
    pub watch: bool,
    /// Only workloads with these labels, as Kubernetes writes it: app=redis,tier in (a,b),!old (repeatable: all have to hold).
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Vec<Selector>,
    /// Only workloads in this namespace.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only workloads that this client has registered, such as uid:1000.
    #[arg(long, value_name = "CLIENT")]
    pub creator: Option<String>,
    /// Only workloads of this source.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Only workloads whose names begin with this text.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl workloads register redis --cgroup /system.slice/redis.service --label app=redis\n  numalocctl workloads register web-1 --container $(docker inspect -f {{.Id}} web) --ttl 10m\n  numalocctl workloads register redis --update --qos lsr"
)]
pub struct RegisterArgs {
    /// Its name: letters, digits, '.', '_', '-'.
    #[arg(value_name = "NAME", value_parser = parse_workload)]
    pub workload: WorkloadId,
    /// Its cgroup, as in /proc/PID/cgroup. It need not exist yet. Without it the daemon looks for the cgroup of the
    /// container.
    #[arg(long, value_name = "PATH", required_unless_present_any = ["container", "update"])]
    pub cgroup: Option<String>,
    /// Id of its container; without --cgroup the full one.
    #[arg(long, value_name = "ID")]
    pub container: Option<String>,
    /// Uid of its pod.
    #[arg(long, value_name = "UID")]
    pub pod: Option<String>,
    /// The namespace that it belongs to.
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Labels for selectors; several with commas or by repeating the option.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// The class of jobs on it that name no class themselves.
    #[arg(long, value_enum, value_name = "CLASS")]
    pub qos: Option<Qos>,
    /// Which of your sets it belongs to, see `workloads replace`.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Unregister it when it has not been renewed for this long [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub ttl: Option<Duration>,
    /// Fail unless the registered workload has this etag.
    #[arg(long)]
    pub etag: Option<String>,
    /// Fail if a workload is registered under the name.
    #[arg(long, conflicts_with = "update")]
    pub create_only: bool,
    /// Change only the given fields of the registered workload.
    #[arg(long)]
    pub update: bool,
    /// With --update: register it if it does not exist.
    #[arg(long, requires = "update")]
    pub allow_missing: bool,
    /// Makes the request safe to repeat: the same id returns the same workload.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Only check whether the daemon would accept it.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The file has workloads in YAML or JSON: what `workloads ls -o json` prints, a list, or one document after the other. \
Fields are name, cgroup, container_id, pod_uid, namespace, labels, qos_class and ttl; what only the daemon sets is ignored.\n\n\
Examples:\n  numalocctl workloads replace --source node-agent --ttl 5m -f workloads.json\n  \
numalocctl workloads ls --source a -o json | numalocctl workloads replace --source b -f -"
)]
pub struct ReplaceArgs {
    /// The file, or `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Which of your sets this is; without it the set of workloads that have no source.
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// Unregister workloads without a ttl of their own when they have not been renewed for this long [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub ttl: Option<Duration>,
    /// Only check whether the daemon would accept it, and count what would change.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}

#[derive(Clone, Debug, Args)]
pub struct UnregisterArgs {
    /// The workloads, such as redis or workloads/redis.
    #[arg(required = true, value_name = "NAME", value_parser = parse_workload)]
    pub workloads: Vec<WorkloadId>,
    /// Fail unless the workload still has this etag.
    #[arg(long)]
    pub etag: Option<String>,
    /// Succeed also if a workload is not registered.
    #[arg(long)]
    pub allow_missing: bool,
    /// Only check whether the daemon would unregister them.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}
