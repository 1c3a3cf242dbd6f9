//! The table of tenants: for each call of the API, over the real services, who may see, move, select and exhaust what,
//! and whom a ceiling stops.

use super::{ceilings::asks, rules::api};
use crate::{
    access::{
        Access, Grants, Peer, UnixPeer,
        lines::CallKind,
        rules::{self, RULES},
    },
    accounts::Accounts,
    config::{Ceilings, Config, Grant, Grantee, Role},
    dispatch::{
        Probe, ProbeAnswer,
        tests::{Rig, dir, found, pins, request},
    },
    engine::Engine,
    refusal::Refusal,
    service::{Parts, routes, tests::in_memory},
};
use numaloc_api::{
    v1,
    value::{
        CreateSchedule, Limits, MigrationSpec, QosClass, RegisterWorkload, ScheduleSpec,
        WorkloadId, WorkloadSpec,
    },
};
use numaloc_dma::Offloading;
use numaloc_engine::{balancing::Balancing, fixture::Asleep};
use numaloc_host::Roots;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{mpsc, watch};
use tonic::{
    Request, Status,
    client::Grpc,
    codegen::BoxFuture,
    transport::{Channel, Server},
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

/// The callers. The owner may have the target of these tests moved, and has made the records in them. The stranger is
/// an operator of another cgroup. Callers that are refused come first, because the others may remove what they ask for.
const WHO: [(&str, u32); 5] =
    [("viewer", 71_001), ("stranger", 71_002), ("owner", 71_003), ("admin", 71_004), ("root", 0)];

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// Not refused because of who the caller is. It may have failed for another reason.
    Through,
    /// Refused: the caller lacks the role, or the target is not the caller's.
    Denied,
    /// Refused: the caller may select none of the workloads that the request names.
    Unseen,
    /// Refused: the request exceeds a ceiling of the caller's grant.
    Ceiling,
}

use Comes::{Ceiling, Denied, Through, Unseen};

/// Every caller that has a role gets through.
const SEES: [Comes; 5] = [Through; 5];
const ADMINS: [Comes; 5] = [Denied, Denied, Denied, Through, Through];
/// The owner of the record gets through, and admins do.
const OWNS: [Comes; 5] = [Denied, Denied, Through, Through, Through];
const ONLY_OWNER: [Comes; 5] = [Denied, Denied, Through, Denied, Denied];

type Ask = Box<dyn Fn(Channel) -> BoxFuture<(), Status>>;

struct Row {
    path: &'static str,
    what: &'static str,
    /// The kind of the call, which is bounded for each caller and for all.
    exhausts: CallKind,
    ask: Ask,
    comes: [Comes; 5],
}

/// A call with this request. Its first answer says whether the caller may make it.
fn row<M: prost::Message + Clone + Default + 'static>(
    path: &'static str,
    what: &'static str,
    exhausts: CallKind,
    message: M,
    comes: [Comes; 5],
) -> Row {
    let ask = move |channel: Channel| -> BoxFuture<(), Status> {
        let message = message.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
            let codec = ProstCodec::<M, ()>::default();
            let path = path.parse().expect("a path");
            grpc.server_streaming(Request::new(message), path, codec).await.map(drop)
        })
    };
    Row { path, what, exhausts, ask: Box::new(ask), comes }
}

/// The names of the records.
struct Names {
    pid: i32,
    job: String,
    schedule: String,
    workload: String,
}

impl Names {
    fn process(&self) -> v1::MigrationSpec {
        let target = v1::Target { pids: vec![self.pid], ..v1::Target::default() };
        v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() }
    }

    fn labelled() -> v1::MigrationSpec {
        let match_labels = [("app".to_owned(), "own".to_owned())].into();
        let labels = Some(v1::LabelSelector { match_labels, ..v1::LabelSelector::default() });
        let target = v1::Target { labels, ..v1::Target::default() };
        v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() }
    }
}

/// A call whose request consists of a name only.
macro_rules! named {
    ($request:ident, $name:expr) => {
        v1::$request { name: $name.clone() }
    };
}

fn create(spec: v1::MigrationSpec) -> v1::CreateJobRequest {
    v1::CreateJobRequest { spec: Some(spec), ..Default::default() }
}

fn repeat(spec: v1::MigrationSpec) -> v1::CreateScheduleRequest {
    let schedule = v1::Schedule { spec: Some(spec), paused: true, ..Default::default() };
    v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() }
}

fn update(names: &Names, spec: Option<v1::MigrationSpec>) -> v1::UpdateScheduleRequest {
    let schedule = v1::Schedule {
        name: names.schedule.clone(),
        spec: spec.map(|spec| v1::MigrationSpec { target: None, ..spec }),
        paused: true,
        ..Default::default()
    };
    v1::UpdateScheduleRequest { schedule: Some(schedule), ..Default::default() }
}

fn run(names: &Names) -> v1::RunScheduleRequest {
    v1::RunScheduleRequest { name: names.schedule.clone(), ..Default::default() }
}

fn own(names: &Names, cgroup: &str, qos_class: v1::QosClass) -> v1::Workload {
    v1::Workload {
        name: names.workload.clone(),
        cgroup: cgroup.to_owned(),
        container_id: "c-own".to_owned(),
        qos_class: qos_class.into(),
        ..Default::default()
    }
}

fn register(names: &Names, cgroup: &str, qos_class: v1::QosClass) -> v1::RegisterWorkloadRequest {
    let workload = Some(own(names, cgroup, qos_class));
    v1::RegisterWorkloadRequest { workload, ..Default::default() }
}

/// A set that consists of this one workload.
fn declare(names: &Names, cgroup: &str, qos_class: v1::QosClass) -> v1::ReplaceWorkloadsRequest {
    let workloads = vec![own(names, cgroup, qos_class)];
    v1::ReplaceWorkloadsRequest { workloads, last: true, ..Default::default() }
}

fn unregister(names: &Names) -> v1::UnregisterWorkloadRequest {
    v1::UnregisterWorkloadRequest { name: names.workload.clone(), ..Default::default() }
}

#[rustfmt::skip]
fn table(names: &Names) -> Vec<Row> {
    use CallKind::{Advice, Bulk, Change, List, Read, Stream, Watch};
    let locality = |spec: v1::MigrationSpec| v1::GetLocalityRequest { target: spec.target, ..Default::default() };
    let plan = |spec| v1::PlanMigrationRequest { spec: Some(spec) };
    let watch = |spec: v1::MigrationSpec| v1::WatchLocalityRequest { target: spec.target, ..Default::default() };
    let advice = |spec: v1::MigrationSpec| v1::GetAdviceRequest {
        target: spec.target, interval: Some(prost_types::Duration { seconds: 0, nanos: 100_000_000 }), ..Default::default()
    };
    let health = tonic_health::pb::HealthCheckRequest::default;
    let mut rows = vec![
        row("/grpc.health.v1.Health/Check", "", Read, health(), SEES),
        row("/grpc.health.v1.Health/Watch", "", Stream, health(), SEES),
        row("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", Stream,
            tonic_reflection::pb::v1::ServerReflectionRequest::default(), SEES),
        row("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "", Stream,
            tonic_reflection::pb::v1alpha::ServerReflectionRequest::default(), SEES),
        row("/numaloc.v1.DaemonService/GetStatus", "", Read, v1::GetStatusRequest::default(), SEES),
        row("/numaloc.v1.DaemonService/GetMetrics", "", List, v1::GetMetricsRequest::default(), SEES),
        row("/numaloc.v1.LocalityService/GetTopology", "", List, v1::GetTopologyRequest::default(), SEES),
        row("/numaloc.v1.LocalityService/GetLocality", "process", List, locality(names.process()), SEES),
        row("/numaloc.v1.LocalityService/GetLocality", "labels", List, locality(Names::labelled()), SEES),
        row("/numaloc.v1.LocalityService/WatchLocality", "process", Watch, watch(names.process()), SEES),
        row("/numaloc.v1.LocalityService/GetAdvice", "process", Advice, advice(names.process()), SEES),
        row("/numaloc.v1.LocalityService/GetAdvice", "labels", Advice, advice(Names::labelled()), SEES),
        row("/numaloc.v1.LocalityService/GetLiveView", "", List, v1::GetLiveViewRequest::default(), SEES),
        row("/numaloc.v1.LocalityService/GetNodeContents", "", List, v1::GetNodeContentsRequest::default(), SEES),
        row("/numaloc.v1.EventService/ListEvents", "", List, v1::ListEventsRequest::default(), SEES),
        row("/numaloc.v1.EventService/WatchEvents", "", Watch, v1::WatchEventsRequest::default(), SEES),
        row("/numaloc.v1.MigrationService/GetJob", "", Read, named!(GetJobRequest, names.job), SEES),
        row("/numaloc.v1.MigrationService/ListJobs", "", List, v1::ListJobsRequest::default(), SEES),
        row("/numaloc.v1.MigrationService/WatchJob", "", Watch, named!(WatchJobRequest, names.job), SEES),
        row("/numaloc.v1.MigrationService/WatchJobs", "", Watch, v1::WatchJobsRequest::default(), SEES),
        row("/numaloc.v1.ScheduleService/GetSchedule", "", Read, named!(GetScheduleRequest, names.schedule), SEES),
        row("/numaloc.v1.ScheduleService/ListSchedules", "", List, v1::ListSchedulesRequest::default(), SEES),
        row("/numaloc.v1.ScheduleService/WatchSchedules", "", Watch, v1::WatchSchedulesRequest::default(), SEES),
        row("/numaloc.v1.WorkloadService/ListWorkloads", "", List, v1::ListWorkloadsRequest::default(), SEES),
        row("/numaloc.v1.WorkloadService/GetWorkload", "", Read, named!(GetWorkloadRequest, names.workload), SEES),
        row("/numaloc.v1.WorkloadService/WatchWorkloads", "", Watch, v1::WatchWorkloadsRequest::default(), SEES),
        // It shows what a job of the caller would find. A caller that can create no jobs sees all workloads.
        row("/numaloc.v1.MigrationService/PlanMigration", "process", List, plan(names.process()), SEES),
        row("/numaloc.v1.MigrationService/PlanMigration", "labels", List, plan(Names::labelled()),
            [Through, Unseen, Through, Through, Through]),
        row("/numaloc.v1.MigrationService/CreateJob", "process", Change, create(names.process()), OWNS),
        row("/numaloc.v1.MigrationService/CreateJob", "labels", Change, create(Names::labelled()),
            [Denied, Unseen, Through, Through, Through]),
        row("/numaloc.v1.ScheduleService/CreateSchedule", "process", Change, repeat(names.process()), OWNS),
        // The target may be there later. It is then looked for with the rights that the caller has then.
        row("/numaloc.v1.ScheduleService/CreateSchedule", "labels", Change, repeat(Names::labelled()),
            [Denied, Through, Through, Through, Through]),
        row("/numaloc.v1.ScheduleService/UpdateSchedule", "", Change, update(names, None), OWNS),
        row("/numaloc.v1.ScheduleService/RunSchedule", "", Change, run(names), OWNS),
        row("/numaloc.v1.WorkloadService/RegisterWorkload", "", Change,
            register(names, "/numaloc-none", v1::QosClass::Be), OWNS),
        row("/numaloc.v1.WorkloadService/RegisterWorkload", "better class", Change,
            register(names, "/numaloc-none", v1::QosClass::Lsr), [Denied, Denied, Ceiling, Through, Through]),
        // The name belongs to the owner, also when the cgroup is the stranger's.
        row("/numaloc.v1.WorkloadService/RegisterWorkload", "stranger's cgroup", Change,
            register(names, "/numaloc-other", v1::QosClass::Be), OWNS),
        // A set contains only workloads of its own client, so not even root may declare the owner's workload.
        row("/numaloc.v1.WorkloadService/ReplaceWorkloads", "", Bulk,
            declare(names, "/numaloc-none", v1::QosClass::Be), ONLY_OWNER),
        row("/numaloc.v1.WorkloadService/ReplaceWorkloads", "better class", Bulk,
            declare(names, "/numaloc-none", v1::QosClass::Lsr), [Denied, Denied, Ceiling, Denied, Denied]),
        row("/numaloc.v1.WorkloadService/ReplaceWorkloads", "stranger's cgroup", Bulk,
            declare(names, "/numaloc-other", v1::QosClass::Be), ONLY_OWNER),
        // Each caller has a set of its own, even if it is empty.
        row("/numaloc.v1.WorkloadService/RenewWorkloads", "", Change, v1::RenewWorkloadsRequest::default(),
            [Denied, Through, Through, Through, Through]),
    ];
    let raises = [Denied, Ceiling, Ceiling, Through, Through];
    let rate = Limits { rate_bytes_per_second: Some(1 << 30), ..Limits::default() };
    let rate = ("rate_bytes_per_second", MigrationSpec { limits: rate, ..MigrationSpec::default() });
    for (ceiling, asks) in asks().into_iter().chain([rate]) {
        let asks = v1::MigrationSpec { target: names.process().target, ..(&asks).into() };
        rows.extend([
            row("/numaloc.v1.MigrationService/CreateJob", ceiling, Change, create(asks.clone()), raises),
            row("/numaloc.v1.ScheduleService/CreateSchedule", ceiling, Change, repeat(asks.clone()), raises),
            row("/numaloc.v1.ScheduleService/UpdateSchedule", ceiling, Change, update(names, Some(asks)), raises),
        ]);
    }
    rows.extend([
        row("/numaloc.v1.DaemonService/DrainDaemon", "", Change, v1::DrainDaemonRequest {}, ADMINS),
        row("/numaloc.v1.DaemonService/UndrainDaemon", "", Change, v1::UndrainDaemonRequest {}, ADMINS),
        row("/numaloc.v1.DaemonService/PauseDaemon", "", Change, v1::PauseDaemonRequest {}, ADMINS),
        row("/numaloc.v1.DaemonService/ResumeDaemon", "", Change, v1::ResumeDaemonRequest {}, ADMINS),
        row("/numaloc.v1.DaemonService/BackupStore", "", Change, v1::BackupStoreRequest {}, ADMINS),
        row("/numaloc.v1.MigrationService/PauseJob", "", Change, named!(PauseJobRequest, names.job), OWNS),
        row("/numaloc.v1.MigrationService/ResumeJob", "", Change, named!(ResumeJobRequest, names.job), OWNS),
        row("/numaloc.v1.MigrationService/CancelJob", "", Change, named!(CancelJobRequest, names.job), OWNS),
        row("/numaloc.v1.MigrationService/DeleteJob", "", Change, v1::DeleteJobRequest { name: names.job.clone(), ..Default::default() }, OWNS),
        row("/numaloc.v1.ScheduleService/DeleteSchedule", "", Change, v1::DeleteScheduleRequest { name: names.schedule.clone(), ..Default::default() }, OWNS),
        row("/numaloc.v1.WorkloadService/UnregisterWorkload", "", Change, unregister(names), OWNS),
    ]);
    rows
}

fn config() -> Config {
    let ceilings = Ceilings { rate_bytes_per_second: Some(1 << 20), ..Ceilings::default() };
    let grant = |(_, uid): (&str, u32), role, cgroups: &[&str]| Grant {
        to: Grantee::Uid(uid),
        role,
        cgroups: cgroups.iter().map(|&path| path.to_owned()).collect(),
        files: Vec::new(),
        ceilings,
    };
    let grants = vec![
        grant(WHO[0], Role::Viewer, &[]),
        grant(WHO[1], Role::Operator, &["/numaloc-other"]),
        grant(WHO[2], Role::Operator, &["/"]),
        grant(WHO[3], Role::Admin, &[]),
    ];
    Config { grants, ..Config::default() }
}

/// A connection of this user to the services behind the layer.
async fn connect(uid: u32, access: Access, parts: &Parts) -> Channel {
    let (incoming, channel) = in_memory();
    let known = move |mut request: http::Request<tonic::body::Body>| {
        request.extensions_mut().insert(UnixPeer::user(uid, &[uid]));
        request
    };
    let server = Server::builder()
        .layer(tower::util::MapRequestLayer::new(known))
        .layer(access)
        .add_routes(routes(parts).await.expect("the definitions are ours"));
    tokio::spawn(server.serve_with_incoming(incoming));
    channel.await
}

fn comes(answer: Result<(), Status>) -> (Comes, String) {
    let Err(status) = answer else { return (Through, String::new()) };
    let info = status.get_details_error_info();
    let comes = match info.as_ref().map_or("", |info| info.reason.as_str()) {
        "NOT_PERMITTED" => Denied,
        "CEILING_EXCEEDED" => Ceiling,
        "TARGET_NOT_FOUND" if status.message().contains("no registered workload") => Unseen,
        _ => Through,
    };
    (comes, format!("{:?}: {}", status.code(), status.message()))
}

/// The records. All of them belong to the owner.
async fn records(rig: &Rig, pid: i32) -> Names {
    let peer = Peer::User { uid: WHO[2].1, groups: Vec::new() };
    let owner = Grants::new(&config().grants).caller(&peer).expect("it has a grant");
    let spec = WorkloadSpec {
        labels: [("app".to_owned(), "own".to_owned())].into(),
        qos_class: Some(QosClass::Be),
        ..WorkloadSpec::new(WorkloadId::new("own").expect("an id"), "/numaloc-none")
    };
    let workload = RegisterWorkload::new(spec);
    let workload = rig.handle.register_workload(owner.clone(), workload).await.expect("taken");
    // For another process, so that it is in the way of no later request.
    let pids = [i32::MAX];
    let job =
        rig.handle.create_job(owner.clone(), request(&pids), pins(&pids), found(&pids, "0")).await;
    let migration = request(&pids).spec;
    let spec = ScheduleSpec { migration, paused: true, ..ScheduleSpec::default() };
    let schedule = CreateSchedule { id: None, spec, request_id: None, validate_only: false };
    let schedule = rig.handle.create_schedule(owner, schedule, pins(&pids)).await.expect("taken");
    Names {
        pid,
        job: job.expect("taken").0.id.to_string(),
        schedule: schedule.id.to_string(),
        workload: workload.spec.id.to_string(),
    }
}

#[tokio::test]
async fn each_caller_may_what_the_table_says() {
    let dir = dir();
    let asleep = Asleep::new();
    let mut rig = Rig::with(&dir, config());
    let names = records(&rig, asleep.pid()).await;
    // A caller that may run a schedule gets the answer that its target does not exist.
    let mut probes = std::mem::replace(&mut rig.probes, mpsc::unbounded_channel().1);
    let probed = rig.probed.clone();
    tokio::spawn(async move {
        while let Some(Probe { schedule, etag, .. }) = probes.recv().await {
            let found = Err(Refusal::TargetNotFound { message: "it has ended".to_owned() });
            let _ = probed.send(ProbeAnswer { schedule, etag, found });
        }
    });
    let roots = Roots::default();
    let engine = Engine::new(roots.clone(), Balancing::new(roots.clone()), Offloading::new(roots));
    let (_stop, running) = watch::channel(false);
    let (_config, in_force) = watch::channel(Arc::new(config()));
    let accounts = Accounts::new(in_force.clone());
    let parts = Parts {
        handle: rig.handle.clone(),
        engine,
        accounts: accounts.clone(),
        metrics: Arc::new(String::new),
        obstacles: Arc::new(Vec::new),
        ending: running.clone(),
        stop: running,
    };
    let access = Access::new(in_force, accounts);
    let mut callers = Vec::new();
    for (who, uid) in WHO {
        callers.push((who, connect(uid, access.clone(), &parts).await));
    }
    for row in table(&names) {
        for ((who, channel), expected) in callers.iter().zip(row.comes) {
            let (came, words) = comes((row.ask)(channel.clone()).await);
            assert_eq!(came, expected, "{who} {} {}: {words}", row.path, row.what);
        }
    }
    rig.kill().await;
}

/// A new call has to say who may make it, and what kind it is.
#[test]
fn each_call_has_a_row() {
    let name = String::new;
    let names = Names { pid: 1, job: name(), schedule: name(), workload: name() };
    let rows = table(&names);
    let listed: BTreeSet<String> = rows.iter().map(|row| row.path.to_owned()).collect();
    assert_eq!(listed, api().into_keys().collect::<BTreeSet<_>>());
    for row in &rows {
        let rule = rules::find(row.path).expect("it has a rule");
        assert_eq!(rule.kind, row.exhausts, "{}", row.path);
    }
    for rule in RULES {
        // Watches are bounded by quotas.
        let bound = rule.kind == CallKind::Watch
            || (rule.kind.at_once() <= 256 && rule.kind.over_all() <= 1024);
        assert!(bound, "{} has no bound", rule.path);
        // It takes at least four callers to use up all turns.
        assert!(rule.kind == CallKind::Watch || rule.kind.at_once() * 4 <= rule.kind.over_all());
    }
}
