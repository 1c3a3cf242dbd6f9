//! The real `numaloc-agent` in a cluster: API server, kubelet, containerd and numalocd are real, too, and so is the memory that comes home.
//! Needs two nodes: `tests/vm/suite --containerd VERSION --kubelet`.

use super::{
    control_plane::ControlPlane,
    kubelet::{Kubelet, LOCALITY, NODE, misplaced, pod},
    rig::{Containerd, variable},
};
use crate::{app::until, daemon::Daemon, settings::Setting};
use serde_json::{Value, json};
use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const NAMESPACE: &str = "kube-system";
const ACCOUNT: &str = "numaloc-agent";
const STATUS: &str = "koordinator.sh/memory-locality-status";
/// The user that the chart gives it, and numalocd's grant names.
const USER: u32 = 60700;

/// The agent with the rights of the chart. It is killed when this value is dropped.
struct Agent {
    child: Child,
    log: PathBuf,
}

impl Agent {
    fn start(plane: &ControlPlane, daemon: &Daemon) -> Self {
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
        Self { child: child.expect("numaloc-agent starts"), log }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            eprintln!(
                "the log of numaloc-agent:\n{}",
                fs::read_to_string(&self.log).unwrap_or_default()
            );
        }
    }
}

/// Installs what the agent may do, and gives it the pod that its token is bound to.
fn install(plane: &ControlPlane) {
    plane.get(&["apply", "-f", &variable("NUMALOC_MANIFEST")]);
    let mut own = pod("agent", &json!({}), 0);
    own["metadata"]["namespace"] = NAMESPACE.into();
    own["spec"]["serviceAccountName"] = ACCOUNT.into();
    own["spec"]["containers"][0]["command"] = json!(["sleep", "1000000"]);
    own["spec"]["containers"][0]["resources"] = json!({});
    plane.apply(&own);
}

/// What the status annotation of a pod says, once `phase` is this one.
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
    let _balancing = Setting::numa_balancing(false);
    let grant = fs::read_to_string(variable("NUMALOC_GRANT")).expect("a grant");
    let (containerd, daemon) = (Containerd::start(), Daemon::with(&grant));
    let plane = ControlPlane::start();
    let mut kubelet = Kubelet::of(&plane, &containerd);
    install(&plane);
    for (name, port) in [("annotated", 7201), ("neighbour", 7202)] {
        plane.apply(&pod(name, &json!({}), port));
    }
    let (annotated, home) = misplaced(kubelet.running("annotated"), 7201);
    let (neighbour, its_home) = misplaced(kubelet.running("neighbour"), 7202);
    let _agent = Agent::start(&plane, &daemon);

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
