//! WorkloadService.

use super::{Parts, allowed, change::Change};
use numaloc_api::{
    v1::{self, workload_service_server::WorkloadService},
    value::{WorkloadId, WorkloadSpec},
};
use tonic::{Request, Response, Status};

/// Knows what clients call cgroups.
#[derive(Debug)]
pub struct Service(pub Parts);

#[tonic::async_trait]
impl WorkloadService for Service {
    async fn register_workload(
        &self,
        request: Request<v1::RegisterWorkloadRequest>,
    ) -> Result<Response<v1::RegisterWorkloadResponse>, Status> {
        let (change, spec) = Change::read::<_, WorkloadSpec>("RegisterWorkload", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        change.first(allowed::register(&self.0, &caller, &spec.cgroup)).await?;
        let make = async move { handle.register_workload(caller, spec).await };
        let workload = change.make(make).await?;
        Ok(Response::new(v1::RegisterWorkloadResponse { workload: Some((&*workload).into()) }))
    }

    async fn unregister_workload(
        &self,
        request: Request<v1::UnregisterWorkloadRequest>,
    ) -> Result<Response<v1::UnregisterWorkloadResponse>, Status> {
        let (change, id) = Change::read::<_, WorkloadId>("UnregisterWorkload", request)?;
        let (handle, caller) = (self.0.handle.clone(), change.caller.clone());
        change.make(async move { handle.unregister_workload(caller, id).await }).await?;
        Ok(Response::new(v1::UnregisterWorkloadResponse {}))
    }

    async fn list_workloads(
        &self,
        request: Request<v1::ListWorkloadsRequest>,
    ) -> Result<Response<v1::ListWorkloadsResponse>, Status> {
        let listed = self.0.handle.list_workloads(request.into_inner().try_into()?).await?;
        let workloads = listed.entries.iter().map(|workload| (&**workload).into()).collect();
        let next_page_token = listed.next.unwrap_or_default();
        Ok(Response::new(v1::ListWorkloadsResponse { workloads, next_page_token }))
    }
}
