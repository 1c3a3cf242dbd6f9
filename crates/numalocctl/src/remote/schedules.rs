//! Calls of the ScheduleService, and the field mask of an update.

use super::{Daemon, all_pages, ask, client, jobs::PAGE};
use crate::{
    args::{LimitArgs, OptionArgs, QueueArgs, WhenArgs},
    exit::Failure,
};
use numaloc_api::{
    v1,
    value::{
        CreateSchedule, DeleteSchedule, Limits, Policy, ScheduleFilter, ScheduleId, ScheduleSpec,
        Target,
    },
};
use numaloc_core::NodeSet;
use std::{collections::BTreeMap, time::Duration};

/// Changes to a schedule. A field that is empty or `None` leaves the schedule as it is.
#[derive(Clone, Debug, Default)]
pub struct ScheduleChanges {
    /// The target; replaces the old one as a whole.
    pub target: Option<Target>,
    pub options: OptionArgs,
    pub queue: QueueArgs,
    pub limits: LimitArgs,
    pub when: WhenArgs,
    pub paused: Option<bool>,
    /// Its labels; replaces all existing ones.
    pub labels: Option<BTreeMap<String, String>>,
    /// Only check whether the change could be made.
    pub validate_only: bool,
    /// The etag that it must have.
    pub etag: Option<String>,
}

impl ScheduleChanges {
    pub fn is_empty(&self) -> bool {
        let WhenArgs { interval, jitter, ttl_after_gone } = self.when;
        self.target.is_none()
            && self.options.is_empty()
            && self.queue.is_empty()
            && self.limits.is_empty()
            && (interval, jitter) == (None, None)
            && ttl_after_gone.is_none()
            && self.paused.is_none()
            && self.labels.is_none()
    }
}

impl Daemon {
    pub fn create_schedule(&self, request: &CreateSchedule) -> Result<v1::Schedule, Failure> {
        let message = v1::CreateScheduleRequest {
            schedule: Some((&request.spec).into()),
            request_id: request.request_id.clone().unwrap_or_default(),
            validate_only: request.validate_only,
            schedule_id: request.id.as_ref().map(|id| id.id().to_owned()).unwrap_or_default(),
        };
        let answer =
            ask!(self, schedule_service_client::ScheduleServiceClient.create_schedule, message)?;
        Ok(answer.schedule.unwrap_or_default())
    }

    pub fn get_schedule(&self, id: &ScheduleId) -> Result<v1::Schedule, Failure> {
        let message = v1::GetScheduleRequest { name: id.to_string() };
        let answer =
            ask!(self, schedule_service_client::ScheduleServiceClient.get_schedule, message)?;
        Ok(answer.schedule.unwrap_or_default())
    }

    pub fn list_schedules(
        &self,
        filter: &ScheduleFilter,
    ) -> Result<v1::ListSchedulesResponse, Failure> {
        let filter = Some(wanted(filter));
        let message =
            v1::ListSchedulesRequest { filter, page_size: PAGE, page_token: String::new() };
        let schedules = all_pages!(
            self,
            schedule_service_client::ScheduleServiceClient.list_schedules,
            message,
            schedules
        );
        Ok(v1::ListSchedulesResponse { schedules, ..Default::default() })
    }

    /// Shows `seen` all schedules that a filter lets through, and then their changes, without end.
    pub fn watch_schedules(
        &self,
        filter: &ScheduleFilter,
        seen: impl FnMut(&v1::WatchSchedulesResponse) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = wanted(filter);
        let open = async |resume_token: String| {
            let mut service = client!(self, schedule_service_client, ScheduleServiceClient);
            let filter = Some(filter.clone());
            service.watch_schedules(v1::WatchSchedulesRequest { filter, resume_token }).await
        };
        self.watch_records(open, seen)
    }

    /// Changes a schedule. The API replaces a policy and limits as a whole. So the stored schedule is read first, for
    /// the values that are not given; the update then fails if another client has changed the schedule meanwhile.
    pub fn update_schedule(
        &self,
        id: &ScheduleId,
        changes: &ScheduleChanges,
    ) -> Result<v1::Schedule, Failure> {
        let merges =
            !changes.options.is_empty() || !changes.queue.is_empty() || !changes.limits.is_empty();
        let stored = if merges { Some(self.get_schedule(id)?) } else { None };
        let (mut message, paths) =
            update(stored.as_ref(), changes, &self.with_memory_for(&changes.options)?)?;
        message.name = id.to_string();
        self.set_schedule(message, paths, changes.validate_only)
    }

    /// Replaces all settings of a schedule by these, if it still has this etag.
    pub fn replace_schedule(
        &self,
        id: &ScheduleId,
        spec: &ScheduleSpec,
        etag: &str,
        validate_only: bool,
    ) -> Result<v1::Schedule, Failure> {
        let (name, etag) = (id.to_string(), etag.to_owned());
        let schedule = v1::Schedule { name, etag, ..spec.into() };
        self.set_schedule(schedule, vec!["*".to_owned()], validate_only)
    }

    /// Sets the fields that `paths` name to those of `schedule`.
    fn set_schedule(
        &self,
        schedule: v1::Schedule,
        paths: Vec<String>,
        validate_only: bool,
    ) -> Result<v1::Schedule, Failure> {
        let (schedule, update_mask) = (Some(schedule), Some(prost_types::FieldMask { paths }));
        let message = v1::UpdateScheduleRequest { schedule, update_mask, validate_only };
        let answer =
            ask!(self, schedule_service_client::ScheduleServiceClient.update_schedule, message)?;
        Ok(answer.schedule.unwrap_or_default())
    }

    /// Runs a schedule now; with a request_id, once.
    pub fn run_schedule(
        &self,
        id: &ScheduleId,
        request_id: Option<&str>,
    ) -> Result<v1::Job, Failure> {
        let request_id = request_id.unwrap_or_default().to_owned();
        let message = v1::RunScheduleRequest { name: id.to_string(), request_id };
        let answer =
            ask!(self, schedule_service_client::ScheduleServiceClient.run_schedule, message)?;
        Ok(answer.job.unwrap_or_default())
    }

    pub fn delete_schedule(&self, request: &DeleteSchedule) -> Result<(), Failure> {
        let message = v1::DeleteScheduleRequest::from(request);
        ask!(self, schedule_service_client::ScheduleServiceClient.delete_schedule, message)?;
        Ok(())
    }
}

fn wanted(filter: &ScheduleFilter) -> v1::ScheduleFilter {
    let states = filter.states.iter().map(|&state| v1::ScheduleState::from(state).into());
    v1::ScheduleFilter {
        states: states.collect(),
        creator: filter.creator.clone().unwrap_or_default(),
        labels: filter.labels.clone(),
        workload: filter.workload.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}

/// The new values, and the paths of the fields that change.
pub fn update(
    stored: Option<&v1::Schedule>,
    changes: &ScheduleChanges,
    with_memory: &NodeSet,
) -> Result<(v1::Schedule, Vec<String>), Failure> {
    let old = stored.and_then(|schedule| schedule.spec.clone()).unwrap_or_default();
    let mut spec = v1::MigrationSpec::default();
    let mut paths = Vec::new();
    if let Some(target) = &changes.target {
        spec.target = Some(target.into());
        paths.push("spec.target");
    }
    if !changes.options.is_empty() || !changes.queue.is_empty() {
        let policy = Policy::from(old.policy.unwrap_or_default());
        let policy = changes.options.change(policy, with_memory)?;
        spec.policy = Some((&changes.queue.change(policy)).into());
        paths.push("spec.policy");
    }
    if !changes.limits.is_empty() {
        let limits = Limits::from(old.limits.unwrap_or_default());
        spec.limits = Some((&changes.limits.change(limits)).into());
        paths.push("spec.limits");
    }
    let when = &changes.when;
    for (path, given) in [
        ("interval", when.interval.is_some()),
        ("jitter", when.jitter.is_some()),
        ("ttl_after_gone", when.ttl_after_gone.is_some()),
        ("paused", changes.paused.is_some()),
        ("labels", changes.labels.is_some()),
    ] {
        paths.extend(given.then_some(path));
    }
    let etag = changes.etag.clone().or(stored.map(|schedule| schedule.etag.clone()));
    let schedule = v1::Schedule {
        spec: Some(spec),
        interval: when.interval.map(message),
        jitter: when.jitter.map(message),
        ttl_after_gone: when.ttl_after_gone.and_then(|ttl| ttl.duration()).map(message),
        paused: changes.paused.unwrap_or_default(),
        labels: changes.labels.clone().unwrap_or_default(),
        etag: etag.unwrap_or_default(),
        ..v1::Schedule::default()
    };
    Ok((schedule, paths.into_iter().map(str::to_owned).collect()))
}

fn message(duration: Duration) -> prost_types::Duration {
    // Any duration that the command line accepts fits: it is at most u64::MAX microseconds.
    prost_types::Duration::try_from(duration).unwrap_or_default()
}
