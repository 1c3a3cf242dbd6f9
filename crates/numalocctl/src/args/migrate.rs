//! The arguments of `numalocctl plan` and `numalocctl migrate`: a plan takes what a migration takes.

use super::{
    DrawMoveArgs, ExchangeArgs, FileArgs, LimitArgs, OptionArgs, QueueArgs, TargetArgs,
    files::refuse_for_files, names, spec, target::parse_label,
};
use crate::exit::Failure;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use numaloc_api::value::{JobId, MigrationSpec};
use numaloc_core::NodeSet;

const EXAMPLES: &str = "\
Ctrl-C ends the migration after its current batches and reports. \
With the daemon a second Ctrl-C stops waiting for that. A job that existed before (--join, --request-id) is never ended: \
Ctrl-C only stops waiting for it.

Examples:
  numalocctl migrate --pid 4711 --dry-run
  numalocctl migrate --unit redis-server --profile gentle --max-stall 2ms
  numalocctl migrate --file /srv/model.gguf --place interleave
  numalocctl migrate --selector app=redis --qos lsr --resume --detach";

/// What is asked of a migration, and of its plan.
#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub exchange: ExchangeArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub queue: QueueArgs,
    #[command(flatten)]
    pub job: JobArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// Show what it would bring, as a range: by the latencies of numalocctl bench, of HMAT, or by distances. migrate measures the
    /// remote memory traffic of the host before and after, if resctrl is mounted
    #[arg(long)]
    pub benefit: bool,
}

/// Options of the daemon's job, which change nothing about what it moves.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Queue (with the daemon only)")]
pub struct JobArgs {
    /// If another job works on the same memory, take that job instead of failing.
    #[arg(long)]
    pub join: bool,
    /// Makes the request safe to repeat: the same id returns the same job.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Print the job's name and do not wait.
    #[arg(long)]
    pub detach: bool,
    /// The id for the job, such as nightly [default: a number]
    #[arg(long, value_name = "ID", value_parser = names::parse_job)]
    pub id: Option<JobId>,
    /// A label for filtering lists, key=value (repeatable).
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Waiting")]
pub struct ProgressArgs {
    /// Show progress on standard error even if it is not a terminal.
    #[arg(long, conflicts_with = "no_progress")]
    pub progress: bool,
    /// Show no progress.
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = EXAMPLES)]
pub struct MigrateArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Only show what would move, as `numalocctl plan` does, with or without the daemon.
    #[arg(long, conflicts_with_all = ["validate_only", "draw"])]
    pub dry_run: bool,
    /// Only check whether the daemon would accept it: the target, its owner, quotas and ceilings, and other jobs.
    #[arg(long, help_heading = "Queue (with the daemon only)")]
    pub validate_only: bool,
    #[command(flatten)]
    pub draw: DrawMoveArgs,
}

impl PlanArgs {
    /// The target, and whether one is needed.
    pub fn target_mut(&mut self) -> (&mut TargetArgs, bool) {
        let is_needed = !self.files.is_given();
        (&mut self.target, is_needed)
    }

    /// The migration as a value of the API, on a machine with memory on these nodes.
    ///
    /// # Errors
    /// No node is left to move to.
    pub fn spec(&self, with_memory: &NodeSet) -> Result<MigrationSpec, Failure> {
        spec(
            self.files.target(&self.target)?,
            &self.options,
            &self.queue,
            &self.limits,
            with_memory,
        )
    }

    /// Refuses what only the daemon can carry out.
    ///
    /// # Errors
    /// The option that needs the daemon, or partners that do not fit the way in which room is made.
    pub fn check_here(&self) -> Result<(), Failure> {
        let only_daemon = [
            ("--detach", self.job.detach),
            ("--join", self.job.join),
            ("--request-id", self.job.request_id.is_some()),
            ("--id", self.job.id.is_some()),
            ("--label", !self.job.label.is_empty()),
            ("--qos", self.queue.qos.is_some()),
            ("--resume", self.queue.resume.is_some()),
            ("--emit", self.queue.emit.is_some()),
        ];
        match only_daemon.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::NeedsDaemon { option }),
            None => {
                self.exchange.check_here(self.options.make_room)?;
                self.options.pace.check_here()
            }
        }
    }

    /// Refuses options that have no meaning for files.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_files(&self) -> Result<(), Failure> {
        let Self { options, exchange, limits, queue, job, benefit, .. } = self;
        let OptionArgs { place, pace, .. } = options;
        let LimitArgs { workers, .. } = limits;
        let given = [
            ("--include-shared", options.include_shared.is_some()),
            ("--exclude-file", options.exclude_file.is_some()),
            ("--include-network", options.include_network.is_some()),
            ("--include-bound", options.include_bound.is_some()),
            ("--include-gigantic", options.include_gigantic.is_some()),
            ("--hugetlb", options.hugetlb.is_some()),
            ("--pool-reserve", options.pool_reserve.is_some()),
            ("--node-bandwidth-max", options.node_bandwidth_max.is_some()),
            ("--make-room", options.make_room.is_some()),
            ("--compact", options.compact.is_some()),
            ("--target-ratio", options.target_ratio.is_some()),
            ("--home", options.home.is_some()),
            ("--near-distance", options.near_distance.is_some()),
            ("--from", options.from.is_some()),
            ("--order", options.order.is_some()),
            ("--map", !place.maps.is_empty()),
            ("--node-cpu-max", pace.node_cpu_max.is_some()),
            ("--numa-balancing", pace.numa_balancing.is_some()),
            ("--offload", pace.offload.is_some()),
            ("--exchange-with", !exchange.exchange_with.is_empty()),
            ("--workers", workers.is_some()),
            ("--benefit", *benefit),
            ("--qos", queue.qos.is_some()),
            ("--resume", queue.resume.is_some()),
            ("--emit", queue.emit.is_some()),
            ("--join", job.join),
            ("--request-id", job.request_id.is_some()),
            ("--detach", job.detach),
            ("--id", job.id.is_some()),
            ("--label", !job.label.is_empty()),
        ];
        refuse_for_files(&given)
    }
}

impl MigrateArgs {
    /// As [`PlanArgs::check_files`].
    ///
    /// # Errors
    /// The first of the options that have no meaning for files.
    pub fn check_files(&self) -> Result<(), Failure> {
        let given = [("--validate-only", self.validate_only), ("--draw", self.draw.draw.is_some())];
        refuse_for_files(&given).and_then(|()| self.plan.check_files())
    }
}

/// [`PlanArgs`] for `plan`, whose help shows only those that change a plan.
#[derive(Clone, Debug)]
pub struct PreviewArgs(pub PlanArgs);

impl PreviewArgs {
    fn of_plan(command: Command) -> Command {
        let hidden = ProgressArgs::augment_args(JobArgs::augment_args(Command::new("")));
        let hidden: Vec<_> = hidden.get_arguments().map(|arg| arg.get_id().clone()).collect();
        command.mut_args(|arg| {
            let hide = hidden.contains(arg.get_id()) || arg.is_hide_set();
            arg.hide(hide)
        })
    }
}

impl FromArgMatches for PreviewArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        PlanArgs::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        PlanArgs::from_arg_matches_mut(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for PreviewArgs {
    fn augment_args(command: Command) -> Command {
        Self::of_plan(PlanArgs::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::of_plan(PlanArgs::augment_args_for_update(command))
    }
}
