//! Calls about jobs.

use super::{
    Daemon, client,
    interrupts::Interrupts,
    job::{job, migration},
    watch::change,
};
use crate::{
    doc::{ChangeDoc, JobDoc, JobsDoc, MigrationDoc},
    exit::Failure,
    output::complain,
};
use numaloc_api::{
    timestamp, v1,
    value::{CreateJob, DeleteJob, JobFilter, JobId},
};
use numaloc_core::Topology;

/// The result of a migration for which there is no job, because no process of its target has a node to go to. Without the
/// daemon such a migration is skipped as well.
pub fn nowhere(why: String) -> MigrationDoc {
    let message =
        v1::Job { state: v1::JobState::Skipped.into(), state_message: why, ..v1::Job::default() };
    migration(&message)
}

/// Most entries of a page.
pub const PAGE: i32 = 1000;

macro_rules! by_name {
    ($self:ident, $call:ident, $request:ident, $id:expr) => {{
        let mut service = client!($self, migration_service_client, MigrationServiceClient);
        let message = v1::$request { name: $id.to_string() };
        let answer = $self.call(message, |request| async move { service.$call(request).await })?;
        answer.job.unwrap_or_default()
    }};
}

impl Daemon {
    /// Queues a migration. Also returns whether the job existed before. After Ctrl-C before the daemon's answer, it is not
    /// known whether the job exists.
    pub fn create_job(
        &self,
        request: &CreateJob,
        interrupts: &mut Interrupts,
    ) -> Result<(JobDoc, bool), Failure> {
        let mut service = client!(self, migration_service_client, MigrationServiceClient);
        let message = v1::CreateJobRequest::from(request);
        let call = self.answer(message, |request| async move { service.create_job(request).await });
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = call => answer,
                () = interrupts.next() => Err(Failure::Left(
                    "interrupted before numalocd answered: see `numalocctl jobs ls` for whether it took the job".into(),
                )),
            }
        })?;
        let document = job(&answer.job.unwrap_or_default(), &Topology::default());
        if answer.differs {
            complain(&format!(
                "{} does something else than asked for: see jobs get",
                document.name
            ));
        }
        Ok((document, answer.existing))
    }

    /// One job in full.
    pub fn get_job(&self, id: &JobId) -> Result<JobDoc, Failure> {
        let message = by_name!(self, get_job, GetJobRequest, id);
        Ok(job(&message, &self.topology_of(&message)?))
    }

    /// The machine, if the job has a plan. Otherwise an empty one, to save the call.
    fn topology_of(&self, message: &v1::Job) -> Result<Topology, Failure> {
        if message.plan.is_some() { self.topology() } else { Ok(Topology::default()) }
    }

    /// Jobs, newest first: as many pages as needed, up to `limit` jobs.
    pub fn list_jobs(&self, filter: &JobFilter, limit: Option<u64>) -> Result<JobsDoc, Failure> {
        let mut jobs: Vec<JobDoc> = Vec::new();
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut message =
            v1::ListJobsRequest { filter: Some(wanted(filter)), ..Default::default() };
        loop {
            let rest = i32::try_from(limit - jobs.len()).unwrap_or(PAGE);
            message.page_size = rest.min(PAGE);
            let mut service = client!(self, migration_service_client, MigrationServiceClient);
            let answer = self
                .call(message.clone(), |request| async move { service.list_jobs(request).await })?;
            jobs.extend(answer.jobs.iter().map(|message| job(message, &Topology::default())));
            jobs.truncate(limit);
            message.page_token = answer.next_page_token;
            if message.page_token.is_empty() || jobs.len() == limit {
                return Ok(JobsDoc { jobs });
            }
        }
    }

    /// Shows `seen` all jobs that a filter lets through, and then what becomes of them, for ever.
    pub fn watch_jobs(
        &self,
        filter: &JobFilter,
        seen: impl FnMut(&ChangeDoc<JobDoc>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = wanted(filter);
        let open = async |resume_token: String| {
            let mut service = client!(self, migration_service_client, MigrationServiceClient);
            let filter = Some(filter.clone());
            service.watch_jobs(v1::WatchJobsRequest { filter, resume_token }).await
        };
        let read = |answer: v1::WatchJobsResponse| {
            let document = |message: &v1::Job| job(message, &Topology::default());
            let told = change(answer.change(), answer.job, |message| &message.name, document);
            (told, answer.resume_token)
        };
        self.watch_records(open, read, seen)
    }

    /// Cancels a job.
    pub fn cancel_job(&self, id: &JobId) -> Result<JobDoc, Failure> {
        Ok(job(&by_name!(self, cancel_job, CancelJobRequest, id), &Topology::default()))
    }

    /// Pauses a job.
    pub fn pause_job(&self, id: &JobId) -> Result<JobDoc, Failure> {
        Ok(job(&by_name!(self, pause_job, PauseJobRequest, id), &Topology::default()))
    }

    /// Deletes a job that has ended.
    pub fn delete_job(&self, request: &DeleteJob) -> Result<(), Failure> {
        let mut service = client!(self, migration_service_client, MigrationServiceClient);
        let message = v1::DeleteJobRequest::from(request);
        self.call(message, |request| async move { service.delete_job(request).await })?;
        Ok(())
    }

    /// Queues a paused job again.
    pub fn resume_job(&self, id: &JobId) -> Result<JobDoc, Failure> {
        Ok(job(&by_name!(self, resume_job, ResumeJobRequest, id), &Topology::default()))
    }
}

fn wanted(filter: &JobFilter) -> v1::JobFilter {
    v1::JobFilter {
        states: filter.states.iter().map(|&state| v1::JobState::from(state).into()).collect(),
        schedule: filter.schedule.as_ref().map(ToString::to_string).unwrap_or_default(),
        creator: filter.creator.clone().unwrap_or_default(),
        created_since: filter.created_since.map(timestamp),
        labels: filter.labels.clone(),
        workload: filter.workload.as_ref().map(ToString::to_string).unwrap_or_default(),
    }
}
