//! The rig itself: containers start here, without numaloc. If one of these fails, no other test of this module means anything.

use super::{
    cri::{Container, Pod, until_pinned, v1::ContainerState},
    rig::Containerd,
};
use std::fs;

#[test]
fn containers_start_are_pinned_stop_and_go() {
    let containerd = Containerd::start();
    let sandbox = containerd.pod(&Pod::new("life"));
    let pinned = containerd.container(&sandbox, &Container::new("pinned").on_cpus("0"));
    until_pinned(pinned.pid, "0");
    containerd.expect("an update", containerd.cri().pin(&pinned.id, "1"));
    until_pinned(pinned.pid, "1");
    let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", pinned.pid)).expect("it runs");
    let of_pod = format!("/kubepods/burstable/poduid-life/{}", pinned.id);
    assert!(cgroup.lines().any(|line| line.ends_with(&of_pod)), "{cgroup}");

    containerd.expect("it stops", containerd.cri().stop(&pinned.id));
    let status = containerd.expect("its status", containerd.cri().status(&pinned.id));
    assert_eq!(status, (ContainerState::ContainerExited, 0));
    containerd.expect("it goes", containerd.cri().remove(&pinned.id));
    assert_eq!(containerd.expect("a list", containerd.cri().containers()), []);
}

#[test]
fn redis_answers_from_its_container() {
    let containerd = Containerd::start();
    let sandbox = containerd.pod(&Pod::new("redis"));
    let redis = containerd.container(&sandbox, &Container::redis("redis", 16379));
    crate::app::until("redis listens", || {
        std::net::TcpStream::connect(("127.0.0.1", 16379)).is_ok()
    });
    // runc answers a moment before its process becomes the container's program.
    let name = fs::read_to_string(format!("/proc/{}/comm", redis.pid)).expect("it runs");
    assert_eq!(name.trim(), "redis-server");
}

/// Tests that kill containerd need containers that survive it.
#[test]
fn containers_outlive_containerd() {
    let mut containerd = Containerd::start();
    let sandbox = containerd.pod(&Pod::new("survivor"));
    let container = containerd.container(&sandbox, &Container::new("survivor"));
    containerd.kill();
    assert!(fs::exists(format!("/proc/{}", container.pid)).expect("/proc"));
    containerd.spawn();
    let status = containerd.expect("its status", containerd.cri().status(&container.id));
    assert_eq!(status, (ContainerState::ContainerRunning, container.pid));
}
