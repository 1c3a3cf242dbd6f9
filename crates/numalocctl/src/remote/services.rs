//! Calls about the daemon itself, its workloads and its stored events.

use super::{Daemon, all_pages, ask, client, filter::wanted, jobs::PAGE};
use crate::exit::Failure;
use numaloc_api::{
    NRI_SOURCE, TOLD_BY_LABEL, event_number, v1,
    value::{
        EventFilter, RegisterWorkload, UnregisterWorkload, WorkloadFilter, WorkloadId, WorkloadSet,
    },
};
use std::time::Duration;

impl Daemon {
    pub fn status(&self) -> Result<v1::GetStatusResponse, Failure> {
        let message = v1::GetStatusRequest {};
        ask!(self, daemon_service_client::DaemonServiceClient.get_status, message)
    }

    /// Drains the daemon (`on`), or ends draining.
    pub fn drain(&self, on: bool) -> Result<v1::Holds, Failure> {
        let held = match on {
            true => {
                let message = v1::DrainDaemonRequest {};
                ask!(self, daemon_service_client::DaemonServiceClient.drain_daemon, message)?.holds
            }
            false => {
                let message = v1::UndrainDaemonRequest {};
                ask!(self, daemon_service_client::DaemonServiceClient.undrain_daemon, message)?
                    .holds
            }
        };
        Ok(held.unwrap_or_default())
    }

    /// Pauses all moves (`on`), or ends the pause.
    pub fn pause_all(&self, on: bool) -> Result<v1::Holds, Failure> {
        let held = match on {
            true => {
                let message = v1::PauseDaemonRequest {};
                ask!(self, daemon_service_client::DaemonServiceClient.pause_daemon, message)?.holds
            }
            false => {
                let message = v1::ResumeDaemonRequest {};
                ask!(self, daemon_service_client::DaemonServiceClient.resume_daemon, message)?.holds
            }
        };
        Ok(held.unwrap_or_default())
    }

    /// The daemon's metrics, as OpenMetrics text.
    pub fn metrics(&self) -> Result<String, Failure> {
        let message = v1::GetMetricsRequest {};
        Ok(ask!(self, daemon_service_client::DaemonServiceClient.get_metrics, message)?.text)
    }

    pub fn register(&self, request: &RegisterWorkload) -> Result<v1::Workload, Failure> {
        let message = v1::RegisterWorkloadRequest::from(request);
        let answer =
            ask!(self, workload_service_client::WorkloadServiceClient.register_workload, message)?;
        Ok(answer.workload.unwrap_or_default())
    }

    /// Declares all workloads of a set. Workloads without a lease of their own get `ttl`.
    pub fn replace_workloads(
        &self,
        set: &WorkloadSet,
        ttl: Option<Duration>,
    ) -> Result<v1::ReplaceWorkloadsResponse, Failure> {
        let workloads = set.specs.iter().map(v1::Workload::from);
        let parts = v1::ReplaceWorkloadsRequest::parts(set.source.as_deref(), workloads, ttl);
        let validate_only = set.validate_only;
        let parts = parts
            .into_iter()
            .map(move |part| v1::ReplaceWorkloadsRequest { validate_only, ..part });
        let parts = tokio_stream::iter(parts);
        ask!(self, workload_service_client::WorkloadServiceClient.replace_workloads, parts)
    }

    /// Renews the leases of a set.
    pub fn renew_workloads(
        &self,
        source: Option<&str>,
    ) -> Result<v1::RenewWorkloadsResponse, Failure> {
        let source = source.unwrap_or_default().to_owned();
        let message = v1::RenewWorkloadsRequest { source };
        ask!(self, workload_service_client::WorkloadServiceClient.renew_workloads, message)
    }

    pub fn get_workload(&self, id: &WorkloadId) -> Result<v1::Workload, Failure> {
        let message = v1::GetWorkloadRequest { name: id.to_string() };
        let answer =
            ask!(self, workload_service_client::WorkloadServiceClient.get_workload, message)?;
        Ok(answer.workload.unwrap_or_default())
    }

    pub fn unregister(&self, request: &UnregisterWorkload) -> Result<(), Failure> {
        let message = v1::UnregisterWorkloadRequest::from(request);
        ask!(self, workload_service_client::WorkloadServiceClient.unregister_workload, message)?;
        Ok(())
    }

    /// The source through which numaloc-nri knows its containers; `None`: there are none.
    pub fn told_by(&self) -> Result<Option<String>, Failure> {
        let filter = WorkloadFilter { source: Some(NRI_SOURCE.to_owned()), ..Default::default() };
        let message = v1::ListWorkloadsRequest {
            page_size: 1,
            page_token: String::new(),
            filter: Some((&filter).into()),
        };
        let answer =
            ask!(self, workload_service_client::WorkloadServiceClient.list_workloads, message)?;
        let workload = answer.workloads.into_iter().next();
        Ok(workload.and_then(|mut workload| workload.labels.remove(TOLD_BY_LABEL)))
    }

    /// All workloads that meet the filter.
    pub fn list_workloads(
        &self,
        filter: &WorkloadFilter,
    ) -> Result<v1::ListWorkloadsResponse, Failure> {
        let filter = Some(filter.into());
        let message =
            v1::ListWorkloadsRequest { page_size: PAGE, page_token: String::new(), filter };
        let workloads = all_pages!(
            self,
            workload_service_client::WorkloadServiceClient.list_workloads,
            message,
            workloads
        );
        Ok(v1::ListWorkloadsResponse { workloads, ..Default::default() })
    }

    /// Shows `seen` all workloads that a filter lets through, and then their changes, without end.
    pub fn watch_workloads(
        &self,
        filter: &WorkloadFilter,
        seen: impl FnMut(&v1::WatchWorkloadsResponse) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let filter = v1::WorkloadFilter::from(filter);
        let open = async |resume_token: String| {
            let mut service = client!(self, workload_service_client, WorkloadServiceClient);
            let filter = Some(filter.clone());
            service.watch_workloads(v1::WatchWorkloadsRequest { filter, resume_token }).await
        };
        self.watch_records(open, seen)
    }

    /// Stored events, oldest first. `after` is the number of the event to start after.
    pub fn list_events(
        &self,
        filter: &EventFilter,
        after: Option<u64>,
    ) -> Result<v1::ListEventsResponse, Failure> {
        let message = v1::ListEventsRequest {
            filter: Some(wanted(filter)),
            page_size: PAGE,
            page_token: String::new(),
        };
        let mut events =
            all_pages!(self, event_service_client::EventServiceClient.list_events, message, events);
        events.retain(|event: &v1::Event| {
            after.is_none_or(|after| event_number(&event.name).is_none_or(|number| number > after))
        });
        Ok(v1::ListEventsResponse { events, ..Default::default() })
    }
}
