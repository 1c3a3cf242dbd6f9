//! The real `numaloc-nri` and a real containerd whose NRI is switched off: the plugin finds containerd's own events by itself.

use super::{
    cri::{Container, Pod},
    plugin::{Watched, assert_in_its_cgroup, until_known, workloads},
    rig::Containerd,
};
use crate::{app::until, daemon::Daemon};
use std::{thread, time::Duration};

fn watched(pod: &str) -> Watched {
    Watched::of(Containerd::without_nri(), &Pod::new(pod))
}

/// A label of the only workload.
fn label(daemon: &Daemon, key: &str) -> Option<String> {
    // It is asked again and again.
    thread::sleep(Duration::from_millis(50));
    let [workload] = &workloads(daemon)[..] else { return None };
    workload.labels.get(key).cloned()
}

fn until_told_by(daemon: &Daemon, way: &str) {
    until(&format!("told by {way}"), || {
        label(daemon, "numaloc.io/told-by").is_some_and(|told_by| told_by == way)
    });
}

#[test]
fn without_nri_a_container_is_a_workload_from_its_start_to_its_end() {
    let watched = watched("known");
    let container = Container::new("main").on_cpus("0");
    let container = watched.containerd.container(&watched.sandbox, &container);
    until_known(&watched.daemon, [&*container.id]);
    let workload = workloads(&watched.daemon).remove(0);
    assert_eq!((&*workload.pod_uid, &*workload.namespace), ("uid-known", "default"));
    for (key, value) in [
        ("numaloc.io/told-by", "containerd"),
        ("numaloc.io/cpuset-cpus", "0"),
        ("numaloc.io/pid", &*container.pid.to_string()),
        ("io.kubernetes.container.name", "main"),
        ("io.kubernetes.pod.name", "known"),
    ] {
        assert_eq!(workload.labels.get(key).map(String::as_str), Some(value), "{workload:?}");
    }
    assert_in_its_cgroup(&workload, container.pid);
    watched.remove(&container.id);
    until_known(&watched.daemon, []);
}

#[test]
fn without_nri_a_container_that_ends_by_itself_is_forgotten() {
    let watched = watched("brief");
    watched.forgets_one_that_ends_by_itself();
}

#[test]
fn without_nri_other_cpus_are_reported() {
    let watched = watched("moved");
    let container = Container::new("main").on_cpus("0");
    let container = watched.containerd.container(&watched.sandbox, &container);
    let cpus = |expected: &str| {
        until(&format!("its CPUs are {expected}"), || {
            label(&watched.daemon, "numaloc.io/cpuset-cpus").is_some_and(|cpus| cpus == expected)
        });
    };
    cpus("0");
    watched.containerd.expect("an update", watched.containerd.cri().pin(&container.id, "1"));
    cpus("1");
}

#[test]
fn without_nri_changes_during_an_absence_are_caught_up_with() {
    let mut watched = watched("restarted");
    let (stays, comes) = watched.catches_up_after_being_gone();

    watched.containerd.kill();
    watched.containerd.spawn();
    let later = watched.container("later");
    until_known(&watched.daemon, [&*stays, &*comes, &*later]);
    watched.remove(&stays);
    until_known(&watched.daemon, [&*comes, &*later]);
}

#[test]
fn nri_is_used_once_it_is_switched_on() {
    let mut watched = watched("switched");
    let stays = watched.container("stays");
    until_known(&watched.daemon, [&*stays]);
    until_told_by(&watched.daemon, "containerd");
    watched.containerd.enable_nri();
    until_told_by(&watched.daemon, "nri");
    let comes = watched.container("comes");
    until_known(&watched.daemon, [&*stays, &*comes]);
}
