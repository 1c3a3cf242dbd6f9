//! The arguments of `numalocctl schedules`.

use super::{
    FileArgs, LimitArgs, OptionArgs, QueueArgs, ReliefArgs, TargetArgs,
    names::{parse_schedule, parse_workload},
    target::parse_label,
};
use crate::units::parse_span;
use clap::{Args, Subcommand, ValueEnum};
use numaloc_api::value::{ScheduleFilter, ScheduleId, ScheduleState, WorkloadId};
use std::{path::PathBuf, time::Duration};

/// What to do with schedules.
#[derive(Clone, Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List schedules, newest first.
    #[command(visible_alias = "list")]
    Ls(ListSchedulesArgs),
    /// Show schedules in full.
    Get(SchedulesArgs),
    /// Create a schedule; its first run is due at once.
    Create(CreateScheduleArgs),
    /// Create, change or remove schedules to match a file.
    #[command(
        after_help = "The file has schedules in YAML or JSON, with the fields of the API (/usr/share/doc/numaloc/reference.md): one document after the other, a list, or \
what `schedules ls -o json` prints. The daemon checks all changes before the first one is made, so that a mistake changes nothing.\n\n\
Examples:\n  numalocctl schedules apply -f schedules.yaml --dry-run\n  numalocctl schedules apply -f schedules.yaml --prune --label team=db"
    )]
    Apply(ApplyArgs),
    /// Change the given fields of a schedule.
    ///
    /// A run under way continues as it began.
    Update(UpdateScheduleArgs),
    /// Run schedules now, and print the names of their jobs.
    Run(RunSchedulesArgs),
    /// Remove schedules. A run under way continues.
    Delete(DeleteScheduleArgs),
    /// Start no new runs.
    Pause(SchedulesArgs),
    /// Start runs again.
    Resume(SchedulesArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ListSchedulesArgs {
    /// Only schedules in this state; several with commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub state: Vec<ScheduleStateArg>,
    /// Only schedules that this client created, such as uid:1000.
    #[arg(long, value_name = "NAME")]
    pub creator: Option<String>,
    /// Only schedules with all of these labels: key=value,... (repeatable).
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only schedules whose target names this workload.
    #[arg(long, value_name = "ID", value_parser = parse_workload)]
    pub workload: Option<WorkloadId>,
    /// Print names only.
    #[arg(short, long)]
    pub quiet: bool,
    /// Continue with changes to them; with -o json one object per line.
    #[arg(short, long, conflicts_with = "quiet")]
    pub watch: bool,
}

impl ListSchedulesArgs {
    /// The filter as a value of the API.
    pub fn filter(&self) -> ScheduleFilter {
        ScheduleFilter {
            states: self.state.iter().map(|&state| state.into()).collect(),
            creator: self.creator.clone(),
            labels: self.label.iter().cloned().collect(),
            workload: self.workload.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleStateArg {
    /// It waits until its next run is due.
    Waiting,
    /// A run is queued or under way.
    Active,
    /// Its target is gone.
    TargetGone,
    /// Paused by a client.
    Paused,
    /// It was to run once and has run.
    Completed,
}

impl From<ScheduleStateArg> for ScheduleState {
    fn from(state: ScheduleStateArg) -> Self {
        match state {
            ScheduleStateArg::Waiting => Self::Waiting,
            ScheduleStateArg::Active => Self::Active,
            ScheduleStateArg::TargetGone => Self::TargetGone,
            ScheduleStateArg::Paused => Self::Paused,
            ScheduleStateArg::Completed => Self::Completed,
        }
    }
}

#[derive(Clone, Debug, Args)]
pub struct SchedulesArgs {
    /// The schedules, such as 7 or schedules/7.
    #[arg(required = true, value_name = "ID", value_parser = parse_schedule)]
    pub schedules: Vec<ScheduleId>,
}

/// Which schedules to run now.
#[derive(Clone, Debug, Args)]
pub struct RunSchedulesArgs {
    /// The schedules, such as 7 or schedules/7.
    #[arg(required = true, value_name = "ID", value_parser = parse_schedule)]
    pub schedules: Vec<ScheduleId>,
    /// Makes the request safe to repeat: the same id returns the same job. For one schedule.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "When")]
pub struct WhenArgs {
    /// Shortest time from the end of one run to the start of the next; 0 runs once [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub interval: Option<Duration>,
    /// Longest random time that is added to each interval [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub jitter: Option<Duration>,
    /// Remove the schedule when its target has been gone for this long; `never` waits for it to come back.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl_after_gone: Option<Ttl>,
}

/// How long a schedule stays when its target has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// `never`: until a client removes it.
    Never,
    /// The schedule is removed after this time.
    After(Duration),
}

impl Ttl {
    /// The value for the API.
    pub fn duration(self) -> Option<Duration> {
        match self {
            Self::Never => None,
            Self::After(duration) => Some(duration),
        }
    }
}

fn parse_ttl(text: &str) -> Result<Ttl, String> {
    if text == "never" {
        return Ok(Ttl::Never);
    }
    parse_span(text).map(Ttl::After).map_err(|error| format!("{error}, or never"))
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl schedules create --unit redis-server --interval 30s --jitter 5s --target-ratio 95"
)]
pub struct CreateScheduleArgs {
    #[command(flatten)]
    pub when: WhenArgs,
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub relief: ReliefArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Start no runs before `schedules resume`.
    #[arg(long, help_heading = "When")]
    pub paused: bool,
    /// Makes the request safe to repeat: the same id returns the same schedule.
    #[arg(long, value_name = "ID", help_heading = "Queue (with the daemon only)")]
    pub request_id: Option<String>,
    /// The id for the schedule, such as nightly [default: a number]
    #[arg(long, value_name = "ID", value_parser = parse_schedule)]
    pub id: Option<ScheduleId>,
    /// A label for filtering lists, key=value (repeatable); the schedule's jobs get it, too.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only check whether the daemon would accept it.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl schedules update 7 --interval 5m\n  numalocctl schedules update 7 --to local --include-shared=false"
)]
pub struct UpdateScheduleArgs {
    /// The schedule, such as 7 or schedules/7.
    #[arg(value_name = "ID", value_parser = parse_schedule)]
    pub schedule: ScheduleId,
    /// Fail unless the schedule still has this etag.
    #[arg(long)]
    pub etag: Option<String>,
    #[command(flatten)]
    pub when: WhenArgs,
    /// The new target; it replaces the whole target.
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub options: OptionArgs,
    #[command(flatten)]
    pub relief: ReliefArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Its labels, key=value (repeatable); they replace all of its labels.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Remove all of its labels.
    #[arg(long, conflicts_with = "label")]
    pub no_labels: bool,
    /// Only check whether the daemon would accept it.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}

/// What a file declares, and how far the daemon's records follow it.
#[derive(Clone, Debug, Args)]
pub struct ApplyArgs {
    /// The file, or `-` for standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Remove the records that have all labels of --label and that the file does not declare.
    #[arg(long, requires = "label")]
    pub prune: bool,
    /// With --prune: the labels of records that may be removed, key=value (repeatable).
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label, requires = "prune")]
    pub label: Vec<(String, String)>,
    /// Only have the daemon check the changes, and print them.
    #[arg(long, visible_alias = "validate-only")]
    pub dry_run: bool,
}

#[derive(Clone, Debug, Args)]
pub struct DeleteScheduleArgs {
    /// The schedules, such as 7 or schedules/7.
    #[arg(required = true, value_name = "ID", value_parser = parse_schedule)]
    pub schedules: Vec<ScheduleId>,
    /// Fail unless the schedule still has this etag.
    #[arg(long)]
    pub etag: Option<String>,
    /// Succeed also if a schedule does not exist.
    #[arg(long)]
    pub allow_missing: bool,
    /// Only check whether the daemon would remove them.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}
