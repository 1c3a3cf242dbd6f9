//! Tests pausing the kernel's own balancing, a setting of the whole host. The unit as it is shipped does not allow it. With the
//! drop-in, the setting is put back when the daemon dies.

use super::*;
use crate::{
    app::Layout,
    daemon::{balancing::asking, reason, slow},
    settings::Setting,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tonic::Code;

const SYSCTL: &str = "/proc/sys/kernel/numa_balancing";

fn value() -> String {
    fs::read_to_string(SYSCTL).expect("the kernel has it").trim().to_owned()
}

/// Starts a slow job that pauses balancing, and waits until it moves.
fn pausing(client: &Client, pid: i32) {
    let request = asking(pid, slow(4 * MIB), v1::NumaBalancingAction::Pause);
    let name = client.try_create(request).expect("it is taken").name;
    client.moves(&name);
    assert_eq!(value(), "0");
}

#[test]
fn the_sandbox_does_not_let_it_and_it_says_what_to_do() {
    let _on = Setting::numa_balancing(true);
    let installed = Installed::start();
    let app = Layout::remote(&["anon:8M"]).load("idle").start("refused");
    let request = asking(app.pid(), slow(4 * MIB), v1::NumaBalancingAction::Pause);
    let answer = installed.client().try_create(request);
    let message = answer.as_ref().expect_err("refused").message().to_owned();
    assert!(
        message.contains(SYSCTL) && message.contains("/usr/share/doc/numaloc/daemon.md"),
        "{message}"
    );
    assert_eq!(reason(answer), (Code::FailedPrecondition, "DAEMON_LACKS_RIGHTS".into()));
}

#[test]
fn with_the_drop_in_it_may_and_a_kill_or_stop_leaves_nothing() {
    let _on = Setting::numa_balancing(true);
    let installed = Installed::new();
    installed.shipped("pause");
    // Without a restart, only the end of the service can put the setting back, not the next start.
    installed.drop_in("restart", "Restart=no");
    installed.run();
    let app = Layout::remote(&["anon:128M"]).load("idle").start("paused");
    pausing(&installed.client(), app.pid());
    // The daemon can write no other setting.
    let mounts =
        fs::read_to_string(format!("/proc/{}/mountinfo", installed.pid())).expect("it runs");
    let options = |path: &str| {
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mount = mounts.lines().map(fields).find(|fields| fields[4] == path);
        mount.unwrap_or_else(|| panic!("no {path} in {mounts}"))[5].clone()
    };
    assert!(options("/proc/sys").starts_with("ro,"), "{mounts}");
    assert!(options(SYSCTL).starts_with("rw,"), "{mounts}");
    kill(Pid::from_raw(installed.pid()), Signal::SIGKILL).expect("it is there");
    until("systemd has cleaned up", || installed.property("ActiveState") == "failed");
    assert_eq!(value(), "1", "{}", installed.log());

    systemctl(&["reset-failed", SERVICE]);
    installed.run();
    pausing(&installed.client(), app.pid());
    systemctl(&["stop", SERVICE]);
    assert_eq!((value().as_str(), installed.property("Result").as_str()), ("1", "success"));
    assert_eq!(fs::read_to_string("/run/numaloc/numa_balancing").expect("readable"), "");
}
