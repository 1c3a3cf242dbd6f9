//! Tests the life of the service: start, reload, stop, hang and kill.

use super::*;
use crate::{
    daemon::{reason, request, slow},
    scene::Scene,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    os::unix::{fs::MetadataExt, net::UnixStream},
    time::{Duration, Instant},
};
use tonic::Code;

/// Number of times that systemd received that the daemon reads its configuration, and that it is ready.
fn reloads(log: &str) -> [usize; 2] {
    ["RELOADING=1", "READY=1"].map(|word| log.matches(word).count())
}

#[test]
fn a_reload_takes_the_configuration_over_unless_it_is_wrong() {
    let installed = Installed::with("[quota]\nopen_jobs = 1\n");
    installed.run();
    let client = installed.client();
    let (one, two) = (Scene::remote(&["anon:8M"]), Scene::remote(&["anon:8M"]));
    let name = client.create(one.app.pid(), slow(4096)).name;
    let second = || client.try_create(request(two.app.pid(), slow(4096)));
    let full = (Code::ResourceExhausted, "QUOTA_EXCEEDED".to_owned());
    assert_eq!(reason(second()), full);
    let pid = installed.pid();

    installed.configure("[quota]\nopen_jobs = 2\nnonsense = 1\n");
    let reload = Command::new("systemctl").args(["reload", SERVICE]).output().expect("systemctl");
    assert!(!reload.status.success(), "{reload:?}");
    assert_eq!(reason(second()), full);
    // A user that sends the signal without a check finds the old configuration in force, too.
    let text = systemd_logs(|| {
        systemctl(&["kill", "--signal=HUP", "--kill-whom=main", SERVICE]);
        until("its status reports it", || installed.property("StatusText").contains("is wrong"));
    });
    assert_eq!(reloads(&text), [1, 1], "{text}");
    assert_eq!(reason(second()), full);
    let log = installed.log();
    assert!(log.contains("nonsense"), "{log}");

    installed.configure("[quota]\nopen_jobs = 2\n");
    let text = systemd_logs(|| {
        systemctl(&["reload", SERVICE]);
        until("all is right again", || !installed.property("StatusText").contains("is wrong"));
    });
    assert_eq!(reloads(&text), [1, 1], "{text}");
    until("the new quota is in force", || second().is_ok());
    assert_eq!((installed.pid(), installed.property("ActiveState")), (pid, "active".into()));
    assert!(client.job(&name).end_time.is_none(), "jobs continue");
    for name in [name, "jobs/2".into()] {
        client.cancel(&name).expect("it is cancelled");
        client.reaches(&name, v1::JobState::Cancelled);
    }
    one.finish();
    two.finish();
}

#[test]
fn a_stop_saves_the_jobs_and_a_start_continues_them() {
    let installed = Installed::start();
    let scene = Scene::remote(&["anon:64M"]);
    let name = resuming(&installed.client(), scene.app.pid());
    let begin = Instant::now();
    systemctl(&["stop", SERVICE]);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    // It ended on its own, and without an error.
    assert_eq!(installed.property("Result"), "success");
    assert_eq!(installed.property("ExecMainStatus"), "0");
    let nodes = scene.nodes("anon");
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(UnixStream::connect(SOCKET).is_err());
    installed.run();
    let done = installed.client().reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    let account = done.outcome.and_then(|outcome| outcome.account).expect("an account");
    assert!(account.moved_bytes as u64 >= 64 * MIB, "{account:?}");
    scene.finish();
}

#[test]
fn a_stop_that_may_take_longer_than_the_unit_allows_asks_for_the_time() {
    let installed = Installed::with("[stop]\ngrace = \"5m\"\n");
    installed.run();
    assert_eq!(installed.property("TimeoutStopUSec"), "15s");
    let text = systemd_logs(|| drop(systemctl(&["stop", SERVICE])));
    let asked = text.split_once("EXTEND_TIMEOUT_USEC=").map(|(_, rest)| rest);
    let digits: Option<String> =
        asked.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    let usec: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    assert!(usec.is_some_and(|usec| usec >= 300_000_000), "{text}");
    assert_eq!(installed.property("Result"), "success");
}

#[test]
fn one_that_is_stuck_is_started_again() {
    let installed = Installed::new();
    installed.drop_in("watchdog", "WatchdogSec=10");
    installed.run();
    let scene = Scene::remote(&["anon:64M"]);
    let name = resuming(&installed.client(), scene.app.pid());
    let pid = installed.pid();
    kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it is there");
    installed.comes_back(pid);
    assert_eq!(installed.property("NRestarts"), "1");
    installed.client().reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();
}

/// The job takes about three times as long as the watchdog's limit.
#[test]
fn one_that_works_is_left_alone() {
    let installed = Installed::new();
    installed.drop_in("watchdog", "WatchdogSec=5");
    installed.run();
    let scene = Scene::remote(&["anon:64M"]);
    let name = installed.client().create(scene.app.pid(), slow(4 * MIB)).name;
    installed.client().reaches(&name, v1::JobState::Succeeded);
    assert_eq!(installed.property("NRestarts"), "0");
    scene.finish();
}

#[test]
fn one_that_was_killed_is_back_with_its_jobs() {
    let installed = Installed::start();
    let scene = Scene::remote(&["anon:64M"]);
    let name = resuming(&installed.client(), scene.app.pid());
    let pid = installed.pid();
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
    installed.comes_back(pid);
    let directory = fs::metadata("/run/numaloc").expect("it stays");
    assert_eq!((directory.uid(), directory.mode() & 0o777), (ids().0, 0o755));
    let client = installed.client();
    client.reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    assert_eq!(status(&client).role, "admin");
    scene.finish();
}

#[test]
fn the_first_client_starts_it_and_the_socket_outlives_it() {
    let installed = Installed::new();
    systemctl(&["start", SOCKET_UNIT]);
    assert_eq!(installed.property("ActiveState"), "inactive");
    let inode = || {
        let socket = fs::metadata(SOCKET).expect("a socket");
        (socket.ino(), socket.uid(), socket.gid(), socket.mode() & 0o777)
    };
    let before = inode();
    let (uid, gid) = ids();
    assert_eq!((before.1, before.2, before.3), (uid, gid, 0o660));
    assert_eq!(status(&installed.client()).caller, "uid:0");
    assert_eq!(installed.property("ActiveState"), "active");

    // No client is refused while the daemon is started again.
    let pid = installed.pid();
    systemctl(&["restart", "--no-block", SERVICE]);
    until("it has been started again", || {
        UnixStream::connect(SOCKET).expect("systemd listens");
        ![0, pid].contains(&installed.pid()) && installed.property("ActiveState") == "active"
    });
    assert_eq!(status(&installed.client()).role, "admin");
    assert_eq!(inode(), before);

    let pid = installed.pid();
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
    assert_eq!(status(&installed.client()).role, "admin");
    assert_ne!(installed.pid(), pid);
    assert_eq!(inode(), before);

    systemctl(&["stop", SERVICE]);
    assert_eq!(status(&installed.client()).role, "admin", "it was not started by a client");
    systemctl(&["stop", SOCKET_UNIT, SERVICE]);
    assert!(fs::metadata(SOCKET).is_err(), "the socket is left behind");
}
