//! Stores that earlier versions have written can be opened, read and continued.
//!
//! Each directory in `fixtures` is what one version has written of the records in `records`: `closed`, the file of a daemon that
//! has ended, and `killed`, that of one that was killed, both without the zeros at their ends; and `records.txt`, how large the
//! files are and what that version has read of them. A fixture is never written again. When the form of records or of the file
//! changes, and at each release, a new one is added:
//!
//! ```text
//! NUMALOCD_FIXTURE=0.1.0 cargo test -p numalocd --test program -- --ignored --exact stores::write_a_fixture
//! ```

mod records;

use numaloc_api::{
    v1::{
        self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
        migration_service_client::MigrationServiceClient,
        schedule_service_client::ScheduleServiceClient,
        workload_service_client::WorkloadServiceClient,
    },
    value::{Event, Job, JobState, Requirement, Schedule, Target, Workload},
};
use numalocd::store::{Contents, Store, Write};
use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

/// Names the fixture that is to be written.
const NAME: &str = "NUMALOCD_FIXTURE";
/// What a daemon leaves that ends, and one that is killed.
const ENDS: [&str; 2] = ["closed", "killed"];
const PATIENCE: Duration = Duration::from_secs(60);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/stores/fixtures")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs()
}

fn maybe(time: Option<SystemTime>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| seconds(time).to_string())
}

/// All that is in a store, a line each. Lines of old fixtures are compared as they are: what is added to one here is missing in
/// those, so it goes into a line of its own, for records that are new.
fn described(dir: &Path) -> String {
    let (mut store, contents) = Store::open(dir).expect("a store");
    let Contents { jobs, schedules, workloads, events, last, holds, .. } = contents;
    let mut text = format!("drained {} paused {}\n", maybe(holds.drained), maybe(holds.paused));
    // Writing to a String does not fail.
    let _ = writeln!(text, "last job {} schedule {} event {}", last.job, last.schedule, last.event);
    for kept in &jobs {
        let job = store.job(&kept.job.id).expect("it can be read").expect("it is there");
        let _ = writeln!(text, "{}", of_job(&job));
    }
    for schedule in &schedules {
        let _ = writeln!(text, "{}", of_schedule(schedule));
    }
    for workload in &workloads {
        let _ = writeln!(text, "{}", of_workload(workload));
    }
    let numbers: Vec<u64> = events.iter().map(|head| head.number).collect();
    for (_, event) in store.events(&numbers).expect("they can be read") {
        let event = event.decode().expect("an event");
        let _ = writeln!(text, "{}", of_event(&event));
        if !event.labels.is_empty() {
            let _ = writeln!(text, "labels {:?}", event.labels);
        }
    }
    text
}

fn of_target(target: &Target) -> String {
    let Target {
        pids,
        cgroups,
        units,
        containers,
        pods,
        virtual_machines,
        container_labels,
        labels,
        workload_creators,
        processes,
        files,
    } = target;
    let labels_text: Vec<_> = labels.requirements.iter().map(Requirement::to_string).collect();
    let processes: Vec<_> =
        processes.iter().map(|process| (process.pid, process.start_time)).collect();
    // The texts of stores of earlier versions have none.
    let machines = if virtual_machines.is_empty() {
        String::new()
    } else {
        format!(" machines {virtual_machines:?}")
    };
    assert!(files.is_empty() && container_labels.is_empty(), "no such version knew them");
    format!(
        "pids {pids:?} cgroups {cgroups:?} units {units:?} containers {containers:?} pods {pods:?}{machines} labels \
         {labels_text:?} of {:?} creators {workload_creators:?} processes {processes:?}",
        labels.namespace
    )
}

fn of_job(job: &Job) -> String {
    let (policy, limits) = (&job.spec.policy, &job.spec.limits);
    let outcome = job.outcome.as_ref().map(|outcome| {
        let (account, processes) = (outcome.account(), outcome.processes.len());
        let flows: u64 = outcome.flows.values().sum();
        (account.found_bytes(), account.moved_bytes(), processes, flows, outcome.returned_bytes)
    });
    let members: Vec<_> = job.members.iter().map(|member| member.state.name()).collect();
    let progress = job.progress.as_ref().map(|progress| progress.settled_bytes);
    format!(
        "{} number {:?} {} wanted {:?} of {:?} by {} {:?} request {:?} times {} {} {} labels {:?} pins {:?} members {members:?} \
         progress {progress:?} planned {} outcome {outcome:?} class {:?} ratio {} profile {} to {:?} from {:?} batch {:?} \
         workers {:?} timeout {:?} rate {:?} target {}",
        job.id,
        job.id.number(),
        job.state.name(),
        job.wanted.map(JobState::name),
        job.schedule.as_ref().map(ToString::to_string),
        job.creator,
        job.creator_gid,
        job.request_id,
        seconds(job.created),
        maybe(job.started),
        maybe(job.ended),
        job.labels,
        job.pins.keys().collect::<Vec<_>>(),
        job.plan.is_some(),
        policy.qos_class.map(|class| class.name()),
        policy.options.target_ratio,
        policy.options.pacing.profile.name(),
        policy.options.to.as_ref().map(ToString::to_string),
        policy.options.from.as_ref().map(ToString::to_string),
        limits.batch_bytes,
        limits.workers,
        limits.timeout,
        limits.rate_bytes_per_second,
        of_target(&job.spec.target),
    )
}

fn of_schedule(schedule: &Schedule) -> String {
    let spec = &schedule.spec;
    format!(
        "{} number {:?} {} last {:?} times {} {} {} {} {} by {} {:?} request {:?} etag {} interval {:?} jitter {:?} ttl {:?} \
         paused {} labels {:?} pins {:?} target {}",
        schedule.id,
        schedule.id.number(),
        schedule.state.name(),
        schedule.last_job.as_ref().map(ToString::to_string),
        seconds(schedule.created),
        seconds(schedule.updated),
        maybe(schedule.last_run),
        maybe(schedule.next_run),
        maybe(schedule.gone),
        schedule.creator,
        schedule.creator_gid,
        schedule.request_id,
        schedule.etag,
        spec.interval,
        spec.jitter,
        spec.ttl_after_gone,
        spec.paused,
        spec.labels,
        schedule.pins.keys().collect::<Vec<_>>(),
        of_target(&spec.migration.target),
    )
}

fn of_workload(workload: &Workload) -> String {
    let spec = &workload.spec;
    format!(
        "{} cgroup {} container {:?} pod {:?} namespace {:?} labels {:?} class {:?} source {:?} ttl {:?} created {} by {} {:?} \
         etag {}",
        spec.id,
        spec.cgroup,
        spec.container_id,
        spec.pod_uid,
        spec.namespace,
        spec.labels,
        spec.qos_class.map(|class| class.name()),
        spec.source,
        spec.ttl,
        seconds(workload.created),
        workload.creator,
        workload.creator_gid,
        workload.etag,
    )
}

fn of_event(event: &Event) -> String {
    let members: Vec<_> = event.members.iter().map(|member| member.state.name()).collect();
    format!(
        "events/{} {} {} job {:?} of {:?} by {} from {} to {} percent {:?} {:?} remote {:?} failed {} members {members:?} more \
         {} message {:?} target {}",
        event.number,
        event.kind.name(),
        seconds(event.time),
        event.job.as_ref().map(ToString::to_string),
        event.schedule.as_ref().map(ToString::to_string),
        event.creator,
        event.from,
        event.to,
        event.before_percent,
        event.after_percent,
        event.remote_bytes,
        event.failed.len(),
        event.more_members,
        event.message,
        of_target(&event.target),
    )
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}

/// A store of a fixture as its daemon has left it, in a state directory of its own; and what that has read of it.
fn restored(fixture: &Path, end: &str) -> (TempDir, String) {
    let known = fs::read_to_string(fixture.join("records.txt")).expect("there are records");
    let (sizes, records) = known.split_once('\n').expect("a line with the sizes");
    let mut sizes = sizes.split(' ');
    let size = sizes.by_ref().skip_while(|&word| word != end).nth(1);
    let size = size.and_then(|size| size.parse().ok()).expect("its size");
    let mut bytes = fs::read(fixture.join(end)).expect("there is a store");
    bytes.resize(size, 0);
    let dir = TempDir::new().expect("room for a directory");
    fs::write(dir.path().join("numalocd.redb"), bytes).expect("room");
    // What 0.1 called FIGHT_BEGUN.
    (dir, records.replace(" FIGHT_BEGUN ", " PLACEMENT_CONTESTED "))
}

/// The directories of the fixtures. One at least has to be there, or nothing would be tested.
fn all_fixtures() -> Vec<PathBuf> {
    let entries = fs::read_dir(fixtures()).into_iter().flatten();
    let mut all: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    all.sort();
    assert!(
        !all.is_empty(),
        "there is no fixture in {}: write one with {NAME}={} cargo test -p numalocd --test program -- --ignored --exact \
         stores::write_a_fixture",
        fixtures().display(),
        env!("CARGO_PKG_VERSION")
    );
    all
}

#[test]
#[ignore = "writes a new fixture"]
fn write_a_fixture() {
    let name = env::var(NAME).unwrap_or_else(|_| panic!("{NAME} has to name it"));
    let place = fixtures().join(name);
    fs::create_dir_all(fixtures()).expect("room");
    fs::create_dir(&place).expect("a fixture is never written again");
    let dir = TempDir::new().expect("room for a directory");
    let file = dir.path().join("numalocd.redb");
    let written = records::all();
    let (mut store, _) = Store::open(dir.path()).expect("a new store");
    // The last numbers are told apart from those of records that are there.
    let Some(Write::Event(last)) = written.last() else { panic!("events come last") };
    store.commit(&written).expect("there is room");
    store.commit(&[Write::DropEvent(last.head.number)]).expect("there is room");
    for write in &written {
        if let Write::Job(job) = write {
            let read = store.job(&job.id).expect("it can be read");
            assert_eq!(read.as_ref(), Some(&**job), "it is not stored whole");
        }
    }
    // As it is at this moment it would be if the daemon were killed.
    let killed = fs::read(&file).expect("it is there");
    drop(store);
    let closed = fs::read(&file).expect("it is there");
    let text =
        format!("closed {} killed {}\n{}", closed.len(), killed.len(), described(dir.path()));
    fs::write(place.join("records.txt"), text).expect("room");
    for (end, bytes) in ENDS.into_iter().zip([closed, killed]) {
        fs::write(place.join(end), without_zeros(bytes)).expect("room");
    }
}

#[test]
fn stores_of_earlier_versions_are_read() {
    for fixture in all_fixtures() {
        for end in ENDS {
            let (dir, known) = restored(&fixture, end);
            let read = described(dir.path());
            let pairs = read.lines().zip(known.lines());
            pairs.for_each(|(read, known)| assert_eq!(read, known, "{}, {end}", fixture.display()));
            assert_eq!(read.lines().count(), known.lines().count(), "{}", fixture.display());
            // It has been closed by now, by this version.
            assert_eq!(described(dir.path()), known, "{}, {end}", fixture.display());
        }
    }
}

/// A daemon on a store; ended with this value.
struct DaemonOnStore(Child);

impl Drop for DaemonOnStore {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).ok();
    }
}

impl DaemonOnStore {
    async fn start(dir: &Path) -> (Self, Channel) {
        // The records of fixtures are old: as long as this goes they are not forgotten.
        let config = dir.join("numalocd.toml");
        fs::write(&config, "[retention]\nage = \"3660d\"\n").expect("room");
        let socket = dir.join("n.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_numalocd"));
        command.arg("--config").arg(config).arg("--state-dir").arg(dir);
        command.arg("--socket").arg(&socket);
        command.env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS");
        let log = fs::File::create(dir.join("log")).expect("room");
        let child = command.stdin(Stdio::null()).stderr(log).spawn();
        let mut daemon = Self(child.expect("it starts"));
        let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display()));
        let endpoint = endpoint.expect("a path");
        let begin = Instant::now();
        loop {
            if let Ok(channel) = endpoint.connect().await {
                return (daemon, channel);
            }
            let ended = daemon.0.try_wait().expect("it is ours");
            let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
            let is_late = begin.elapsed() > PATIENCE;
            assert!(ended.is_none() && !is_late, "it does not listen: {ended:?}: {}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The dispatcher deals with what the last daemon has left under way, and all is there for clients.
#[tokio::test]
async fn a_daemon_goes_on_with_stores_of_earlier_versions() {
    for fixture in all_fixtures() {
        for end in ENDS {
            let (dir, known) = restored(&fixture, end);
            let of = |sort: &str| known.lines().filter(|line| line.starts_with(sort)).count();
            let (_daemon, channel) = DaemonOnStore::start(dir.path()).await;
            let mut daemon = DaemonServiceClient::new(channel.clone());
            let status = daemon.get_status(v1::GetStatusRequest {}).await.expect("an answer");
            let status = status.into_inner();
            assert!(status.problems.is_empty(), "{}: {:?}", fixture.display(), status.problems);
            let is_held = known.lines().next().is_some_and(|line| !line.contains("drained -"));
            assert_eq!(status.holds.and_then(|holds| holds.drain_time).is_some(), is_held);

            let mut jobs = MigrationServiceClient::new(channel.clone());
            let list = v1::ListJobsRequest { page_size: 1000, ..Default::default() };
            let listed = jobs.list_jobs(list).await.expect("a list").into_inner().jobs;
            assert_eq!(listed.len(), of("jobs/"), "{}", fixture.display());
            for job in &listed {
                let name = job.name.clone();
                let whole = jobs.get_job(v1::GetJobRequest { name }).await.expect("it is there");
                let whole = whole.into_inner().job.expect("a job");
                assert_eq!((&whole.name, &whole.spec), (&job.name, &job.spec));
                let left = [v1::JobState::Planning, v1::JobState::Running, v1::JobState::Suspended];
                assert!(!left.contains(&job.state()), "{} is {:?}", job.name, job.state());
            }
            let mut schedules = ScheduleServiceClient::new(channel.clone());
            let list = v1::ListSchedulesRequest { page_size: 1000, ..Default::default() };
            let listed = schedules.list_schedules(list).await.expect("a list").into_inner();
            assert_eq!(listed.schedules.len(), of("schedules/"), "{}", fixture.display());
            let mut workloads = WorkloadServiceClient::new(channel.clone());
            let list = v1::ListWorkloadsRequest { page_size: 1000, ..Default::default() };
            let listed = workloads.list_workloads(list).await.expect("a list").into_inner();
            assert_eq!(listed.workloads.len(), of("workloads/"), "{}", fixture.display());
            let mut events = EventServiceClient::new(channel);
            let list = v1::ListEventsRequest { page_size: 1000, ..Default::default() };
            let listed = events.list_events(list).await.expect("a list").into_inner();
            // The result of jobs that were under way is reported as well.
            assert!(listed.events.len() >= of("events/"), "{}", fixture.display());
        }
    }
}
