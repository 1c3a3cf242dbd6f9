//! The command line, as people and scripts call it.

use crate::{app::Layout, scene::Scene, settings::Cgroup, truth::Nodes};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::process::CommandExt,
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

/// A user that owns nothing.
pub const NOBODY: u32 = 65534;
const MIB: u64 = 1 << 20;

pub fn command() -> Command {
    Command::new(env::var_os("NUMALOCCTL").unwrap_or_else(|| "numalocctl".into()))
}

/// Runs numalocctl and waits for its end.
pub fn numalocctl(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("it starts")
}

/// Runs numalocctl as a user without any rights.
pub fn as_nobody(arguments: &[&str]) -> Output {
    command().args(arguments).uid(NOBODY).gid(NOBODY).output().expect("it starts")
}

pub fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

/// The JSON that a command which has succeeded printed.
pub fn json(output: &Output) -> Value {
    assert_eq!(code(output), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Bytes by node of all memory of the target, in an answer of `locality`.
pub fn located(answer: &Value) -> Nodes {
    let number = |of: &Value, field: &str| of[field].as_u64().expect("a number");
    let nodes = answer["locality"]["total"]["nodes"].as_array().expect("a list").iter();
    nodes.map(|of| (number(of, "node_id") as u32, number(of, "bytes"))).collect()
}

/// Asserts that numalocctl prints one line of complaint that names `thing`.
pub fn assert_refused(arguments: &[&str], expected: i32, thing: &str) {
    complains(numalocctl(arguments), expected, thing);
}

fn complains(output: Output, expected: i32, thing: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(&output), Some(expected), "{complaint}");
    assert!(complaint.contains(thing), "{complaint}");
    assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn a_process_comes_home() {
    let scene = Scene::remote(&["anon:32M"]);
    let pid = scene.app.pid().to_string();
    let output = numalocctl(&["migrate", "--pid", &pid, "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    scene.assert_on("anon", 0, 32 * MIB);
    scene.finish();
}

#[test]
fn a_cgroup_comes_home() {
    let cgroup = Cgroup::new("cli");
    let scene = Scene::of(Layout::remote(&["anon:32M"]).within(cgroup.path()));
    let output = numalocctl(&["migrate", "--cgroup", "/numaloc-cli"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    scene.assert_on("anon", 0, 32 * MIB);
    drop(scene.finish());
}

#[test]
fn looking_moves_nothing() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    for command in ["locality", "plan"] {
        let output = numalocctl(&[command, "--pid", &pid, "-o", "json"]);
        assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
        scene.assert_on("anon", 1, 16 * MIB);
    }
    for arguments in [&["topology"][..], &["topology", "--numactl"], &["doctor"]] {
        let output = numalocctl(arguments);
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
    scene.finish();
}

#[test]
fn what_stays_for_want_of_rights_is_partly_moved() {
    let cgroup = Cgroup::new("cli-mems");
    cgroup.write("cpuset.mems", "1");
    let scene = Scene::of(Layout::remote(&["anon:16M"]).within(cgroup.path()));
    let pid = scene.app.pid().to_string();
    let output = numalocctl(&["migrate", "--pid", &pid]);
    assert_eq!(code(&output), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
    scene.assert_on("anon", 1, 16 * MIB);
    drop(scene.finish());
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let own = std::process::id().to_string();
    assert_refused(&["migrate", "--pid", "4194304"], 3, "4194304");
    assert_refused(&["migrate", "--cgroup", "/no-such"], 3, "/no-such");
    assert_refused(&["migrate", "--pid", "2"], 2, "kernel thread");
    assert_refused(&["migrate", "--pid", &own, "--to", "7"], 2, "7");
    assert_refused(&["migrate", "--pid", &own, "--target-ratio", "101"], 2, "101");
    for (option, nonsense) in [
        ("--reserve", "-1"),
        ("--batch-bytes", "x"),
        ("--timeout", "-5s"),
        ("--workers", "0"),
        ("--rate", "0"),
    ] {
        assert_refused(&["migrate", "--pid", &own, option, nonsense], 2, nonsense);
    }
}

#[test]
fn processes_of_others_are_refused() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    for subcommand in ["locality", "plan", "migrate"] {
        complains(as_nobody(&[subcommand, "--pid", &pid]), 4, &pid);
    }
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

#[test]
fn hidden_processes_are_not_found() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    let _hidden = HiddenPids::new();
    complains(as_nobody(&["migrate", "--pid", &pid]), 3, "hidepid");
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

/// The values mean nothing on an emulated machine. That each page is where it should be, it verifies itself, and so
/// does this while it measures.
#[test]
fn memory_of_each_node_is_measured_on_each() {
    let measuring = ["bench", "--size", "8M", "--seconds", "500ms", "-o", "json"];
    let child = command().args(measuring).stdout(Stdio::piped()).spawn().expect("it starts");
    let maps = format!("/proc/{}/numa_maps", child.id());
    let mut seen = BTreeSet::new();
    // It ends as a zombie, whose numa_maps cannot be read.
    while let Some(text) = fs::read_to_string(&maps).ok().filter(|text| !text.is_empty()) {
        for line in text.lines() {
            let Some((_, rest)) = line.split_once(" bind:") else { continue };
            let node = rest.split(' ').next().expect("a policy has nodes").to_owned();
            let places = rest.split(' ').filter(|word| word.starts_with('N') && word.contains('='));
            for place in places {
                assert!(place.starts_with(&format!("N{node}=")), "{line}");
                seen.insert(node.clone());
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    let document = json(&child.wait_with_output().expect("it ends"));
    assert_eq!(seen, ["0", "1"].map(String::from).into(), "{document}");
    let pairs = document["pairs"].as_array().expect("a list");
    let nodes = |pair: &Value| (pair["cpu_node"].as_u64(), pair["memory_node"].as_u64());
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(cpu, memory)| (Some(cpu), Some(memory)));
    assert_eq!(pairs.iter().map(nodes).collect::<Vec<_>>(), expected, "{document}");
    for pair in pairs {
        assert!(pair["latency_ns"].as_f64().is_some_and(|ns| ns > 0.0), "{pair}");
        assert!(pair["bandwidth_bytes_per_second"].as_u64().is_some_and(|rate| rate > 0), "{pair}");
    }
    assert_eq!(json(&numalocctl(&["bench", "--kept", "-o", "json"])), document);
    let shown = numalocctl(&["topology"]);
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("measured by numalocctl bench"), "{shown}");
    assert_refused(&["bench", "--size", "1T"], 2, "1M to 64G");
    assert_refused(&["bench", "--size", "64G"], 2, "--size is 64.0 GiB");
}

/// No emulator has such a device, and Debian's kernels have no interface for it.
#[test]
fn a_machine_without_accelerators_says_what_is_missing() {
    let output = numalocctl(&["dsa", "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["devices"].as_array().map(Vec::len), Some(0), "{document}");
    let offload = &document["kernel_offload"];
    assert_eq!(offload["available"], false, "{document}");
    assert!(offload["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{document}");
    assert!(
        document["missing"].as_array().is_some_and(|missing| !missing.is_empty()),
        "{document}"
    );
}

/// Mounts /proc with hidepid=2 until this is dropped.
struct HiddenPids;

impl HiddenPids {
    fn new() -> Self {
        remount("hidepid=2");
        Self
    }
}

impl Drop for HiddenPids {
    fn drop(&mut self) {
        remount("hidepid=0");
    }
}

fn remount(option: &str) {
    let options = format!("remount,{option}");
    let status =
        Command::new("mount").args(["-t", "proc", "-o", &options, "proc", "/proc"]).status();
    assert!(status.expect("mount starts").success(), "{options}");
}
