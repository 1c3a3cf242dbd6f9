//! Tests of the whole program: its output without any connection. Their presence also has the program built for the
//! suites (`tests/built.sh`).

use std::{
    fs,
    os::unix::net::UnixDatagram,
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
