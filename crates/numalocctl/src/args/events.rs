//! The arguments of `numalocctl events`.

use super::{
    names::{parse_event, parse_job, parse_schedule, parse_since},
    target::parse_label,
};
use clap::{Args, ValueEnum};
use numaloc_api::value::{self, EventFilter, JobId, ScheduleId};
use std::time::SystemTime;

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl events --since 1h --type failed\n  numalocctl events -w -o json | jq .message"
)]
pub struct EventsArgs {
    /// Continue with events as they happen; with -o json one object per line. `--since 0s` has these alone.
    #[arg(short, long)]
    pub watch: bool,
    /// Only events since then: a time, or how long ago (10m).
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<SystemTime>,
    /// Only events of this type; several with commas.
    #[arg(long = "type", value_enum, value_delimiter = ',', value_name = "TYPE")]
    pub kind: Vec<EventTypeArg>,
    /// Only events of this job.
    #[arg(long, value_name = "ID", value_parser = parse_job)]
    pub job: Option<JobId>,
    /// Only events of this schedule.
    #[arg(long, value_name = "ID", value_parser = parse_schedule)]
    pub schedule: Option<ScheduleId>,
    /// Only events of jobs and schedules of this client, such as uid:1000.
    #[arg(long, value_name = "NAME")]
    pub creator: Option<String>,
    /// Only events of jobs and schedules with all of these labels: key=value,... (repeatable).
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only events after this one; 0 stands for the beginning.
    #[arg(long, value_name = "N", value_parser = parse_event)]
    pub after: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventTypeArg {
    /// Memory was moved, perhaps not all.
    Completed,
    /// There was nothing to do.
    Skipped,
    /// It could not be carried out.
    Failed,
    /// A job begins to move memory.
    Started,
    /// A job or a schedule was paused.
    Paused,
    /// A job or a schedule that was paused continues.
    Resumed,
    /// No member of a schedule's target exists any more.
    TargetGone,
    /// A schedule was removed.
    ScheduleRemoved,
    /// Another mover repeatedly moves away what a schedule moves.
    PlacementContested,
    /// What a schedule moves stays in place again.
    PlacementStable,
    /// A DMA engine copied a job's memory until something failed.
    OffloadFailed,
    /// A work queue of a DSA device could not be set up, or not taken down.
    DsaQueueFailed,
    /// The name of placement-contested in 0.1.
    #[value(hide = true)]
    FightBegun,
    /// The name of placement-stable in 0.1.
    #[value(hide = true)]
    FightEnded,
}

impl EventsArgs {
    /// A note for each type with a name of 0.1, which 0.3 will refuse.
    pub fn old_names(&self) -> impl Iterator<Item = String> {
        let note =
            |(old, new)| format!("note: --type {old} is now {new}; 0.3 will refuse the old name");
        self.kind.iter().filter_map(|kind| kind.renamed()).map(note)
    }

    /// The filter as a value of the API.
    pub fn filter(&self) -> EventFilter {
        let kind = |kind: &EventTypeArg| match kind {
            EventTypeArg::Completed => value::EventType::Completed,
            EventTypeArg::Skipped => value::EventType::Skipped,
            EventTypeArg::Failed => value::EventType::Failed,
            EventTypeArg::Started => value::EventType::Started,
            EventTypeArg::Paused => value::EventType::Paused,
            EventTypeArg::Resumed => value::EventType::Resumed,
            EventTypeArg::TargetGone => value::EventType::TargetGone,
            EventTypeArg::ScheduleRemoved => value::EventType::ScheduleRemoved,
            EventTypeArg::PlacementContested | EventTypeArg::FightBegun => {
                value::EventType::PlacementContested
            }
            EventTypeArg::PlacementStable | EventTypeArg::FightEnded => {
                value::EventType::PlacementStable
            }
            EventTypeArg::OffloadFailed => value::EventType::OffloadFailed,
            EventTypeArg::DsaQueueFailed => value::EventType::DsaQueueFailed,
        };
        EventFilter {
            types: self.kind.iter().map(kind).collect(),
            job: self.job.clone(),
            schedule: self.schedule.clone(),
            since: self.since,
            creator: self.creator.clone(),
            labels: self.label.iter().cloned().collect(),
        }
    }
}

impl EventTypeArg {
    /// The name of 0.1 and the present one, if this is the name of 0.1.
    fn renamed(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::FightBegun => Some(("fight-begun", "placement-contested")),
            Self::FightEnded => Some(("fight-ended", "placement-stable")),
            _ => None,
        }
    }
}
