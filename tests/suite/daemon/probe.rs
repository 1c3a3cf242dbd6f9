//! The command by which a kubelet asks whether the daemon of a pod answers.

use super::*;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The arguments of numalocctl in the probes of the chart, and after how many seconds a kubelet ends it.
fn probe() -> (Vec<&'static str>, u64) {
    let chart = include_str!("../../../packaging/kubernetes/numaloc/templates/_helpers.tpl");
    let (_, probe) = chart.split_once("define \"numaloc.daemonProbe\"").expect("a probe");
    let value = |key| probe.lines().find_map(|line| line.trim().strip_prefix(key)).expect(key);
    let command = value("command: [").strip_suffix(']').expect("a list");
    let mut words = command.split(", ");
    assert_eq!(words.next(), Some("/usr/bin/numalocctl"));
    (words.collect(), value("timeoutSeconds: ").parse().expect("a number"))
}

#[test]
fn the_probe_of_a_pod_succeeds_while_the_daemon_answers_and_fails_while_it_does_not() {
    let (arguments, most) = probe();
    let mut daemon = Daemon::start();
    let is_well = |daemon: &Daemon| {
        let begin = Instant::now();
        let status = daemon.ctl(&arguments).status;
        // One that is ended by the kubelet says nothing of why.
        assert!(begin.elapsed() < Duration::from_secs(most), "{:?}", begin.elapsed());
        status.success()
    };
    assert!(is_well(&daemon));
    let pid = Pid::from_raw(daemon.pid() as i32);
    kill(pid, Signal::SIGSTOP).expect("it runs");
    assert!(!is_well(&daemon), "it hangs");
    kill(pid, Signal::SIGCONT).expect("it runs");
    assert!(is_well(&daemon));
    daemon.kill();
    assert!(!is_well(&daemon), "it has ended");
}
