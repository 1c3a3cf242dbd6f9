//! Pods and containers as containerd reports them.

use crate::config::Config;
use nri::v1alpha1::{
    Container, ContainerState, LinuxContainer, LinuxCpu, LinuxPodSandbox, LinuxResources,
    PodSandbox,
};

/// A configuration, in which a pod may have many containers.
pub fn config() -> Config {
    let mut config = Config::default();
    config.pods.ceilings.containers = 1000;
    config
}

/// A pod. 1: repeats each minute. 2: has no policy. 3: has one that cannot be read.
pub fn pod(number: u8) -> PodSandbox {
    let policy = match number {
        1 => Some(r#"{"policy": "BestEffort", "migrateIntervalMinutes": 1}"#),
        3 => Some("{"),
        _ => None,
    };
    let annotation = |policy: &str| ("koordinator.sh/memoryLocality".to_owned(), policy.to_owned());
    PodSandbox {
        id: format!("sandbox-{number}"),
        name: format!("pod-{number}"),
        uid: format!("0000-{number}"),
        namespace: "default".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        annotations: policy.map(annotation).into_iter().collect(),
        linux: Some(LinuxPodSandbox { cgroup_parent: "kubepods-pod1.slice".to_owned() }),
    }
}

/// A container of a pod, with this id, on CPUs 0 to 3.
pub fn container(pod: u8, id: &str) -> Container {
    let linux = LinuxContainer {
        resources: Some(LinuxResources {
            cpu: Some(LinuxCpu::default()),
            ..LinuxResources::default()
        }),
        cgroups_path: format!("kubepods-pod{pod}.slice:cri-containerd:{id}"),
        ..LinuxContainer::default()
    };
    let container = Container {
        id: id.to_owned(),
        pod_sandbox_id: format!("sandbox-{pod}"),
        name: "server".to_owned(),
        state: ContainerState::ContainerRunning.into(),
        linux: Some(linux),
        pid: 4711,
        ..Container::default()
    };
    cpuset(container, "0-3")
}

/// The container on other CPUs.
pub fn cpuset(mut container: Container, cpus: &str) -> Container {
    let cpu = container.linux.as_mut().and_then(|linux| linux.resources.as_mut()?.cpu.as_mut());
    cpus.clone_into(&mut cpu.expect("it has one").cpus);
    container
}
