//! Runs the program beside clients that take all they can get, each with a user id of its own: one that keeps watches, twenty that keep
//! connections, a group that fills the records, one that changes records again and again. Others are answered soon, memory and disk stay
//! small, and what is used up is seen. `--nocapture` prints the figures.

use super::operators::ConfiguredDaemon;
use nix::unistd::Uid;
use numaloc_api::{
    v1::{
        self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
        locality_service_client::LocalityServiceClient,
        migration_service_client::MigrationServiceClient,
        schedule_service_client::ScheduleServiceClient,
        workload_service_client::WorkloadServiceClient,
    },
    value::{Event, EventType, Job, JobId, JobState, MigrationSpec, Target},
};
use numalocd::store::{self, Store};
use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::task::JoinSet;
use tonic::{
    Code, Response, Status, Streaming,
    transport::{Channel, Endpoint},
};

/// What a child receives: where the daemon is, and what it does.
const SOCKET: &str = "NUMALOCD_TEST_SOCKET";
const DOES: &str = "NUMALOCD_TEST_DOES";

/// A viewer and an operator with grants of their own, the group of a grant, and users without any.
const VIEWER: u32 = 13_001;
const OPERATOR: u32 = 13_002;
const GROUP: u32 = 13_100;
const STRANGERS: u32 = 13_200;
/// A job of the store that the tests begin with.
const LARGE_JOB: &str = "jobs/1";

/// The longest that others wait for an answer.
const SOON: Duration = Duration::from_secs(1);
/// The most memory that what one client keeps may take.
const KEPT: u64 = 64 << 20;

/// A selector of labels of about this many KiB, as large as a request may be with 980.
fn selector(kib: usize) -> v1::LabelSelector {
    let one = |number: usize| v1::LabelSelectorRequirement {
        key: format!("key-{number:03}"),
        operator: v1::LabelSelectorOperator::In.into(),
        values: (0..64).map(|value| format!("{value:0>252}")).collect(),
    };
    let match_expressions = (0..kib.div_ceil(16)).map(one).collect();
    v1::LabelSelector { match_expressions, ..Default::default() }
}

async fn connect(socket: &Path, window: Option<u32>) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).expect("a path");
    endpoint.initial_stream_window_size(window).connect().await.expect("it listens")
}

/// A process of another user. It ends with this value.
struct Tenant {
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl Tenant {
    /// Starts a process that does something, and gives back the number that it reports once it has done it.
    fn start(uid: u32, gid: u32, socket: &Path, does: &str) -> (Self, usize) {
        let mut command = Command::new("setpriv");
        command.args([
            format!("--reuid={uid}"),
            format!("--regid={gid}"),
            "--clear-groups".to_owned(),
        ]);
        // The program is taken from /proc, since its path may be closed to others.
        command.arg(format!("/proc/{}/exe", std::process::id()));
        command.args([
            "--exact",
            "tenants::as_a_tenant",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env(SOCKET, socket).env(DOES, does);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.expect("setpriv (util-linux) is there");
        let stdout = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        let done = lines.find_map(|line| line.strip_prefix("done: ")?.parse().ok());
        let _stdin = child.stdin.take();
        (Self { child, _stdin }, done.expect("it has done it"))
    }
}

/// What a tenant does, until the test ends it.
#[tokio::test]
#[ignore = "the other tests run it as another user"]
async fn as_a_tenant() {
    let (Some(socket), Ok(does)) = (env::var_os(SOCKET), env::var(DOES)) else { return };
    let socket = Path::new(&socket);
    match does.as_str() {
        "watch" => watch(socket, None, 300).await,
        "watch unread" => watch(socket, Some(1), 100).await,
        "watch records" => {
            let mut records = Unread::new(connect(socket, Some(1)).await);
            for _ in 0..100 {
                records.watch_events().await;
                records.watch_job().await;
                records.watch_workloads().await;
            }
            done(records.count());
        }
        "connect" => hold_connections(socket),
        "fill" => fill(socket).await,
        "toggle" => toggle(socket).await,
        other => panic!("{other}"),
    }
}

fn done(count: usize) {
    println!("\ndone: {count}");
    std::io::stdout().flush().expect("it is read");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Keeps watches with large requests; with a window, also answers that are not taken.
async fn watch(socket: &Path, window: Option<u32>, tries: usize) {
    let channel = connect(socket, window).await;
    let mut watches = Vec::new();
    for _ in 0..tries {
        let pids = vec![std::process::id() as i32];
        let target = match window {
            None => v1::Target { pids, labels: Some(selector(970)), ..Default::default() },
            Some(_) => {
                let containers = (0..1000).map(|number| format!("{number:0>500}")).collect();
                v1::Target { pids, containers, ..Default::default() }
            }
        };
        let interval = Some(prost_types::Duration { seconds: 86_400, nanos: 0 });
        let request =
            v1::WatchLocalityRequest { target: Some(target), interval, ..Default::default() };
        let mut client = LocalityServiceClient::new(channel.clone());
        match client.watch_locality(request).await {
            Ok(watch) => watches.push(watch),
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status}"),
        }
    }
    done(watches.len());
}

/// Watches of records whose answers are not taken.
struct Unread {
    channel: Channel,
    events: Vec<Streaming<v1::WatchEventsResponse>>,
    jobs: Vec<Streaming<v1::WatchJobResponse>>,
    workloads: Vec<Streaming<v1::WatchWorkloadsResponse>>,
}

impl Unread {
    fn new(channel: Channel) -> Self {
        Self { channel, events: Vec::new(), jobs: Vec::new(), workloads: Vec::new() }
    }

    async fn watch_events(&mut self) {
        let mut client = EventServiceClient::new(self.channel.clone());
        let after = "events/0".to_owned();
        let request = v1::WatchEventsRequest { after, ..Default::default() };
        self.events.extend(kept(client.watch_events(request).await));
    }

    async fn watch_job(&mut self) {
        let mut client = MigrationServiceClient::new(self.channel.clone());
        let request = v1::WatchJobRequest { name: LARGE_JOB.to_owned() };
        self.jobs.extend(kept(client.watch_job(request).await));
    }

    async fn watch_workloads(&mut self) {
        let mut client = WorkloadServiceClient::new(self.channel.clone());
        let filter = v1::WorkloadFilter { selector: Some(selector(480)), ..Default::default() };
        let request = v1::WatchWorkloadsRequest { filter: Some(filter), ..Default::default() };
        self.workloads.extend(kept(client.watch_workloads(request).await));
    }

    fn count(&self) -> usize {
        self.events.len() + self.jobs.len() + self.workloads.len()
    }
}

/// The watch, unless its client keeps too much.
fn kept<T>(watch: Result<Response<Streaming<T>>, Status>) -> Option<Streaming<T>> {
    match watch {
        Ok(watch) => Some(watch.into_inner()),
        Err(status) => {
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            None
        }
    }
}

/// A store with many events of some KiB and a job of almost a MiB, all of root.
fn seed(state: &Path) {
    let now = SystemTime::now();
    let target = |cgroups| {
        let path = |number| format!("/{number:0>250}").repeat(15);
        Target { cgroups: (0..cgroups).map(path).collect(), ..Target::default() }
    };
    let event = |number| Event {
        creator: "uid:0".to_owned(),
        target: target(1),
        ..Event::new(number, EventType::Skipped, now, "skipped".to_owned())
    };
    let mut writes: Vec<_> = (1..=400).map(|number| store::Write::event(&event(number))).collect();
    let spec = MigrationSpec { target: target(250), ..MigrationSpec::default() };
    writes.push(store::Write::Job(Arc::new(Job {
        state: JobState::Skipped,
        ended: Some(now),
        ..Job::new(JobId::numbered(1), spec, "uid:0".to_owned(), now)
    })));
    fs::create_dir(state).expect("a directory");
    let (mut store, _) = Store::open(state).expect("a new store");
    store.commit(&writes).expect("there is room");
}

/// Keeps as many idle connections as it gets.
fn hold_connections(socket: &Path) {
    let mut held = Vec::new();
    for _ in 0..128 {
        let Ok(mut stream) = UnixStream::connect(socket) else { break };
        // The preface and empty settings (RFC 9113, section 3.4).
        let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        // The server's settings come where it is let in, and the end where it is not.
        if stream.write_all(greeting).is_ok() && matches!(stream.read(&mut [0; 9]), Ok(1..)) {
            held.push(stream);
        }
    }
    done(held.len());
}

async fn schedules(socket: &Path) -> ScheduleServiceClient<Channel> {
    ScheduleServiceClient::new(connect(socket, None).await)
}

fn paused(kib: usize) -> v1::Schedule {
    let target = v1::Target { labels: Some(selector(kib)), ..Default::default() };
    let spec = v1::MigrationSpec { target: Some(target), ..Default::default() };
    let interval = Some(prost_types::Duration { seconds: 3600, nanos: 0 });
    v1::Schedule { spec: Some(spec), interval, paused: true, ..Default::default() }
}

async fn make(
    client: &mut ScheduleServiceClient<Channel>,
    schedule: v1::Schedule,
) -> Result<v1::Schedule, tonic::Status> {
    let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
    let made = client.create_schedule(request).await?.into_inner().schedule;
    Ok(made.expect("a schedule"))
}

/// Fills its part of the records, and waits where it has written too much.
async fn fill(socket: &Path) {
    let mut client = schedules(socket).await;
    let mut made = 0;
    for kib in [970, 16] {
        while make(&mut client, paused(kib)).await.is_ok() {
            made += 1;
        }
    }
    done(made);
}

/// Changes of a tenant that count as many.
const CHANGES: usize = 30;

/// Has eight large schedules, and changes a flag of each again and again: for five seconds, and longer on a machine that is too busy for so
/// many in that time.
async fn toggle(socket: &Path) {
    let mut client = schedules(socket).await;
    let mut names = Vec::new();
    for _ in 0..8 {
        names.push(make(&mut client, paused(970)).await.expect("room for 8").name);
    }
    let mut changes = JoinSet::new();
    let (until, all) = (Instant::now() + Duration::from_secs(5), Arc::new(AtomicUsize::new(0)));
    for number in 0..64 {
        let (mut client, name) = (client.clone(), names[number % names.len()].clone());
        let all = all.clone();
        changes.spawn(async move {
            let mut paused = false;
            while Instant::now() < until || all.load(Relaxed) < CHANGES {
                let schedule = v1::Schedule { name: name.clone(), paused, ..Default::default() };
                let mask = prost_types::FieldMask { paths: vec!["paused".to_owned()] };
                let request = v1::UpdateScheduleRequest {
                    schedule: Some(schedule),
                    update_mask: Some(mask),
                    ..Default::default()
                };
                match client.update_schedule(request).await {
                    Ok(_) => drop(all.fetch_add(1, Relaxed)),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
                paused = !paused;
            }
        });
    }
    changes.join_all().await;
    done(all.load(Relaxed));
}

/// The daemon with grants for the tenants, at a socket that everybody may connect to.
async fn start() -> (tempfile::TempDir, ConfiguredDaemon, DaemonServiceClient<Channel>) {
    start_on(|_| ()).await
}

/// The same, on a state directory that is made before.
async fn start_on(
    make: fn(&Path),
) -> (tempfile::TempDir, ConfiguredDaemon, DaemonServiceClient<Channel>) {
    let dir = tempfile::tempdir().expect("a directory");
    let open = PermissionsExt::from_mode(0o755);
    fs::set_permissions(dir.path(), open).expect("it is ours");
    let grant = |to: &str, role| format!("[[grants]]\n{to}\nrole = \"{role}\"\n");
    let text = [
        "[listen]\nmode = \"0666\"\n".to_owned(),
        grant(&format!("user = {VIEWER}"), "viewer"),
        grant(&format!("user = {OPERATOR}"), "operator"),
        grant(&format!("group = {GROUP}"), "operator"),
    ];
    fs::write(dir.path().join("numalocd.toml"), text.concat()).expect("room");
    make(&dir.path().join("state"));
    let (daemon, client) = ConfiguredDaemon::start(dir.path()).await;
    (dir, daemon, client)
}

/// Asks as a client with a connection of its own, and returns how long it took. A busy machine delays an answer now and then, and a client
/// that is in the way delays each one: what is late is asked for again, and the shortest time counts.
async fn answered(socket: &Path) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..10 {
        let begin = Instant::now();
        let mut client = DaemonServiceClient::new(connect(socket, None).await);
        client.get_status(v1::GetStatusRequest {}).await.expect("root is answered");
        shortest = shortest.min(begin.elapsed());
        if shortest <= SOON {
            break;
        }
    }
    shortest
}

/// Another user is answered: a viewer, from a process of its own.
fn others_get_in(socket: &Path) {
    let (_tenant, connections) = Tenant::start(OPERATOR, OPERATOR, socket, "connect");
    assert_eq!(connections, 128, "a user with a grant");
}

fn is_root() -> bool {
    let root = Uid::effective().is_root();
    if !root {
        numaloc_sys::fixture::skipped("only root can start processes of other users");
    }
    root
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_of_one_take_little_memory() {
    if !is_root() {
        return;
    }
    for does in ["watch", "watch unread", "watch records"] {
        let (_dir, daemon, _client) = start_on(seed).await;
        let before = daemon.anonymous_bytes();
        let (tenant, watches) = Tenant::start(VIEWER, VIEWER, &daemon.socket, does);
        let (took, kept) = (answered(&daemon.socket).await, daemon.anonymous_bytes());
        let more = kept.saturating_sub(before);
        eprintln!("{does}: {watches} watches, {} MiB more, root answered in {took:?}", more >> 20);
        assert!(watches >= 3, "{watches} of the allowed size");
        assert!(more <= KEPT, "{} MiB for {watches} watches", more >> 20);
        assert!(took <= SOON, "{took:?}");
        drop(tenant);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_many_strangers_leave_room() {
    if !is_root() {
        return;
    }
    let (_dir, daemon, _client) = start().await;
    let socket = &daemon.socket;
    let start = |uid| Tenant::start(uid, uid, socket, "connect");
    let held: Vec<_> = (STRANGERS..STRANGERS + 20).map(start).collect();
    let connections: usize = held.iter().map(|(_, connections)| connections).sum();
    let begin = Instant::now();
    others_get_in(socket);
    let (others, took) = (begin.elapsed(), answered(socket).await);
    eprintln!(
        "20 strangers hold {connections} connections, a user with a grant has 128 in {others:?}, root answered in {took:?}"
    );
    assert_eq!(connections, 256, "two parts together");
    assert!(took <= SOON, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_one_group_leave_room_and_are_seen() {
    if !is_root() {
        return;
    }
    let (_dir, daemon, mut client) = start().await;
    let fill = |uid, gid| Tenant::start(uid, gid, &daemon.socket, "fill").1;
    let before = daemon.anonymous_bytes();
    let members: Vec<_> = (1..=5).map(|number| fill(GROUP + number, GROUP)).collect();
    let more = daemon.anonymous_bytes().saturating_sub(before) >> 20;
    eprintln!("5 members have {members:?} schedules of a group's 64 MiB, {more} MiB more");
    assert!(members.iter().sum::<usize>() >= 60 && members[4] == 0, "{members:?}");
    let operator = fill(OPERATOR, OPERATOR);
    assert!(operator >= 30, "a client of its own has {operator}");
    make(&mut schedules(&daemon.socket).await, paused(970)).await.expect("root has room");
    let metrics = client.get_metrics(v1::GetMetricsRequest {}).await.expect("metrics").into_inner();
    let refused = r#"numaloc_quota_refusals_total{resource="record_bytes",bound="cohort"}"#;
    let line = metrics.text.lines().find(|line| line.starts_with(refused)).expect(refused);
    assert!(!line.ends_with(" 0"), "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_one_are_slowed_down_and_the_store_stays_small() {
    if !is_root() {
        return;
    }
    let (dir, daemon, _client) = start().await;
    let before = daemon.anonymous_bytes();
    let (_tenant, changes) = Tenant::start(OPERATOR, OPERATOR, &daemon.socket, "toggle");
    let took = answered(&daemon.socket).await;
    let store = fs::metadata(dir.path().join("state/numalocd.redb")).expect("a store").len();
    let more = daemon.anonymous_bytes().saturating_sub(before) >> 20;
    eprintln!(
        "{changes} changes in 5 s or more, the store has {} MiB, {more} MiB more memory, root answered in {took:?}",
        store >> 20
    );
    assert!(changes >= CHANGES && took <= SOON, "{changes} changes, {took:?}");
    assert!(store <= 64 << 20, "{} MiB", store >> 20);
}
