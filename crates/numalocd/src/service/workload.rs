//! WorkloadService: names, labels and leases of cgroups.

mod set;

use super::{Parts, allowed, change::ChangeRequest, watch::watch_records};
use crate::{
    access::{Caller, caller},
    dispatch::Registering,
    refusal::Refusal,
};
use numaloc_api::{
    v1::{self, workload_service_server::WorkloadService},
    value::{
        RegisterWorkload, RenewWorkloads, UnregisterWorkload, Workload, WorkloadId, WorkloadSpec,
    },
};
use std::{future::ready, sync::Arc};
use tonic::{Request, Response, Status, Streaming, codegen::BoxStream};

/// Registers workloads: the names that clients have for cgroups.
#[derive(Debug)]
pub struct WorkloadCalls(pub Parts);

#[tonic::async_trait]
impl WorkloadService for WorkloadCalls {
    async fn register_workload(
        &self,
        request: Request<v1::RegisterWorkloadRequest>,
    ) -> Result<Response<v1::RegisterWorkloadResponse>, Status> {
        let (change, mut request) =
            ChangeRequest::read::<_, RegisterWorkload>("RegisterWorkload", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let is_check = request.validate_only;
        // Asked first, because the container of an earlier request may have gone meanwhile.
        if request.mask.is_some() || request.request_id.is_some() {
            let begun = handle.begin_register(caller.clone(), request.clone());
            match change.first(begun).await? {
                Registering::Done(known) => {
                    let workload = change.make_or_check(is_check, ready(Ok(known))).await?;
                    return Ok(registered(&workload));
                }
                Registering::Whole(spec, etag) => {
                    request.spec = *spec;
                    request.mask = None;
                    request.etag = Some(etag);
                }
            }
        }
        let spec = change.first(self.placed(&caller, request.spec)).await?;
        request.spec = spec;
        let make = async move { handle.register_workload(caller, request).await };
        Ok(registered(&*change.make_or_check(is_check, make).await?))
    }

    async fn replace_workloads(
        &self,
        request: Request<Streaming<v1::ReplaceWorkloadsRequest>>,
    ) -> Result<Response<v1::ReplaceWorkloadsResponse>, Status> {
        let mut change = ChangeRequest::begin("ReplaceWorkloads", &request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let read = set::read(&self.0, &caller, request.into_inner()).await?;
        let mut set = change.first(ready(read)).await?;
        change.set_subject(&set);
        let lost = change.first(allowed::locate_set(&self.0, &caller, &mut set.specs)).await?;
        change.first(allowed::register(&self.0, &caller, &set.specs)).await?;
        let is_check = set.validate_only;
        let make = async move { handle.replace_workloads(caller, set).await };
        let done = change.make_or_check(is_check, make).await?;
        Ok(Response::new(v1::ReplaceWorkloadsResponse {
            written_count: count(done.written),
            unchanged_count: count(done.unchanged),
            removed_count: count(done.removed),
            missing: lost.iter().map(WorkloadId::to_string).collect(),
        }))
    }

    /// Leaves no line in the audit log: it is called again and again, and changes no record.
    async fn renew_workloads(
        &self,
        request: Request<v1::RenewWorkloadsRequest>,
    ) -> Result<Response<v1::RenewWorkloadsResponse>, Status> {
        let caller = caller(&request)?;
        let request: RenewWorkloads = request.into_inner().try_into()?;
        let workloads = self.0.handle.renew_workloads(caller, request).await?;
        Ok(Response::new(v1::RenewWorkloadsResponse { workload_count: count(workloads) }))
    }

    async fn unregister_workload(
        &self,
        request: Request<v1::UnregisterWorkloadRequest>,
    ) -> Result<Response<v1::UnregisterWorkloadResponse>, Status> {
        let (change, request) =
            ChangeRequest::read::<_, UnregisterWorkload>("UnregisterWorkload", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        let is_check = request.validate_only;
        let make = async move { handle.unregister_workload(caller, request).await };
        change.make_or_check(is_check, make).await?;
        Ok(Response::new(v1::UnregisterWorkloadResponse {}))
    }

    async fn get_workload(
        &self,
        request: Request<v1::GetWorkloadRequest>,
    ) -> Result<Response<v1::GetWorkloadResponse>, Status> {
        let workload = self.0.handle.get_workload(request.into_inner().try_into()?).await?;
        Ok(Response::new(v1::GetWorkloadResponse { workload: Some((&*workload).into()) }))
    }

    type WatchWorkloadsStream = BoxStream<v1::WatchWorkloadsResponse>;

    async fn watch_workloads(
        &self,
        request: Request<v1::WatchWorkloadsRequest>,
    ) -> Result<Response<Self::WatchWorkloadsStream>, Status> {
        let caller = caller(&request)?;
        let asked = request.into_inner().try_into()?;
        let present = |workload: Arc<Workload>| (&*workload).into();
        let named = |id: WorkloadId| v1::Workload { name: id.to_string(), ..Default::default() };
        let answer = |change: v1::RecordChange, workload, resume_token| {
            v1::WatchWorkloadsResponse { change: change.into(), workload, resume_token }
        };
        watch_records::<Workload, _, _>(&self.0, &caller, asked, present, named, answer).await
    }

    async fn list_workloads(
        &self,
        request: Request<v1::ListWorkloadsRequest>,
    ) -> Result<Response<v1::ListWorkloadsResponse>, Status> {
        let listed = self.0.handle.list::<Workload>(request.into_inner().try_into()?).await?;
        let workloads = listed.entries.iter().map(|workload| (&**workload).into()).collect();
        let next_page_token = listed.next.unwrap_or_default();
        Ok(Response::new(v1::ListWorkloadsResponse { workloads, next_page_token }))
    }
}

impl WorkloadCalls {
    /// A workload with its cgroup filled in, if `caller` may register it.
    async fn placed(&self, caller: &Caller, spec: WorkloadSpec) -> Result<WorkloadSpec, Refusal> {
        let mut specs = vec![spec];
        if let Some((_, refusal)) = allowed::locate(&self.0, caller, &mut specs).await?.pop() {
            return Err(refusal);
        }
        allowed::register(&self.0, caller, &specs).await?;
        specs.pop().ok_or_else(|| Refusal::Internal { message: "a workload was lost".to_owned() })
    }
}

fn registered(workload: &Workload) -> Response<v1::RegisterWorkloadResponse> {
    Response::new(v1::RegisterWorkloadResponse { workload: Some(workload.into()) })
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
