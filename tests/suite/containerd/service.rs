//! The plugin as docs/containerd.md says: its unit under a real systemd, its account, its grant, and containers in slices of the
//! systemd driver. Needs two nodes and systemd as the first process: `tests/vm/suite --containerd VERSION --systemd`.

use super::{cri::Pod, redis::Redis, rig::Containerd};
use crate::{
    app::until,
    service::Installed,
    settings::Setting,
    unit::{UNITS, systemctl},
};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

const SERVICE: &str = "numaloc-nri.service";
const LOG: &str = "/run/numaloc-nri.log";

/// The code blocks of docs/containerd.md that begin with this text, without their indentation.
fn block(begin: &str) -> String {
    let page = fs::read_to_string("/usr/share/numaloc/containerd.md").expect("docs/containerd.md");
    let lines = page.lines().skip_while(|line| !line.trim_start().starts_with(begin));
    let inside = lines.take_while(|line| line.starts_with("    ") || line.is_empty());
    let block: Vec<_> = inside.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert!(!block.is_empty(), "docs/containerd.md has no block that begins with {begin}");
    block.join("\n")
}

/// The pod of docs/containerd.md under another name.
fn pod(name: &str) -> Pod {
    let written: Value =
        serde_json::from_str(&block("{\"metadata\": {\"name\": \"redis\"")).expect("JSON");
    let parent = written["linux"]["cgroup_parent"].as_str().expect("a slice");
    let annotations = written["annotations"].as_object().expect("annotations");
    annotations.iter().fold(Pod::new(name).below(parent), |pod, (key, value)| {
        pod.annotated(key, value.as_str().expect("text"))
    })
}

/// The unit of the plugin, started. It is stopped when this value is dropped.
struct Unit;

impl Unit {
    fn start() -> Self {
        let directory = format!("{UNITS}/{SERVICE}.d");
        fs::create_dir_all(&directory).expect("systemd's directory");
        let text = format!("[Service]\nStandardError=append:{LOG}\n");
        fs::write(format!("{directory}/log.conf"), text).expect("a drop-in");
        systemctl(&["daemon-reload"]);
        let unit = Self;
        systemctl(&["start", SERVICE]);
        unit
    }

    fn log() -> String {
        fs::read_to_string(LOG).unwrap_or_default()
    }

    /// How often the log says this.
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
}

impl Drop for Unit {
    fn drop(&mut self) {
        Command::new("systemctl").args(["stop", SERVICE]).status().ok();
        if std::thread::panicking() {
            eprintln!("the log of {SERVICE}:\n{}", Self::log());
        }
        fs::remove_dir_all(format!("{UNITS}/{SERVICE}.d")).ok();
        fs::remove_file(LOG).ok();
    }
}

/// The id of an account in /etc/passwd.
fn uid(name: &str) -> String {
    let passwd = fs::read_to_string("/etc/passwd").expect("users");
    let line = passwd.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect(name).split(':').nth(1).expect("an id").to_owned()
}

#[test]
fn a_container_comes_home_as_the_page_says() {
    let _balancing = Setting::numa_balancing(false);
    if !Path::new("/var/run").exists() {
        fs::create_dir_all("/var").and_then(|()| symlink("/run", "/var/run")).expect("/var/run");
    }
    // Its account first: numalocd refuses a grant to nobody.
    let output =
        Command::new("systemd-sysusers").arg("numaloc-nri.conf").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let numalocd = Installed::with(&block("[[grants]]"));
    numalocd.run();
    let mut containerd = Containerd::under_systemd();
    let _unit = Unit::start();
    for words in ["registered", "synchronized", "numalocd knows all containers"] {
        until(words, || Unit::said(words) > 0);
    }
    assert_eq!(Unit::status("Uid"), uid("numaloc-nri"));
    for set in ["CapEff", "CapPrm", "CapBnd", "CapAmb"] {
        assert_eq!(Unit::status(set), "0000000000000000", "{set}");
    }
    assert_eq!(Unit::status("NoNewPrivs"), "1");
    assert_eq!(Unit::status("Seccomp"), "2", "a filter is in force");

    let first = Redis::on_node(&containerd, &containerd.pod(&pod("first")), 7101, 1);
    first.pin(&containerd, 0);
    first.comes_to(0);

    // The runtime makes its socket anew, for root alone. The unit lets the plugin in again.
    let before = Unit::said("numalocd knows all containers");
    containerd.kill();
    containerd.spawn();
    until("it is let in again", || Unit::said("numalocd knows all containers") > before);
    let second = Redis::on_node(&containerd, &containerd.pod(&pod("second")), 7102, 1);
    second.pin(&containerd, 0);
    second.comes_to(0);
}
