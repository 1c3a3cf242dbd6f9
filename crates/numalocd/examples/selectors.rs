//! Compares how long GetJob takes on a daemon that has nothing to do with how long it takes while schedules with label selectors
//! look for their targets. `selectors NUMALOCD` starts that program twice, each time with 10,000 workloads of 60 labels: without a
//! schedule, and with 1,000. Each of their selectors has 60 conditions, of which only the last one is not met, and each schedule
//! looks once a second. Prints both, and the time that looking through all workloads would take.
#![forbid(unsafe_code)]

use numaloc_api::{
    v1::{self, migration_service_client::MigrationServiceClient},
    value::{
        Condition, Job, JobId, JobState, MigrationSpec, Requirement, Schedule, ScheduleId,
        ScheduleSpec, ScheduleState, Selector, Target, Workload, WorkloadId, WorkloadSpec,
    },
};
use numalocd::store::{Store, Write};
use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};
use tonic::transport::Endpoint;

const WORKLOADS: u64 = 10_000;
const SCHEDULES: u64 = 1_000;
const LABELS: usize = 60;
const CALLS: usize = 5_000;
const CREATOR: &str = "uid:0";
/// After this long the daemon counts as not starting.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon with a directory of its own. Both end with this value.
struct Daemon {
    child: Child,
    dir: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
        fs::remove_dir_all(&self.dir).ok();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let program = env::args_os().nth(1).ok_or("usage: selectors NUMALOCD")?;
    let (all, selector) = ((1..=WORKLOADS).map(workload).collect::<Vec<_>>(), selector());
    let begin = Instant::now();
    let selected = all.iter().filter(|known| known.spec.is_selected(&selector)).count();
    println!(
        "{selected} of {WORKLOADS} workloads are selected; to look through all takes {:?}",
        begin.elapsed()
    );
    let [idle, busy] =
        [("without schedules", 0), ("with schedules", SCHEDULES)].map(|(name, schedules)| {
            let mut times = measure(&program, schedules)?;
            times.sort_unstable();
            let at = |percent: usize| times[(times.len() - 1) * percent / 100];
            println!("GetJob {name}: p50 {:?}, p99 {:?}, max {:?}", at(50), at(99), at(100));
            Ok::<_, Box<dyn Error>>(at(99))
        });
    println!("p99: {:.2} times", busy?.as_secs_f64() / idle?.as_secs_f64());
    Ok(())
}

/// The times of calls of GetJob, one after the other.
fn measure(program: &OsStr, schedules: u64) -> Result<Vec<Duration>, Box<dyn Error>> {
    let daemon = start(program, schedules)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let socket = format!("unix://{}", daemon.dir.join("socket").display());
        let mut client =
            MigrationServiceClient::new(Endpoint::from_shared(socket)?.connect().await?);
        let request = v1::GetJobRequest { name: JobId::numbered(1).to_string() };
        // The first calls wait until the daemon has read its store.
        for _ in 0..100 {
            client.get_job(request.clone()).await?;
        }
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let begin = Instant::now();
            client.get_job(request.clone()).await?;
            times.push(begin.elapsed());
        }
        Ok(times)
    })
}

fn start(program: &OsStr, schedules: u64) -> Result<Daemon, Box<dyn Error>> {
    let dir = env::temp_dir().join(format!("numalocd-selectors-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let begun = seed(&dir.join("state"), schedules).and_then(|()| {
        fs::write(dir.join("numalocd.toml"), "[quota]\nrequests_per_second = 1000000\n")?;
        let mut command = Command::new(program);
        command.arg("--socket").arg(dir.join("socket")).arg("--state-dir").arg(dir.join("state"));
        command.arg("--config").arg(dir.join("numalocd.toml"));
        command.env_remove("NOTIFY_SOCKET").env_remove("LISTEN_FDS").stdin(Stdio::null());
        Ok(command.stderr(fs::File::create(dir.join("log"))?).spawn()?)
    });
    let child = begun.inspect_err(|_| drop(fs::remove_dir_all(&dir)))?;
    let daemon = Daemon { child, dir };
    let begin = Instant::now();
    while UnixStream::connect(daemon.dir.join("socket")).is_err() {
        if begin.elapsed() > PATIENCE {
            return Err(fs::read_to_string(daemon.dir.join("log"))?.into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(daemon)
}

fn seed(state: &Path, schedules: u64) -> Result<(), Box<dyn Error>> {
    fs::create_dir(state)?;
    let (mut store, _) = Store::open(state)?;
    let workloads = (1..=WORKLOADS).map(|number| Write::Workload(Arc::new(workload(number))));
    let schedules = (1..=schedules).map(|number| Write::Schedule(Arc::new(schedule(number))));
    let writes: Vec<_> = workloads.chain(schedules).chain([Write::Job(Arc::new(job()))]).collect();
    writes.chunks(1000).try_for_each(|writes| store.commit(writes))?;
    Ok(())
}

fn label(number: usize) -> (String, String) {
    (format!("example.org/label-{number:02}"), format!("value-{number:02}"))
}

fn workload(number: u64) -> Workload {
    let spec = WorkloadSpec {
        labels: (0..LABELS).map(label).collect(),
        ..WorkloadSpec::new(WorkloadId::numbered(number), "/user.slice/user-1000.slice/own")
    };
    let workload = Workload::new(spec, CREATOR.to_owned(), SystemTime::now());
    Workload { etag: "1".to_owned(), ..workload }
}

/// One that all workloads meet but for the last condition.
fn selector() -> Selector {
    let (key, value) = label(LABELS - 1);
    let last = Requirement { key, condition: Condition::NotIn([value].into()) };
    let met = (0..LABELS - 1).map(label).map(|(key, value)| Requirement::equals(key, value));
    met.chain([last]).collect()
}

fn migration() -> MigrationSpec {
    let target = Target { labels: selector(), ..Target::default() };
    MigrationSpec { target, ..MigrationSpec::default() }
}

fn schedule(number: u64) -> Schedule {
    let (now, interval) = (SystemTime::now(), Duration::from_secs(1));
    let spec = ScheduleSpec { migration: migration(), interval, ..ScheduleSpec::default() };
    Schedule {
        state: ScheduleState::TargetGone,
        next_run: None,
        gone: Some(now),
        etag: "1".to_owned(),
        ..Schedule::new(ScheduleId::numbered(number), spec, CREATOR.to_owned(), now)
    }
}

/// A job that waits to be resumed.
fn job() -> Job {
    let (id, now) = (JobId::numbered(1), SystemTime::now());
    Job { state: JobState::Paused, ..Job::new(id, migration(), CREATOR.to_owned(), now) }
}
