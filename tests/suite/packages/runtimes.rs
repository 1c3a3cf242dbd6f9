//! Containers of Debian's Docker and Podman: they are started with `--cpuset-cpus`, and the schedules of a file, which name the pattern of
//! their cgroups and a label, bring their memory home. No command of numaloc runs.

use super::*;
use crate::{
    cpus::cpus_of,
    settings::Setting,
    truth::{Nodes, Truth, off},
};

const SCHEDULE: &str = "/etc/numaloc/conf.d/50-containers.toml";
/// The label of a container that requests it itself.
const LABEL: &str = "numaloc.io/policy=bestEffort";
/// The image: nothing but names of this system's own directories, which containers mount.
const IMAGE: &str = "numaloc.test/scene:1";

/// Redis in a container. It is removed when this value is dropped.
#[derive(Debug)]
struct Server<'a> {
    runtime: &'a [&'a str],
    name: &'a str,
    port: &'static str,
}

impl<'a> Server<'a> {
    /// On the CPUs of node 1, with memory from there. `options` are those of `run`.
    fn start(
        runtime: &'a [&'a str],
        name: &'a str,
        port: &'static str,
        options: &[&'static str],
    ) -> Self {
        let cpus = format!("--cpuset-cpus={}", cpus_of(1));
        let run = ["run", "-d", "--name", name, "--network", "host", "-v", "/usr:/usr:ro", &cpus];
        let redis = ["redis-server", "--port", port, "--save", "", "--enable-debug-command", "yes"];
        let server = Self { runtime, name, port };
        server.does(&[&run[..], options, &[IMAGE], &redis].concat());
        fill_redis(port);
        server
    }

    fn does(&self, arguments: &[&str]) -> String {
        done(self.runtime[0], &[&self.runtime[1..], arguments].concat()).trim().to_owned()
    }

    fn redis(&self, words: &[&str]) -> String {
        redis(self.port, words)
    }

    fn pid(&self) -> i32 {
        self.does(&["inspect", "-f", "{{.State.Pid}}", self.name]).parse().expect("a pid")
    }

    fn nodes(&self) -> Nodes {
        Truth::of(self.pid()).without_files().all()
    }

    /// Gives it the CPUs of node 0, through systemd, as `docker update` does.
    fn goes_to_node_0(&self) {
        let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).expect("it runs");
        let mut parts = cgroup.trim().split('/');
        let scope = parts.rfind(|part| part.ends_with(".scope")).expect("a scope").to_owned();
        systemctl(&["set-property", "--runtime", &scope, &format!("AllowedCPUs={}", cpus_of(0))]);
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // No panic here: the test may be panicking already.
        run(self.runtime[0], &[&self.runtime[1..], &["rm", "-f", self.name]].concat());
    }
}

/// Removes what an operator has written.
struct Declared;

impl Drop for Declared {
    fn drop(&mut self) {
        let _ = fs::remove_file(SCHEDULE);
    }
}

fn declared(cgroups: &str) -> Declared {
    let text = format!(
        r#"
        [[schedule]]
        name = "containers"
        interval = "2s"
        spec.target.cgroups = ["{cgroups}"]

        [[schedule]]
        name = "labelled"
        interval = "2s"
        spec.target.container_labels = ["{LABEL}"]
    "#
    );
    fs::write(SCHEDULE, text).expect("writable");
    systemctl(&["reload", "numalocd.service"]);
    Declared
}

/// Makes the image known to a runtime.
fn import(runtime: &[&str]) {
    make_root("/tmp/scene");
    done("tar", &["-C", "/tmp/scene", "-cf", "/tmp/scene.tar", "."]);
    done(runtime[0], &[&runtime[1..], &["import", "/tmp/scene.tar", IMAGE]].concat());
}

/// `label` is the option with which the runtime gives [`LABEL`] to a container.
fn containers_come_home(runtime: &[&str], cgroups: &str, label: &'static str) {
    let _balancing = Setting::numa_balancing(false);
    let system = System::new();
    system.install(1, &["numaloc"]);
    import(runtime);
    let _declared = declared(cgroups);
    let server = Server::start(runtime, "pinned", "7301", &[]);
    // In a cgroup that the pattern does not match.
    let elsewhere = "--cgroup-parent=beside.slice";
    let beside = Server::start(runtime, "beside", "7302", &[elsewhere]);
    let labelled = Server::start(runtime, "labelled", "7303", &[elsewhere, label, LABEL]);
    let digest = [&server, &labelled].map(|server| server.redis(&["debug", "digest"]));
    for server in [&server, &beside, &labelled] {
        let nodes = server.nodes();
        assert!(off(&nodes, 0) >= DATA, "{}: {nodes:?}", server.name);
        server.goes_to_node_0();
    }
    for server in [&server, &labelled] {
        let name = server.name;
        until(&format!("{name} comes home"), || off(&server.nodes(), 0) <= DATA / 8);
    }
    let nodes = beside.nodes();
    assert!(off(&nodes, 0) >= DATA, "{nodes:?}");
    assert_eq!([&server, &labelled].map(|server| server.redis(&["debug", "digest"])), digest);
    assert_eq!(labelled.redis(&["dbsize"]), "24576");
    // And by hand, with the daemon and without it: the one that has the label, and no other.
    for standalone in [&[][..], &["--standalone"]] {
        let looked = ["locality", "--container-label", "numaloc.io/policy", "-o", "json"];
        let said = done("/usr/bin/numalocctl", &[&looked, standalone].concat());
        let said: Value = serde_json::from_str(&said).expect("JSON");
        let processes = said["locality"]["processes"].as_array().expect("a list");
        assert!(processes.len() == 1 && processes[0]["process"]["pid"] == labelled.pid(), "{said}");
    }
}

#[test]
fn a_container_of_docker_comes_home_without_a_command() {
    let plain =
        r#"{"bridge": "none", "iptables": false, "ip6tables": false, "storage-driver": "vfs"}"#;
    fs::create_dir_all("/etc/docker").expect("writable");
    fs::write("/etc/docker/daemon.json", plain).expect("writable");
    systemctl(&["start", "docker.service"]);
    containers_come_home(&["docker"], "/system.slice/docker-*.scope", "--label");
    systemctl(&["stop", "docker.service", "docker.socket", "containerd.service"]);
}

#[test]
fn a_container_of_podman_comes_home_without_a_command() {
    let podman = ["podman", "--storage-driver=vfs", "--cgroup-manager=systemd"];
    containers_come_home(&podman, "/machine.slice/libpod-*.scope", "--annotation");
}
