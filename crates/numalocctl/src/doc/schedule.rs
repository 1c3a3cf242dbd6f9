//! The daemon's schedules.

use super::SpecDoc;
use crate::time::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// What `schedules` shows.
#[derive(Clone, Debug, Serialize)]
pub struct SchedulesDoc {
    /// The schedules.
    pub schedules: Vec<ScheduleDoc>,
}

/// A schedule.
#[derive(Clone, Debug, Serialize)]
pub struct ScheduleDoc {
    /// `schedules/7`.
    pub name: String,
    /// `waiting`, `active`, `target_gone`, `paused` or `completed`.
    pub state: String,
    /// Why it is in this state; null if there is nothing to add.
    pub state_message: Option<String>,
    /// What each run does.
    #[serde(flatten)]
    pub spec: SpecDoc,
    /// Shortest time from the end of one run to the start of the next; 0: it runs once.
    pub interval_seconds: f64,
    /// Longest random time that is added to each interval.
    pub jitter_seconds: f64,
    /// How long it stays when its target has gone; null: for ever.
    pub ttl_after_gone_seconds: Option<f64>,
    /// Whether new runs are kept from starting.
    pub paused: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The job of the last run.
    pub last_job: Option<String>,
    /// When that run started.
    pub last_run_time: Option<Time>,
    /// When the next run is due.
    pub next_run_time: Option<Time>,
    /// When its target was first found missing.
    pub gone_time: Option<Time>,
    /// When it was created.
    pub create_time: Option<Time>,
    /// When a client last changed it.
    pub update_time: Option<Time>,
    /// Who created it.
    pub creator: String,
    /// The request_id that it was created with.
    pub request_id: Option<String>,
    /// Changes with each update.
    pub etag: String,
}
