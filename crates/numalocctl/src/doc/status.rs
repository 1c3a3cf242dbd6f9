//! What the daemon is doing.

use super::JobState;
use crate::time::Time;
use serde::Serialize;

/// What `status` shows.
#[derive(Clone, Debug, Serialize)]
pub struct StatusDoc {
    /// Where the daemon is.
    pub endpoint: String,
    /// Its version.
    pub version: String,
    /// When it started.
    pub start_time: Option<Time>,
    /// How long ago that was by this machine's clock.
    pub uptime_seconds: Option<u64>,
    /// How many jobs are in which state.
    pub jobs: Vec<JobCount>,
    /// How many schedules there are.
    pub schedules: u64,
    /// How many workloads are registered.
    pub workloads: u64,
    /// How many calls are watching something.
    pub watches: u64,
    /// What it has moved since it started.
    pub moved_bytes: u64,
    /// What it cannot do, for people.
    pub problems: Vec<String>,
    /// Who you are to it.
    pub caller: String,
    /// `viewer`, `operator` or `admin`.
    pub role: String,
}

/// How many jobs are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobCount {
    /// The state.
    pub state: JobState,
    /// How many.
    pub count: u64,
}
