//! `schedules`.

use super::{LimitArgs, PlanArgs, QueueArgs, TargetArgs, names::parse_schedule};
use crate::units::parse_span;
use clap::{Args, Subcommand};
use numaloc_api::value::ScheduleId;
use std::time::Duration;

/// What to do with schedules.
#[derive(Clone, Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List schedules, newest first.
    #[command(visible_alias = "list")]
    Ls {
        /// Print names only.
        #[arg(short, long)]
        quiet: bool,
    },
    /// Show schedules in full.
    Get(SchedulesArgs),
    /// Make a schedule; its first run is due at once.
    Create(CreateScheduleArgs),
    /// Change what is given of a schedule. A run under way goes on as it began.
    #[command(mut_group("TargetArgs", |group| group.required(false)))]
    Update(UpdateScheduleArgs),
    /// Remove schedules. A run under way goes on.
    Delete(DeleteScheduleArgs),
    /// Start no new runs.
    Pause(SchedulesArgs),
    /// Start runs again.
    Resume(SchedulesArgs),
}

/// Some schedules.
#[derive(Clone, Debug, Args)]
pub struct SchedulesArgs {
    /// The schedules, such as 7 or schedules/7.
    #[arg(required = true, value_name = "ID", value_parser = parse_schedule)]
    pub schedules: Vec<ScheduleId>,
}

/// When to run.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "When")]
pub struct WhenArgs {
    /// Least time from the end of one run to the start of the next; 0 runs once [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub interval: Option<Duration>,
    /// Up to this much, chosen at random, is added to each interval [default: 0]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub jitter: Option<Duration>,
    /// Remove the schedule when its target has been gone for this long; `never` waits for it to come back.
    #[arg(long, value_name = "DURATION", value_parser = parse_ttl)]
    pub ttl_after_gone: Option<Ttl>,
}

/// How long a schedule outlives its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// For ever.
    Never,
    /// For this long.
    After(Duration),
}

impl Ttl {
    /// As the API has it.
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
    parse_span(text).map(Ttl::After)
}

/// A new schedule.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl schedules create --unit redis-server --interval 30s --jitter 5s --target-ratio 95"
)]
pub struct CreateScheduleArgs {
    /// When to run.
    #[command(flatten)]
    pub when: WhenArgs,
    /// Whose memory.
    #[command(flatten)]
    pub target: TargetArgs,
    /// What to move.
    #[command(flatten)]
    pub options: PlanArgs,
    /// Bounds.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Place in the queue.
    #[command(flatten)]
    pub queue: QueueArgs,
    /// Start no runs before `schedules resume`.
    #[arg(long, help_heading = "When")]
    pub paused: bool,
    /// Makes the request safe to repeat: the same id gives back the same schedule.
    #[arg(long, value_name = "ID", help_heading = "Queue (with the daemon only)")]
    pub request_id: Option<String>,
}

/// Changes to a schedule.
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
    /// When to run.
    #[command(flatten)]
    pub when: WhenArgs,
    /// Whose memory; replaces the target as a whole.
    #[command(flatten)]
    pub target: TargetArgs,
    /// What to move.
    #[command(flatten)]
    pub options: PlanArgs,
    /// Bounds.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Place in the queue.
    #[command(flatten)]
    pub queue: QueueArgs,
}

/// Which schedules to remove.
#[derive(Clone, Debug, Args)]
pub struct DeleteScheduleArgs {
    /// The schedules, such as 7 or schedules/7.
    #[arg(required = true, value_name = "ID", value_parser = parse_schedule)]
    pub schedules: Vec<ScheduleId>,
    /// Fail unless the schedule still has this etag.
    #[arg(long)]
    pub etag: Option<String>,
}
