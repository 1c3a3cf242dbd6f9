//! Runs the program under a thousand connections of one viewer, which make the most expensive calls, and under calls of which half
//! the request never comes. Others are still answered, and the daemon stays within its memory bound.

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use numaloc_api::{
    v1::{
        self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
        locality_service_client::LocalityServiceClient,
        migration_service_client::MigrationServiceClient,
    },
    value::{Event, EventType, Job, JobId, JobState, MigrationSpec, Target},
};
use numalocd::store::{Store, Write};
use std::{
    convert::Infallible,
    fs,
    net::TcpListener,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};
use tokio_stream::StreamExt;
use tonic::{
    Request, Status,
    body::Body,
    client::Grpc,
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;
use tower::{Service, ServiceExt};

const CONNECTIONS: usize = 1000;
/// Number of records, about 4 KiB each, so that a page of a list has the largest allowed size.
const RECORDS: u64 = 3000;
/// The daemon is to stay within 128 MiB. Its program, with optimisation, has up to 16 MiB of them.
const MEMORY_MAX: u64 = 112 << 20;
/// After this long, an answer counts as missing.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER_MAX: usize = 16 << 20;
/// Bytes of a request that are sent at a time.
const PIECE: usize = 16 << 10;

/// The program. Dropping this ends it.
struct FloodedDaemon(Child);

impl Drop for FloodedDaemon {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

impl FloodedDaemon {
    /// Its peak memory so far, in bytes, without that of its program: how much of this there is depends on how it was built.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("it runs");
        let field = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            value.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
        };
        field("VmHWM:") - field("RssFile:")
    }
}

fn target(number: u64) -> Target {
    let cgroup =
        |index| format!("/kubepods.slice/kubepods-pod{number}.slice/container-{index:010}");
    Target { cgroups: (0..60).map(cgroup).collect(), ..Target::default() }
}

/// Fills a store with as many records of root as lists can use.
fn seed(state: &Path) {
    let now = SystemTime::now();
    let mut writes = Vec::new();
    for number in 1..=RECORDS {
        let id = JobId::numbered(number);
        let spec = MigrationSpec { target: target(number), ..MigrationSpec::default() };
        writes.push(Write::Job(Arc::new(Job {
            state: JobState::Skipped,
            state_message: "all memory is local".to_owned(),
            started: Some(now),
            ended: Some(now),
            ..Job::new(id.clone(), spec, "uid:0".to_owned(), now)
        })));
        writes.push(Write::event(&Event {
            job: Some(id),
            creator: "uid:0".to_owned(),
            target: target(number),
            ..Event::new(number, EventType::Skipped, now, "skipped".to_owned())
        }));
    }
    fs::create_dir(state).expect("a directory");
    let (mut store, _) = Store::open(state).expect("a new store");
    writes.chunks(1000).for_each(|writes| store.commit(writes).expect("there is room"));
}

fn start(dir: &Path, port: u16) -> FloodedDaemon {
    let config = dir.join("numalocd.toml");
    // All clients of this port are the same viewer.
    let text = format!("[listen]\ntcp = \"127.0.0.1:{port}\"\nplain_loopback = true\n");
    fs::write(&config, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_numalocd"));
    command.arg("--socket").arg(dir.join("socket")).arg("--state-dir").arg(dir.join("state"));
    command.arg("--config").arg(config).env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS");
    // As systemd/numalocd.service has it.
    command.env("MALLOC_ARENA_MAX", "1");
    let log = fs::File::create(dir.join("log")).expect("a file");
    let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("it starts");
    let mut daemon = FloodedDaemon(child);
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(dir.join("socket")).is_err() {
        let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
        let ended = daemon.0.try_wait().expect("it is ours");
        assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}: {}", log());
        thread::sleep(Duration::from_millis(20));
    }
    daemon
}

/// What one connection does: it asks for one list after the other, and makes all calls that look at the host.
async fn reads(channel: Channel, answered: &AtomicUsize) -> Result<(), Status> {
    let mut jobs =
        MigrationServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_MAX);
    let mut events = EventServiceClient::new(channel.clone()).max_decoding_message_size(ANSWER_MAX);
    let mut daemon = DaemonServiceClient::new(channel.clone());
    let mut locality = LocalityServiceClient::new(channel);
    let pid = std::process::id() as i32;
    let target = Some(v1::Target { pids: vec![pid], ..v1::Target::default() });
    let spec = v1::MigrationSpec { target: target.clone(), ..v1::MigrationSpec::default() };
    loop {
        let list = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
        let list = jobs.list_jobs(list).await?.into_inner();
        assert!(list.jobs.len() > 100 && !list.next_page_token.is_empty());
        let list = v1::ListEventsRequest { page_size: 1000, ..Default::default() };
        events.list_events(list).await?;
        answered.fetch_add(2, Relaxed);
        daemon.get_metrics(v1::GetMetricsRequest {}).await?;
        let request = v1::GetLocalityRequest { target: target.clone(), ..Default::default() };
        locality.get_locality(request).await?;
        // The call may fail because there is no target node.
        let _ = jobs.plan_migration(v1::PlanMigrationRequest { spec: Some(spec.clone()) }).await;
    }
}

/// Asks for many lists at once and takes none of the answers.
async fn takes_nothing(channel: Channel) -> Result<(), Status> {
    let mut untaken = Vec::new();
    for _ in 0..100 {
        let mut grpc = Grpc::new(channel.clone());
        untaken.push(tokio::spawn(async move {
            grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
            let codec = ProstCodec::<v1::ListJobsRequest, v1::ListJobsResponse>::default();
            let list = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
            let path = "/numaloc.v1.MigrationService/ListJobs".parse().expect("a path");
            grpc.server_streaming(Request::new(list), path, codec).await
        }));
    }
    let mut held = Vec::new();
    for untaken in untaken {
        held.extend(untaken.await.map_err(|error| Status::unknown(error.to_string()))?);
    }
    std::future::pending::<()>().await;
    drop(held);
    Ok(())
}

/// Connects again and again, because most of so many connections are refused.
async fn flood(port: u16, number: usize, answered: Arc<AtomicUsize>, greedy: Arc<AtomicBool>) {
    loop {
        let endpoint =
            Endpoint::from_shared(format!("http://127.0.0.1:{port}")).expect("an address");
        // A flow-control window of one byte leaves unread answers with the daemon: the client takes next to nothing in advance.
        let window = if greedy.load(Relaxed) { Some(1) } else { None };
        let endpoint = endpoint.initial_stream_window_size(window);
        if let Ok(channel) = endpoint.connect().await {
            let _ = if greedy.load(Relaxed) && number.is_multiple_of(2) {
                takes_nothing(channel).await
            } else {
                reads(channel, &answered).await
            };
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn root_is_answered_and_memory_stays_within_its_bound() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("it can be read");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("up to the hard limit");
    let dir = tempfile::tempdir().expect("a directory");
    seed(&dir.path().join("state"));
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a free port").port();
    let daemon = start(dir.path(), port);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("threads");
    runtime.block_on(async {
        let (answered, greedy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        // The caller is root, or the user that the daemon runs as.
        let socket = format!("unix://{}", dir.path().join("socket").display());
        let root = Endpoint::from_shared(socket).expect("a path");
        for untaken in [false, true] {
            greedy.store(untaken, Relaxed);
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|number| tokio::spawn(flood(port, number, answered.clone(), greedy.clone())))
                .collect();
            let begin = answered.load(Relaxed);
            let deadline = Instant::now() + PATIENCE;
            let mut asked = 0;
            // Continue until the flood has begun. Clients that take no answers get few lists, so they are not waited for.
            while asked < 30 || (!untaken && answered.load(Relaxed) < begin + 200) {
                assert!(Instant::now() < deadline, "{asked} of root, {answered:?} of the viewer");
                let status = async {
                    let channel = root.connect().await.expect("root gets a connection");
                    DaemonServiceClient::new(channel).get_status(v1::GetStatusRequest {}).await
                };
                let status = tokio::time::timeout(PATIENCE, status).await;
                let status = status.expect("root is answered").expect("it may").into_inner();
                assert_eq!(status.role, "admin");
                asked += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            println!("at most {} MiB; {answered:?} lists", daemon.peak() >> 20);
            clients.iter().for_each(tokio::task::JoinHandle::abort);
        }
    });
    let peak = daemon.peak();
    assert!(peak < MEMORY_MAX, "{} MiB", peak >> 20);
}

/// Most bytes that half requests of one viewer add.
const HALF_MAX: u64 = 64 << 20;
const HALF_CALLS: usize = 600;

/// A request of `announced` bytes that never ends. When all but its last byte have been taken by the connection, `sent` counts it.
fn half(path: &'static str, announced: u32, sent: Arc<AtomicUsize>) -> http::Request<Body> {
    let prefix = [&[0][..], &announced.to_be_bytes()].concat();
    let pieces = (announced as usize - 1) / PIECE;
    let last = vec![b'a'; announced as usize - 1 - pieces * PIECE];
    let pieces = std::iter::repeat_n(vec![b'a'; PIECE], pieces);
    let mut left = [prefix].into_iter().chain(pieces).chain([last]);
    let frames = tokio_stream::iter(std::iter::from_fn(move || {
        let next = left.next();
        if next.is_none() {
            sent.fetch_add(1, Relaxed);
        }
        next.map(|bytes| Ok::<_, Infallible>(Frame::data(Bytes::from(bytes))))
    }));
    let body = Body::new(StreamBody::new(frames.chain(tokio_stream::pending())));
    let request = http::Request::post(path).header("content-type", "application/grpc");
    request.header("te", "trailers").body(body).expect("a request")
}

/// A watch takes its turn for as long as its client likes, and has no deadline. That does not hold for its request.
#[test]
fn half_requests_of_watches_take_little_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.expect("a free port").port();
    let daemon = start(dir.path(), port);
    let before = daemon.peak();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("threads");
    let paths = [
        "/numaloc.v1.LocalityService/WatchLocality",
        "/numaloc.v1.MigrationService/WatchJobs",
        "/numaloc.v1.MigrationService/WatchJob",
        "/numaloc.v1.EventService/WatchEvents",
    ];
    runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        let channel = endpoint.expect("an address").connect().await.expect("a connection");
        let (sent, answered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls: Vec<_> = (0..HALF_CALLS)
            .map(|number| {
                let request = half(paths[number % paths.len()], 1 << 20, sent.clone());
                let (mut channel, answered) = (channel.clone(), answered.clone());
                tokio::spawn(async move {
                    channel.ready().await.expect("it is connected");
                    let answer = channel.call(request).await;
                    answered.fetch_add(1, Relaxed);
                    answer
                })
            })
            .collect();
        let deadline = Instant::now() + PATIENCE;
        while sent.load(Relaxed) + answered.load(Relaxed) < HALF_CALLS {
            assert!(Instant::now() < deadline, "{sent:?} sent, {answered:?} answered");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let socket = format!("unix://{}", dir.path().join("socket").display());
        let root = Endpoint::from_shared(socket).expect("a path");
        let channel = root.connect().await.expect("root gets a connection");
        let request = v1::WatchEventsRequest::default();
        EventServiceClient::new(channel).watch_events(request).await.expect("root is answered");
        println!("{sent:?} sent, {answered:?} answered");
        calls.iter().for_each(tokio::task::JoinHandle::abort);
    });
    let more = daemon.peak() - before;
    println!("{} MiB, then {} MiB more", before >> 20, more >> 20);
    assert!(more < HALF_MAX, "{} MiB more", more >> 20);
}
