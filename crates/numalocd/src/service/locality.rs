//! LocalityService: topology, locality, advice and the live view.

use super::{
    Parts,
    watch::{LocalityWatch, stream},
};
use crate::{
    access::{Caller, caller},
    dispatch::LiveWork,
    engine::HostNow,
    refusal::Refusal,
};
use numaloc_api::{
    SnapshotView, moved_of,
    v1::{self, locality_service_server::LocalityService},
    value::{GetAdvice, GetLiveView, GetLocality, GetNodeContents, Target, WatchLocality},
};
use numaloc_core::Options;
use numaloc_host::Policies;
use tokio::task::{JoinError, spawn_blocking};
use tonic::{Request, Response, Status, codegen::BoxStream};

/// Answers where memory is, once or again and again.
#[derive(Debug)]
pub struct LocalityCalls(pub Parts);

async fn read(
    parts: &Parts,
    caller: &Caller,
    target: Target,
    options: Options,
) -> Result<v1::GetLocalityResponse, Refusal> {
    let aim = parts.handle.select(target).await?.aim;
    let looked = parts.engine.look(caller, aim, options, Policies::Leave).await?;
    Ok(looked.locality())
}

#[tonic::async_trait]
impl LocalityService for LocalityCalls {
    async fn get_topology(
        &self,
        request: Request<v1::GetTopologyRequest>,
    ) -> Result<Response<v1::GetTopologyResponse>, Status> {
        let topology = self.0.engine.topology(&caller(&request)?.name).await?;
        Ok(Response::new(v1::GetTopologyResponse { topology: Some((&topology).into()) }))
    }

    async fn get_locality(
        &self,
        request: Request<v1::GetLocalityRequest>,
    ) -> Result<Response<v1::GetLocalityResponse>, Status> {
        let caller = caller(&request)?;
        let GetLocality { target, policy } = request.into_inner().try_into()?;
        Ok(Response::new(read(&self.0, &caller, target, policy.options).await?))
    }

    async fn get_advice(
        &self,
        request: Request<v1::GetAdviceRequest>,
    ) -> Result<Response<v1::GetAdviceResponse>, Status> {
        let of = caller(&request)?.name;
        let GetAdvice { target, interval, min_bytes } = request.into_inner().try_into()?;
        let aim = match target {
            Some(target) => Some(self.0.handle.select(target).await?.aim),
            None => None,
        };
        let advised = self.0.engine.advise(&of, aim, interval, min_bytes).await?;
        Ok(Response::new(advised.answer(&advised.findings)))
    }

    async fn get_live_view(
        &self,
        request: Request<v1::GetLiveViewRequest>,
    ) -> Result<Response<v1::GetLiveViewResponse>, Status> {
        let caller = caller(&request)?;
        let GetLiveView { process } = request.into_inner().try_into()?;
        let (now, may_see) = self.0.engine.live(&caller, process).await?;
        let detail = process.map(|process| (process, may_see));
        // All who may ask for a live view may list all jobs.
        let LiveWork { jobs, flows } = self.0.handle.live_work(now.up).await?;
        self.0.engine.moved(moved_of(&jobs));
        // For ten thousand processes it takes some milliseconds.
        let view = spawn_blocking(move || {
            let HostNow { snapshot, up, time } = &*now;
            let (up, time, is_bounded) = (*up, *time, true);
            let (jobs, flows) = (&jobs, &flows);
            let view = SnapshotView { snapshot, jobs, detail, up, time, flows, is_bounded };
            v1::LiveView::from(view)
        });
        let failed = |error: JoinError| Refusal::Internal { message: error.to_string() };
        Ok(Response::new(v1::GetLiveViewResponse { view: Some(view.await.map_err(failed)?) }))
    }

    async fn get_node_contents(
        &self,
        request: Request<v1::GetNodeContentsRequest>,
    ) -> Result<Response<v1::GetNodeContentsResponse>, Status> {
        let of = caller(&request)?.name;
        let GetNodeContents { nodes } = request.into_inner().try_into()?;
        let contents = self.0.engine.contents(&of, nodes).await?;
        let nodes = contents.iter().map(Into::into).collect();
        Ok(Response::new(v1::GetNodeContentsResponse { nodes }))
    }

    type WatchLocalityStream = BoxStream<v1::WatchLocalityResponse>;

    async fn watch_locality(
        &self,
        request: Request<v1::WatchLocalityRequest>,
    ) -> Result<Response<Self::WatchLocalityStream>, Status> {
        let caller = caller(&request)?;
        let WatchLocality { target, policy, interval } = request.into_inner().try_into()?;
        let counted = self.0.accounts.watch(&caller.client())?;
        let parts = self.0.clone();
        let watch = LocalityWatch::new(interval, move || {
            let (parts, target, options) = (parts.clone(), target.clone(), policy.options.clone());
            let caller = caller.clone();
            async move {
                let v1::GetLocalityResponse { locality, missing, found, kinds } =
                    read(&parts, &caller, target, options).await?;
                Ok(v1::WatchLocalityResponse { locality, missing, found, kinds })
            }
        });
        Ok(Response::new(stream(watch, self.0.stop.clone(), counted)))
    }
}
