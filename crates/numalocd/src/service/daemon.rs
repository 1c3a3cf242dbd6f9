//! DaemonService.

use super::Parts;
use crate::access::{Ceilings, Role, caller};
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

fn shown(ceilings: &Ceilings) -> v1::Ceilings {
    v1::Ceilings {
        profile: v1::Profile::from(ceilings.profile).into(),
        qos_class: v1::QosClass::from(ceilings.qos_class).into(),
        include_shared: ceilings.include_shared,
        named_nodes: ceilings.named_nodes,
        rate_bytes_per_second: ceilings
            .rate_bytes_per_second
            .map(|rate| i64::try_from(rate).unwrap_or(i64::MAX)),
        workers: count(ceilings.workers),
        pause_numa_balancing: ceilings.pause_numa_balancing,
    }
}

#[tonic::async_trait]
impl DaemonService for Service {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let caller = caller(&request)?;
        let status = self.0.handle.status().await?;
        let ceilings = (caller.role == Role::Operator).then(|| shown(&caller.ceilings));
        let boot_id = self.0.engine.boot_id().await?;
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
            boot_id,
            store_id: format!("{:016x}", status.store_id),
            ceilings,
        }))
    }

    async fn get_metrics(
        &self,
        _: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<v1::GetMetricsResponse>, Status> {
        Ok(Response::new(v1::GetMetricsResponse { text: (self.0.metrics)() }))
    }
}
