//! The command line: its subcommands, and the options that several of them have.

mod advise;
mod bench;
mod connect;
mod deferred;
#[cfg(test)]
#[path = "../../../tests/docs/commands.rs"]
mod documented;
mod drain_node;
mod draw;
mod dsa;
mod events;
mod exchange;
mod files;
mod groups;
mod jobs;
mod migrate;
mod names;
mod nodes;
mod options;
mod output;
mod pace;
mod place;
mod process;
mod relieve;
mod run;
mod schedules;
mod target;
mod top;
mod values;
mod web;
mod workloads;

pub use advise::{AdviseArgs, CarryArgs};
pub use bench::{BenchArgs, BenchKind};
pub use connect::ConnectArgs;
pub use deferred::Deferred;
use deferred::at_once;
pub use drain_node::DrainNodeArgs;
pub use draw::{DrawArgs, DrawMoveArgs, DrawSort};
pub use dsa::DsaArgs;
pub use events::EventsArgs;
pub use exchange::ExchangeArgs;
pub use files::{FileArgs, refuse_for_files};
pub use groups::{ENVIRONMENT, FILES};
pub use jobs::{DeleteJobsArgs, JobsArgs, JobsCommand, ListJobsArgs};
pub use migrate::{MigrateArgs, PlanArgs, PreviewArgs, ProgressArgs};
pub use names::{parse_schedule, parse_workload};
pub use options::OptionArgs;
pub use output::{Colour, Format, check as check_output, shaped};
pub use pace::PaceArgs;
pub use relieve::{ReliefArgs, RelieveArgs};
pub use run::{LimitArgs, QueueArgs, spec};
pub use schedules::{
    ApplyArgs, CreateScheduleArgs, DeleteScheduleArgs, RunSchedulesArgs, SchedulesCommand,
    UpdateScheduleArgs, WhenArgs,
};
pub use target::{TargetArgs, cgroup_path, joined};
pub use top::TopArgs;
pub use values::ValueKind;
pub use web::{Listen, WebArgs};
pub use workloads::{
    ListWorkloadsArgs, RegisterArgs, ReplaceArgs, UnregisterArgs, WorkloadsCommand,
};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::{ffi::OsString, path::PathBuf, time::Duration};

const EXAMPLES: &str = "\
Examples:
  numalocctl top                                         memory by node and workload, live
  numalocctl topology                                    nodes, their CPUs and memory
  numalocctl locality --pid 4711                         where the memory of a process is
  numalocctl plan --unit redis-server                    what would move or stay, and why
  numalocctl advise                                      what is on the wrong node, and what would help
  numalocctl advise --apply                              carry out the advice; advise --undo takes it back
  numalocctl explain redis-server                        why the daemon moves it, or not
  numalocctl migrate --cgroup /system.slice/redis.service
  numalocctl migrate --pid 4711,4712 --to 0-1 --timeout 5m
  numalocctl migrate --unit redis-server --profile gentle
  numalocctl locality redis-server -o json               all processes of that name
  numalocctl doctor                                      what is missing on this host
  numalocctl status                                      what the daemon is doing
  numalocctl schedules create --selector app=redis --interval 1m

Exit codes: 0 done, 1 failure or something named is left out, 2 usage, 3 not found, 4 permission,
  5 daemon unreachable, 6 partly moved or read, 124 timed out, 130 left by Ctrl-C.";

/// Bring memory of running processes to their local NUMA nodes.
#[derive(Clone, Debug, Parser)]
#[command(name = "numalocctl", version, after_help = EXAMPLES, after_long_help = groups::reference(EXAMPLES))]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Output format; the help of a command lists its formats.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT", help_heading = output::HEADING, display_order = output::ORDER)]
    pub output: Format,
    /// Print rows alone: no header, and no text around them.
    #[arg(long, global = true, help_heading = output::HEADING, display_order = output::ORDER + 1)]
    pub no_headers: bool,
    /// When output is coloured.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", help_heading = output::HEADING, display_order = output::ORDER + 2)]
    pub color: Colour,
    #[command(flatten)]
    pub connect: ConnectArgs,
}

impl Cli {
    /// The definition of the command line. Arguments of a subcommand are built once it is chosen.
    pub fn definition() -> clap::Command {
        groups::grouped(shaped(Self::command(), &[]))
    }

    /// A smaller definition that is built sooner: with one subcommand, the first that is among `words`.
    /// [`Self::definition`] gives the same result for each command line that it parses; only that one can explain a failure.
    pub fn with_one_command(words: &[OsString]) -> Option<clap::Command> {
        let all = Self::command();
        let chosen = words.iter().find_map(|word| all.find_subcommand(word))?;
        let one = clap::Command::new("numalocctl")
            .subcommand_required(true)
            .args(all.get_arguments().cloned())
            .groups(all.get_groups().cloned())
            .subcommand(chosen.clone());
        Some(shaped(one, &[]))
    }

    /// The whole definition, as manual pages and completions take it.
    pub fn whole() -> clap::Command {
        groups::grouped(shaped(at_once::<Self>(), &[]))
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show memory by node, workload and process, live.
    Top(Deferred<TopArgs>),
    /// Show top, jobs and advice in a browser, or as a file.
    Web(Deferred<WebArgs>),
    /// Show the NUMA nodes with their CPUs, memory and distances.
    Topology(Deferred<TopologyArgs>),
    /// Show where the memory of processes or the cache of files is.
    #[command(
        after_help = "Examples:\n  numalocctl locality --unit redis-server -o wide\n  numalocctl locality --standalone --pid 4711 --draw"
    )]
    Locality(Deferred<LocalityArgs>),
    /// Preview a migration: what would move or stay, and why.
    ///
    /// It moves nothing.
    #[command(
        after_help = "It takes all options of migrate, so that a command line can be tried out before it is run.\n\n\
Examples:\n  numalocctl plan --cgroup /system.slice/redis.service\n  numalocctl plan redis-server --rate 512M --profile gentle"
    )]
    Plan(Deferred<PreviewArgs>),
    /// Name memory on the wrong node, and the commands that help.
    ///
    /// It changes nothing, unless --apply or --undo is given.
    #[command(
        after_help = "Examples:\n  numalocctl advise\n  numalocctl advise --unit redis-server --seconds 10\n  \
numalocctl advise --apply\n  numalocctl advise --undo --dry-run"
    )]
    Advise(Deferred<AdviseArgs>),
    /// Show why the daemon moves the memory of processes, or not.
    ///
    /// It names the schedules and jobs that move it, with their last results, and why memory stays, with what to do about it. It
    /// changes nothing.
    #[command(
        after_help = "Examples:\n  numalocctl explain redis-server\n  numalocctl explain --unit redis-server"
    )]
    Explain(Deferred<TargetArgs>),
    /// Bring the memory of processes to their local nodes.
    Migrate(Deferred<MigrateArgs>),
    /// Move all that can move from a node, and show what is left.
    ///
    /// Memory of all processes and page cache of files leave the node, also what a process has bound to it. What is left is
    /// shown by kind and by cgroup, so that its memory can go offline.
    DrainNode(Deferred<DrainNodeArgs>),
    /// Move memory from a node until enough of it is free.
    ///
    /// Memory of best-effort work goes to the nearest nodes that have room: that of the largest processes first.
    Relieve(Deferred<RelieveArgs>),
    /// Show the state of the daemon, and your role.
    Status,
    /// Drain the daemon: no move begins, requests are queued.
    ///
    /// Moves under way continue to their end. It lasts over restarts.
    #[command(after_help = "Examples:\n  numalocctl drain && numalocctl jobs ls --state running")]
    Drain,
    /// Let moves begin again after drain.
    Undrain,
    /// Pause all moves of the daemon.
    ///
    /// Those under way end after their current batches. It lasts over restarts.
    PauseAll,
    /// Let moves continue after pause-all.
    ResumeAll,
    /// Copy the daemon's store into a file, for numalocd --restore.
    #[command(after_help = "Examples:\n  numalocctl backup /var/backups/numaloc.redb")]
    Backup {
        /// The file to write. It must not exist.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List, watch and control the daemon's migrations.
    #[command(subcommand)]
    Jobs(Deferred<JobsCommand>),
    /// Manage migrations that the daemon repeats.
    #[command(subcommand)]
    Schedules(Deferred<SchedulesCommand>),
    /// Show results of migrations, and what else happened.
    Events(Deferred<EventsArgs>),
    /// Register cgroups under names, containers, pods and labels.
    #[command(subcommand)]
    Workloads(Deferred<WorkloadsCommand>),
    /// Print the daemon's metrics as OpenMetrics text.
    Metrics,
    /// Check kernel, rights and daemon, and what to do about it.
    Doctor,
    /// Measure what remote memory costs on this host.
    ///
    /// It measures latency and bandwidth of each node's memory on the CPUs of each node.
    Bench(Deferred<BenchArgs>),
    /// Show accelerators that can copy (Intel DSA).
    ///
    /// It also shows whether the kernel can use them for migrations.
    Dsa(Deferred<DsaArgs>),
    /// Show the versions of this program and of the daemon.
    Version,
    /// Print a shell's completions.
    #[command(
        after_help = "Examples:\n  numalocctl completions bash > /etc/bash_completion.d/numalocctl"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print values that a shell completes, a line each.
    #[command(name = "__complete", hide = true)]
    Complete {
        /// What they are values of.
        kind: ValueKind,
    },
    /// Restore settings of bench placement at the end of standard input.
    #[command(name = "__put-back", hide = true)]
    PutBack,
    /// Write files that packages need.
    #[command(subcommand, hide = true)]
    Generate(Deferred<GenerateCommand>),
}

impl Command {
    /// Whether this program can carry it out itself.
    pub fn needs_no_daemon(&self) -> bool {
        match self {
            Self::Top(_) | Self::Topology(_) | Self::Locality(_) | Self::Plan(_) => true,
            Self::Advise(_) => true,
            Self::Migrate(args) => args.plan.check_here().is_ok() && !args.validate_only,
            Self::DrainNode(args) => args.pace.check_here().is_ok(),
            Self::Relieve(args) => args.pace.check_here().is_ok(),
            _ => false,
        }
    }
    /// The target of a command that takes one, and whether it needs one.
    pub fn target_mut(&mut self) -> Option<(&mut TargetArgs, bool)> {
        match self {
            Self::Locality(args) => {
                let is_needed = !args.files.is_given();
                Some((&mut args.target, is_needed))
            }
            Self::Plan(args) => Some(args.0.target_mut()),
            Self::Explain(target) => Some((target, true)),
            Self::Migrate(args) => Some(args.plan.target_mut()),
            Self::Relieve(args) => Some((&mut args.target, false)),
            Self::Advise(args) => Some((&mut args.target, false)),
            Self::Schedules(command) => match &mut **command {
                SchedulesCommand::Create(args) => Some((&mut args.target, !args.files.is_given())),
                SchedulesCommand::Update(args) => Some((&mut args.target, false)),
                _ => None,
            },
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash with bash-completion.
    Bash,
    /// The Z shell.
    Zsh,
    /// The friendly interactive shell.
    Fish,
}

#[derive(Clone, Debug, Subcommand)]
pub enum GenerateCommand {
    /// Write a man page for each command.
    Man {
        /// An existing folder.
        directory: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub struct LocalityArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub draw: DrawArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct TopologyArgs {
    /// Print in the layout of `numactl -H`, regardless of --output.
    #[arg(long)]
    pub numactl: bool,
    /// Print again and again until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// Time between two prints, from 100ms to 1h.
    #[arg(short, long, value_name = "DURATION", default_value = "2s", value_parser = top::parse_delay, requires = "watch", allow_hyphen_values = true)]
    pub delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::whole().debug_assert();
    }

    #[test]
    fn documented_commands_parse() {
        documented::all_parse("numalocctl", 90, |words| Cli::try_parse_from(words).map(drop));
    }

    #[test]
    fn with_one_command_they_parse_in_the_same_way() {
        let parse = |mut definition: clap::Command, words: &[OsString]| {
            let mut matches = definition.try_get_matches_from_mut(words)?;
            Cli::from_arg_matches_mut(&mut matches).map(|cli| format!("{cli:?}"))
        };
        documented::all_parse("numalocctl", 90, |words| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let all = parse(Cli::definition(), &words)?;
            let one = Cli::with_one_command(&words[1..]).map(|one| parse(one, &words));
            assert_eq!(one.transpose()?.as_ref(), Some(&all), "{words:?}");
            Ok::<_, clap::Error>(())
        });
    }

    #[test]
    fn a_value_that_is_the_name_of_a_command_is_left_to_the_whole_definition() {
        let words = ["numalocctl", "--endpoint", "top", "drain"].map(OsString::from);
        let one = Cli::with_one_command(&words[1..]).expect("top is among them");
        assert!(one.try_get_matches_from(&words).is_err(), "drain is not in it");
        assert!(Cli::definition().try_get_matches_from(&words).is_ok());
        assert!(Cli::with_one_command(&["--version".into()]).is_none());
    }
}
