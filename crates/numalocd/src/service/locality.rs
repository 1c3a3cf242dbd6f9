//! LocalityService.

use super::{
    Parts,
    watch::{LocalityWatch, stream},
};
use crate::{access::caller, refusal::Refusal};
use numaloc_api::{
    LocalityView,
    v1::{self, locality_service_server::LocalityService},
    value::{GetLocality, Target, WatchLocality},
};
use numaloc_core::Options;
use numaloc_host::Policies;
use std::time::SystemTime;
use tonic::{Request, Response, Status, codegen::BoxStream};

/// Tells where memory is.
#[derive(Debug)]
pub struct Service(pub Parts);

async fn read(
    parts: &Parts,
    of: &str,
    target: Target,
    options: Options,
) -> Result<(Option<v1::Locality>, Vec<v1::MissingMember>), Refusal> {
    let aim = parts.handle.select(target).await?.aim;
    let (plan, missing) = parts.engine.look(of, aim, options, Policies::Leave).await?;
    let locality = LocalityView { plan: &plan, time: SystemTime::now() }.into();
    Ok((Some(locality), missing.iter().map(Into::into).collect()))
}

#[tonic::async_trait]
impl LocalityService for Service {
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
        let of = caller(&request)?.name;
        let GetLocality { target, policy } = request.into_inner().try_into()?;
        let (locality, missing) = read(&self.0, &of, target, policy.options).await?;
        Ok(Response::new(v1::GetLocalityResponse { locality, missing }))
    }

    type WatchLocalityStream = BoxStream<v1::WatchLocalityResponse>;

    async fn watch_locality(
        &self,
        request: Request<v1::WatchLocalityRequest>,
    ) -> Result<Response<Self::WatchLocalityStream>, Status> {
        let caller = caller(&request)?;
        let WatchLocality { target, policy, interval } = request.into_inner().try_into()?;
        let counted = self.0.quotas.watch(&caller)?;
        let parts = self.0.clone();
        let watch = LocalityWatch::new(interval, move || {
            let (parts, target, options) = (parts.clone(), target.clone(), policy.options.clone());
            let of = caller.name.clone();
            async move {
                let (locality, missing) = read(&parts, &of, target, options).await?;
                Ok(v1::WatchLocalityResponse { locality, missing })
            }
        });
        Ok(Response::new(stream(watch, self.0.stop.clone(), counted)))
    }
}
