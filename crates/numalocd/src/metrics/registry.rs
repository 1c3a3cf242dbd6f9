//! Names, units and descriptions of the series.

use super::{Series, label::state_name, process::ProcessCollector, since_epoch};
use numaloc_api::value::JobState;
use numaloc_core::Reason;
use prometheus_client::{
    metrics::{histogram::Histogram, info::Info},
    registry::{Registry, Unit},
};

use std::time::SystemTime;

/// Upper bounds in seconds for jobs: from a page to a terabyte.
const JOB_BOUNDS: [f64; 12] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0];
/// Upper bounds in seconds for commits: from a fast disk to one that hangs.
const COMMIT_BOUNDS: [f64; 11] =
    [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];

impl Default for Series {
    /// All counts are 0. Series whose labels have a closed set of values exist from the start, so that their first
    /// increase shows.
    fn default() -> Self {
        let series = Self {
            moved: Default::default(),
            left: Default::default(),
            offload: Default::default(),
            ratios: Default::default(),
            open: Default::default(),
            ended: Default::default(),
            duration: Histogram::new(JOB_BOUNDS),
            waited: Histogram::new(JOB_BOUNDS),
            schedules: Default::default(),
            workloads: Default::default(),
            watches: Default::default(),
            quotas: Default::default(),
            drained: Default::default(),
            paused: Default::default(),
            contested_schedules: Default::default(),
            oldest: Default::default(),
            store_bytes: Default::default(),
            missing_accounts: Default::default(),
            missing_sockets: Default::default(),
            reload_done: Default::default(),
            reload_time: Default::default(),
            calls: Default::default(),
            stalls: Default::default(),
            over_bound: Default::default(),
            host_memory: Default::default(),
            traffic: Default::default(),
            held_back: Default::default(),
            rpcs: Default::default(),
            commits: Histogram::new(COMMIT_BOUNDS),
            commit_failures: Default::default(),
        };
        // The configuration was read successfully at the start.
        series.reload_done.set(1);
        series.reload_time.set(since_epoch(SystemTime::now()));
        for reason in Reason::ALL {
            drop(series.left.get_or_create(&[("reason", reason.name())]));
        }
        drop(series.offload.get_or_create(&[("by", "cpu")]));
        for state in JobState::ALL {
            let label = [("state", state_name(state))];
            if state.is_end() {
                drop(series.ended.get_or_create(&label));
            } else {
                drop(series.open.get_or_create(&label));
            }
        }
        series
    }
}

/// A registry with all of `series`.
pub(super) fn of(series: &Series) -> Registry {
    let mut all = Registry::default();
    // Without the prefix, so that the names are those of all programs.
    all.register_collector(Box::new(ProcessCollector::default()));
    let registry = all.sub_registry_with_prefix("numaloc");
    let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The daemon", version);
    memory(registry, series);
    registry.register_collector(Box::new(series.host_memory.clone()));
    registry.register_collector(Box::new(series.traffic.clone()));
    jobs(registry, series);
    service(registry, series);
    store(registry, series);
    all
}

fn memory(registry: &mut Registry, series: &Series) {
    let moved = "Memory confirmed on its target by the node that it left and the one that it is on";
    registry.register_with_unit("moved", moved, Unit::Bytes, series.moved.clone());
    let left = "Remote memory that jobs left where it was by reason";
    registry.register_with_unit("left", left, Unit::Bytes, series.left.clone());
    let offload = "Memory moved by what copied it";
    registry.register_with_unit("offload", offload, Unit::Bytes, series.offload.clone());
    let ratio = "Local share of the movable memory of a workload as last measured, from 0 to 1";
    registry.register("workload_local_ratio", ratio, series.ratios.clone());
    let calls = "Time that move_pages calls took";
    registry.register_with_unit("move_pages", calls, Unit::Seconds, series.calls.clone());
    let stalls = "Calls of move_pages that took more than 10 milliseconds";
    registry.register("move_pages_stalls", stalls, series.stalls.clone());
    let over = "Calls of move_pages that took longer than their job allowed";
    registry.register("move_pages_over_bound", over, series.over_bound.clone());
    let held_back =
        "Time for which threads of jobs were throttled, beyond the rests of their profile";
    registry.register_with_unit("held_back", held_back, Unit::Seconds, series.held_back.clone());
}

fn jobs(registry: &mut Registry, series: &Series) {
    let open = "Jobs that have not ended by state";
    registry.register("jobs", open, series.open.clone());
    let ended = "Jobs that have ended since the start of the daemon by state";
    registry.register("jobs_ended", ended, series.ended.clone());
    let duration = "Time from the start of moving to the end of jobs that moved";
    registry.register_with_unit("job_duration", duration, Unit::Seconds, series.duration.clone());
    let waited = "Time that jobs were queued before their turn";
    registry.register_with_unit("job_queue", waited, Unit::Seconds, series.waited.clone());
    let oldest = "Age of the oldest queued job by class";
    registry.register_with_unit("oldest_queued_job", oldest, Unit::Seconds, series.oldest.clone());
    let contested = "Schedules whose placement is contested: other movers undo their work";
    registry.register("contested_schedules", contested, series.contested_schedules.clone());
    // The name of 0.1, to be removed in 0.3.
    let fights = "Deprecated: numaloc_contested_schedules has the same value";
    registry.register("fights", fights, series.contested_schedules.clone());
}

fn service(registry: &mut Registry, series: &Series) {
    registry.register("schedules", "Schedules", series.schedules.clone());
    registry.register("workloads", "Registered workloads", series.workloads.clone());
    let drained = "Whether the daemon is drained: 1 if no move begins";
    registry.register("drained", drained, series.drained.clone());
    let paused = "Whether all moves are paused: 1 if they are";
    registry.register("paused", paused, series.paused.clone());
    let watches = "Calls that are watching something";
    registry.register("watches", watches, series.watches.clone());
    registry.register_collector(Box::new(series.quotas.clone()));
    let rpcs = "Calls that have ended by method and code";
    registry.register("rpcs", rpcs, series.rpcs.clone());
}

fn store(registry: &mut Registry, series: &Series) {
    let commits = "Time that commits of the store took, including failed ones";
    registry.register_with_unit("store_commit", commits, Unit::Seconds, series.commits.clone());
    let failures = "Commits of the store that failed";
    registry.register("store_commit_failures", failures, series.commit_failures.clone());
    let bytes = "Size of the file of the store";
    registry.register_with_unit("store", bytes, Unit::Bytes, series.store_bytes.clone());
    let missing = "Grants to accounts that this host does not have";
    registry.register("missing_accounts", missing, series.missing_accounts.clone());
    let missing = "Additional sockets that could not be made";
    registry.register("missing_sockets", missing, series.missing_sockets.clone());
    let done = "Whether the configuration was taken over when it was last read";
    registry.register("config_last_reload_successful", done, series.reload_done.clone());
    let time = "When the configuration was last read";
    let seconds = series.reload_time.clone();
    registry.register_with_unit("config_last_reload_timestamp", time, Unit::Seconds, seconds);
}
