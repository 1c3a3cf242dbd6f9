//! The plugin as docs/containerd.md says, command by command: its unit under a real systemd, its account, its grant, and containers in
//! slices of the systemd driver. Needs two nodes and systemd as the first process: `tests/vm/suite --containerd VERSION --systemd`.

use super::{
    cri::{Pod, v1::ContainerState},
    redis::Redis,
    rig::{Containerd, Running},
};
use crate::{
    app::until,
    page::{Page, SOURCE, Shell},
    service::Installed,
    settings::Setting,
    unit::{UNITS, systemctl},
};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

const SERVICE: &str = "numaloc-nri.service";
const LOCALITY: &str = "koordinator.sh/memoryLocality";
/// The port that a Redis server listens on by default, as in the page.
const PORT: u16 = 6379;

/// Files of hosts that the emulated machine lacks and that the page's commands take for granted.
fn prepare() {
    if !Path::new("/var/run").exists() {
        fs::create_dir_all("/var").and_then(|()| symlink("/run", "/var/run")).expect("/var/run");
    }
    // The runtime copies it for pods that say nothing of their name servers.
    fs::write("/etc/resolv.conf", "nameserver 127.0.0.1\n").expect("name servers");
    systemctl(&["start", "systemd-journald.service"]);
    let directory = format!("{UNITS}/{SERVICE}.d");
    fs::create_dir_all(&directory).expect("systemd's directory");
    // The default of systemd, which the machine has changed for want of a journal.
    let text = "[Service]\nStandardOutput=journal\nStandardError=journal\n";
    fs::write(format!("{directory}/journal.conf"), text).expect("a drop-in");
}

/// The unit of the plugin. It is stopped when this value is dropped.
struct Unit;

impl Unit {
    fn install(page: &mut Page, shell: &mut Shell, numalocd: &Installed) -> Self {
        let unit = Self;
        shell.types(&page.take("install -m 755 target/release/numaloc-nri"));
        numalocd.add(&page.take("[[grants]]"));
        shell.types(&page.take("systemctl reload numalocd"));
        unit
    }

    fn log() -> String {
        let output = Command::new("journalctl").args(["-u", SERVICE, "-o", "cat"]).output();
        String::from_utf8_lossy(&output.expect("journalctl starts").stdout).into_owned()
    }

    /// Number of these words in the log.
    fn said(words: &str) -> usize {
        Self::log().matches(words).count()
    }

    /// A field of /proc/PID/status of its process.
    fn status(field: &str) -> String {
        let pid = systemctl(&["show", "--value", "--property", "MainPID", "--", SERVICE]);
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect(field).split_whitespace().next().expect("a value").to_owned()
    }

    /// Asserts that it runs as its own user, with no rights.
    fn assert_confined() {
        assert_eq!(Self::status("Uid"), uid("numaloc-nri"));
        for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
            assert_eq!(Self::status(set), "0000000000000000", "{set}");
        }
        assert_eq!(Self::status("NoNewPrivs"), "1");
        assert_eq!(Self::status("Seccomp"), "2", "a filter is in force");
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of {SERVICE}:\n{}", Self::log());
        }
        Command::new("systemctl").args(["disable", "--now", SERVICE]).status().ok();
        for units in [UNITS, "/etc/systemd/system"] {
            fs::remove_dir_all(format!("{units}/{SERVICE}.d")).ok();
        }
    }
}

/// The id of an account in /etc/passwd.
fn uid(name: &str) -> String {
    let passwd = fs::read_to_string("/etc/passwd").expect("users");
    let line = passwd.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect(name).split(':').nth(1).expect("an id").to_owned()
}

/// The pod of the page under another name.
fn like(written: &Value, name: &str) -> Pod {
    let parent = written["linux"]["cgroup_parent"].as_str().expect("a slice");
    let annotation = written["annotations"][LOCALITY].as_str().expect("an annotation");
    Pod::new(name).below(parent).annotated(LOCALITY, annotation)
}

/// Follows the section on a first container, from its image to its end. Returns the pod as it is written there.
fn first_container(page: &mut Page, shell: &mut Shell, containerd: &Containerd) -> Value {
    // Not tried: this machine has no network, and gives an image of its own the name.
    page.take("ctr --namespace k8s.io images pull");
    containerd.tag("numaloc.test/redis:1", "docker.io/library/redis:7");

    let pod = page.take("{\"metadata\": {\"name\": \"redis\"");
    let container = page.take("{\"metadata\": {\"name\": \"server\"");
    for (name, text) in [("pod", &pod), ("container", &container)] {
        fs::write(format!("{SOURCE}/{name}.json"), text).expect("a file");
    }
    let pod: Value = serde_json::from_str(&pod).expect("JSON");
    let annotation = pod["annotations"][LOCALITY].as_str().expect("an annotation");
    let manifest = page.take("metadata:");
    assert!(manifest.contains(&format!("{LOCALITY}: '{annotation}'")), "{manifest}");

    shell.types(&page.take("cri() {"));
    let id = shell.types("echo $container");
    let (state, pid) = containerd.expect("its status", containerd.cri().status(&id));
    assert_eq!(state, ContainerState::ContainerRunning, "{}", containerd.log());
    let schedules = page.take("numalocctl schedules ls");
    until("it has a schedule", || shell.types(&schedules).contains(&format!("nri-{id}")));

    let redis = Redis::listening(Running { id: id.clone(), pid }, PORT);
    shell.types(&page.take("redis-cli"));
    let redis = redis.filled_on(1);
    shell.types(&page.take("cri UpdateContainerResources"));
    redis.comes_to(0);
    shell.types(&page.take("numalocctl jobs ls"));

    shell.types(&page.take("cri StopPodSandbox"));
    until("its schedule goes", || !shell.types(&schedules).contains(&id));
    pod
}

#[test]
fn a_container_comes_home_as_the_page_says() {
    let _balancing = Setting::numa_balancing(false);
    prepare();
    let (mut page, mut shell) = (Page::open("docs/containerd.md"), Shell::start());
    let numalocd = Installed::start();
    let mut containerd = Containerd::under_systemd();
    let _unit = Unit::install(&mut page, &mut shell, &numalocd);
    for words in ["registered", "synchronized", "numalocd knows all containers"] {
        until(words, || Unit::said(words) > 0);
    }
    Unit::assert_confined();
    let written = first_container(&mut page, &mut shell, &containerd);

    // The runtime makes its socket again, for root alone. The unit lets the plugin in again.
    let before = Unit::said("numalocd knows all containers");
    containerd.kill();
    containerd.spawn();
    until("it is let in again", || Unit::said("numalocd knows all containers") > before);
    let sandbox = containerd.pod(&like(&written, "second"));
    let second = Redis::on_node(&containerd, &sandbox, 7102, 1);
    second.pin(&containerd, 0);
    second.comes_to(0);

    // Without NRI it is let in at containerd's own socket by the drop-in.
    containerd.disable_nri();
    shell.types(&page.take("install -D -m 644 systemd/numaloc-nri-containerd.conf"));
    until("it follows events", || Unit::said("synchronized by containerd's events") > 0);
    let told = "numalocctl workloads ls -q -l numaloc.io/told-by=containerd";
    until("it tells of containers", || shell.types(told).contains(&second.container.id));
    Unit::assert_confined();

    // Left out: the rig's configuration switches NRI on for containerd 1.7, too, and its containerd is not a service of systemd;
    // `plugin::a_plugin_that_containerd_launches_tells_of_its_containers` has one that is launched.
    page.take("[plugins.\"io.containerd.nri.v1.nri\"]");
    page.take("ln -s /usr/bin/numaloc-nri /opt/nri/plugins/90-numaloc-nri");
    page.assert_tried();
}
