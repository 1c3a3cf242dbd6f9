//! The arguments of `numalocctl jobs`.

use super::{
    ProgressArgs,
    names::{job_state, parse_job, parse_schedule, parse_since, parse_workload},
    target::parse_label,
};
use crate::units::whole;
use clap::{Args, Subcommand};
use numaloc_api::value::{JobFilter, JobId, JobState, ScheduleId, WorkloadId};
use std::time::SystemTime;

/// What to do with jobs.
#[derive(Clone, Debug, Subcommand)]
pub enum JobsCommand {
    /// List jobs, newest first.
    #[command(visible_alias = "list")]
    Ls(ListJobsArgs),
    /// Show jobs with their plan, members and outcome.
    #[command(visible_alias = "describe")]
    Get(JobsArgs),
    /// Follow a job to its end, and exit as `migrate` does.
    Watch {
        /// The job, such as 42 or jobs/42.
        #[arg(value_name = "ID", value_parser = parse_job)]
        job: JobId,
        #[command(flatten)]
        progress: ProgressArgs,
    },
    /// Cancel jobs, those under way after their current batches.
    ///
    /// Moved memory stays moved.
    Cancel(JobsArgs),
    /// Pause jobs, those under way after their current batches.
    Pause(JobsArgs),
    /// Queue paused jobs again.
    ///
    /// Their targets are resolved again.
    Resume(JobsArgs),
    /// Delete jobs that have ended; their ids can be used again.
    Delete(DeleteJobsArgs),
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl jobs delete nightly\n  numalocctl jobs delete $(numalocctl jobs ls -q --state failed)"
)]
pub struct DeleteJobsArgs {
    /// The jobs, such as 42 or jobs/42.
    #[arg(required = true, value_name = "ID", value_parser = parse_job)]
    pub jobs: Vec<JobId>,
    /// Succeed also if a job does not exist.
    #[arg(long)]
    pub allow_missing: bool,
    /// Only check whether the daemon would delete them.
    #[arg(long, visible_alias = "dry-run")]
    pub validate_only: bool,
}

#[derive(Clone, Debug, Args)]
pub struct JobsArgs {
    /// The jobs, such as 42 or jobs/42.
    #[arg(required = true, value_name = "ID", value_parser = parse_job)]
    pub jobs: Vec<JobId>,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  numalocctl jobs ls --state running,queued\n  numalocctl jobs ls -w -o json\n  numalocctl jobs cancel $(numalocctl jobs ls -q --state queued)"
)]
pub struct ListJobsArgs {
    /// Only jobs in this state; several with commas.
    #[arg(long, value_delimiter = ',', value_parser = job_state())]
    pub state: Vec<JobState>,
    /// Only jobs of this schedule.
    #[arg(long, value_name = "ID", value_parser = parse_schedule)]
    pub schedule: Option<ScheduleId>,
    /// Only jobs that this client created, such as uid:1000.
    #[arg(long, value_name = "NAME")]
    pub creator: Option<String>,
    /// Only jobs created since then: a time, or how long ago (10m).
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<SystemTime>,
    /// Only jobs with all of these labels: key=value,... (repeatable).
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Only jobs whose target names this workload.
    #[arg(long, value_name = "ID", value_parser = parse_workload)]
    pub workload: Option<WorkloadId>,
    /// Show at most this many jobs, the newest [default: all]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1, None))]
    pub limit: Option<u64>,
    /// Print names only.
    #[arg(short, long)]
    pub quiet: bool,
    /// Continue with changes to them; with -o json one object per line.
    #[arg(short, long, conflicts_with_all = ["quiet", "limit"])]
    pub watch: bool,
}

impl ListJobsArgs {
    /// The filter as a value of the API.
    pub fn filter(&self) -> JobFilter {
        JobFilter {
            states: self.state.clone(),
            schedule: self.schedule.clone(),
            creator: self.creator.clone(),
            created_since: self.since,
            labels: self.label.iter().cloned().collect(),
            workload: self.workload.clone(),
        }
    }
}
