//! The daemon's records as answers show them.

use super::{
    client::pins,
    locality::node_bytes,
    names::{int, int32, timestamp},
    outcome::summed_up,
    placement::node_ids,
};
use crate::{
    v1,
    value::{
        Event, Job, JobJoin, JobProgress, MemberResult, Schedule, ScheduleId, Target, Workload,
    },
};
use numaloc_core::NodeSet;

impl Job {
    /// The job as lists show it: without its plan, its members, and the processes in its outcome.
    pub fn listed(&self) -> v1::Job {
        let shown = self.shown(None, self.outcome.as_deref().map(summed_up), &[]);
        v1::Job { more_members: 0, joins: Vec::new(), ..shown }
    }

    /// The fields of the job that progress changes, and the ones that identify it.
    pub fn advanced(&self, progress: JobProgress) -> v1::Job {
        v1::Job {
            name: self.id.to_string(),
            number: int(self.id.number().unwrap_or(0)),
            state: v1::JobState::from(self.state).into(),
            wanted_state: self.wanted.map_or(v1::JobState::Unspecified, Into::into).into(),
            state_message: self.state_message.clone(),
            progress: Some(progress.into()),
            ..v1::Job::default()
        }
    }

    fn shown(
        &self,
        plan: Option<v1::Plan>,
        outcome: Option<v1::Outcome>,
        members: &[MemberResult],
    ) -> v1::Job {
        v1::Job {
            name: self.id.to_string(),
            number: int(self.id.number().unwrap_or(0)),
            spec: Some((&self.spec).into()),
            state: v1::JobState::from(self.state).into(),
            wanted_state: self.wanted.map_or(v1::JobState::Unspecified, Into::into).into(),
            state_message: self.state_message.clone(),
            schedule: self.schedule.as_ref().map(ToString::to_string).unwrap_or_default(),
            schedule_number: number(self.schedule.as_ref()),
            creator: self.creator.clone(),
            creator_gid: self.creator_gid,
            pinned_processes: pins(&self.pins),
            members: members.iter().map(Into::into).collect(),
            labels: self.labels.clone(),
            request_id: self.request_id.clone().unwrap_or_default(),
            joins: self.joined.iter().map(Into::into).collect(),
            more_members: int32(self.more_members),
            requester: self.requester.clone().unwrap_or_default(),
            create_time: Some(timestamp(self.created)),
            start_time: self.started.map(timestamp),
            end_time: self.ended.map(timestamp),
            progress: self.progress.clone().map(Into::into),
            plan,
            outcome,
        }
    }
}

impl From<&JobJoin> for v1::JobJoin {
    fn from(joined: &JobJoin) -> Self {
        Self {
            client: joined.client.clone(),
            request_id: joined.request_id.clone(),
            request_digest: joined.digest.cast_signed(),
        }
    }
}

/// The number of a schedule; 0: it is not known.
fn number(schedule: Option<&ScheduleId>) -> i64 {
    int(schedule.and_then(ScheduleId::number).unwrap_or(0))
}

impl From<&Job> for v1::Job {
    fn from(job: &Job) -> Self {
        let plan = job.plan.as_deref().map(Into::into);
        job.shown(plan, job.outcome.as_deref().map(Into::into), &job.members)
    }
}

impl From<JobProgress> for v1::JobProgress {
    fn from(progress: JobProgress) -> Self {
        Self {
            planned_bytes: int(progress.planned_bytes),
            moved_bytes: int(progress.moved_bytes),
            settled_bytes: int(progress.settled_bytes),
            update_time: Some(timestamp(progress.measured)),
            held_back: progress.held_back,
        }
    }
}

impl From<&Schedule> for v1::Schedule {
    fn from(schedule: &Schedule) -> Self {
        Self {
            name: schedule.id.to_string(),
            number: int(schedule.id.number().unwrap_or(0)),
            state: v1::ScheduleState::from(schedule.state).into(),
            state_message: schedule.state_message.clone(),
            last_job: schedule.last_job.as_ref().map(ToString::to_string).unwrap_or_default(),
            last_run_time: schedule.last_run.map(timestamp),
            next_run_time: schedule.next_run.map(timestamp),
            gone_time: schedule.gone.map(timestamp),
            create_time: Some(timestamp(schedule.created)),
            update_time: Some(timestamp(schedule.updated)),
            creator: schedule.creator.clone(),
            creator_gid: schedule.creator_gid,
            pinned_processes: pins(&schedule.pins),
            request_id: schedule.request_id.clone().unwrap_or_default(),
            request_digest: schedule.request_digest.cast_signed(),
            etag: schedule.etag.clone(),
            declared_in: schedule.declared_in.clone().unwrap_or_default(),
            relieved: node_bytes(&schedule.relieved),
            relieve_time: schedule.relieved_at.map(timestamp),
            hour_moved_bytes: int(schedule.hour_moved_bytes),
            hour_start_time: schedule.hour_start.map(timestamp),
            ..(&schedule.spec).into()
        }
    }
}

impl From<&Workload> for v1::Workload {
    fn from(workload: &Workload) -> Self {
        Self {
            create_time: Some(timestamp(workload.created)),
            creator: workload.creator.clone(),
            creator_gid: workload.creator_gid,
            expire_time: workload.expires.map(timestamp),
            etag: workload.etag.clone(),
            request_id: workload.request_id.clone().unwrap_or_default(),
            ..(&workload.spec).into()
        }
    }
}

impl From<&Event> for v1::Event {
    fn from(event: &Event) -> Self {
        let ids = |nodes: &NodeSet| node_ids(nodes).collect();
        Self {
            name: format!("events/{}", event.number),
            r#type: v1::EventType::from(event.kind).into(),
            create_time: Some(timestamp(event.time)),
            job: event.job.as_ref().map(ToString::to_string).unwrap_or_default(),
            schedule: event.schedule.as_ref().map(ToString::to_string).unwrap_or_default(),
            schedule_number: number(event.schedule.as_ref()),
            creator: event.creator.clone(),
            labels: event.labels.clone(),
            target: (event.target != Target::default()).then(|| (&event.target).into()),
            from_node_ids: ids(&event.from),
            to_node_ids: ids(&event.to),
            before_percent: event.before_percent,
            after_percent: event.after_percent,
            remote_bytes: event.remote_bytes.map(int),
            failed_processes: event.failed.iter().map(Into::into).collect(),
            message: event.message.clone(),
            members: event.members.iter().map(Into::into).collect(),
            more_members: int32(event.more_members),
            more_target_names: int32(event.more_target_names),
            creator_gid: event.creator_gid,
        }
    }
}
