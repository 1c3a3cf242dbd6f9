//! The program while the user database hangs, as one does whose directory service is gone: calls are answered, the watchdog is
//! patted, and only a reload, which has names to look up, takes as long as that does.
//!
//! A FIFO that nobody writes to stands in the place of /etc/passwd and /etc/group, in a mount namespace that only the daemon is
//! in: a lookup of a name there waits in open(2) forever.

use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, Uid, mkfifo},
};
use numaloc_api::{
    v1::{
        self, daemon_service_client::DaemonServiceClient,
        migration_service_client::MigrationServiceClient,
    },
    value::{Job, JobId, JobState, MigrationSpec, Target},
};
use numalocd::store::{Store, Write};
use parking_lot::Mutex;
use std::{
    env,
    fs::{self, OpenOptions, Permissions},
    io::{ErrorKind, Write as _},
    os::unix::{
        fs::{OpenOptionsExt, PermissionsExt},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};
use tempfile::TempDir;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// Longer than this means never.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the user database hangs at least: longer than the watchdog waits.
const HANG: Duration = Duration::from_secs(12);
/// The service manager would restart a daemon that it does not hear of for so long. A busy machine delays a message by seconds.
const WATCHDOG: Duration = Duration::from_secs(10);
/// Reads of each sort before the user database hangs.
const READS: usize = 500;
const JOBS: u64 = 100;
/// Users of the test alone: one with a grant, one in a group with a grant, one of whom nobody knows.
const GRANTED: (u32, u32) = (12_001, 12_001);
const IN_GROUP: (u32, u32) = (12_002, 12_100);
const STRANGER: (u32, u32) = (12_003, 12_003);

/// What the child of the test receives: where the daemon is, and whether it has a role there.
const SOCKET: &str = "NUMALOCD_TEST_SOCKET";
const HAS_ROLE: &str = "NUMALOCD_TEST_HAS_ROLE";

/// What a daemon has told its service manager, and when.
#[derive(Clone, Debug, Default)]
struct Notifications(Arc<Mutex<Vec<(Instant, String)>>>);

impl Notifications {
    /// Listens at a socket, for as long as the test continues.
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("room for a socket");
        let told = Self::default();
        let heard = told.clone();
        thread::spawn(move || {
            let mut message = [0; 4096];
            while let Ok(length) = socket.recv(&mut message) {
                let text = String::from_utf8_lossy(&message[..length]).into_owned();
                heard.0.lock().push((Instant::now(), text));
            }
        });
        told
    }

    /// When it logged this, from `since` on.
    fn times(&self, word: &str, since: Instant) -> Vec<Instant> {
        let told = self.0.lock();
        let fitting =
            told.iter().filter(|(at, text)| *at >= since && text.lines().any(|line| line == word));
        fitting.map(|(at, _)| *at).collect()
    }

    fn wait_for(&self, word: &str, since: Instant) {
        while self.times(word, since).is_empty() {
            assert!(since.elapsed() < PATIENCE, "not told {word}: {self:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The daemon in a mount namespace of its own; ended with this value.
struct NotifyingDaemon {
    child: Child,
    dir: TempDir,
    told: Notifications,
}

impl Drop for NotifyingDaemon {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl NotifyingDaemon {
    /// One whose configuration has a user and a group by name, so that each reload looks both up.
    fn start() -> Self {
        let dir = TempDir::new().expect("room for a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("it is ours");
        seed(&dir.path().join("state"));
        let config = dir.path().join("numalocd.toml");
        let (user, gid) = (GRANTED.0, IN_GROUP.1);
        let grants = format!(
            "[[grants]]\nuser = {user}\nrole = \"viewer\"\n[[grants]]\ngroup = {gid}\nrole = \"viewer\"\n\
             [[grants]]\nuser = \"daemon\"\nrole = \"viewer\"\n[[grants]]\ngroup = \"daemon\"\nrole = \"viewer\"\n"
        );
        let text =
            format!("[listen]\nmode = \"0666\"\n[quota]\nrequests_per_second = 1000000\n{grants}");
        fs::write(&config, text).expect("room");
        for name in ["passwd", "group"] {
            mkfifo(&dir.path().join(name), Mode::S_IRUSR | Mode::S_IWUSR).expect("room");
        }
        let manager = dir.path().join("manager");
        let told = Notifications::at(&manager);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "--"]);
        command.arg(env!("CARGO_BIN_EXE_numalocd")).arg("--config").arg(config);
        command.arg("--socket").arg(dir.path().join("n.sock"));
        command.arg("--state-dir").arg(dir.path().join("state"));
        command.env("NOTIFY_SOCKET", manager).env_remove("LISTEN_FDS").env_remove("WATCHDOG_PID");
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        let log = fs::File::create(dir.path().join("log")).expect("room");
        let begin = Instant::now();
        let child = command.stdin(Stdio::null()).stderr(log).spawn();
        let daemon = Self { child: child.expect("unshare (util-linux) is there"), dir, told };
        daemon.told.wait_for("READY=1", begin);
        daemon
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("n.sock")
    }

    /// Runs a command where the daemon sees files.
    fn beside(&self, script: &str) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.child.id()));
        let status = command.args(["sh", "-c", script, "sh"]).arg(self.dir.path()).status();
        let status = status.expect("nsenter (util-linux) is there");
        assert!(status.success(), "{script}: {status}");
    }

    fn hang_lookups(&self) {
        self.beside(
            "mount --bind \"$1/passwd\" /etc/passwd && mount --bind \"$1/group\" /etc/group",
        );
    }

    /// Lookups that begin from now on find what there is, and so do those that wait.
    fn let_lookups_go(&self) {
        self.beside("umount --lazy /etc/passwd && umount --lazy /etc/group");
        for name in ["passwd", "group"] {
            let text = fs::read(format!("/etc/{name}")).expect("there is one");
            let mut options = OpenOptions::new();
            let fifo = options.write(true).custom_flags(nix::libc::O_NONBLOCK);
            // Fails where nobody waits: what is looked up is read of the files then.
            while let Ok(mut fifo) = fifo.open(self.dir.path().join(name)) {
                match fifo.write_all(&text) {
                    // The reader has closed it in between. Another may wait.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                    written => {
                        written.expect("read");
                        break;
                    }
                }
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("it is there");
    }

    fn wait(&mut self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Writes jobs that have ended, to be listed.
fn seed(state: &Path) {
    let now = SystemTime::now();
    let job = |number| {
        let spec = MigrationSpec { target: Target::cgroup("/a"), ..MigrationSpec::default() };
        Write::Job(Arc::new(Job {
            state: JobState::Skipped,
            state_message: "all memory is local".to_owned(),
            started: Some(now),
            ended: Some(now),
            ..Job::new(JobId::numbered(number), spec, "uid:0".to_owned(), now)
        }))
    };
    let (mut store, _) = Store::open(state).expect("a new store");
    store.commit(&(1..=JOBS).map(job).collect::<Vec<_>>()).expect("there is room");
}

/// How long each of some reads took.
#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl Times {
    fn p99_ms(&mut self) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() * 99).div_ceil(100).saturating_sub(1);
        self.0.get(at).map_or(0.0, Duration::as_secs_f64) * 1e3
    }
}

async fn connect(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).expect("a path");
    endpoint.connect().await
}

/// Asks for what clients ask most, each call within [`PATIENCE`].
async fn read(channel: &Channel, times: &mut Times) -> Result<(), Status> {
    let mut daemon = DaemonServiceClient::new(channel.clone());
    let mut jobs = MigrationServiceClient::new(channel.clone());
    let late = |_| Status::new(Code::DeadlineExceeded, "not answered");
    let begin = Instant::now();
    let status = daemon.get_status(v1::GetStatusRequest {});
    tokio::time::timeout(PATIENCE, status).await.map_err(late)??;
    times.0.push(begin.elapsed());
    let begin = Instant::now();
    let list = jobs.list_jobs(v1::ListJobsRequest::default());
    tokio::time::timeout(PATIENCE, list).await.map_err(late)??;
    times.0.push(begin.elapsed());
    let begin = Instant::now();
    let job = jobs.get_job(v1::GetJobRequest { name: "jobs/7".into() });
    tokio::time::timeout(PATIENCE, job).await.map_err(late)??;
    times.0.push(begin.elapsed());
    Ok(())
}

/// When the daemon was started, by its own account.
async fn started(channel: &Channel) -> Option<prost_types::Timestamp> {
    let mut daemon = DaemonServiceClient::new(channel.clone());
    let status = daemon.get_status(v1::GetStatusRequest {}).await.expect("an answer");
    status.into_inner().start_time
}

/// Reads as a user that the daemon has not seen before, from a process of its own.
fn read_as((uid, gid): (u32, u32), socket: &Path, has_role: bool) {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
    // The program is taken from /proc, since its path may be closed to others.
    command.arg(format!("/proc/{}/exe", std::process::id()));
    command.args([
        "--exact",
        "accounts::as_another_user",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(SOCKET, socket).env(HAS_ROLE, has_role.to_string());
    let output = command.output().expect("setpriv (util-linux) is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{uid}: {said}{complained}");
    assert!(said.contains("it was answered"), "{uid}: {said}{complained}");
}

#[tokio::test]
#[ignore = "the other test runs it as another user"]
async fn as_another_user() {
    let Some(socket) = env::var_os(SOCKET) else { return };
    let channel = connect(Path::new(&socket)).await.expect("it listens");
    let read = read(&channel, &mut Times::default()).await;
    match env::var(HAS_ROLE).as_deref() {
        Ok("true") => read.expect("it may read"),
        _ => assert_eq!(read.expect_err("it has no role").code(), Code::PermissionDenied),
    }
    println!("it was answered");
}

#[test]
fn while_lookups_hang_calls_are_answered_and_nothing_is_restarted() {
    if !Uid::effective().is_root() {
        numaloc_sys::fixture::skipped("only root can have a mount namespace");
        return;
    }
    let mut daemon = NotifyingDaemon::start();
    let socket = daemon.socket();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("threads");
    let channel = runtime.block_on(connect(&socket)).expect("it listens");
    let begun = runtime.block_on(started(&channel));
    let (mut before, mut during) = (Times::default(), Times::default());
    for _ in 0..READS {
        runtime.block_on(read(&channel, &mut before)).expect("root may read");
    }

    daemon.hang_lookups();
    let hangs = Instant::now();
    daemon.signal(Signal::SIGHUP);
    daemon.told.wait_for("RELOADING=1", hangs);
    // One more that waits for the first.
    daemon.signal(Signal::SIGHUP);
    let others = thread::spawn({
        let socket = socket.clone();
        move || {
            for (who, has_role) in [(GRANTED, true), (IN_GROUP, true), (STRANGER, false)] {
                read_as(who, &socket, has_role);
            }
        }
    });
    let mut rounds = 0;
    while hangs.elapsed() < HANG || rounds < READS || !others.is_finished() {
        runtime.block_on(read(&channel, &mut during)).expect("root may read");
        // A connection of its own is known by its credentials alone, too.
        if rounds % 100 == 0 {
            let new = runtime.block_on(connect(&socket)).expect("it accepts");
            runtime.block_on(read(&new, &mut Times::default())).expect("root may read");
        }
        rounds += 1;
    }
    others.join().expect("others are answered");
    let ends = Instant::now();
    let mut pats = daemon.told.times("WATCHDOG=1", hangs);
    assert!(
        daemon.told.times("READY=1", hangs).is_empty(),
        "no lookup has hung: {:?}",
        daemon.told
    );
    pats.push(ends);
    let gaps = std::iter::once(hangs).chain(pats.iter().copied()).zip(pats.iter().copied());
    let longest = gaps.map(|(from, to)| to - from).max().expect("there is one");
    assert!(longest < WATCHDOG, "the watchdog would have bitten: {longest:?} between two pats");
    assert_eq!(runtime.block_on(started(&channel)), begun, "it was started again");
    assert!(daemon.child.try_wait().expect("it is ours").is_none());
    let (normal, hanging) = (before.p99_ms(), during.p99_ms());
    let (few, many) = (before.0.len(), during.0.len());
    println!(
        "reads: p99 {normal:.3} ms of {few} before, {hanging:.3} ms of {many} while lookups hang: {:.2} times",
        hanging / normal
    );

    // What was waited for comes, and with it the end of the reload.
    daemon.let_lookups_go();
    daemon.told.wait_for("READY=1", ends);

    // Nor does the end wait for a lookup.
    daemon.hang_lookups();
    let hangs = Instant::now();
    daemon.signal(Signal::SIGHUP);
    daemon.told.wait_for("RELOADING=1", hangs);
    daemon.signal(Signal::SIGTERM);
    let status = daemon.wait();
    assert!(status.success(), "{status}");
    assert!(
        daemon.told.times("READY=1", hangs).is_empty(),
        "no lookup has hung: {:?}",
        daemon.told
    );
}
