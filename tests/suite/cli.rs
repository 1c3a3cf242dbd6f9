//! The command line, as people and scripts call it.

use crate::{app::Layout, scene::Scene, settings::Cgroup, truth::Nodes};
use serde_json::Value;
use std::{
    env,
    os::unix::process::CommandExt,
    process::{Command, Output},
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
    assert_eq!(code(output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
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
