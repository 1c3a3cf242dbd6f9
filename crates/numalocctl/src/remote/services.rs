//! Calls about the daemon itself, its workloads and its stored events.

use super::{
    Daemon, client,
    jobs::PAGE,
    record::{event, holds, status, workload},
};
use crate::{
    doc::{EventDoc, EventsDoc, HoldsDoc, StatusDoc, WorkloadDoc, WorkloadsDoc},
    exit::Failure,
};
use numaloc_api::{
    event_number, timestamp, v1,
    value::{EventFilter, WorkloadId, WorkloadSpec},
};
use std::time::SystemTime;

impl Daemon {
    /// What it is doing.
    pub fn status(&self) -> Result<StatusDoc, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let answer = self.call(v1::GetStatusRequest {}, |request| async move {
            service.get_status(request).await
        })?;
        Ok(status(&answer, self.endpoint(), SystemTime::now()))
    }

    /// Lets no move begin, or lets them begin again.
    pub fn drain(&self, on: bool) -> Result<HoldsDoc, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let held = match on {
            true => {
                let answer = self.call(v1::DrainDaemonRequest {}, |request| async move {
                    service.drain_daemon(request).await
                });
                answer?.holds
            }
            false => {
                let answer = self.call(v1::UndrainDaemonRequest {}, |request| async move {
                    service.undrain_daemon(request).await
                });
                answer?.holds
            }
        };
        Ok(holds(&held.unwrap_or_default()))
    }

    /// Holds all moves, or lets them go on.
    pub fn pause_all(&self, on: bool) -> Result<HoldsDoc, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let held = match on {
            true => {
                let answer = self.call(v1::PauseDaemonRequest {}, |request| async move {
                    service.pause_daemon(request).await
                });
                answer?.holds
            }
            false => {
                let answer = self.call(v1::ResumeDaemonRequest {}, |request| async move {
                    service.resume_daemon(request).await
                });
                answer?.holds
            }
        };
        Ok(holds(&held.unwrap_or_default()))
    }

    /// Its metrics, OpenMetrics text.
    pub fn metrics(&self) -> Result<String, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let answer = self.call(v1::GetMetricsRequest {}, |request| async move {
            service.get_metrics(request).await
        })?;
        Ok(answer.text)
    }

    /// Registers a workload.
    pub fn register(&self, spec: &WorkloadSpec) -> Result<WorkloadDoc, Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let message = v1::RegisterWorkloadRequest { workload: Some(spec.into()) };
        let answer =
            self.call(message, |request| async move { service.register_workload(request).await })?;
        Ok(workload(&answer.workload.unwrap_or_default()))
    }

    /// Forgets a workload.
    pub fn unregister(&self, id: &WorkloadId) -> Result<(), Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let message = v1::UnregisterWorkloadRequest { name: id.to_string() };
        self.call(message, |request| async move { service.unregister_workload(request).await })?;
        Ok(())
    }

    /// All workloads.
    pub fn list_workloads(&self) -> Result<WorkloadsDoc, Failure> {
        let mut message = v1::ListWorkloadsRequest { page_size: PAGE, page_token: String::new() };
        let mut workloads = Vec::new();
        loop {
            let mut service = client!(self, workload_service_client, WorkloadServiceClient);
            let answer = self.call(message.clone(), |request| async move {
                service.list_workloads(request).await
            })?;
            workloads.extend(answer.workloads.iter().map(workload));
            message.page_token = answer.next_page_token;
            if message.page_token.is_empty() {
                return Ok(WorkloadsDoc { workloads });
            }
        }
    }

    /// Stored events, oldest first; those after the event with the number `after`, if it is given.
    pub fn list_events(
        &self,
        filter: &EventFilter,
        after: Option<u64>,
    ) -> Result<EventsDoc, Failure> {
        let mut message = v1::ListEventsRequest {
            filter: Some(wanted(filter)),
            page_size: PAGE,
            page_token: String::new(),
        };
        let is_wanted = |event: &EventDoc| {
            after.is_none_or(|after| event_number(&event.name).is_none_or(|number| number > after))
        };
        let mut events = Vec::new();
        loop {
            let mut service = client!(self, event_service_client, EventServiceClient);
            let answer =
                self.call(
                    message.clone(),
                    |request| async move { service.list_events(request).await },
                )?;
            events.extend(answer.events.iter().map(event).filter(is_wanted));
            message.page_token = answer.next_page_token;
            if message.page_token.is_empty() {
                return Ok(EventsDoc { events });
            }
        }
    }
}

/// A filter as the API has it.
pub fn wanted(filter: &EventFilter) -> v1::EventFilter {
    v1::EventFilter {
        types: filter.types.iter().map(|&kind| v1::EventType::from(kind).into()).collect(),
        job: filter.job.as_ref().map(ToString::to_string).unwrap_or_default(),
        schedule: filter.schedule.as_ref().map(ToString::to_string).unwrap_or_default(),
        since: filter.since.map(timestamp),
    }
}
