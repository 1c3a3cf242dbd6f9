//! DaemonService: status, metrics, holds and backups.

use super::{Parts, backup, change::ChangeRequest};
use crate::{
    access::caller,
    accounts::Resource,
    config::{Ceilings, Role},
    dispatch::Hold,
    refusal::Refusal,
    store::Holds,
};
use numaloc_api::{
    timestamp,
    v1::{self, daemon_service_server::DaemonService},
};
use std::{sync::Arc, time::Instant};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, codegen::BoxStream};

/// Status, metrics, holds and backups of the daemon.
#[derive(Debug)]
pub struct DaemonCalls {
    parts: Parts,
    /// One copy of the store at a time, because each takes as much room as the store.
    copies: Arc<Semaphore>,
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

fn shown(ceilings: &Ceilings) -> v1::Ceilings {
    v1::Ceilings {
        profile: v1::Profile::from(ceilings.profile).into(),
        qos_class: v1::QosClass::from(ceilings.qos_class).into(),
        include_shared: ceilings.include_shared,
        include_network: ceilings.include_network,
        include_bound: ceilings.include_bound,
        include_gigantic: ceilings.include_gigantic,
        fresh_hugetlb: ceilings.fresh_hugetlb,
        reserve_bytes: ceilings.reserve_bytes,
        named_nodes: ceilings.named_nodes,
        rate_bytes_per_second: ceilings
            .rate_bytes_per_second
            .map(|rate| i64::try_from(rate).unwrap_or(i64::MAX)),
        workers: count(ceilings.workers),
        pause_numa_balancing: ceilings.pause_numa_balancing,
        offload: ceilings.offload,
    }
}

fn holds(holds: Holds) -> v1::Holds {
    let Holds { drained, paused } = holds;
    v1::Holds { drain_time: drained.map(timestamp), pause_time: paused.map(timestamp) }
}

impl DaemonCalls {
    /// A service that uses these parts.
    pub fn new(parts: Parts) -> Self {
        Self { parts, copies: Arc::new(Semaphore::new(1)) }
    }

    /// Sets (`on`) or clears a hold.
    async fn set<Q>(
        &self,
        method: &'static str,
        request: &Request<Q>,
        hold: Hold,
        on: bool,
    ) -> Result<Option<v1::Holds>, Status> {
        let change = ChangeRequest::of_daemon(method, request)?;
        let (handle, caller) = (self.parts.handle.clone(), change.caller.clone());
        let set = change.make(async move { handle.set_hold(caller, hold, on).await });
        Ok(Some(holds(set.await?)))
    }
}

#[tonic::async_trait]
impl DaemonService for DaemonCalls {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let caller = caller(&request)?;
        let status = self.parts.handle.status().await?;
        let ceilings = (caller.role == Role::Operator).then(|| shown(&caller.ceilings));
        let boot_id = self.parts.engine.boot_id()?.to_owned();
        let mut problems = status.problems;
        problems.extend(self.parts.accounts.problems(Instant::now()));
        problems.extend((self.parts.obstacles)());
        problems.extend(self.parts.engine.hidden().map(str::to_owned));
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
            watches: count(self.parts.accounts.held(Resource::Watches)),
            moved_bytes: i64::try_from(status.moved_bytes).unwrap_or(i64::MAX),
            problems,
            caller: caller.name,
            role: caller.role.to_string(),
            boot_id,
            store_id: format!("{:016x}", status.store_id),
            holds: Some(holds(status.holds)),
            ceilings,
        }))
    }

    async fn get_metrics(
        &self,
        _: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<v1::GetMetricsResponse>, Status> {
        Ok(Response::new(v1::GetMetricsResponse { text: (self.parts.metrics)() }))
    }

    async fn drain_daemon(
        &self,
        request: Request<v1::DrainDaemonRequest>,
    ) -> Result<Response<v1::DrainDaemonResponse>, Status> {
        let holds = self.set("DrainDaemon", &request, Hold::Drain, true).await?;
        Ok(Response::new(v1::DrainDaemonResponse { holds }))
    }

    async fn undrain_daemon(
        &self,
        request: Request<v1::UndrainDaemonRequest>,
    ) -> Result<Response<v1::UndrainDaemonResponse>, Status> {
        let holds = self.set("UndrainDaemon", &request, Hold::Drain, false).await?;
        Ok(Response::new(v1::UndrainDaemonResponse { holds }))
    }

    async fn pause_daemon(
        &self,
        request: Request<v1::PauseDaemonRequest>,
    ) -> Result<Response<v1::PauseDaemonResponse>, Status> {
        let holds = self.set("PauseDaemon", &request, Hold::Pause, true).await?;
        Ok(Response::new(v1::PauseDaemonResponse { holds }))
    }

    type BackupStoreStream = BoxStream<v1::BackupStoreResponse>;

    async fn backup_store(
        &self,
        request: Request<v1::BackupStoreRequest>,
    ) -> Result<Response<Self::BackupStoreStream>, Status> {
        let change = ChangeRequest::of_daemon("BackupStore", &request)?;
        let (handle, copies) = (self.parts.handle.clone(), self.copies.clone());
        let copied = change.make(async move {
            let turn = copies.acquire_owned().await;
            let turn = turn.map_err(|error| Refusal::Internal { message: error.to_string() })?;
            Ok((backup::copy(handle.snapshot().await?).await?, turn))
        });
        let (file, turn) = copied.await?;
        Ok(Response::new(backup::stream(file, turn)))
    }

    async fn resume_daemon(
        &self,
        request: Request<v1::ResumeDaemonRequest>,
    ) -> Result<Response<v1::ResumeDaemonResponse>, Status> {
        let holds = self.set("ResumeDaemon", &request, Hold::Pause, false).await?;
        Ok(Response::new(v1::ResumeDaemonResponse { holds }))
    }
}
