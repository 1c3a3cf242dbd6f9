//! Tests the daemon end to end: the real daemon, with real processes and real clients.

pub mod balancing;
mod clients;
mod compaction;
mod disk;
mod drain_node;
mod dsa;
mod exchange;
mod files;
mod jobs;
mod killed;
mod live;
mod neighbours;
mod offload;
mod probe;
mod relieve;
mod resctrl;
mod schedules;
mod silent;
mod stuck;
mod turns;
mod watchers;

use crate::{app::until, cli};
use numaloc_api::v1::{
    self, daemon_service_client::DaemonServiceClient, event_service_client::EventServiceClient,
    migration_service_client::MigrationServiceClient,
    schedule_service_client::ScheduleServiceClient, workload_service_client::WorkloadServiceClient,
};
use std::{
    env, fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

const MIB: u64 = 1 << 20;

/// A running daemon with a directory of its own. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Option<Child>,
    pub dir: PathBuf,
    pub state: PathBuf,
    config: String,
}

impl Daemon {
    pub fn start() -> Self {
        Self::with("")
    }

    pub fn with(config: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(format!("/run/numaloc-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let state = dir.join("state");
        let mut daemon = Self { child: None, dir, state, config: config.to_owned() };
        daemon.spawn();
        daemon
    }

    /// With its state in this directory.
    pub fn on(state: &Path) -> Self {
        let mut daemon = Self::start();
        daemon.kill();
        daemon.state = state.to_owned();
        daemon.spawn();
        daemon
    }

    /// Starts it, and waits until it answers.
    pub fn spawn(&mut self) {
        let config = self.dir.join("numalocd.toml");
        fs::write(&config, &self.config).expect("a configuration");
        let program = env::var_os("NUMALOCD").unwrap_or_else(|| "numalocd".into());
        let log = fs::File::options().create(true).append(true).open(self.log_file());
        let child = Command::new(program)
            .arg("--socket")
            .arg(self.socket())
            .arg("--state-dir")
            .arg(&self.state)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        self.child = Some(child.expect("it starts"));
        until("the daemon listens", || {
            let ended = self.child.as_mut().map(Child::try_wait);
            assert!(matches!(ended, Some(Ok(None))), "{ended:?}: {}", self.log());
            std::os::unix::net::UnixStream::connect(self.socket()).is_ok()
        });
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Stops it as systemd does (SIGTERM). Returns how long that took.
    pub fn stop(&mut self) -> Duration {
        let mut child = self.child.take().expect("it runs");
        let begin = Instant::now();
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it is there");
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{status:?}: {}", self.log());
        begin.elapsed()
    }

    /// numalocctl as another user, with this daemon.
    pub fn ctl_as(&self, uid: u32, arguments: &[&str]) -> Command {
        let mut command = self.client_command(arguments);
        command.uid(uid).gid(uid);
        command
    }

    fn client_command(&self, arguments: &[&str]) -> Command {
        let mut command = cli::command();
        command.env("NUMALOC_ENDPOINT", self.endpoint()).args(arguments);
        command
    }

    /// The pid of the daemon.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join("numalocd.sock")
    }

    /// The URI by which clients name it.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn log_file(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Runs numalocctl as a client of this daemon.
    pub fn ctl(&self, arguments: &[&str]) -> std::process::Output {
        self.client_command(arguments).output().expect("it starts")
    }

    pub fn client(&self) -> Client {
        Client::new(&self.endpoint())
    }

    /// Resident bytes of the daemon.
    pub fn rss(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", self.log());
        }
        fs::remove_dir_all(&self.dir).ok();
    }
}

/// A client with a connection of its own.
#[derive(Debug)]
pub struct Client {
    pub runtime: Runtime,
    pub channel: Channel,
}

impl Client {
    pub fn new(endpoint: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let endpoint = Endpoint::from_shared(endpoint.to_owned()).expect("an endpoint");
        let endpoint = endpoint.timeout(Duration::from_secs(60));
        let channel = {
            let _inside = runtime.enter();
            endpoint.connect_lazy()
        };
        Self { runtime, channel }
    }

    pub fn migrations(&self) -> MigrationServiceClient<Channel> {
        MigrationServiceClient::new(self.channel.clone())
    }

    pub fn schedules(&self) -> ScheduleServiceClient<Channel> {
        ScheduleServiceClient::new(self.channel.clone())
    }

    pub fn workloads(&self) -> WorkloadServiceClient<Channel> {
        WorkloadServiceClient::new(self.channel.clone())
    }

    pub fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel.clone())
    }

    /// All events so far.
    pub fn listed_events(&self) -> Vec<v1::Event> {
        let request = v1::ListEventsRequest { page_size: 1000, ..Default::default() };
        let listed = self.runtime.block_on(self.events().list_events(request));
        listed.expect("a list").into_inner().events
    }

    pub fn daemon(&self) -> DaemonServiceClient<Channel> {
        DaemonServiceClient::new(self.channel.clone())
    }

    pub fn try_create(&self, request: v1::CreateJobRequest) -> Result<v1::Job, Status> {
        let answer = self.runtime.block_on(self.migrations().create_job(request))?;
        Ok(answer.into_inner().job.expect("a job"))
    }

    /// Creates a job for a process.
    pub fn create(&self, pid: i32, limits: v1::Limits) -> v1::Job {
        self.try_create(request(pid, limits)).expect("it is taken")
    }

    pub fn try_job(&self, name: &str) -> Result<v1::Job, Status> {
        let request = v1::GetJobRequest { name: name.to_owned() };
        let answer = self.runtime.block_on(self.migrations().get_job(request))?;
        Ok(answer.into_inner().job.expect("a job"))
    }

    pub fn job(&self, name: &str) -> v1::Job {
        self.try_job(name).expect("the job is there")
    }

    pub fn cancel(&self, name: &str) -> Result<v1::Job, Status> {
        let request = v1::CancelJobRequest { name: name.to_owned() };
        let answer = self.runtime.block_on(self.migrations().cancel_job(request))?;
        Ok(answer.into_inner().job.expect("a job"))
    }

    pub fn pause(&self, name: &str) -> Result<v1::Job, Status> {
        let request = v1::PauseJobRequest { name: name.to_owned() };
        let answer = self.runtime.block_on(self.migrations().pause_job(request))?;
        Ok(answer.into_inner().job.expect("a job"))
    }

    pub fn resume(&self, name: &str) -> Result<v1::Job, Status> {
        let request = v1::ResumeJobRequest { name: name.to_owned() };
        let answer = self.runtime.block_on(self.migrations().resume_job(request))?;
        Ok(answer.into_inner().job.expect("a job"))
    }

    /// Waits until a job is in a state. Panics if it ends in another one.
    pub fn reaches(&self, name: &str, state: v1::JobState) -> v1::Job {
        until(&format!("{name} becomes {state:?}"), || {
            let job = self.job(name);
            let ended = i32::from(v1::JobState::Succeeded);
            assert!(
                job.state() == state || job.state < ended,
                "{name} is {:?}: {}",
                job.state(),
                job.state_message
            );
            std::thread::sleep(Duration::from_millis(20));
            job.state() == state
        });
        self.job(name)
    }

    /// Waits until a job has moved something.
    pub fn moves(&self, name: &str) {
        until(&format!("{name} moves"), || {
            let job = self.job(name);
            assert!(job.end_time.is_none(), "{name} has ended: {job:?}");
            std::thread::sleep(Duration::from_millis(20));
            job.progress.is_some_and(|progress| progress.moved_bytes > 0)
        });
    }
}

/// A request to create a job for one process.
pub fn request(pid: i32, limits: v1::Limits) -> v1::CreateJobRequest {
    let target = v1::Target { pids: vec![pid], ..v1::Target::default() };
    let spec = v1::MigrationSpec { target: Some(target), limits: Some(limits), policy: None };
    v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() }
}

/// A rate that is low enough to act in the middle of the job.
pub fn slow(bytes_per_second: u64) -> v1::Limits {
    v1::Limits { rate_bytes_per_second: Some(bytes_per_second as i64), ..v1::Limits::default() }
}

/// The code and the reason of a refusal.
pub fn reason<T: std::fmt::Debug>(answer: Result<T, Status>) -> (Code, String) {
    use tonic_types::StatusExt;
    let status = answer.expect_err("refused");
    let info = status.get_error_details().error_info().map(|info| info.reason.clone());
    (status.code(), info.unwrap_or_default())
}
