//! The purpose for containers: their memory comes home without a command. Needs two nodes: `tests/vm/suite
//! --containerd`.
//!
//! Each container is filled while it is pinned to the one node and then pinned to the other, as the kubelet's CPU manager does it.
//! Nothing but its pod's annotation says that it is to be migrated. Ground truth is numa_maps.

use super::{cri::Pod, plugin::Plugin, redis::Redis, rig::Containerd};
use crate::{cli::numalocctl, daemon::Daemon, settings::Setting};
use std::{
    fs,
    process::{Command, Output},
};

const LOCALITY: &str = "koordinator.sh/memoryLocality";

/// The programs that are there on a host. The kernel's own balancing is off, so that no other program moves anything.
struct Host {
    plugin: Plugin,
    daemon: Daemon,
    containerd: Containerd,
    _balancing: Setting,
}

impl Host {
    fn start() -> Self {
        let balancing = Setting::numa_balancing(false);
        let (containerd, daemon) = (Containerd::start(), Daemon::start());
        let plugin = Plugin::start(&containerd, &daemon);
        Self { plugin, daemon, containerd, _balancing: balancing }
    }

    /// A server in a pod of its own, filled on node 1.
    fn redis(&self, pod: &Pod, port: u16) -> Redis {
        let sandbox = self.containerd.pod(pod);
        Redis::on_node(&self.containerd, &sandbox, port, 1)
    }
}

fn best_effort(name: &str) -> Pod {
    Pod::new(name).annotated(LOCALITY, r#"{"policy": "bestEffort"}"#)
}

#[test]
fn a_container_that_is_pinned_elsewhere_comes_home_and_others_stay() {
    let host = Host::start();
    let annotated = host.redis(&best_effort("annotated"), 7001);
    let absent = host.redis(&Pod::new("absent"), 7002);
    let none = Pod::new("none").annotated(LOCALITY, r#"{"policy": "none"}"#);
    let none = host.redis(&none, 7003);
    // Containers that must stay are pinned first, so that they had more time to be moved by mistake.
    for redis in [&absent, &none, &annotated] {
        redis.pin(&host.containerd, 0);
    }
    annotated.comes_to(0);
    absent.is_still_on(1);
    none.is_still_on(1);
}

#[test]
fn two_containers_of_a_pod_come_home_to_opposite_nodes() {
    let host = Host::start();
    let sandbox = host.containerd.pod(&best_effort("opposite"));
    let left = Redis::on_node(&host.containerd, &sandbox, 7011, 1);
    let right = Redis::on_node(&host.containerd, &sandbox, 7012, 0);
    left.pin(&host.containerd, 0);
    right.pin(&host.containerd, 1);
    left.comes_to(0);
    right.comes_to(1);
}

#[test]
fn a_container_that_was_there_before_the_plugin_comes_home() {
    let mut host = Host::start();
    host.plugin.kill();
    let redis = host.redis(&best_effort("before"), 7021);
    redis.pin(&host.containerd, 0);
    redis.is_still_on(1);
    host.plugin.spawn();
    redis.comes_to(0);
}

#[test]
fn a_repeating_policy_brings_it_home_again() {
    let mut host = Host::start();
    let policy = r#"{"policy": "BestEffort", "migrateIntervalMinutes": 1}"#;
    let redis = host.redis(&Pod::new("repeating").annotated(LOCALITY, policy), 7031);
    redis.pin(&host.containerd, 0);
    redis.comes_to(0);
    // Schedules outlive the daemon as well.
    host.daemon.kill();
    host.daemon.spawn();
    let pid = redis.container.pid.to_string();
    let output = Command::new("migratepages").args([&*pid, "0", "1"]).output();
    let output = output.expect("migratepages starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    redis.comes_to(0);
}

/// Asserts that a command reports where it found this member.
fn assert_found(output: &Output, member: &str) {
    let [said, complained] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    let found = format!("found: {member}: ");
    assert!(said.contains(&found) || complained.contains(&found), "{said}{complained}");
}

#[test]
fn a_pod_and_a_container_come_home_by_name_without_registration() {
    let _balancing = Setting::numa_balancing(false);
    let (containerd, daemon) = (Containerd::start(), Daemon::start());
    let pod = Pod::new("named");
    let redis = Redis::on_node(&containerd, &containerd.pod(&pod), 7051, 1);
    // The kubelet keeps a pod's logs in a directory of this name.
    fs::create_dir_all(format!("/var/log/pods/default_named_{}", pod.uid())).expect("a directory");
    redis.pin(&containerd, 0);
    assert_found(&daemon.ctl(&["migrate", "--pod", "default/named"]), "pod default/named");
    redis.comes_to(0);
    redis.pin(&containerd, 1);
    let id = &redis.container.id[..12];
    let moved = numalocctl(&["--standalone", "migrate", "--container", id]);
    assert_found(&moved, &format!("container {id}"));
    redis.comes_to(1);
}
