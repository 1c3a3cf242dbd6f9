//! The command line.

mod options;
mod target;

pub use options::PlanArgs;
pub use target::TargetArgs;

use crate::units::{parse_batch, parse_duration};
use clap::{Args, Parser, Subcommand, ValueEnum};
use numaloc_executor::Limits;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  numalocctl topology                                    nodes, their CPUs and memory
  numalocctl locality --pid 4711                         where the memory of a process is
  numalocctl plan --unit redis-server                    what would move, what not and why
  numalocctl migrate --cgroup /system.slice/redis.service
  numalocctl migrate --pid 4711,4712 --to 0-1 --timeout 5m
  numalocctl locality --pid $(pidof redis-server) -o json
  numalocctl doctor                                      what is missing on this host

Exit codes: 0 done, 1 failure, 2 usage, 3 not found, 4 permission,
  5 daemon unreachable, 6 partly moved, 124 timed out.";

/// Brings the memory of processes home to the NUMA nodes of their CPUs, while they run.
#[derive(Clone, Debug, Parser)]
#[command(name = "numalocctl", version, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Output format.
    #[arg(short, long, global = true, value_enum, default_value_t)]
    pub output: Format,
    /// Leave out table headers.
    #[arg(long, global = true)]
    pub no_headers: bool,
    /// Work without a daemon; the default as long as there is none.
    #[arg(long, global = true)]
    pub standalone: bool,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table of what matters.
    #[default]
    Table,
    /// A table with all columns and rows.
    Wide,
    /// JSON as in docs/json.md.
    Json,
}

/// Subcommands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show the NUMA nodes with their CPUs, memory and distances.
    Topology(TopologyArgs),
    /// Show on which nodes the memory of processes is.
    Locality(TargetArgs),
    /// Show what a migration would move, what not and why; moves nothing.
    Plan {
        /// Whose memory.
        #[command(flatten)]
        target: TargetArgs,
        /// What to move.
        #[command(flatten)]
        options: PlanArgs,
    },
    /// Bring the memory of processes to their local nodes. Ctrl-C ends it after the batch in hand.
    Migrate(MigrateArgs),
    /// Check the host: kernel, rights, what is missing and what to do about it.
    Doctor,
    /// Show the version.
    Version,
}

/// Options of `topology`.
#[derive(Clone, Copy, Debug, Args)]
pub struct TopologyArgs {
    /// Print in the layout of `numactl -H`, whatever --output says.
    #[arg(long)]
    pub numactl: bool,
}

/// Options of `migrate`.
#[derive(Clone, Debug, Args)]
pub struct MigrateArgs {
    /// Whose memory.
    #[command(flatten)]
    pub target: TargetArgs,
    /// What to move.
    #[command(flatten)]
    pub options: PlanArgs,
    /// Wait for the end; without a daemon it always waits.
    #[arg(long)]
    pub wait: bool,
    /// Show progress on standard error even if it is no terminal.
    #[arg(long, conflicts_with = "no_progress")]
    pub progress: bool,
    /// Show no progress.
    #[arg(long)]
    pub no_progress: bool,
    /// Give up after this time: 500ms, 10s, 5m, 1h, or seconds.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
    /// Largest amount in one call, such as 4M or 64M.
    #[arg(long, value_name = "SIZE", value_parser = parse_batch, allow_hyphen_values = true)]
    pub batch_bytes: Option<u64>,
    /// Threads that move at the same time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), allow_hyphen_values = true)]
    pub workers: Option<u16>,
}

impl MigrateArgs {
    /// Bounds of the run.
    pub fn limits(&self) -> Limits {
        let default = Limits::default();
        Limits {
            batch_bytes: self.batch_bytes.unwrap_or(default.batch_bytes),
            workers: self.workers.map_or(default.workers, usize::from),
            timeout: self.timeout,
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
