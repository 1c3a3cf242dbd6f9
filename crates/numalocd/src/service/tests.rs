//! All services over a connection in memory.

use super::*;
use crate::{
    access::Caller,
    accounts::Accounts,
    config::{Config, Role},
};
use hyper_util::rt::TokioIo;
use numaloc_api::v1::{
    self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
    migration_service_client::MigrationServiceClient,
    workload_service_client::WorkloadServiceClient,
};
use numaloc_dma::Offloading;
use numaloc_engine::{Authority, balancing::Balancing};
use std::{collections::BTreeSet, io};
use tokio::{io::DuplexStream, sync::watch};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    Code,
    transport::{Channel, Endpoint, Server},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1 as reflection, v1alpha};

/// The tests here do not reach the dispatcher and the engine.
fn parts(ending: watch::Receiver<bool>) -> Parts {
    let (_, config) = watch::channel(Arc::new(Config::default()));
    // A dropped sender would count as a stop, so it is never dropped.
    let (stopped, stop) = watch::channel(false);
    std::mem::forget(stopped);
    Parts {
        handle: Handle::stopped(),
        engine: engine(),
        accounts: Accounts::new(config),
        metrics: Arc::new(|| panic!("this panic belongs to the test")),
        obstacles: Arc::new(Vec::new),
        ending,
        stop,
    }
}

fn engine() -> Engine {
    let roots = numaloc_host::Roots::default();
    Engine::new(roots.clone(), Balancing::new(roots.clone()), Offloading::new(roots))
}

/// Both ends of one connection: what a server accepts, and the client's channel, once the server serves.
pub fn in_memory()
-> (impl Stream<Item = io::Result<DuplexStream>> + Send + 'static, impl Future<Output = Channel>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let incoming = tokio_stream::once(Ok(far)).chain(tokio_stream::pending());
    let mut near = Some(near);
    let connector = tower::service_fn(move |_| {
        let near = near.take().map(TokioIo::new);
        async move { near.ok_or_else(|| io::Error::other("one connection only")) }
    });
    let channel = async move {
        let endpoint = Endpoint::from_static("http://in.memory");
        endpoint.connect_with_connector(connector).await.expect("it is served")
    };
    (incoming, channel)
}

/// A connection on which an admin calls.
async fn connect(stop: watch::Receiver<bool>) -> Channel {
    let (incoming, channel) = in_memory();
    let admin = Caller {
        name: "uid:0".to_owned(),
        gid: None,
        role: Role::Admin,
        authority: Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    };
    let admit = move |mut request: http::Request<_>| {
        request.extensions_mut().insert(admin.clone());
        request
    };
    let server = Server::builder()
        .layer(tower::util::MapRequestLayer::new(admit))
        .add_routes(routes(&parts(stop)).await.unwrap());
    tokio::spawn(server.serve_with_incoming(incoming));
    channel.await
}

fn running() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}

/// All services that reflection lists, by each of its two versions.
async fn listed(channel: &Channel) -> [BTreeSet<String>; 2] {
    use reflection::server_reflection_response::MessageResponse;
    let (host, all) = (String::new(), "*".to_owned());
    let ask = reflection::server_reflection_request::MessageRequest::ListServices(all.clone());
    let request =
        reflection::ServerReflectionRequest { host: host.clone(), message_request: Some(ask) };
    let mut client =
        reflection::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers =
        client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(MessageResponse::ListServicesResponse(new)) = answer else { panic!("{answer:?}") };

    let ask = v1alpha::server_reflection_request::MessageRequest::ListServices(all);
    let request = v1alpha::ServerReflectionRequest { host, message_request: Some(ask) };
    let mut client =
        v1alpha::server_reflection_client::ServerReflectionClient::new(channel.clone());
    let mut answers =
        client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response;
    let Some(v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(old)) =
        answer
    else {
        panic!("{answer:?}")
    };
    [
        new.service.into_iter().map(|service| service.name).collect(),
        old.service.into_iter().map(|service| service.name).collect(),
    ]
}

#[tokio::test]
async fn all_services_of_the_definitions_are_served_and_listed() {
    let (_stop, stopped) = running();
    let channel = connect(stopped).await;
    let [new, old] = listed(&channel).await;
    for listed in [&new, &old] {
        for name in ["Locality", "Migration", "Schedule", "Event", "Workload", "Daemon"] {
            let name = format!("numaloc.v1.{name}Service");
            assert!(listed.contains(&name), "{name} is not in {listed:?}");
        }
        assert!(listed.contains("grpc.health.v1.Health"), "{listed:?}");
    }
    // Health knows what is served, so it must know all listed services.
    let mut health = HealthClient::new(channel);
    for service in new.union(&old).filter(|name| *name != "grpc.health.v1.Health") {
        let request = HealthCheckRequest { service: service.clone() };
        let answer = health.check(request).await.expect(service).into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let none = health.check(HealthCheckRequest { service: "numaloc.v1.No".to_owned() }).await;
    assert_eq!(none.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn health_tells_that_the_daemon_ends_while_it_still_answers() {
    let (stop, stopped) = running();
    let mut health = HealthClient::new(connect(stopped).await);
    let mut watched = Vec::new();
    for service in ["", "numaloc.v1.MigrationService"] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut answers = health.watch(request).await.unwrap().into_inner();
        let first = answers.message().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::Serving);
        watched.push(answers);
    }
    stop.send_replace(true);
    for mut answers in watched {
        let next = answers.message().await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing);
    }
    let now = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(now.status(), ServingStatus::NotServing);
}

#[tokio::test]
async fn too_much_is_refused() {
    let (_stop, stopped) = running();
    let channel = connect(stopped).await;
    let mut client = MigrationServiceClient::new(channel.clone());
    let spec = |target| Some(v1::MigrationSpec { target: Some(target), ..Default::default() });
    let target = v1::Target { pids: (1..=100_000).collect(), ..Default::default() };
    let request = v1::CreateJobRequest { spec: spec(target), ..Default::default() };
    let status = client.create_job(request).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "spec.target.pids must have at most 4096 entries");
    let target = v1::Target { cgroups: vec!["a".repeat(REQUEST_MAX)], ..Default::default() };
    let request = v1::PlanMigrationRequest { spec: spec(target) };
    let status = client.plan_migration(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    // Services with small requests accept less.
    let mut events = EventServiceClient::new(channel.clone());
    let request = v1::ListEventsRequest { page_token: "a".repeat(1 << 16), ..Default::default() };
    let status = events.list_events(request).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    // A part of a set, which only its service reads.
    let workload = v1::Workload { name: "a".repeat(REQUEST_MAX), ..Default::default() };
    let part = v1::ReplaceWorkloadsRequest { workloads: vec![workload], ..Default::default() };
    let mut workloads = WorkloadServiceClient::new(channel.clone());
    let status = workloads.replace_workloads(tokio_stream::iter([part])).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("may have 1048576 bytes"), "{status}");
    // The connection has survived them.
    let name = "nonsense".to_owned();
    let status = client.watch_job(v1::WatchJobRequest { name }).await.unwrap_err();
    assert_eq!(status.message(), "name must be a name of the form jobs/{id}");
}

#[tokio::test]
async fn a_panic_costs_its_call_only() {
    let (_stop, stopped) = running();
    let channel = connect(stopped).await;
    let mut client = DaemonServiceClient::new(channel.clone());
    for _ in 0..2 {
        let status = client.get_metrics(v1::GetMetricsRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal, "{status}");
    }
    let answer = HealthClient::new(channel).check(HealthCheckRequest::default()).await.unwrap();
    assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
}

/// The dispatcher has stopped, so a request that gets as far as asking it fails with UNAVAILABLE.
#[tokio::test(start_paused = true)]
async fn a_set_without_an_end_is_none() {
    let (_stop, stopped) = running();
    let mut client = WorkloadServiceClient::new(connect(stopped).await);
    let part = |name: &str, last| {
        let (name, cgroup) = (format!("workloads/{name}"), "/a".to_owned());
        let workloads = vec![v1::Workload { name, cgroup, ..Default::default() }];
        v1::ReplaceWorkloadsRequest { workloads, last, ..Default::default() }
    };
    let whole = tokio_stream::iter([part("a", false), part("b", true)]);
    let status = client.replace_workloads(whole).await.unwrap_err();
    assert_eq!(status.message(), "the daemon is stopping", "it is asked for");
    for parts in [vec![], vec![part("a", false)], vec![part("a", false), part("b", false)]] {
        let status = client.replace_workloads(tokio_stream::iter(parts)).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "last is required"));
    }
    let silent = tokio_stream::iter([part("a", false)]).chain(tokio_stream::pending());
    let status = client.replace_workloads(silent).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("no part of the set came for 30 s"), "{status}");
}
