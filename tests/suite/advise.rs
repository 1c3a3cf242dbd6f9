//! Advice that is followed to the letter: its commands are run by a shell, numa_maps is read, and a second look has nothing to say.

use crate::{
    app::Layout,
    cli::{assert_refused, code, numalocctl},
    scene::Scene,
    settings::{Cgroup, Setting},
    truth::{Truth, on},
};
use numaloc_sys::fixture::skipped;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

const MIB: u64 = 1 << 20;

/// The advice for these targets.
pub fn advise(target: &[&str]) -> Value {
    let options = ["advise", "--seconds", "3", "--min-bytes", "16M", "-o", "json"];
    let output = numalocctl(&[&options, target].concat());
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    answer["advice"].clone()
}

pub fn only(advice: &Value) -> &Value {
    let findings = advice["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 1, "{advice:#}");
    &findings[0]
}

fn commands(finding: &Value) -> Vec<String> {
    let commands = finding["commands"].as_array().expect("a list").iter();
    commands.map(|command| command.as_str().expect("a line").to_owned()).collect()
}

/// Runs the commands of a finding in their order, as a person would.
pub fn follow(finding: &Value) {
    for command in commands(finding) {
        let output = Command::new("/bin/sh").args(["-c", &command]).output().expect("a shell");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {words}");
    }
}

/// Asserts that there is nothing left to advise.
pub fn assert_silent(target: &[&str]) {
    let advice = advise(target);
    assert_eq!(advice["findings"], serde_json::json!([]), "{advice:#}");
}

/// The CPUs that a thread may run on.
pub fn cpus(tid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).expect("a thread");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("its CPUs").trim().to_owned()
}

#[test]
fn who_is_pinned_gets_its_memory() {
    let scene = Scene::remote(&["anon:64M"]);
    let pid = scene.app.pid().to_string();
    let before = cpus(&pid);
    let advice = advise(&["--pid", &pid]);
    let finding = only(&advice);
    assert_eq!(finding["kind"], "FINDING_KIND_PINNED_REMOTE");
    assert_eq!(commands(finding), [format!("numalocctl migrate --pid {pid}")]);
    // Its bytes are those of numa_maps.
    let bytes = finding["bytes"].as_u64().expect("bytes");
    let truth = on(&scene.truth().all(), 1);
    assert!(bytes.abs_diff(truth) <= 4 * MIB, "{bytes} advised, {truth} in numa_maps");
    scene.assert_on("anon", 1, 64 * MIB);
    follow(finding);
    scene.assert_on("anon", 0, 64 * MIB);
    assert_eq!(cpus(&pid), before, "the pin is a fact");
    assert_silent(&["--pid", &pid]);
    scene.finish();
}

#[test]
fn a_helper_is_pinned_to_where_the_others_work() {
    let scene = Scene::of(Layout::remote(&["anon:64M"]).with_helper());
    let pid = scene.app.pid().to_string();
    let home = cpus(&pid);
    let advice = advise(&["--pid", &pid]);
    let finding = only(&advice);
    assert_eq!(finding["kind"], "FINDING_KIND_HELPER", "{advice:#}");
    let lines = commands(finding);
    assert!(lines[0].starts_with(&format!("taskset -cp {home} ")), "CPUs come first: {lines:?}");
    let tid = lines[0].rsplit(' ').next().expect("a thread").to_owned();
    follow(finding);
    assert_eq!(cpus(&tid), home);
    scene.assert_on("anon", 0, 64 * MIB);
    assert_silent(&["--pid", &pid]);
    scene.finish();
}

/// Whether cgroups are those of v2 alone, which count memory by node.
fn has_v2() -> bool {
    Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
}

#[test]
fn a_cgroup_that_fits_on_one_node_is_brought_there() {
    if !has_v2() {
        skipped("without cgroup v2 it would be advice for single processes");
        return;
    }
    let _balancing = Setting::numa_balancing(false);
    let cgroup = Cgroup::new("advise");
    // One works and one sleeps, each with its memory on another node. So half of it is remote wherever they run.
    let place = |node, load| {
        let layout = Layout::remote(&["anon:64M"]).on("").memory_on(node).load(load);
        layout.within(cgroup.path()).start(&format!("on{node}"))
    };
    let apps = [place(0, "idle"), place(1, "write")];
    let target = ["--cgroup", "/numaloc-advise"];
    let advice = advise(&target);
    let finding = only(&advice);
    assert_eq!(finding["kind"], "FINDING_KIND_UNPINNED_FITS", "{advice:#}");
    assert_eq!(
        (&finding["source"], finding["home_node_ids"].as_array().map(Vec::len)),
        (&"MEMORY_SOURCE_COUNTED".into(), Some(1))
    );
    let lines = commands(finding);
    let places = ["cpuset.cpus", "migrate", "cpuset.mems"];
    assert!(
        lines.len() == 3 && lines.iter().zip(places).all(|(line, what)| line.contains(what)),
        "{lines:?}"
    );
    follow(finding);
    let home = finding["home_node_ids"][0].as_u64().expect("a node") as u32;
    for app in &apps {
        let nodes = Truth::of(app.pid()).region(app.range("anon"));
        assert_eq!(nodes, [(home, 64 * MIB)].into(), "process {}", app.pid());
        assert_eq!(cpus(&app.pid().to_string()), finding["cpus"].as_str().expect("CPUs"));
    }
    assert_silent(&target);
    drop(apps);
}

#[test]
fn a_cpuset_that_forbids_the_home_is_widened_before_and_narrowed_after() {
    let cgroup = Cgroup::new("advise-mems");
    cgroup.write("cpuset.mems", "1");
    let scene = Scene::of(Layout::remote(&["anon:64M"]).within(cgroup.path()));
    let pid = scene.app.pid().to_string();
    // By its pid: the cgroup could be of others as well, so its nodes stay wide.
    let advice = advise(&["--pid", &pid]);
    if !has_v2() {
        // The directory of a cgroup of v1 is not looked for.
        assert_eq!(advice["findings"], serde_json::json!([]), "{advice:#}");
        drop(scene.finish());
        return;
    }
    let finding = only(&advice);
    assert_eq!(finding["kind"], "FINDING_KIND_MEMS_FORBID", "{advice:#}");
    let mems = format!("echo 0-1 > {}/cpuset.mems", cgroup.path().display());
    assert_eq!(commands(finding), [mems, format!("numalocctl migrate --pid {pid}")]);
    follow(finding);
    scene.assert_on("anon", 0, 64 * MIB);
    assert_silent(&["--pid", &pid]);
    // As a cgroup, it is what only its own memory is in.
    cgroup.write("cpuset.mems", "1");
    let advice = advise(&["--cgroup", "/numaloc-advise-mems"]);
    let finding = only(&advice);
    assert_eq!(commands(finding).len(), 3, "{advice:#}");
    follow(finding);
    scene.assert_on("anon", 0, 64 * MIB);
    let mems = fs::read_to_string(cgroup.path().join("cpuset.mems")).expect("its nodes");
    assert_eq!(mems.trim(), "0");
    assert_silent(&["--cgroup", "/numaloc-advise-mems"]);
    drop(scene.finish());
}

#[test]
fn looking_changes_nothing_and_finds_the_same_on_the_whole_host() {
    let scene = Scene::remote(&["anon:64M"]);
    let pid = scene.app.pid();
    let of_it = |advice: &Value| {
        let findings = advice["findings"].as_array().expect("a list").clone();
        findings.into_iter().find(|finding| finding["process"]["pid"] == pid)
    };
    let [first, second] = [advise(&[]), advise(&[])];
    for advice in [&first, &second] {
        assert_eq!(advice["is_whole"], true);
        let finding = of_it(advice).unwrap_or_else(|| panic!("not found: {advice:#}"));
        assert_eq!(finding["kind"], "FINDING_KIND_PINNED_REMOTE");
    }
    scene.assert_on("anon", 1, 64 * MIB);
    scene.finish();
}

#[test]
fn what_is_not_there_is_refused() {
    assert_refused(&["advise", "--pid", "4194304", "--seconds", "1"], 3, "4194304");
    assert_refused(&["advise", "--cgroup", "/no-such", "--seconds", "1"], 3, "/no-such");
    assert_refused(&["advise", "--seconds", "0"], 2, "0");
}
