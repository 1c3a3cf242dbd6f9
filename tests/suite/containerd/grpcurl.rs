//! Pods and containers made with grpcurl: a client of the Container Runtime Interface that shares nothing with us but the
//! definitions in `proto/runtime`.

use super::{
    plugin::{Plugin, assert_in_its_cgroup, until_known, workloads},
    rig::{Containerd, variable},
};
use crate::daemon::Daemon;
use serde_json::{Value, json};
use std::process::Command;

/// A call of the runtime's service.
fn call(containerd: &Containerd, method: &str, request: &Value) -> Value {
    let output = Command::new(variable("NUMALOC_GRPCURL"))
        // A socket's path is not a valid :authority.
        .args(["-plaintext", "-unix", "-authority", "localhost"])
        .args(["-import-path", &variable("NUMALOC_PROTO"), "-proto", "runtime/v1/api.proto"])
        .args(["-d", &request.to_string()])
        .arg(containerd.socket())
        .arg(format!("runtime.v1.RuntimeService/{method}"))
        .output()
        .expect("grpcurl starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{method}: {complaint}{}", containerd.log());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{method}: {error}"))
}

fn text<'a>(answer: &'a Value, key: &str) -> &'a str {
    answer[key].as_str().unwrap_or_else(|| panic!("no {key} in {answer}"))
}

#[test]
fn a_container_of_grpcurl_is_a_workload_from_its_start_to_its_end() {
    let (containerd, daemon) = (Containerd::start(), Daemon::start());
    let _plugin = Plugin::start(&containerd, &daemon);
    let cri = |method: &str, request: Value| call(&containerd, method, &request);
    let version = cri("Version", json!({}));
    assert_eq!(text(&version, "runtimeName"), "containerd");

    let context = json!({"namespace_options": {"network": "NODE"}});
    let pod = json!({
        "metadata": {"name": "curled", "uid": "uid-curled", "namespace": "default"},
        "dns_config": {"servers": ["127.0.0.1"]},
        "linux": {"cgroup_parent": "/kubepods/burstable/poduid-curled", "security_context": context},
    });
    let container = json!({
        "metadata": {"name": "main"},
        "image": {"image": "numaloc.test/busybox:1"},
        "command": ["sleep", "1000000"],
        "linux": {"resources": {"cpuset_cpus": "0"}, "security_context": context},
    });
    let answer = cri("RunPodSandbox", json!({"config": pod}));
    let sandbox = json!({"pod_sandbox_id": text(&answer, "podSandboxId")});
    let mut request = sandbox.clone();
    request["config"] = container;
    request["sandbox_config"] = pod;
    let answer = cri("CreateContainer", request);
    let id = text(&answer, "containerId");
    let the_container = json!({"container_id": id});
    cri("StartContainer", the_container.clone());
    until_known(&daemon, [id]);

    let workload = workloads(&daemon).remove(0);
    assert_eq!((&*workload.pod_uid, &*workload.namespace), ("uid-curled", "default"));
    let answer = cri("ContainerStatus", json!({"container_id": id, "verbose": true}));
    assert_eq!(text(&answer["status"], "state"), "CONTAINER_RUNNING");
    let info: Value = serde_json::from_str(text(&answer["info"], "info")).expect("JSON");
    let pid = info["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    assert_in_its_cgroup(&workload, pid.expect("a pid"));

    cri("StopContainer", the_container.clone());
    until_known(&daemon, []);
    cri("RemoveContainer", the_container);
    cri("StopPodSandbox", sandbox.clone());
    cri("RemovePodSandbox", sandbox);
    assert_eq!(cri("ListContainers", json!({})), json!({}));
    assert_eq!(cri("ListPodSandbox", json!({})), json!({}));
}
