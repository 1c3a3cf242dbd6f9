//! systemd units as targets, on a machine whose first process is systemd: `tests/vm/suite --systemd`.

mod applied;

use crate::{
    app::{App, Layout, until},
    cli::{assert_refused, code, numalocctl},
    scene::Scene,
    settings::Setting,
    truth::{Nodes, Truth},
};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Write,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
};

const MIB: u64 = 1 << 20;
/// Directory for the unit files of tests.
pub const UNITS: &str = "/run/systemd/system";

/// Runs systemctl and returns its output.
pub fn systemctl(arguments: &[&str]) -> String {
    let output = Command::new("systemctl").args(arguments).output().expect("systemctl");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A unit of the running system. It is stopped and its file removed when this value is dropped.
#[derive(Debug)]
struct Unit {
    name: String,
}

impl Unit {
    /// Writes a service file with these lines, without starting the service.
    fn new(name: &str, lines: &str) -> Self {
        fs::create_dir_all(UNITS).expect("systemd's directory");
        let unit = Self { name: name.to_owned() };
        fs::write(unit.file(), format!("[Service]\n{lines}\n")).expect("a unit file");
        systemctl(&["daemon-reload"]);
        unit
    }

    fn start(name: &str, lines: &str) -> Self {
        let unit = Self::new(name, lines);
        systemctl(&["start", name]);
        unit
    }

    fn property(&self, property: &str) -> String {
        systemctl(&["show", "--value", "--property", property, "--", &self.name])
    }

    /// The directory of its cgroup.
    fn cgroup(&self) -> PathBuf {
        Path::new("/sys/fs/cgroup").join(self.property("ControlGroup").trim_start_matches('/'))
    }

    fn file(&self) -> PathBuf {
        Path::new(UNITS).join(&self.name)
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // No panic here: the test may be panicking already.
        Command::new("systemctl").args(["stop", &self.name]).status().ok();
        fs::remove_file(self.file()).ok();
    }
}

/// A service whose main process is the application. Its standard input and output are files, because systemd starts it and not
/// the suite.
#[derive(Debug)]
pub struct Service {
    unit: Unit,
    bytes: u64,
    input: File,
    output: PathBuf,
    /// The same application outside the unit.
    control: App,
    _balancing: Setting,
}

impl Service {
    /// Starts one with 32 MiB that writes, and waits until its memory is laid out on node 1.
    pub fn start(name: &str, lines: &str) -> Self {
        Self::with(name, lines, (32, "write"))
    }

    /// Starts one with this many MiB and this load.
    fn with(name: &str, lines: &str, (mib, load): (u64, &'static str)) -> Self {
        let balancing = Setting::numa_balancing(false);
        let layout = Layout::remote(&[&format!("anon:{mib}M")]).load(load);
        let control = layout.clone().load("idle").start("control");
        let (fifo, output) = (format!("/tmp/{name}.in"), PathBuf::from(format!("/tmp/{name}.out")));
        let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        assert!(made.success());
        // Open for both directions, so that neither end waits for the other.
        let input = File::options().read(true).write(true).open(&fifo).expect("a pipe");
        let command = layout.command(name);
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_str().expect("text")).collect();
        let streams =
            format!("StandardInput=file:{fifo}\nStandardOutput=truncate:{}", output.display());
        let unit = Unit::start(name, &format!("ExecStart={}\n{streams}\n{lines}", words.join(" ")));
        let bytes = mib * MIB;
        let service = Self { unit, bytes, input, output, control, _balancing: balancing };
        until("the service's memory is there", || service.lines().contains(&"ready".to_owned()));
        fs::remove_file(fifo).expect("both ends are open");
        service.assert_on(1);
        service
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        // A line without an end is still being written.
        text.split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'))
            .map(str::to_owned)
            .collect()
    }

    fn pid(&self) -> i32 {
        self.unit.property("MainPID").parse().expect("a pid")
    }

    /// Addresses of its only region.
    fn range(&self) -> Range<u64> {
        let lines = self.lines();
        let range = lines[0].rsplit_once(' ').expect("region NAME START-END").1;
        let (start, end) = range.split_once('-').expect("two addresses");
        let hex = |text| u64::from_str_radix(text, 16).expect("an address");
        hex(start)..hex(end)
    }

    /// Asserts that all of its memory is on a node.
    pub fn assert_on(&self, node: u32) {
        assert_eq!(self.nodes(), Nodes::from([(node, self.bytes)]), "{}", self.unit.name);
    }

    /// Bytes of the unit by node.
    fn nodes(&self) -> Nodes {
        Truth::of(self.pid()).region(self.range())
    }

    /// Brings it home by `name`. Checks that the control process outside the unit stays, and that no byte is wrong.
    fn comes_home_as(mut self, name: &str) {
        let output = numalocctl(&["migrate", "--unit", name]);
        assert_eq!(code(&output), Some(0), "{output:?}");
        self.assert_on(0);
        let control = Truth::of(self.control.pid()).region(self.control.range("anon"));
        assert_eq!(control, Nodes::from([(1, self.bytes)]), "control moved");
        let before = self.lines().len();
        writeln!(self.input, "check").expect("the service listens");
        until("the service answers", || self.lines().len() > before);
        let answer = self.lines().pop().expect("just seen");
        assert!(answer.starts_with("ok "), "{answer}");
    }
}

#[test]
fn a_service_comes_home() {
    Service::start("numaloc-a.service", "").comes_home_as("numaloc-a.service");
}

#[test]
fn a_name_without_a_kind_is_a_service() {
    Service::start("numaloc-b.service", "").comes_home_as("numaloc-b");
}

#[test]
fn looking_at_a_service_moves_nothing() {
    let service = Service::start("numaloc-look.service", "");
    for command in ["locality", "plan"] {
        let output = numalocctl(&[command, "--unit", "numaloc-look", "-o", "json"]);
        assert_eq!(code(&output), Some(0), "{output:?}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let pid = service.pid().to_string();
        assert!(document.to_string().contains(&format!("\"pid\":{pid},")), "{document}");
        service.assert_on(1);
    }
}

#[test]
fn slices_nest_at_dashes() {
    let service = Service::start("numaloc-c.service", "Slice=numaloc-test.slice");
    let path = "/numaloc.slice/numaloc-test.slice/numaloc-c.service";
    assert_eq!(service.unit.property("ControlGroup"), path);
    service.comes_home_as("numaloc-c");
}

#[test]
fn a_slice_is_every_process_in_it() {
    let lines = "Slice=numaloc-whole.slice";
    Service::start("numaloc-d.service", lines).comes_home_as("numaloc-whole.slice");
    // The slice above it.
    Service::start("numaloc-d.service", lines).comes_home_as("numaloc.slice");
}

#[test]
fn instances_and_escaped_names_are_found() {
    Service::start("numaloc@1.service", "").comes_home_as("numaloc@1");
    Service::start(r"numaloc-a\x2db.service", "").comes_home_as(r"numaloc-a\x2db");
}

#[test]
fn cgroups_that_a_service_makes_are_part_of_it() {
    let unit = Unit::start("numaloc-e.service", "ExecStart=sleep infinity\nDelegate=yes");
    // Two levels, like those of a container runtime in a service.
    let inner = unit.cgroup().join("payload/inner");
    fs::create_dir_all(&inner).expect("delegated");
    let scene = Scene::of(Layout::remote(&["anon:32M"]).within(inner));
    let output = numalocctl(&["migrate", "--unit", "numaloc-e"]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    scene.assert_on("anon", 0, 32 * MIB);
    drop(scene.finish());
}

#[test]
fn units_without_processes_are_not_found() {
    assert_refused(&["migrate", "--unit", "numaloc-none"], 3, "systemd does not know it");
    assert_refused(&["locality", "--unit", "numaloc-none.slice"], 3, "numaloc-none.slice");
    assert_refused(&["migrate", "--unit", "a/b"], 3, "not the name of a unit");
    // A target groups units and has no processes of its own.
    assert_refused(&["migrate", "--unit", "sysinit.target"], 3, "its state is active");
}

#[test]
fn a_stopped_service_is_not_found() {
    let unit = Unit::new("numaloc-f.service", "ExecStart=sleep infinity");
    let refused =
        || assert_refused(&["migrate", "--unit", "numaloc-f"], 3, "its state is inactive");
    refused();
    systemctl(&["start", &unit.name]);
    systemctl(&["stop", &unit.name]);
    refused();
}

#[test]
fn a_service_that_has_done_its_work_is_not_found() {
    let lines = "Type=oneshot\nExecStart=true\nRemainAfterExit=yes";
    let unit = Unit::start("numaloc-g.service", lines);
    assert_eq!(unit.property("ActiveState"), "active");
    assert_refused(&["migrate", "--unit", "numaloc-g"], 3, "numaloc-g.service");
}
