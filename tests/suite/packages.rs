//! The packages of Debian on a Debian system whose own systemd is the first process, with its own dpkg and apt: `tests/vm/suite
//! --packages`. Each test begins with a system that never had them, and leaves one. Only those of `restart` continue where the one before
//! has ended: `tests/vm/suite --packages --restart`.

mod ages;
mod guests;
mod machines;
mod manager;
mod prewarmed;
mod real;
mod recipes;
mod restart;
mod runtimes;
mod spread;

use crate::{
    app::until,
    daemon::Client,
    scene::Scene,
    service::{SHIPPED, WITH_FRAMES, assert_confined, resuming, status},
    unit::systemctl,
};
use numaloc_api::v1;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Output},
};

const SOCKET: &str = "/run/numaloc/numalocd.sock";
const CONFIG: &str = "/etc/numaloc/numalocd.toml";
const STORE: &str = "/var/lib/numaloc/numalocd.redb";
const LINK: &str = "/etc/systemd/system/numalocd.service.d/frames.conf";
const DROP_INS: &str = "/etc/systemd/system/numalocd.service.d";
const MIB: u64 = 1 << 20;

/// Runs a program without questions, and returns its output.
fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
    command.output().unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// Runs a program that has to succeed, and returns what it printed.
fn done(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// Memory of the values that [`fill_redis`] gives a server.
const DATA: u64 = 24 * MIB;

/// What a Redis server answers that listens on this port.
fn redis(port: &str, words: &[&str]) -> String {
    let output = run("redis-cli", &[&["-p", port], words].concat());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Waits for a Redis server, and gives it values.
fn fill_redis(port: &str) {
    until("Redis answers", || redis(port, &["ping"]) == "PONG");
    assert_eq!(redis(port, &["debug", "populate", "24576", "key", "1024"]), "OK");
}

/// Makes the root of a container: nothing but names of this system's own directories, which are mounted at /usr.
fn make_root(path: &str) {
    let tree = format!(
        "for name in usr proc sys dev etc tmp run var; do mkdir -p {path}/$name; done && \
         for name in bin sbin lib lib64; do ln -sfn usr/$name {path}/$name; done && cp /etc/os-release /etc/passwd {path}/etc/"
    );
    done("sh", &["-c", &tree]);
}

/// A system where the packages may be installed. They are purged before and after.
#[derive(Debug)]
struct System;

impl System {
    fn new() -> Self {
        purge();
        Self
    }

    /// Installs packages of one of the two revisions, as an administrator does.
    fn install(&self, revision: u32, packages: &[&str]) {
        let path = |name: &&str| format!("/usr/local/share/numaloc/{name}-{revision}.deb");
        let files: Vec<_> = packages.iter().map(path).collect();
        let mut arguments = vec!["install", "-y", "--no-install-recommends", "--allow-downgrades"];
        arguments.extend(files.iter().map(String::as_str));
        done("apt-get", &arguments);
        for package in packages {
            let version = done("dpkg-query", &["-W", "-f", "${Version}", package]);
            assert!(version.ends_with(&format!("-{revision}")), "{package}: {version}");
        }
    }

    fn client(&self) -> Client {
        Client::new(&format!("unix://{SOCKET}"))
    }

    fn pid(&self) -> i32 {
        property("numalocd.service", "MainPID").parse().expect("a pid")
    }

    /// Waits until another process is the daemon than the one with this pid.
    fn comes_back(&self, pid: i32) {
        until("the new daemon runs", || {
            ![0, pid].contains(&self.pid())
                && property("numalocd.service", "ActiveState") == "active"
        });
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = run("journalctl", &["--no-pager", "-n", "50", "-u", "numalocd"]);
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
        }
        purge();
    }
}

/// No panic here: a test may be panicking already.
fn purge() {
    run("dpkg", &["--purge", "numaloc-nri", "numaloc"]);
    // An answer that no package has taken yet.
    run("sh", &["-c", "echo PURGE | debconf-communicate numaloc"]);
    fs::remove_dir_all(DROP_INS).ok();
    run("systemctl", &["daemon-reload"]);
    run("systemctl", &["reset-failed"]);
}

/// Adds lines to the daemon's unit, as an administrator would. They go with the packages.
fn drop_in(section: &str, lines: &str) {
    fs::create_dir_all(DROP_INS).expect("systemd's directory");
    fs::write(format!("{DROP_INS}/test.conf"), format!("[{section}]\n{lines}\n"))
        .expect("a drop-in");
    systemctl(&["daemon-reload"]);
}

fn property(unit: &str, property: &str) -> String {
    systemctl(&["show", "--value", "--property", property, "--", unit])
}

fn ctl(arguments: &[&str]) -> String {
    done("/usr/bin/numalocctl", arguments)
}

#[test]
fn a_first_start_serves_root_alone_and_changes_nothing() {
    let balancing = || fs::read_to_string("/proc/sys/kernel/numa_balancing").expect("a setting");
    let before = balancing();
    let system = System::new();
    system.install(1, &["numaloc"]);
    for unit in ["numalocd.socket", "numalocd.service"] {
        let state = (property(unit, "ActiveState"), property(unit, "UnitFileState"));
        assert_eq!(state, ("active".into(), "enabled".into()), "{unit}");
    }
    assert_eq!(status(&system.client()).role, "admin");
    assert_confined(system.pid(), &SHIPPED);
    assert_eq!(balancing(), before);
    assert!(!fs::exists(LINK).expect("readable"));
    for kind in ["jobs", "schedules"] {
        let document: Value =
            serde_json::from_str(&ctl(&[kind, "ls", "-o", "json"])).expect("JSON");
        assert_eq!(document[kind].as_array().map(Vec::len), Some(0), "{document}");
    }
    // A user outside of the group cannot connect, and a member has no grant. Not the user nobody, whom no grant
    // reaches.
    let arguments = ["-u", "daemon", "--", "/usr/bin/numalocctl", "jobs", "ls"];
    assert_eq!(run("runuser", &arguments).status.code(), Some(5));
    let arguments = ["-u", "daemon", "-G", "numaloc", "--", "/usr/bin/numalocctl", "jobs", "ls"];
    assert_eq!(run("runuser", &arguments).status.code(), Some(4));
    done("numalocd", &["--check-config"]);
    for file in [
        "/usr/share/man/man1/numalocctl.1.gz",
        "/usr/share/man/man8/numalocd.8.gz",
        "/usr/share/bash-completion/completions/numalocctl",
        "/usr/share/doc/numaloc/copyright",
        "/usr/share/doc/numaloc/changelog.Debian.gz",
    ] {
        // Images of containers leave documentation out, see dpkg.cfg.d.
        let packed = done("dpkg-query", &["-L", "numaloc"]);
        assert!(packed.lines().any(|line| line == file), "{file}");
    }
}

#[test]
fn an_upgrade_keeps_jobs_configuration_and_socket() {
    let system = System::new();
    system.install(1, &["numaloc"]);
    let grant = "\n[[grants]]\ngroup = \"numaloc\"\nrole = \"viewer\"\n";
    let config = fs::read_to_string(CONFIG).expect("a conffile") + grant;
    fs::write(CONFIG, &config).expect("written");
    systemctl(&["reload", "numalocd.service"]);
    let scene = Scene::remote(&["anon:64M"]);
    let name = resuming(&system.client(), scene.app.pid());
    let (inode, pid) = (fs::metadata(SOCKET).expect("a socket").ino(), system.pid());

    system.install(2, &["numaloc"]);
    assert_eq!(fs::read_to_string(CONFIG).expect("kept"), config);
    assert_eq!(fs::metadata(SOCKET).expect("a socket").ino(), inode);
    system.comes_back(pid);
    system.client().reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();

    // And back, as long as the store has the same version.
    system.install(1, &["numaloc"]);
    assert_eq!(system.client().job(&name).state(), v1::JobState::Succeeded);
}

#[test]
fn what_is_removed_keeps_its_records_and_what_is_purged_leaves_nothing() {
    let system = System::new();
    system.install(1, &["numaloc"]);
    let when = ["--interval", "1h", "--paused", "--id", "kept"];
    ctl(&[&["schedules", "create", "--cgroup", "/numaloc-none"][..], &when].concat());
    done("apt-get", &["remove", "-y", "numaloc"]);
    assert_eq!(property("numalocd.service", "LoadState"), "masked");
    assert!(!fs::exists(SOCKET).expect("readable"));
    for file in [CONFIG, STORE] {
        assert!(fs::exists(file).expect("readable"), "{file}");
    }

    system.install(1, &["numaloc"]);
    assert_eq!(property("numalocd.service", "ActiveState"), "active");
    assert!(ctl(&["schedules", "ls"]).contains("kept"));

    done("apt-get", &["purge", "-y", "numaloc"]);
    assert_eq!(property("numalocd.service", "LoadState"), "not-found");
    for place in ["/etc/numaloc", "/var/lib/numaloc", "/run/numaloc", "/usr/share/numaloc"] {
        assert!(!Path::new(place).exists(), "{place}");
    }
    let left = done("find", &["/etc/systemd/system", "/var/lib/systemd", "-name", "numaloc*"]);
    // The unit that runs this test.
    let left: Vec<_> = left.lines().filter(|line| !line.ends_with("numaloc-vm.service")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn the_question_adds_a_right_that_an_upgrade_keeps() {
    let system = System::new();
    fs::write("/tmp/answers", "numaloc numaloc/frames boolean true\n").expect("written");
    done("debconf-set-selections", &["/tmp/answers"]);
    system.install(1, &["numaloc"]);
    assert_confined(system.pid(), &WITH_FRAMES);
    let pid = system.pid();
    system.install(2, &["numaloc"]);
    system.comes_back(pid);
    assert_confined(system.pid(), &WITH_FRAMES);
    // The process that takes the link away has answered, too.
    fs::remove_file(LINK).expect("a link");
    done("dpkg-reconfigure", &["numaloc"]);
    assert_confined(system.pid(), &SHIPPED);
    assert!(!fs::exists(LINK).expect("readable"));
}

#[test]
fn the_plugin_waits_until_it_is_enabled() {
    let system = System::new();
    system.install(1, &["numaloc", "numaloc-nri"]);
    let state = (
        property("numaloc-nri.service", "ActiveState"),
        property("numaloc-nri.service", "UnitFileState"),
    );
    assert_eq!(state, ("inactive".into(), "disabled".into()));
    assert!(done("id", &["-nG", "numaloc-nri"]).split_whitespace().any(|group| group == "numaloc"));
    done("numaloc-nri", &["--check-config"]);
    done("numalocd", &["--check-config"]);
    let arguments = ["-u", "numaloc-nri", "--", "/usr/bin/numalocctl", "status"];
    until("the plugin has its grant", || {
        let output = run("runuser", &arguments);
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("operator")
    });
    done("apt-get", &["purge", "-y", "numaloc-nri"]);
    assert_eq!(property("numalocd.service", "ActiveState"), "active");
}
