//! The services of the fake daemon.

use super::{Services, Watch, broken, channel, forgotten, gone, next_watch, page, shows};
use crate::answers;
use numaloc_api::v1::*;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl locality_service_server::LocalityService for Services {
    async fn get_topology(
        &self,
        request: Request<GetTopologyRequest>,
    ) -> Answer<GetTopologyResponse> {
        drop(self.asked("GetTopology", request)?);
        Ok(Response::new(GetTopologyResponse { topology: Some(answers::topology()) }))
    }
    async fn get_locality(
        &self,
        request: Request<GetLocalityRequest>,
    ) -> Answer<GetLocalityResponse> {
        let (_, script) = self.asked("GetLocality", request)?;
        Ok(Response::new(GetLocalityResponse {
            locality: Some(answers::locality()),
            found: Vec::new(),
            missing: script.missing.clone(),
            kinds: answers::kinds(),
        }))
    }
    async fn get_advice(&self, request: Request<GetAdviceRequest>) -> Answer<GetAdviceResponse> {
        let (_, script) = self.asked("GetAdvice", request)?;
        Ok(Response::new(GetAdviceResponse {
            advice: Some(answers::advice()),
            missing: script.missing.clone(),
        }))
    }
    async fn get_live_view(
        &self,
        request: Request<GetLiveViewRequest>,
    ) -> Answer<GetLiveViewResponse> {
        let (_, script) = self.asked("GetLiveView", request)?;
        let unknown = || Status::unimplemented("not known");
        let view = script.live.clone().ok_or_else(unknown)?;
        Ok(Response::new(GetLiveViewResponse { view: Some(view) }))
    }
    async fn get_node_contents(
        &self,
        request: Request<GetNodeContentsRequest>,
    ) -> Answer<GetNodeContentsResponse> {
        let (_, script) = self.asked("GetNodeContents", request)?;
        Ok(Response::new(GetNodeContentsResponse { nodes: script.contents.clone() }))
    }
    type WatchLocalityStream = Watch<WatchLocalityResponse>;
    async fn watch_locality(
        &self,
        _: Request<WatchLocalityRequest>,
    ) -> Answer<Self::WatchLocalityStream> {
        Err(Status::unimplemented("not used"))
    }
}

#[tonic::async_trait]
impl migration_service_server::MigrationService for Services {
    async fn plan_migration(
        &self,
        request: Request<PlanMigrationRequest>,
    ) -> Answer<PlanMigrationResponse> {
        let (asked, script) = self.asked("PlanMigration", request)?;
        Ok(Response::new(PlanMigrationResponse {
            plan: Some(answers::plan()),
            found: Vec::new(),
            missing: script.missing.clone(),
            policy: asked.spec.and_then(|spec| spec.policy),
        }))
    }
    async fn create_job(&self, request: Request<CreateJobRequest>) -> Answer<CreateJobResponse> {
        let (_, script) = self.asked("CreateJob", request)?;
        let (job, existing) = (Some(gone()), script.existing);
        Ok(Response::new(CreateJobResponse { job, existing, differs: false }))
    }
    async fn get_job(&self, request: Request<GetJobRequest>) -> Answer<GetJobResponse> {
        let (asked, script) = self.asked("GetJob", request)?;
        Ok(Response::new({
            let named = |job: &&Job| job.name == asked.name;
            let job = script.jobs.iter().find(named).cloned();
            let missing = || Status::not_found(format!("{} does not exist", asked.name));
            GetJobResponse { job: Some(job.ok_or_else(missing)?) }
        }))
    }
    async fn pause_job(&self, request: Request<PauseJobRequest>) -> Answer<PauseJobResponse> {
        let (asked, script) = self.asked("PauseJob", request)?;
        Ok(Response::new({
            let named = |job: &&Job| job.name == asked.name;
            let job = script.jobs.iter().find(named).cloned();
            let missing = || Status::not_found(format!("{} does not exist", asked.name));
            PauseJobResponse { job: Some(job.ok_or_else(missing)?) }
        }))
    }
    async fn resume_job(&self, request: Request<ResumeJobRequest>) -> Answer<ResumeJobResponse> {
        let (asked, script) = self.asked("ResumeJob", request)?;
        Ok(Response::new({
            let named = |job: &&Job| job.name == asked.name;
            let job = script.jobs.iter().find(named).cloned();
            let missing = || Status::not_found(format!("{} does not exist", asked.name));
            ResumeJobResponse { job: Some(job.ok_or_else(missing)?) }
        }))
    }
    async fn cancel_job(&self, request: Request<CancelJobRequest>) -> Answer<CancelJobResponse> {
        let (asked, script) = self.asked("CancelJob", request)?;
        if script.cancelled.is_some() {
            self.0.cancel.notify_one();
        }
        Ok(Response::new(CancelJobResponse { job: Some(Job { name: asked.name, ..gone() }) }))
    }
    async fn delete_job(&self, request: Request<DeleteJobRequest>) -> Answer<DeleteJobResponse> {
        let (asked, script) = self.asked("DeleteJob", request)?;
        match asked.allow_missing || script.jobs.iter().any(|job| job.name == asked.name) {
            true => Ok(Response::new(DeleteJobResponse {})),
            false => Err(Status::not_found(format!("{} does not exist", asked.name))),
        }
    }
    async fn list_jobs(&self, request: Request<ListJobsRequest>) -> Answer<ListJobsResponse> {
        let (asked, script) = self.asked("ListJobs", request)?;
        let (jobs, next_page_token) = page(&script.jobs, asked.page_size, &asked.page_token);
        Ok(Response::new(ListJobsResponse { jobs, next_page_token }))
    }
    type WatchJobsStream = Watch<WatchJobsResponse>;
    async fn watch_jobs(
        &self,
        request: Request<WatchJobsRequest>,
    ) -> Answer<Self::WatchJobsStream> {
        let (asked, mut script) = self.asked("WatchJobs", request)?;
        if script.forgets && !asked.resume_token.is_empty() {
            return Err(forgotten());
        }
        let (changes, last) = next_watch(&mut script.changes);
        Ok(shows(changes, last))
    }
    type WatchJobStream = Watch<WatchJobResponse>;
    async fn watch_job(&self, request: Request<WatchJobRequest>) -> Answer<Self::WatchJobStream> {
        let (jobs, last, cancelled) = {
            let (_, mut script) = self.asked("WatchJob", request)?;
            let (jobs, last) = next_watch(&mut script.watch);
            (jobs, last, script.cancelled.clone())
        };
        let (sender, response) = channel();
        let shared = self.0.clone();
        tokio::spawn(async move {
            let mut state = JobState::Unspecified;
            for job in jobs {
                let ends = job.end_time.is_some();
                // As the daemon: progress comes without the rest.
                let is_progress = !ends && state == job.state();
                state = job.state();
                let job = match is_progress {
                    true => Job { spec: None, plan: None, create_time: None, ..job },
                    false => job,
                };
                let _ = sender.send(Ok(WatchJobResponse { job: Some(job), is_progress })).await;
                if ends {
                    return;
                }
            }
            if !last {
                let _ = sender.send(Err(broken())).await;
                return;
            }
            shared.cancel.notified().await;
            let is_progress = false;
            let _ = sender.send(Ok(WatchJobResponse { job: cancelled, is_progress })).await;
        });
        Ok(response)
    }
}

#[tonic::async_trait]
impl schedule_service_server::ScheduleService for Services {
    type WatchSchedulesStream = Watch<WatchSchedulesResponse>;
    async fn watch_schedules(
        &self,
        request: Request<WatchSchedulesRequest>,
    ) -> Answer<Self::WatchSchedulesStream> {
        drop(self.asked("WatchSchedules", request)?);
        let answer = |change: RecordChange, schedule| WatchSchedulesResponse {
            change: change.into(),
            schedule,
            resume_token: "r.1".to_owned(),
        };
        let answers = vec![
            answer(RecordChange::Present, Some(answers::schedule())),
            answer(RecordChange::CaughtUp, None),
        ];
        Ok(shows(answers, true))
    }
    async fn create_schedule(
        &self,
        request: Request<CreateScheduleRequest>,
    ) -> Answer<CreateScheduleResponse> {
        drop(self.asked("CreateSchedule", request)?);
        let (schedule, existing) = (Some(answers::schedule()), false);
        Ok(Response::new(CreateScheduleResponse { schedule, existing }))
    }
    async fn get_schedule(
        &self,
        request: Request<GetScheduleRequest>,
    ) -> Answer<GetScheduleResponse> {
        let (_, script) = self.asked("GetSchedule", request)?;
        let schedule = script.schedules.first().cloned();
        Ok(Response::new(GetScheduleResponse { schedule }))
    }
    async fn update_schedule(
        &self,
        request: Request<UpdateScheduleRequest>,
    ) -> Answer<UpdateScheduleResponse> {
        drop(self.asked("UpdateSchedule", request)?);
        Ok(Response::new(UpdateScheduleResponse { schedule: Some(answers::schedule()) }))
    }
    async fn delete_schedule(
        &self,
        request: Request<DeleteScheduleRequest>,
    ) -> Answer<DeleteScheduleResponse> {
        drop(self.asked("DeleteSchedule", request)?);
        Ok(Response::new(DeleteScheduleResponse {}))
    }
    async fn run_schedule(
        &self,
        request: Request<RunScheduleRequest>,
    ) -> Answer<RunScheduleResponse> {
        let asked = self.asked("RunSchedule", request)?.0;
        let schedule = asked.name;
        let job = Job { name: "jobs/43".to_owned(), schedule, ..gone() };
        Ok(Response::new(RunScheduleResponse { job: Some(job), existing: false }))
    }
    async fn list_schedules(
        &self,
        request: Request<ListSchedulesRequest>,
    ) -> Answer<ListSchedulesResponse> {
        let (asked, script) = self.asked("ListSchedules", request)?;
        let all = &script.schedules;
        let (schedules, next_page_token) = page(all, asked.page_size, &asked.page_token);
        Ok(Response::new(ListSchedulesResponse { schedules, next_page_token }))
    }
}

#[tonic::async_trait]
impl event_service_server::EventService for Services {
    async fn list_events(&self, request: Request<ListEventsRequest>) -> Answer<ListEventsResponse> {
        let asked = self.asked("ListEvents", request)?.0;
        let all: Vec<_> = (1..=1200).map(answers::event).collect();
        let (events, next_page_token) = page(&all, asked.page_size, &asked.page_token);
        Ok(Response::new(ListEventsResponse { events, next_page_token }))
    }
    type WatchEventsStream = Watch<WatchEventsResponse>;
    async fn watch_events(
        &self,
        request: Request<WatchEventsRequest>,
    ) -> Answer<Self::WatchEventsStream> {
        let (events, stays) = {
            let (_, mut script) = self.asked("WatchEvents", request)?;
            let (events, last) = next_watch(&mut script.events);
            if last && script.dies {
                script.refuse = Some(broken());
            }
            (events, last && !script.dies)
        };
        let answer = |event| WatchEventsResponse { event: Some(event) };
        Ok(shows(events.into_iter().map(answer).collect(), stays))
    }
}

#[tonic::async_trait]
impl workload_service_server::WorkloadService for Services {
    async fn register_workload(
        &self,
        request: Request<RegisterWorkloadRequest>,
    ) -> Answer<RegisterWorkloadResponse> {
        let asked = self.asked("RegisterWorkload", request)?.0;
        Ok(Response::new(RegisterWorkloadResponse { workload: asked.workload }))
    }
    async fn replace_workloads(
        &self,
        request: Request<tonic::Streaming<ReplaceWorkloadsRequest>>,
    ) -> Answer<ReplaceWorkloadsResponse> {
        let mut parts = request.into_inner();
        let mut workloads = 0;
        while let Some(part) = parts.message().await? {
            workloads += i32::try_from(part.workloads.len()).unwrap();
            drop(self.asked("ReplaceWorkloads", Request::new(part))?);
        }
        Ok(Response::new(ReplaceWorkloadsResponse {
            written_count: workloads,
            ..Default::default()
        }))
    }
    async fn renew_workloads(
        &self,
        request: Request<RenewWorkloadsRequest>,
    ) -> Answer<RenewWorkloadsResponse> {
        drop(self.asked("RenewWorkloads", request)?);
        Ok(Response::new(RenewWorkloadsResponse { workload_count: 7 }))
    }
    async fn get_workload(
        &self,
        request: Request<GetWorkloadRequest>,
    ) -> Answer<GetWorkloadResponse> {
        let asked = self.asked("GetWorkload", request)?.0;
        let workload = Some(answers::workload(&asked.name));
        Ok(Response::new(GetWorkloadResponse { workload }))
    }
    type WatchWorkloadsStream = Watch<WatchWorkloadsResponse>;
    async fn watch_workloads(
        &self,
        request: Request<WatchWorkloadsRequest>,
    ) -> Answer<Self::WatchWorkloadsStream> {
        drop(self.asked("WatchWorkloads", request)?);
        let answer = |change: RecordChange, workload| WatchWorkloadsResponse {
            change: change.into(),
            workload,
            resume_token: "r.1".to_owned(),
        };
        let answers = vec![
            answer(RecordChange::Present, Some(answers::workload("workloads/redis"))),
            answer(RecordChange::CaughtUp, None),
        ];
        Ok(shows(answers, true))
    }
    async fn unregister_workload(
        &self,
        request: Request<UnregisterWorkloadRequest>,
    ) -> Answer<UnregisterWorkloadResponse> {
        drop(self.asked("UnregisterWorkload", request)?);
        Ok(Response::new(UnregisterWorkloadResponse {}))
    }
    async fn list_workloads(
        &self,
        request: Request<ListWorkloadsRequest>,
    ) -> Answer<ListWorkloadsResponse> {
        let asked = self.asked("ListWorkloads", request)?.0;
        let all: Vec<_> =
            (0..1001).map(|n| answers::workload(&format!("workloads/w{n}"))).collect();
        let (workloads, next_page_token) = page(&all, asked.page_size, &asked.page_token);
        Ok(Response::new(ListWorkloadsResponse { workloads, next_page_token }))
    }
}

#[tonic::async_trait]
impl daemon_service_server::DaemonService for Services {
    async fn get_status(&self, request: Request<GetStatusRequest>) -> Answer<GetStatusResponse> {
        let (_, script) = self.asked("GetStatus", request)?;
        let holds = script.drained.then(|| answers::holds(true, false));
        Ok(Response::new(GetStatusResponse { holds, ..answers::status(script.version) }))
    }
    async fn get_metrics(&self, request: Request<GetMetricsRequest>) -> Answer<GetMetricsResponse> {
        drop(self.asked("GetMetrics", request)?);
        Ok(Response::new(GetMetricsResponse { text: "# EOF\n".to_owned() }))
    }
    async fn drain_daemon(
        &self,
        request: Request<DrainDaemonRequest>,
    ) -> Answer<DrainDaemonResponse> {
        drop(self.asked("DrainDaemon", request)?);
        Ok(Response::new(DrainDaemonResponse { holds: Some(answers::holds(true, false)) }))
    }
    async fn undrain_daemon(
        &self,
        request: Request<UndrainDaemonRequest>,
    ) -> Answer<UndrainDaemonResponse> {
        drop(self.asked("UndrainDaemon", request)?);
        Ok(Response::new(UndrainDaemonResponse { holds: Some(answers::holds(false, false)) }))
    }
    async fn pause_daemon(
        &self,
        request: Request<PauseDaemonRequest>,
    ) -> Answer<PauseDaemonResponse> {
        drop(self.asked("PauseDaemon", request)?);
        Ok(Response::new(PauseDaemonResponse { holds: Some(answers::holds(true, true)) }))
    }
    async fn resume_daemon(
        &self,
        request: Request<ResumeDaemonRequest>,
    ) -> Answer<ResumeDaemonResponse> {
        drop(self.asked("ResumeDaemon", request)?);
        Ok(Response::new(ResumeDaemonResponse { holds: Some(answers::holds(true, false)) }))
    }
    type BackupStoreStream = Watch<BackupStoreResponse>;
    async fn backup_store(
        &self,
        request: Request<BackupStoreRequest>,
    ) -> Answer<Self::BackupStoreStream> {
        let dies = self.asked("BackupStore", request)?.1.dies;
        let (sender, response) = channel();
        for chunk in [&b"one"[..], b"two"] {
            let _ = sender.send(Ok(BackupStoreResponse { chunk: chunk.to_vec() })).await;
        }
        if dies {
            let _ = sender.send(Err(broken())).await;
        }
        Ok(response)
    }
}
