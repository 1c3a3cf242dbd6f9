//! DaemonService.

use super::Parts;
use crate::access::caller;
use numaloc_api::{
    timestamp,
    v1::{self, daemon_service_server::DaemonService},
};
use tonic::{Request, Response, Status};

/// Tells of the daemon itself.
#[derive(Debug)]
pub struct Service(pub Parts);

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[tonic::async_trait]
impl DaemonService for Service {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let caller = caller(&request)?;
        let status = self.0.handle.status().await?;
        let jobs = status.jobs.into_iter().map(|(state, count)| v1::JobStateCount {
            state: v1::JobState::from(state).into(),
            count: i64::try_from(count).unwrap_or(i64::MAX),
        });
        Ok(Response::new(v1::GetStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            start_time: Some(timestamp(status.started)),
            jobs: jobs.collect(),
            schedules: count(status.schedules),
            workloads: count(status.workloads),
            watches: count(self.0.quotas.watches()),
            moved_bytes: i64::try_from(status.moved_bytes).unwrap_or(i64::MAX),
            problems: status.problems,
            caller: caller.name,
            role: caller.role.to_string(),
        }))
    }

    async fn get_metrics(
        &self,
        _: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<v1::GetMetricsResponse>, Status> {
        Ok(Response::new(v1::GetMetricsResponse { text: (self.0.metrics)() }))
    }
}
