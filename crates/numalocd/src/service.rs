//! The gRPC services. They only forward: a request becomes a checked value, the dispatcher or the engine is asked, and
//! what they give back becomes the answer. `change` is for calls that change something, `watch` for calls that stream
//! answers.

mod allowed;
mod backup;
mod caught;
mod change;
mod daemon;
mod event;
mod health;
mod locality;
mod migration;
mod schedule;
mod watch;
mod workload;

use crate::{
    access::{REQUEST_MAX, SMALL_REQUEST_MAX},
    accounts::Accounts,
    dispatch::Handle,
    engine::Engine,
};
use numaloc_api::{
    FILE_DESCRIPTOR_SET,
    encoded::{
        event_service_server::EventServiceServer, migration_service_server::MigrationServiceServer,
    },
    v1::{
        daemon_service_server::DaemonServiceServer, locality_service_server::LocalityServiceServer,
        schedule_service_server::ScheduleServiceServer,
        workload_service_server::WorkloadServiceServer,
    },
};
use std::{fmt, sync::Arc};
use tokio::sync::watch::Receiver;
use tonic::service::Routes;
use tonic_reflection::server::Builder;

/// The parts of the daemon that the services forward their calls to.
#[derive(Clone)]
pub struct Parts {
    /// Jobs, schedules, workloads and events.
    pub handle: Handle,
    /// Reads the host's processes and memory.
    pub engine: Engine,
    /// Bounds the watches of each caller.
    pub accounts: Accounts,
    /// The metrics as OpenMetrics text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// Obstacles of the host that keep the daemon from its work now, with what to do about them.
    pub obstacles: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Becomes true when the daemon takes no changes any more: then health says NOT_SERVING, and reads are still
    /// answered.
    pub ending: Receiver<bool>,
    /// Becomes true when the daemon stops: then all watches end.
    pub stop: Receiver<bool>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

/// All services: those of numaloc.v1, health, and both versions of reflection. Each call needs an
/// [`access::Caller`](crate::access::Caller) among its extensions. A panic in a service becomes INTERNAL.
///
/// Starts a task that notifies the health service when the daemon ends.
///
/// # Errors
/// The definitions cannot be read: a bug.
pub async fn routes(parts: &Parts) -> Result<Routes, tonic_reflection::server::Error> {
    let reflection = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // Each version of reflection lists both versions.
            .register_encoded_file_descriptor_set(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(
                tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
            )
            // The details that errors carry.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
    };
    macro_rules! served {
        ($($server:expr => $max:expr),+ $(,)?) => {{
            let mut names = vec![""];
            let mut routes = Routes::default();
            $(
                let server = $server.max_decoding_message_size($max);
                names.push(name(&server));
                routes = routes.add_service(server);
            )+
            let health = health::server(names, parts.ending.clone()).await;
            routes.add_service(health.max_decoding_message_size(SMALL_REQUEST_MAX))
        }};
    }
    let routes = served!(
        LocalityServiceServer::new(locality::LocalityCalls(parts.clone())) => REQUEST_MAX,
        MigrationServiceServer::new(migration::MigrationCalls(parts.clone())) => REQUEST_MAX,
        ScheduleServiceServer::new(schedule::ScheduleCalls(parts.clone())) => REQUEST_MAX,
        EventServiceServer::new(event::EventCalls(parts.clone())) => SMALL_REQUEST_MAX,
        WorkloadServiceServer::new(workload::WorkloadCalls(parts.clone())) => REQUEST_MAX,
        DaemonServiceServer::new(daemon::DaemonCalls::new(parts.clone())) => SMALL_REQUEST_MAX,
        reflection().build_v1()? => SMALL_REQUEST_MAX,
        reflection().build_v1alpha()? => SMALL_REQUEST_MAX,
    );
    Ok(routes.into_axum_router().layer(caught::Catch).into())
}

fn name<S: tonic::server::NamedService>(_: &S) -> &'static str {
    S::NAME
}

#[cfg(test)]
pub(crate) mod tests;
