//! Calls of the MigrationService: jobs.

use super::{Daemon, ask, client, interrupts::Interrupts};
use crate::{
    exit::Failure,
    output::{announced, complain},
};
use numaloc_api::{
    timestamp, v1,
    value::{CreateJob, DeleteJob, JobFilter, JobId, MigrationSpec},
};

/// Most entries of a page.
pub const PAGE: i32 = 1000;

macro_rules! by_name {
    ($self:ident, $call:ident, $request:ident, $id:expr) => {{
        let message = v1::$request { name: $id.to_string() };
        let answer = ask!($self, migration_service_client::MigrationServiceClient.$call, message)?;
        Ok(answer.job.unwrap_or_default())
    }};
}

impl Daemon {
    /// The effect that a migration would have.
    pub fn plan(&self, spec: &MigrationSpec) -> Result<v1::PlanMigrationResponse, Failure> {
        let message = v1::PlanMigrationRequest { spec: Some(spec.into()) };
        let within = self.request_timeout + announced(&spec.policy.options.placement);
        let mut service = client!(self, migration_service_client, MigrationServiceClient);
        self.call_within(
            within,
            message,
            |request| async move { service.plan_migration(request).await },
        )
    }

    /// Queues a migration. Also returns whether the job existed before. After Ctrl-C before the daemon's answer, it is
    /// not known whether the job exists.
    pub fn create_job(
        &self,
        request: &CreateJob,
        interrupts: &mut Interrupts,
    ) -> Result<(v1::Job, bool), Failure> {
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
        let job = answer.job.unwrap_or_default();
        if answer.differs {
            complain(&format!("{} does something else than asked for: see jobs get", job.name));
        }
        Ok((job, answer.existing))
    }

    pub fn get_job(&self, id: &JobId) -> Result<v1::Job, Failure> {
        by_name!(self, get_job, GetJobRequest, id)
    }

    /// Jobs, newest first: up to `limit` jobs, from several pages if needed.
    pub fn list_jobs(
        &self,
        filter: &JobFilter,
        limit: Option<u64>,
    ) -> Result<v1::ListJobsResponse, Failure> {
        let mut jobs: Vec<v1::Job> = Vec::new();
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut message =
            v1::ListJobsRequest { filter: Some(wanted(filter)), ..Default::default() };
        loop {
            let rest = i32::try_from(limit - jobs.len()).unwrap_or(PAGE);
            message.page_size = rest.min(PAGE);
            let answer = ask!(
                self,
                migration_service_client::MigrationServiceClient.list_jobs,
                message.clone()
            )?;
            jobs.extend(answer.jobs);
            jobs.truncate(limit);
            message.page_token = answer.next_page_token;
            if message.page_token.is_empty() || jobs.len() == limit {
                return Ok(v1::ListJobsResponse { jobs, ..Default::default() });
            }
        }
    }

    /// Shows `seen` all jobs that a filter lets through, and then their changes, without end.
    pub fn watch_jobs(
        &self,
        filter: &JobFilter,
        seen: impl FnMut(&v1::WatchJobsResponse) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = wanted(filter);
        let open = async |resume_token: String| {
            let mut service = client!(self, migration_service_client, MigrationServiceClient);
            let filter = Some(filter.clone());
            service.watch_jobs(v1::WatchJobsRequest { filter, resume_token }).await
        };
        self.watch_records(open, seen)
    }

    pub fn cancel_job(&self, id: &JobId) -> Result<v1::Job, Failure> {
        by_name!(self, cancel_job, CancelJobRequest, id)
    }

    pub fn pause_job(&self, id: &JobId) -> Result<v1::Job, Failure> {
        by_name!(self, pause_job, PauseJobRequest, id)
    }

    /// Deletes a job that has ended.
    pub fn delete_job(&self, request: &DeleteJob) -> Result<(), Failure> {
        let message = v1::DeleteJobRequest::from(request);
        ask!(self, migration_service_client::MigrationServiceClient.delete_job, message)?;
        Ok(())
    }

    /// Queues a paused job again.
    pub fn resume_job(&self, id: &JobId) -> Result<v1::Job, Failure> {
        by_name!(self, resume_job, ResumeJobRequest, id)
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
