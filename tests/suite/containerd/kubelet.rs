//! A real kubelet, whose static CPU manager gives pods CPUs of their own: without a control plane, with pods from manifests in a directory;
//! and with one, with pods of the API server. Needs two nodes: `tests/vm/suite --containerd VERSION --kubelet`.

use super::{
    control_plane::{ControlPlane, certificate, program},
    plugin::Plugin,
    redis::Redis,
    rig::{Containerd, Running},
};
use crate::{app::until, cli::numalocctl, cpus::cpus_of, daemon::Daemon, settings::Setting};
use serde_json::{Value, json};
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

pub const LOCALITY: &str = "koordinator.sh/memoryLocality";
/// Its name. The kubelet appends it to those of static pods.
pub const NODE: &str = "node-a";

/// A kubelet with directories of its own. It is killed when this value is dropped; its containers are containerd's.
pub struct Kubelet<'c> {
    child: Child,
    dir: PathBuf,
    containerd: &'c Containerd,
}

impl<'c> Kubelet<'c> {
    /// A kubelet without a control plane: its pods are static.
    fn alone(containerd: &'c Containerd) -> Self {
        Self::start(containerd, &[])
    }

    /// As a node of a cluster.
    pub fn of(plane: &ControlPlane, containerd: &'c Containerd) -> Self {
        let kubeconfig = plane.user("kubelet", &certificate("kubelet"));
        Self::start(containerd, &[format!("--kubeconfig={}", kubeconfig.display())])
    }

    fn start(containerd: &'c Containerd, arguments: &[String]) -> Self {
        // On a disk: it asks how large and how full the file system is.
        let dir = PathBuf::from("/mnt/disk/kubelet");
        fs::create_dir_all(dir.join("manifests")).expect("a directory");
        let config = dir.join("config.json");
        let text = configuration(containerd, &dir.join("manifests")).to_string();
        fs::write(&config, text).expect("a configuration");
        let log = fs::File::create(dir.join("log")).expect("a log");
        let child = Command::new(program("kubelet"))
            .arg(format!("--config={}", config.display()))
            .arg(format!("--root-dir={}", dir.join("root").display()))
            .arg(format!("--hostname-override={NODE}"))
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the kubelet starts");
        Self { child, dir, containerd }
    }

    /// Hands it the manifest of a static pod, and waits until the pod's only container runs.
    fn runs(&mut self, pod: &Value) -> Running {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        // Hidden until it is complete: the kubelet reads a file as soon as it is there.
        let manifests = self.dir.join("manifests");
        let [hidden, manifest] = [".new", &format!("{name}.json")].map(|file| manifests.join(file));
        let written = fs::write(&hidden, pod.to_string());
        written.and_then(|()| fs::rename(&hidden, manifest)).expect("a manifest");
        self.running(&format!("{name}-{NODE}"))
    }

    /// Waits until the only container of a pod runs.
    pub fn running(&mut self, pod: &str) -> Running {
        self.running_in(pod, None)
    }

    /// As [`Self::running`], for the container of this name.
    pub fn running_in(&mut self, pod: &str, container: Option<&str>) -> Running {
        let mut running = None;
        until(&format!("pod {pod} runs"), || {
            thread::sleep(Duration::from_millis(200));
            let ended = self.child.try_wait();
            assert!(matches!(ended, Ok(None)), "{ended:?}: {}", self.log());
            running = self.containerd.running_in(pod, container);
            running.is_some()
        });
        running.expect("just seen")
    }

    /// Where it lists the devices of pods.
    pub fn pod_resources(&self) -> PathBuf {
        self.dir.join("root/pod-resources")
    }

    /// The end of its log.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Kubelet<'_> {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if thread::panicking() {
            eprintln!("the kubelet's log:\n{}", self.log());
        }
    }
}

/// No API server, no server of its own, no evictions; CPU 0 is the system's, and the others are for pods that ask for whole ones.
fn configuration(containerd: &Containerd, manifests: &std::path::Path) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "staticPodPath": manifests,
        "fileCheckFrequency": "1s",
        "containerRuntimeEndpoint": format!("unix://{}", containerd.socket().display()),
        "cgroupDriver": "cgroupfs",
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "1s",
        "reservedSystemCPUs": "0",
        "enableServer": false,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "makeIPTablesUtilChains": false,
        "localStorageCapacityIsolation": false,
        "failSwapOn": false,
        "resolvConf": "",
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "logging": {"verbosity": 2},
    })
}

/// A Guaranteed pod with one whole CPU and a Redis.
pub fn pod(name: &str, annotations: &Value, port: u16) -> Value {
    let amount = json!({"cpu": "1", "memory": "256Mi"});
    let port = port.to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {
            "nodeName": NODE,
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "dnsPolicy": "Default",
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "server",
                "image": "numaloc.test/redis:1",
                "imagePullPolicy": "Never",
                "command": ["redis-server", "--port", port, "--save", "", "--enable-debug-command", "yes"],
                "resources": {"requests": amount, "limits": amount},
            }],
        },
    })
}

/// The node that has all CPUs of a process, and the other one.
fn nodes_of(pid: i32) -> (u32, u32) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let set = |list: &str| list.trim().parse::<numaloc_core::CpuSet>().expect("a list");
    let cpus = set(list.expect("CPUs"));
    let is_home =
        |node: u32| cpus.iter().all(|cpu| set(&cpus_of(node)).iter().any(|its| its == cpu));
    match (is_home(0), is_home(1)) {
        (true, false) => (0, 1),
        (false, true) => (1, 0),
        _ => panic!("the static CPU manager has given it {list:?}"),
    }
}

/// A Redis with its data on the node where none of its CPUs are, as if its own had been full. Returns its home, too.
pub fn misplaced(container: Running, port: u16) -> (Redis, u32) {
    let (home, elsewhere) = nodes_of(container.pid);
    let pid = container.pid.to_string();
    let redis = Redis::listening(container, port).populated();
    let words = [&*pid, &*home.to_string(), &*elsewhere.to_string()];
    let output = Command::new("migratepages").args(words).output().expect("migratepages starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (redis.filled_on(elsewhere), home)
}

#[test]
fn a_static_pod_comes_home_by_its_annotation_and_its_neighbour_by_name_alone() {
    let _balancing = Setting::numa_balancing(false);
    let (containerd, daemon) = (Containerd::start(), Daemon::start());
    let mut kubelet = Kubelet::alone(&containerd);
    let annotations = json!({LOCALITY: r#"{"policy": "bestEffort"}"#});
    let annotated = kubelet.runs(&pod("annotated", &annotations, 7101));
    let neighbour = kubelet.runs(&pod("neighbour", &json!({}), 7102));
    let (annotated, home) = misplaced(annotated, 7101);
    let (neighbour, its_home) = misplaced(neighbour, 7102);

    let _plugin = Plugin::start(&containerd, &daemon);
    annotated.comes_to(home);
    neighbour.is_still_on(1 - its_home);

    // The kubelet's own directory of logs says what cgroup this pod has.
    let name = format!("default/neighbour-{NODE}");
    let moved = daemon.ctl(&["migrate", "--pod", &name]);
    assert!(moved.status.success(), "{moved:?}");
    neighbour.comes_to(its_home);
    let again = numalocctl(&["--standalone", "locality", "--pod", &name]);
    assert!(again.status.success(), "{again:?}");
}

/// Waits until the API server has something of a pod that `path`, a JSONPath, names.
fn until_it_has(plane: &ControlPlane, pod: &str, path: &str, what: &str) {
    let path = format!("jsonpath={{{path}}}");
    until(&format!("pod {pod} has {what}"), || {
        thread::sleep(Duration::from_secs(1));
        plane.get(&["get", "pod", pod, "-o", &path]).contains(what)
    });
}

#[test]
fn a_pod_of_the_api_server_runs_and_its_status_names_its_container() {
    let containerd = Containerd::start();
    let plane = ControlPlane::start();
    let mut kubelet = Kubelet::of(&plane, &containerd);
    plane.apply(&pod("declared", &json!({}), 7111));
    let running = kubelet.running("declared");
    until_it_has(&plane, "declared", ".status.containerStatuses[0].containerID", &running.id);
}
