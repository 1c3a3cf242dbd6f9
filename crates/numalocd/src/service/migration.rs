//! MigrationService: plans, and jobs that carry them out.

use super::{
    Parts,
    change::ChangeRequest,
    watch::{JobWatch, stream, watch_records},
};
use crate::{
    access::{Caller, caller},
    config::Role,
    dispatch::{Handle, Made},
    refusal::Refusal,
};
use numaloc_api::{
    Violations,
    encoded::{
        FollowedJob, ListedJob, MadeJob, OneRecord, RecordPage, WatchedJob,
        migration_service_server::MigrationService,
    },
    v1,
    value::{CreateJob, DeleteJob, Job, JobId, MigrationSpec, Pins},
};
use numaloc_engine::{FoundTarget, Offers};
use numaloc_host::Policies;
use std::{future::ready, sync::Arc};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, codegen::BoxStream};

/// Plans migrations, and creates and steers jobs.
#[derive(Debug)]
pub struct MigrationCalls(pub Parts);

impl MigrationCalls {
    /// Finds the target of a job to be created, and fills in the job's class.
    async fn find(
        &self,
        change: &ChangeRequest,
        request: &mut CreateJob,
    ) -> Result<(Pins, FoundTarget), Refusal> {
        let caller = &change.caller;
        caller.ceilings.check(&request.spec)?;
        let MigrationSpec { target, policy, .. } = &mut request.spec;
        let selected = self.0.handle.select_for(caller.clone(), target.clone()).await?;
        policy.qos_class = selected.class_for(policy)?;
        let (options, asked) = (policy.options.clone(), policy.numa_balancing);
        let found = self.0.engine.pin_and_find(caller, selected.aim, options, asked).await?;
        Ok((found.0, found.1?))
    }

    /// Cancels, pauses or resumes a job.
    async fn steer<Q, F>(
        &self,
        method: &'static str,
        request: Request<Q>,
        steer: impl FnOnce(Handle, Caller, JobId) -> F,
    ) -> Result<Option<v1::Job>, Status>
    where
        JobId: TryFrom<Q, Error = Violations>,
        F: Future<Output = Result<Arc<Job>, Refusal>> + Send + 'static,
    {
        let (change, id) = ChangeRequest::read::<_, JobId>(method, request)?;
        let steered = steer(self.0.handle.clone(), change.caller.clone(), id);
        Ok(Some((&*change.make(steered).await?).into()))
    }
}

/// The answer to a request with `validate_only`: the existing job, or the job that would be made, without a name.
fn only_checked(made: Made, asked: &MigrationSpec) -> v1::CreateJobResponse {
    let answer = created(made, asked);
    let name =
        |job: v1::Job| if answer.existing { job } else { v1::Job { name: String::new(), ..job } };
    v1::CreateJobResponse { job: answer.job.map(name), ..answer }
}

/// The answer to a request for a job with this spec.
fn created((job, existing): Made, asked: &MigrationSpec) -> v1::CreateJobResponse {
    let differs = existing && job.spec != *asked;
    v1::CreateJobResponse { job: Some((&*job).into()), existing, differs }
}

#[tonic::async_trait]
impl MigrationService for MigrationCalls {
    async fn plan_migration(
        &self,
        request: Request<v1::PlanMigrationRequest>,
    ) -> Result<Response<v1::PlanMigrationResponse>, Status> {
        // Plans what a job of this caller would find. A viewer cannot create jobs, and looks at the workloads of all
        // owners.
        let caller = caller(&request)?;
        let mut spec: MigrationSpec = request.into_inner().try_into()?;
        let target = spec.target.clone();
        let handle = &self.0.handle;
        let selected = match caller.role {
            Role::Viewer => handle.select(target).await?,
            Role::Operator | Role::Admin => handle.select_for(caller.clone(), target).await?,
        };
        let options = handle.bounded(spec.policy.options.clone()).await?;
        // To watch how memory is used takes the one DAMON of the host, as a job does.
        if options.placement.by_use().is_some() {
            caller.ceilings.check(&spec)?;
        }
        spec.policy.qos_class = selected.class_for(&spec.policy)?;
        let policy = spec.policy.clone();
        let (aim, policies) = (selected.aim, Policies::AskBriefly);
        let engine = &self.0.engine;
        let offers = match caller.role {
            Role::Viewer => Offers::default(),
            Role::Operator | Role::Admin => handle.offers(caller.clone(), spec).await?,
        };
        let looked = engine.plan(&caller, aim, options, policies, offers).await?;
        Ok(Response::new(looked.planned(&policy)))
    }

    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<MadeJob>, Status> {
        let (change, mut request) = ChangeRequest::read::<_, CreateJob>("CreateJob", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let name = |(job, _): &Made| Some(job.id.to_string());
        // Asked first, because the target of an earlier request may have gone meanwhile.
        let earlier = match &request.request_id {
            None => None,
            Some(_) => change.first(handle.earlier_job(caller.clone(), request.clone())).await?,
        };
        if let Some(earlier) = earlier {
            let name = |(id, _): &(JobId, _)| Some(id.to_string());
            let (_, job) = change.create(ready(Ok(earlier)), name).await?;
            return Ok(Response::new(MadeJob::earlier(job)));
        }
        let (pins, found) = change.first(self.find(&change, &mut request)).await?;
        let spec = request.spec.clone();
        if request.validate_only {
            let asked = handle.create_job(caller, request, pins, found);
            return Ok(Response::new(only_checked(change.first(asked).await?, &spec).into()));
        }
        let make = async move { handle.create_job(caller, request, pins, found).await };
        Ok(Response::new(created(change.create(make, name).await?, &spec).into()))
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<OneRecord>, Status> {
        let job = self.0.handle.whole_job(request.into_inner().try_into()?).await?;
        Ok(Response::new(job.into()))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<RecordPage>, Status> {
        let listed = self.0.handle.list::<Job>(request.into_inner().try_into()?).await?;
        Ok(Response::new(RecordPage::new(listed.entries, listed.next)))
    }

    type WatchJobStream = BoxStream<FollowedJob>;

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<Self::WatchJobStream>, Status> {
        let caller = caller(&request)?;
        let id: JobId = request.into_inner().try_into()?;
        let counted = self.0.accounts.watch(&caller.client())?;
        let watch = JobWatch::new(self.0.handle.watch_job(id).await?);
        let answers = stream(watch, self.0.stop.clone(), counted);
        let answers = answers.map(|answer| Ok(answer?.into()));
        Ok(Response::new(Box::pin(answers)))
    }

    type WatchJobsStream = BoxStream<WatchedJob>;

    async fn watch_jobs(
        &self,
        request: Request<v1::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        let caller = caller(&request)?;
        let asked = request.into_inner().try_into()?;
        let named = |id: JobId| ListedJob::from(&id);
        watch_records::<Job, _, _>(&self.0, &caller, asked, |job| job, named, WatchedJob::new).await
    }

    async fn cancel_job(
        &self,
        request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::CancelJobResponse>, Status> {
        let steer = async |handle: Handle, caller, id| handle.cancel_job(caller, id).await;
        let job = self.steer("CancelJob", request, steer).await?;
        Ok(Response::new(v1::CancelJobResponse { job }))
    }

    async fn pause_job(
        &self,
        request: Request<v1::PauseJobRequest>,
    ) -> Result<Response<v1::PauseJobResponse>, Status> {
        let steer = async |handle: Handle, caller, id| handle.pause_job(caller, id).await;
        let job = self.steer("PauseJob", request, steer).await?;
        Ok(Response::new(v1::PauseJobResponse { job }))
    }

    async fn resume_job(
        &self,
        request: Request<v1::ResumeJobRequest>,
    ) -> Result<Response<v1::ResumeJobResponse>, Status> {
        let steer = async |handle: Handle, caller, id| handle.resume_job(caller, id).await;
        let job = self.steer("ResumeJob", request, steer).await?;
        Ok(Response::new(v1::ResumeJobResponse { job }))
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let (change, request) = ChangeRequest::read::<_, DeleteJob>("DeleteJob", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let is_check = request.validate_only;
        let delete = async move { handle.delete_job(caller, request).await };
        change.make_or_check(is_check, delete).await?;
        Ok(Response::new(v1::DeleteJobResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::tests::{Rig, admin, dir, found, pins, request};
    use numaloc_api::value::OnConflict;

    #[tokio::test(start_paused = true)]
    async fn a_joined_job_that_does_something_else_says_so() {
        let dir = dir();
        let rig = Rig::at(&dir);
        let ask = async |asked: CreateJob| {
            let spec = asked.spec.clone();
            let made = rig.handle.create_job(admin(), asked, pins(&[1]), found(&[1], "0")).await;
            let answer = created(made.expect("it is taken or joined"), &spec);
            (answer.existing, answer.differs)
        };
        let join = CreateJob { on_conflict: OnConflict::Join, ..request(&[1]) };
        assert_eq!(ask(request(&[1])).await, (false, false));
        assert_eq!(ask(join.clone()).await, (true, false));
        let mut other = join;
        other.spec.limits.workers = Some(1);
        assert_eq!(ask(other).await, (true, true));
        rig.kill().await;
    }
}
