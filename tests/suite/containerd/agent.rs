//! The real `numaloc-agent` in a cluster: API server, kubelet, containerd and numalocd are real, too, and so is the memory that comes home.
//! Needs two nodes: `tests/vm/suite --containerd VERSION --kubelet`. With `--image` it is a pod of the image of packaging/Containerfile, as
//! the chart's DaemonSet makes it; else a process with the same rights.

mod pods;

use super::{
    control_plane::{self, ControlPlane},
    image,
    kubelet::{Kubelet, LOCALITY, NODE, misplaced, pod},
    rig::{Containerd, variable},
};
use crate::{app::until, daemon::Daemon, settings::Setting};
use serde_json::{Value, json};
use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "numaloc-agent";
const STATUS: &str = "koordinator.sh/memory-locality-status";
/// The user that the chart gives it, and numalocd's grant names.
const USER: u32 = 60700;

/// The agent with the rights of the chart. A process is killed when this value is dropped; a pod goes with containerd.
struct Agent {
    child: Option<Child>,
    log: PathBuf,
}

impl Agent {
    fn start(
        plane: &ControlPlane,
        daemon: &Daemon,
        containerd: &Containerd,
        kubelet: &mut Kubelet<'_>,
    ) -> Self {
        plane.get(&["apply", "-f", &variable("NUMALOC_MANIFEST")]);
        if Path::new(image::ARCHIVE).exists() {
            Self::contained(plane, containerd, kubelet)
        } else {
            Self::process(plane, daemon)
        }
    }

    /// A pod of the DaemonSet.
    fn contained(plane: &ControlPlane, containerd: &Containerd, kubelet: &mut Kubelet<'_>) -> Self {
        let agent = Self::waiting(plane, containerd);
        let running = kubelet.running_in("agent", Some("agent"));
        assert_confined(running.pid);
        agent.until_ready(plane);
        agent
    }

    /// The same, and does not wait until it runs.
    fn waiting(plane: &ControlPlane, containerd: &Containerd) -> Self {
        containerd.import_from(Path::new(image::ARCHIVE), image::IMAGE);
        let authority = fs::read_to_string(control_plane::key("ca.crt")).expect("a certificate");
        plane.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": authority},
            "metadata": {"name": "kube-root-ca.crt", "namespace": NAMESPACE},
        }));
        pod_of(plane, ACCOUNT, "agent");
        // The directory of logs of all pods: this one's directory has its uid in its name.
        Self { child: None, log: PathBuf::from("/var/log/pods") }
    }

    fn until_ready(&self, plane: &ControlPlane) {
        until("the agent's pod is ready", || {
            thread::sleep(Duration::from_secs(1));
            let ready = "jsonpath={.status.containerStatuses[0].ready}";
            plane.get(&["-n", NAMESPACE, "get", "pod", "agent", "-o", ready]) == "true"
        });
    }

    /// A process, with a token that is bound to a pod of this name.
    fn process(plane: &ControlPlane, daemon: &Daemon) -> Self {
        let mut own = pod("agent", &json!({}), 0);
        own["metadata"]["namespace"] = NAMESPACE.into();
        own["spec"]["serviceAccountName"] = ACCOUNT.into();
        own["spec"]["containers"][0]["command"] = json!(["sleep", "1000000"]);
        own["spec"]["containers"][0]["resources"] = json!({});
        plane.apply(&own);
        let token = ["-n", NAMESPACE, "create", "token", ACCOUNT, "--duration=3h"];
        let bound = ["--bound-object-kind=Pod", "--bound-object-name=agent"];
        let token = plane.get(&[&token[..], &bound[..]].concat());
        let kubeconfig = plane.user("agent", &json!({"token": token}));
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644)).expect("its owner");
        let log = daemon.dir.join("agent.log");
        let file = fs::File::create(&log).expect("a log");
        let program = env::var_os("NUMALOC_AGENT").unwrap_or_else(|| "numaloc-agent".into());
        // As the pod has it, from the chart.
        let config = daemon.dir.join("agent.toml");
        let map = ["-n", NAMESPACE, "get", "configmap", ACCOUNT];
        let text = plane.get(&[&map[..], &["-o", r"jsonpath={.data.agent\.toml}"]].concat());
        fs::write(&config, text).expect("a configuration");
        let child = Command::new(program)
            .env("NODE_NAME", NODE)
            .env("KUBECONFIG", kubeconfig)
            .arg("--config")
            .arg(config)
            .uid(USER)
            .gid(USER)
            .stdin(Stdio::null())
            .stderr(file)
            .spawn();
        Self { child: Some(child.expect("numaloc-agent starts")), log }
    }
}

/// Makes a pod of a DaemonSet, in place of its controller.
fn pod_of(plane: &ControlPlane, set: &str, name: &str) {
    let set = plane.get(&["-n", NAMESPACE, "get", "daemonset", set, "-o", "json"]);
    let mut set: Value = serde_json::from_str(&set).expect("JSON");
    let mut spec = set["spec"]["template"]["spec"].take();
    for containers in ["containers", "initContainers"] {
        let containers = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            container["image"] = image::IMAGE.into();
        }
    }
    let container = &mut spec["containers"][0];
    // Neither a network of pods nor a proxy of services is here, and so no address but loopback.
    for probe in ["livenessProbe", "readinessProbe"] {
        if let Some(http) = container.get_mut(probe).and_then(|probe| probe.get_mut("httpGet")) {
            http["host"] = "127.0.0.1".into();
        }
    }
    let address = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    if let Some(variables) = container["env"].as_array_mut() {
        variables.extend(address.map(|(name, value)| json!({"name": name, "value": value})));
    }
    spec["hostNetwork"] = true.into();
    spec["nodeName"] = NODE.into();
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": name, "namespace": NAMESPACE},
    }));
}

/// As the chart says, and the kernel: a user without rights, and nothing of the host but a directory.
fn assert_confined(pid: i32) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Uid:"), [(); 4].map(|()| USER.to_string()));
    for capabilities in ["CapPrm:", "CapEff:", "CapBnd:"] {
        assert_eq!(field(capabilities), ["0000000000000000"], "{capabilities}");
    }
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    assert_eq!(field("Seccomp:"), ["2"], "the runtime's filter");
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).expect("it runs");
    let options = |place: &str| {
        let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        mount.filter(|mount| mount[4] == place).map(|mount| mount[5].to_owned()).collect::<Vec<_>>()
    };
    for place in ["/", "/run/numaloc/agent"] {
        let found = options(place);
        assert!(
            !found.is_empty() && found.iter().all(|it| it.starts_with("ro")),
            "{place}: {mounts}"
        );
    }
    assert!(options("/run/numaloc").is_empty() && options("/var/lib/numaloc").is_empty());
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill().ok();
            child.wait().ok();
        }
        if thread::panicking() {
            eprintln!("the log of numaloc-agent:\n{}", logged(&self.log));
        }
    }
}

/// A log: a file, or of a pod the files of its containers.
fn logged(path: &Path) -> String {
    if !path.is_dir() {
        return fs::read_to_string(path).unwrap_or_default();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| logged(&entry.path())).collect()
}

/// The status annotation of a pod, once `phase` is this one.
fn status(plane: &ControlPlane, pod: &str, phase: &str) -> Value {
    let mut status = Value::Null;
    until(&format!("the status of {pod} is {phase}"), || {
        thread::sleep(Duration::from_secs(1));
        let object = plane.get(&["get", "pod", pod, "-o", "json"]);
        let object: Value = serde_json::from_str(&object).expect("JSON");
        let text = object["metadata"]["annotations"][STATUS].as_str().unwrap_or("null");
        status = serde_json::from_str(text).expect("JSON");
        status["phase"] == phase
    });
    status
}

/// Type, component, reason and first line of each event of the agent about a pod.
fn events(plane: &ControlPlane, pod: &str) -> Vec<[String; 4]> {
    let about = format!("involvedObject.name={pod}");
    let events = plane.get(&["get", "events", "--field-selector", &about, "-o", "json"]);
    let events: Value = serde_json::from_str(&events).expect("JSON");
    let text = |value: &Value| {
        value.as_str().unwrap_or_default().lines().next().unwrap_or_default().to_owned()
    };
    let ours = |event: &&Value| text(&event["reason"]).starts_with("MemoryLocality");
    let items = events["items"].as_array().expect("a list").iter().filter(ours);
    items
        .map(|event| {
            [&event["type"], &event["source"]["component"], &event["reason"], &event["message"]]
                .map(text)
        })
        .collect()
}

#[test]
fn a_pod_that_is_annotated_while_it_runs_comes_home_and_none_closes_it() {
    let grant = fs::read_to_string(variable("NUMALOC_GRANT")).expect("a grant");
    let daemon = Daemon::with(&grant);
    comes_home_and_none_closes_it(|plane, containerd, kubelet| {
        Agent::start(plane, &daemon, containerd, kubelet)
    });
}

/// Annotates a pod while it runs, once what `start` starts is there.
fn comes_home_and_none_closes_it(
    start: impl FnOnce(&ControlPlane, &Containerd, &mut Kubelet<'_>) -> Agent,
) {
    let _balancing = Setting::numa_balancing(false);
    let containerd = Containerd::start();
    let plane = ControlPlane::start();
    let mut kubelet = Kubelet::of(&plane, &containerd);
    for (name, port) in [("annotated", 7201), ("neighbour", 7202)] {
        plane.apply(&pod(name, &json!({}), port));
    }
    let (annotated, home) = misplaced(kubelet.running("annotated"), 7201);
    let (neighbour, its_home) = misplaced(kubelet.running("neighbour"), 7202);
    let _agent = start(&plane, &containerd, &mut kubelet);

    let annotate = |policy: &str| {
        let annotation = format!("{LOCALITY}={policy}");
        plane.get(&["annotate", "--overwrite", "pod", "annotated", &annotation]);
    };
    annotate(r#"{"policy": "bestEffort"}"#);
    annotated.comes_to(home);
    let result = status(&plane, "annotated", "Completed");
    assert_eq!(result["lastResult"]["result"], "MemoryLocalityCompleted", "{result}");
    assert_eq!(result["lastResult"]["completedTimeLocalityRatio"], 100, "{result}");
    let from = 1 - home;
    let line = format!(
        "Container server completed: migrated memory from remote numa: {from} to local numa: {home}"
    );
    let expected = ["Normal", "koordlet", "MemoryLocalityCompleted", &line].map(str::to_owned);
    assert_eq!(events(&plane, "annotated"), [expected]);

    annotate(r#"{"policy": "none"}"#);
    status(&plane, "annotated", "Closed");
    neighbour.is_still_on(1 - its_home);
    assert!(events(&plane, "neighbour").is_empty());
}
