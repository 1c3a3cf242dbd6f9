//! Runs the program as operators use it: drained over a restart, backed up while it runs, and with renewed keys.

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use numaloc_api::v1::{self, daemon_service_client::DaemonServiceClient};
use rcgen::{CertificateParams, KeyPair};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tonic::transport::{Channel, Endpoint};

/// Longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A daemon, which is killed when the test ends.
pub struct ConfiguredDaemon {
    child: Child,
    pub socket: PathBuf,
}

impl ConfiguredDaemon {
    /// Starts the daemon with the configuration in a directory, and waits until it answers.
    pub async fn start(dir: &Path) -> (Self, DaemonServiceClient<Channel>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numalocd"));
        command.arg("--config").arg(dir.join("numalocd.toml"));
        command.arg("--state-dir").arg(dir.join("state"));
        command.arg("--socket").arg(dir.join("n.sock")).env_remove("NOTIFY_SOCKET");
        // As systemd/numalocd.service has it.
        command.env("MALLOC_ARENA_MAX", "1");
        let child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let daemon = Self { child, socket: dir.join("n.sock") };
        let endpoint = Endpoint::from_shared(format!("unix://{}", daemon.socket.display()));
        let endpoint = endpoint.expect("a path");
        let start = Instant::now();
        loop {
            if let Ok(channel) = endpoint.connect().await {
                return (daemon, DaemonServiceClient::new(channel));
            }
            assert!(start.elapsed() < DEADLINE, "it does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The memory of the process besides its program, in bytes.
    pub fn anonymous_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let value = value.map(|value| value.trim().trim_end_matches(" kB").parse::<u64>());
        value.expect("a field").expect("a number") << 10
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("it is there");
    }

    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().expect("it ends")
    }
}

impl Drop for ConfiguredDaemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("numalocd.toml"), "").expect("room");
    dir
}

async fn holds(client: &mut DaemonServiceClient<Channel>) -> v1::Holds {
    let status = client.get_status(v1::GetStatusRequest {}).await.expect("an answer");
    status.into_inner().holds.expect("what holds")
}

#[tokio::test]
async fn it_stays_drained_over_a_restart() {
    let dir = directory();
    let (daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    assert_eq!(holds(&mut client).await, v1::Holds::default());
    let drained = client.drain_daemon(v1::DrainDaemonRequest {}).await.expect("it is drained");
    let since = drained.into_inner().holds.expect("what holds").drain_time.expect("a time");
    client.pause_daemon(v1::PauseDaemonRequest {}).await.expect("it is paused");
    assert!(daemon.stop().success());

    let (daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    let now = holds(&mut client).await;
    assert_eq!(now.drain_time.expect("it is drained").seconds, since.seconds);
    assert!(now.pause_time.is_some());
    client.resume_daemon(v1::ResumeDaemonRequest {}).await.expect("it continues");
    let undrained = client.undrain_daemon(v1::UndrainDaemonRequest {}).await;
    assert_eq!(undrained.expect("it continues").into_inner().holds, Some(v1::Holds::default()));
    drop(daemon);
    let (_daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    assert_eq!(holds(&mut client).await, v1::Holds::default());
}

#[tokio::test]
async fn a_backup_of_the_running_daemon_can_be_restored() {
    let dir = directory();
    let (daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    client.drain_daemon(v1::DrainDaemonRequest {}).await.expect("it is drained");
    let mut parts =
        client.backup_store(v1::BackupStoreRequest {}).await.expect("a copy").into_inner();
    let backup = dir.path().join("backup");
    let mut file = fs::File::create(&backup).expect("room");
    while let Some(part) = parts.message().await.expect("all of it") {
        file.write_all(&part.chunk).expect("room");
    }
    client.undrain_daemon(v1::UndrainDaemonRequest {}).await.expect("it continues");
    let restore = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_numalocd"));
        command.arg("--restore").arg(&backup).arg("--state-dir").arg(dir.path().join("state"));
        command.output().expect("it starts")
    };
    let output = restore();
    assert!(!output.status.success(), "the store is in use: {output:?}");
    assert!(daemon.stop().success());
    let output = restore();
    assert!(output.status.success(), "{output:?}");
    let (_daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    assert!(holds(&mut client).await.drain_time.is_some(), "it is not as it was then");
}

#[tokio::test]
async fn a_bad_certificate_keeps_the_configuration_as_it_was() {
    let dir = directory();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    fs::write(at("cert"), &certificate).expect("room");
    fs::write(at("key"), key.serialize_pem()).expect("room");
    // A free port, which most probably stays free.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a port").port();
    let text = |moves: usize| {
        let (cert, key) = (at("cert"), at("key"));
        format!(
            "[listen]\ntcp = \"127.0.0.1:{port}\"\n[listen.tls]\ncertificate = \"{cert}\"\nkey = \"{key}\"\n\
             client_ca = \"{cert}\"\n[queue]\nmoves = {moves}\n"
        )
    };
    fs::write(at("numalocd.toml"), text(2)).expect("room");
    let (daemon, mut client) = ConfiguredDaemon::start(dir.path()).await;
    let result = async |client: &mut DaemonServiceClient<Channel>| {
        let metrics = client.get_metrics(v1::GetMetricsRequest {}).await.expect("metrics");
        let text = metrics.into_inner().text;
        let name = "numaloc_config_last_reload_successful ";
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the result of the last reload").to_owned()
    };
    assert_eq!(result(&mut client).await, "1");
    for (contents, expected) in [("nothing", "0"), (&certificate, "1"), ("nothing", "0")] {
        fs::write(at("cert"), contents).expect("room");
        daemon.signal(Signal::SIGHUP);
        let start = Instant::now();
        while result(&mut client).await != expected {
            assert!(start.elapsed() < DEADLINE, "the reload does not end with {expected}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The daemon continues in any case.
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    }
    assert!(daemon.stop().success());
}
