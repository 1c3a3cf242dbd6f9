//! grpc.health.v1: whether the daemon serves.

use crate::service::watch::stopped;
use tokio::sync::watch::Receiver;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::{HealthReporter, HealthService},
};

/// The health service: SERVING for each of `names`, and NOT_SERVING once the daemon takes no changes any more.
pub async fn server(
    names: Vec<&'static str>,
    mut ending: Receiver<bool>,
) -> HealthServer<impl Health> {
    let reporter = HealthReporter::new();
    let service = HealthService::from_health_reporter(reporter.clone());
    for name in &names {
        reporter.set_service_status(name, ServingStatus::Serving).await;
    }
    tokio::spawn(async move {
        stopped(&mut ending).await;
        for name in &names {
            reporter.set_service_status(name, ServingStatus::NotServing).await;
        }
    });
    HealthServer::new(service)
}
