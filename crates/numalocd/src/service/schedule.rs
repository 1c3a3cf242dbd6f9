//! ScheduleService: migrations that the daemon repeats.

use super::{Parts, allowed, change::ChangeRequest, watch::watch_records};
use crate::{
    access::{Caller, caller},
    dispatch::MadeSchedule,
    refusal::Refusal,
};
use numaloc_api::{
    v1::{self, schedule_service_server::ScheduleService},
    value::{
        CreateSchedule, DeleteSchedule, MigrationSpec, Pins, RunSchedule, Schedule, ScheduleId,
        UpdateSchedule,
    },
};
use std::{future::ready, sync::Arc};
use tonic::{Request, Response, Status, codegen::BoxStream};

#[derive(Debug)]
pub struct ScheduleCalls(pub Parts);

impl ScheduleCalls {
    /// Checks the target and the policy of a schedule to be created.
    async fn pins(&self, caller: &Caller, request: &CreateSchedule) -> Result<Pins, Refusal> {
        let migration = &request.spec.migration;
        caller.ceilings.check(migration)?;
        let pins = allowed::schedule(&self.0, caller, migration.target.clone()).await?;
        let asked = migration.policy.numa_balancing;
        self.0.engine.check_balancing(&caller.name, asked).await?;
        Ok(pins)
    }
}

/// The answer to a request with `validate_only`: the existing schedule, or the one that would be made, without a name.
fn only_checked((schedule, existing): MadeSchedule) -> v1::CreateScheduleResponse {
    let shown: v1::Schedule = (&*schedule).into();
    let name = if existing { shown.name.clone() } else { String::new() };
    v1::CreateScheduleResponse { schedule: Some(v1::Schedule { name, ..shown }), existing }
}

#[tonic::async_trait]
impl ScheduleService for ScheduleCalls {
    async fn create_schedule(
        &self,
        request: Request<v1::CreateScheduleRequest>,
    ) -> Result<Response<v1::CreateScheduleResponse>, Status> {
        let (change, request) =
            ChangeRequest::read::<_, CreateSchedule>("CreateSchedule", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let name = |(schedule, _): &MadeSchedule| Some(schedule.id.to_string());
        // Asked first, because the target of an earlier request may have gone meanwhile.
        let earlier = match &request.request_id {
            None => None,
            Some(_) => {
                let found = handle.find_schedule_request(caller.clone(), request.clone());
                change.first(found).await?
            }
        };
        let (schedule, existing) = match earlier {
            Some(schedule) => change.create(ready(Ok((schedule, true))), name).await?,
            None => {
                let pins = change.first(self.pins(&caller, &request)).await?;
                if request.validate_only {
                    let asked = handle.make_schedule(caller, request, pins);
                    return Ok(Response::new(only_checked(change.first(asked).await?)));
                }
                let make = async move { handle.make_schedule(caller, request, pins).await };
                change.create(make, name).await?
            }
        };
        let schedule = Some((&*schedule).into());
        Ok(Response::new(v1::CreateScheduleResponse { schedule, existing }))
    }

    async fn get_schedule(
        &self,
        request: Request<v1::GetScheduleRequest>,
    ) -> Result<Response<v1::GetScheduleResponse>, Status> {
        let schedule = self.0.handle.get_schedule(request.into_inner().try_into()?).await?;
        Ok(Response::new(v1::GetScheduleResponse { schedule: Some((&*schedule).into()) }))
    }

    async fn list_schedules(
        &self,
        request: Request<v1::ListSchedulesRequest>,
    ) -> Result<Response<v1::ListSchedulesResponse>, Status> {
        let listed = self.0.handle.list::<Schedule>(request.into_inner().try_into()?).await?;
        let schedules = listed.entries.iter().map(|schedule| (&**schedule).into()).collect();
        let next_page_token = listed.next.unwrap_or_default();
        Ok(Response::new(v1::ListSchedulesResponse { schedules, next_page_token }))
    }

    type WatchSchedulesStream = BoxStream<v1::WatchSchedulesResponse>;

    async fn watch_schedules(
        &self,
        request: Request<v1::WatchSchedulesRequest>,
    ) -> Result<Response<Self::WatchSchedulesStream>, Status> {
        let caller = caller(&request)?;
        let asked = request.into_inner().try_into()?;
        let present = |schedule: Arc<Schedule>| (&*schedule).into();
        let named = |id: ScheduleId| v1::Schedule { name: id.to_string(), ..Default::default() };
        let answer = |change: v1::RecordChange, schedule, resume_token| {
            v1::WatchSchedulesResponse { change: change.into(), schedule, resume_token }
        };
        watch_records::<Schedule, _, _>(&self.0, &caller, asked, present, named, answer).await
    }

    async fn update_schedule(
        &self,
        request: Request<v1::UpdateScheduleRequest>,
    ) -> Result<Response<v1::UpdateScheduleResponse>, Status> {
        let (change, request) =
            ChangeRequest::read::<_, UpdateSchedule>("UpdateSchedule", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        // Here only what the request changes is checked; the dispatcher checks the whole.
        let asked = MigrationSpec {
            policy: request.update.policy.clone().unwrap_or_default(),
            limits: request.update.limits.clone().unwrap_or_default(),
            ..MigrationSpec::default()
        };
        change.first(ready(caller.ceilings.check(&asked))).await?;
        let pins = match request.update.target.clone() {
            Some(target) => change.first(allowed::schedule(&self.0, &caller, target)).await?,
            None => Pins::new(),
        };
        if let Some(policy) = &request.update.policy {
            let asked = policy.numa_balancing;
            change.first(self.0.engine.check_balancing(&caller.name, asked)).await?;
        }
        if request.validate_only {
            let schedule = change.first(handle.update_schedule(caller, request, pins)).await?;
            let schedule = Some((&*schedule).into());
            return Ok(Response::new(v1::UpdateScheduleResponse { schedule }));
        }
        let make = async move { handle.update_schedule(caller, request, pins).await };
        let schedule = change.make(make).await?;
        Ok(Response::new(v1::UpdateScheduleResponse { schedule: Some((&*schedule).into()) }))
    }

    async fn delete_schedule(
        &self,
        request: Request<v1::DeleteScheduleRequest>,
    ) -> Result<Response<v1::DeleteScheduleResponse>, Status> {
        let (change, request) =
            ChangeRequest::read::<_, DeleteSchedule>("DeleteSchedule", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let is_check = request.validate_only;
        let make = async move { handle.delete_schedule(caller, request).await };
        change.make_or_check(is_check, make).await?;
        Ok(Response::new(v1::DeleteScheduleResponse {}))
    }

    async fn run_schedule(
        &self,
        request: Request<v1::RunScheduleRequest>,
    ) -> Result<Response<v1::RunScheduleResponse>, Status> {
        let (change, request) = ChangeRequest::read::<_, RunSchedule>("RunSchedule", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let run = async move { handle.run_schedule(caller, request).await };
        let (job, existing) = change.create(run, |(job, _)| Some(job.id.to_string())).await?;
        Ok(Response::new(v1::RunScheduleResponse { job: Some((&*job).into()), existing }))
    }
}
