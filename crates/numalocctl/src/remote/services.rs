//! Calls about the daemon itself, its workloads and its stored events.

use super::{
    Daemon, client,
    fields::amount,
    filter::wanted,
    jobs::PAGE,
    record::{event, holds, status, workload},
    watch::change,
};
use crate::{
    doc::{
        ChangeDoc, EventDoc, EventsDoc, HoldsDoc, RenewedDoc, ReplacedDoc, StatusDoc, WorkloadDoc,
        WorkloadsDoc,
    },
    exit::Failure,
};
use numaloc_api::{
    NRI_SOURCE, TOLD_BY_LABEL, event_number, v1,
    value::{
        EventFilter, RegisterWorkload, UnregisterWorkload, WorkloadFilter, WorkloadId, WorkloadSet,
    },
};
use std::time::{Duration, SystemTime};

impl Daemon {
    /// The daemon's status.
    pub fn status(&self) -> Result<StatusDoc, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let answer = self.call(v1::GetStatusRequest {}, |request| async move {
            service.get_status(request).await
        })?;
        Ok(status(&answer, self.endpoint(), SystemTime::now()))
    }

    /// Drains the daemon (`on`), or ends draining.
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

    /// Pauses all moves (`on`), or ends the pause.
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

    /// The daemon's metrics, as OpenMetrics text.
    pub fn metrics(&self) -> Result<String, Failure> {
        let mut service = client!(self, daemon_service_client, DaemonServiceClient);
        let answer = self.call(v1::GetMetricsRequest {}, |request| async move {
            service.get_metrics(request).await
        })?;
        Ok(answer.text)
    }

    /// Registers a workload.
    pub fn register(&self, request: &RegisterWorkload) -> Result<WorkloadDoc, Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let message = v1::RegisterWorkloadRequest::from(request);
        let answer =
            self.call(message, |request| async move { service.register_workload(request).await })?;
        Ok(workload(&answer.workload.unwrap_or_default()))
    }

    /// Declares all workloads of a set. Those without a lease of their own get `ttl`.
    pub fn replace_workloads(
        &self,
        set: &WorkloadSet,
        ttl: Option<Duration>,
    ) -> Result<ReplacedDoc, Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let workloads = set.specs.iter().map(v1::Workload::from);
        let parts = v1::ReplaceWorkloadsRequest::parts(set.source.as_deref(), workloads, ttl);
        let validate_only = set.validate_only;
        let parts = parts
            .into_iter()
            .map(move |part| v1::ReplaceWorkloadsRequest { validate_only, ..part });
        let parts = tokio_stream::iter(parts);
        let answer =
            self.call(parts, |request| async move { service.replace_workloads(request).await })?;
        Ok(ReplacedDoc {
            written_count: amount(answer.written_count.into()),
            unchanged_count: amount(answer.unchanged_count.into()),
            removed_count: amount(answer.removed_count.into()),
            missing: answer.missing,
        })
    }

    /// Renews the leases of a set.
    pub fn renew_workloads(&self, source: Option<&str>) -> Result<RenewedDoc, Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let source = source.unwrap_or_default().to_owned();
        let answer = self.call(v1::RenewWorkloadsRequest { source }, |request| async move {
            service.renew_workloads(request).await
        })?;
        Ok(RenewedDoc { workload_count: amount(answer.workload_count.into()) })
    }

    /// One workload.
    pub fn get_workload(&self, id: &WorkloadId) -> Result<WorkloadDoc, Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let message = v1::GetWorkloadRequest { name: id.to_string() };
        let answer =
            self.call(message, |request| async move { service.get_workload(request).await })?;
        Ok(workload(&answer.workload.unwrap_or_default()))
    }

    /// Unregisters a workload.
    pub fn unregister(&self, request: &UnregisterWorkload) -> Result<(), Failure> {
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let message = v1::UnregisterWorkloadRequest::from(request);
        self.call(message, |request| async move { service.unregister_workload(request).await })?;
        Ok(())
    }

    /// By which way numaloc-nri was told of its containers; `None`: there are none.
    pub fn told_by(&self) -> Result<Option<String>, Failure> {
        let filter = WorkloadFilter { source: Some(NRI_SOURCE.to_owned()), ..Default::default() };
        let message = v1::ListWorkloadsRequest {
            page_size: 1,
            page_token: String::new(),
            filter: Some((&filter).into()),
        };
        let mut service = client!(self, workload_service_client, WorkloadServiceClient);
        let answer =
            self.call(message, |request| async move { service.list_workloads(request).await })?;
        let workload = answer.workloads.into_iter().next();
        Ok(workload.and_then(|mut workload| workload.labels.remove(TOLD_BY_LABEL)))
    }

    /// All workloads that meet the filter.
    pub fn list_workloads(&self, filter: &WorkloadFilter) -> Result<WorkloadsDoc, Failure> {
        let filter = Some(filter.into());
        let mut message =
            v1::ListWorkloadsRequest { page_size: PAGE, page_token: String::new(), filter };
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

    /// Shows `seen` all workloads that a filter lets through, and then what becomes of them, for ever.
    pub fn watch_workloads(
        &self,
        filter: &WorkloadFilter,
        seen: impl FnMut(&ChangeDoc<WorkloadDoc>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = v1::WorkloadFilter::from(filter);
        let open = async |resume_token: String| {
            let mut service = client!(self, workload_service_client, WorkloadServiceClient);
            let filter = Some(filter.clone());
            service.watch_workloads(v1::WatchWorkloadsRequest { filter, resume_token }).await
        };
        let read = |answer: v1::WatchWorkloadsResponse| {
            let told = change(answer.change(), answer.workload, |message| &message.name, workload);
            (told, answer.resume_token)
        };
        self.watch_records(open, read, seen)
    }

    /// Stored events, oldest first. `after` is the number of the event to start after.
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
