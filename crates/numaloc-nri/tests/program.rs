//! Tests of the whole program: its output without any connection. Their presence also has the program built for the
//! suites (`tests/built.sh`).

use numaloc_sys::fixture::skipped;
use std::{
    fs,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixDatagram, UnixListener},
    },
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

fn numaloc_nri(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numaloc-nri")).args(args).output().expect("it starts")
}

#[test]
fn it_says_what_it_is() {
    let output = numaloc_nri(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    let version = format!("numaloc-nri {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn a_configuration_is_checked() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nri.toml");
    let path = file.to_str().expect("UTF-8");
    fs::write(&file, "lease = \"1s\"\n").expect("written");
    let output = numaloc_nri(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(path) && said.contains("lease"), "{output:?}");
    fs::write(&file, "lease = \"30s\"\n").expect("written");
    let output = numaloc_nri(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn nonsense_is_refused() {
    let output = numaloc_nri(&["--nope"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nope"), "{output:?}");
    let output = numaloc_nri(&["--source", "crio"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("auto, nri, containerd"), "{output:?}");
}

/// Neither the runtime nor numalocd can be reached, and it waits for both. That is not to be stuck.
#[test]
fn the_watchdog_hears_of_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let notify = directory.path().join("notify");
    let socket = UnixDatagram::bind(&notify).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let nowhere = |name: &str| directory.path().join(name).display().to_string();
    let config = directory.path().join("nri.toml");
    fs::write(&config, "user = \"root\"\n").expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_numaloc-nri"))
        .arg("--config")
        .arg(&config)
        .args(["--nri-socket", &nowhere("nri.sock")])
        .args(["--containerd-socket", &nowhere("containerd.sock")])
        .args(["--endpoint", &format!("unix://{}", nowhere("numalocd.sock"))])
        .env("NOTIFY_SOCKET", &notify)
        .env("WATCHDOG_USEC", "200000")
        .env_remove("WATCHDOG_PID")
        .env_remove("JOURNAL_STREAM")
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let heard: Vec<_> = (0..3)
        .map(|_| {
            let mut message = [0; 64];
            let length = socket.recv(&mut message).unwrap_or(0);
            String::from_utf8_lossy(&message[..length]).into_owned()
        })
        .collect();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert_eq!(heard, ["WATCHDOG=1\n"; 3]);
}

/// As the chart's pod has it: a socket in a directory of root alone, no account with a name, two capabilities.
#[test]
fn root_connects_and_is_left() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("only root may become another user");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = directory.path().join("nri");
    fs::create_dir(&runtime).expect("a directory");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).expect("its owner");
    let socket = runtime.join("nri.sock");
    let listener = UnixListener::bind(&socket).expect("a socket");
    let config = directory.path().join("nri.toml");
    let text =
        format!("source = \"nri\"\nuser = \"60701\"\nnri_socket = \"{}\"\n", socket.display());
    fs::write(&config, text).expect("written");
    let child = Command::new("setpriv")
        .args(["--bounding-set", "-all,+setuid,+setgid", "--no-new-privs"])
        .arg(env!("CARGO_BIN_EXE_numaloc-nri"))
        .arg("--config")
        .arg(&config)
        .arg("--endpoint")
        .arg(format!("unix://{}", directory.path().join("numalocd.sock").display()))
        .env_remove("NOTIFY_SOCKET")
        .env("WATCHDOG_USEC", "60000000")
        .env_remove("WATCHDOG_PID")
        .env_remove("JOURNAL_STREAM")
        .stderr(Stdio::piped())
        .spawn()
        .expect("setpriv starts");
    // What it registers with comes after it has changed.
    let (mut stream, _) = listener.accept().expect("it connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    std::io::Read::read_exact(&mut stream, &mut [0; 8]).expect("it registers");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for ids in ["Uid:", "Gid:"] {
        assert_eq!(field(ids), [(); 4].map(|()| "60701"), "{ids}");
    }
    assert!(field("Groups:").is_empty(), "{status}");
    for capabilities in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(field(capabilities), ["0000000000000000"], "{capabilities}");
    }
    // Its manager starts it again, as root.
    drop(stream);
    let output = child.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("Permission denied") && log.contains("for root alone"), "{log}");
}
