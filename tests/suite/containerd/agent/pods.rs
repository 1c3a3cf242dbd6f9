//! Pods as the chart makes them, with a kubelet: the agent on a node that gets numalocd later, and without packages, where numalocd is a
//! privileged pod beside the agent's, as is the plugin. Needs `--image`.

use super::{super::plugin::schedules, *};
use std::{collections::BTreeMap, os::unix::fs::symlink};

/// What the agent has of its host.
const DIRECTORY: &str = "/run/numaloc/agent";
/// Where numalocd listens for the agent, by its grant.
const SOCKET: &str = "/run/numaloc/agent/numalocd.sock";

/// A node on which nothing has been installed, and a cluster with the chart: numalocd, the plugin and the relay of the kubelet's devices
/// are switched on.
fn with_all(plane: &ControlPlane, containerd: &Containerd, kubelet: &mut Kubelet<'_>) {
    plane.get(&["apply", "-f", &format!("{}/pods.yaml", variable("NUMALOC_KUBERNETES"))]);
    containerd.import_from(Path::new(image::ARCHIVE), image::IMAGE);
    pod_of(plane, "numaloc-daemon", "daemon");
    kubelet.running("daemon");
    until("numalocd listens for the agent", || Path::new(SOCKET).exists());
}

/// Has a directory of this test at the place where the chart looks for it.
fn place(path: &str, directory: &Path) {
    let parent = Path::new(path).parent().expect("it is absolute");
    fs::create_dir_all(parent).expect("a directory");
    fs::remove_file(path).ok();
    symlink(directory, path).expect("a link");
}

#[test]
fn in_pods_agent_and_daemon_bring_it_home() {
    comes_home_and_none_closes_it(|plane, containerd, kubelet| {
        place("/var/lib/kubelet/pod-resources", &kubelet.pod_resources());
        with_all(plane, containerd, kubelet);
        let agent = Agent::contained(plane, containerd, kubelet);
        // The agent's own view of the kubelet's socket, which is for root alone.
        let pid = kubelet.running_in("agent", Some("agent")).pid;
        let relay = format!("/proc/{pid}/root/run/pod-resources/kubelet.sock");
        let devices = containerd.wait(podresources::device_nodes(Path::new(&relay)));
        assert_eq!(devices.expect("the kubelet answers"), BTreeMap::new());
        agent
    });
}

#[test]
fn the_plugin_is_a_pod_beside_numalocds() {
    let _balancing = Setting::numa_balancing(false);
    let containerd = Containerd::start();
    let plane = ControlPlane::start();
    let mut kubelet = Kubelet::of(&plane, &containerd);
    place("/var/run/nri", containerd.nri_socket().parent().expect("a directory"));
    with_all(&plane, &containerd, &mut kubelet);
    plane.apply(&pod("annotated", &json!({LOCALITY: r#"{"policy": "bestEffort"}"#}), 7401));
    plane.apply(&pod("neighbour", &json!({}), 7402));
    let (annotated, home) = misplaced(kubelet.running("annotated"), 7401);
    let (neighbour, its_home) = misplaced(kubelet.running("neighbour"), 7402);

    pod_of(&plane, "numaloc-nri", "nri");
    let plugin = kubelet.running("nri");
    annotated.comes_to(home);
    neighbour.is_still_on(1 - its_home);
    // Once it is connected to the runtime it is a user without any right.
    let status = fs::read_to_string(format!("/proc/{}/status", plugin.pid)).expect("it runs");
    assert!(status.contains("Uid:\t60701\t60701\t60701\t60701"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
}

#[test]
fn it_waits_for_the_package_and_an_uninstall_leaves_no_schedule() {
    let _balancing = Setting::numa_balancing(false);
    fs::remove_dir_all(DIRECTORY).ok();
    let containerd = Containerd::start();
    let plane = ControlPlane::start();
    let mut kubelet = Kubelet::of(&plane, &containerd);
    let manifest = variable("NUMALOC_MANIFEST");
    plane.get(&["apply", "-f", &manifest]);
    let agent = Agent::waiting(&plane, &containerd);
    let failed = "involvedObject.name=agent,reason=FailedMount";
    until("the kubelet reports what the pod waits for", || {
        thread::sleep(Duration::from_secs(1));
        let events = ["-n", NAMESPACE, "get", "events", "--field-selector", failed, "-o", "json"];
        plane.get(&events).contains(&format!("{DIRECTORY} is not a directory"))
    });
    assert!(!Path::new(DIRECTORY).exists(), "numalocd's directory, of another owner");

    // The package, and the two commands that the chart prints.
    let daemon = Daemon::with(&fs::read_to_string(variable("NUMALOC_GRANT")).expect("a grant"));
    kubelet.running("agent");
    agent.until_ready(&plane);
    plane.apply(&pod("annotated", &json!({}), 7501));
    let (annotated, home) = misplaced(kubelet.running("annotated"), 7501);
    let policy = r#"numaloc.io/policy={"interval": "10m", "spec": {}}"#;
    plane.get(&["annotate", "pod", "annotated", policy]);
    annotated.comes_to(home);
    let [schedule] = &schedules(&daemon)[..] else { panic!("{:?}", schedules(&daemon)) };
    assert_eq!(schedule.labels["numaloc.io/pod"], "annotated");

    plane.get(&["annotate", "pod", "annotated", "numaloc.io/policy-"]);
    until("the schedule is withdrawn", || {
        thread::sleep(Duration::from_secs(1));
        schedules(&daemon).is_empty()
    });
    plane.get(&["-n", NAMESPACE, "delete", "pod", "agent"]);
    plane.get(&["delete", "-f", &manifest]);
    assert!(schedules(&daemon).is_empty());
    annotated.is_still_on(home);
}
