//! `relieve`: memory of best-effort work leaves a full node, so that a process that is bound to it is not killed.

use crate::{
    app::{App, FEW_WORDS, Layout},
    cli::{assert_refused, code, json, numalocctl},
    exchange::{fill, nodes},
    place::{away, home},
    scene::SLACK,
    settings::Setting,
    truth::{Truth, free_bytes, on, vmstat},
};
use std::panic::catch_unwind;

const MIB: u64 = 1 << 20;
const BEST_EFFORT: u64 = 384 * MIB;
/// What is to be free for the bound process, which takes less.
const FREE: u64 = 320 * MIB;
/// Free memory comes back to the node from the lists of other CPUs some time later.
pub const NEARLY: u64 = 12 * MIB;

/// Best-effort work on the remote node; `place` may change its layout.
pub fn best_effort(place: impl FnOnce(Layout) -> Layout) -> App {
    let region = format!("anon:{}M:{FEW_WORDS}", BEST_EFFORT / MIB);
    place(Layout::remote(&[&region]).memory_on(away()).on("").load("idle")).start("be")
}

/// The rest of the node's memory, but for little: a neighbour that nobody moves.
pub fn neighbour() -> App {
    fill(away(), 48 * MIB)
}

/// Where a process's own memory is.
pub fn memory(app: &App) -> Truth {
    Truth::of(app.pid()).without_files()
}

/// All memory of a process on the home node.
fn at_home(app: &App) -> u64 {
    on(&Truth::of(app.pid()).all(), home())
}

/// Has the kernel kill the process that finds no memory, and no other one.
pub fn victim() -> Setting {
    Setting::set("/proc/sys/vm/oom_kill_allocating_task", "1")
}

/// A process that binds memory to the remote node; `None`: it was killed.
pub fn bound() -> Option<App> {
    let region = format!("bound:192M:bind={}:{FEW_WORDS}", away());
    catch_unwind(|| Layout::remote(&[&region]).load("idle").start("bound")).ok()
}

#[test]
fn a_bound_process_finds_memory_where_it_was_killed_before() {
    let (_still, _victim) = (Setting::still_host(), victim());
    let (mut be, mut neighbour) = (best_effort(|layout| layout), neighbour());
    let kills = vmstat("oom_kill");
    assert!(bound().is_none(), "the scene: {} are free", free_bytes(away()));
    assert!(vmstat("oom_kill") > kills, "the kernel has killed it");

    let (node, pid) = (away().to_string(), be.pid().to_string());
    let free = format!("{}M", FREE / MIB);
    let relieve = ["relieve", &node, "--free", &free, "--pid", &pid, "--standalone"];
    let preview = json(&numalocctl(&[&relieve[..], &["--dry-run", "-o", "json"]].concat()));
    assert_eq!(on(&nodes(&be), away()), BEST_EFFORT, "a preview moves nothing");
    let limit = preview["plan"]["plan"]["limit_bytes"].as_u64().expect("a limit");
    let (before, next_to_it) = (free_bytes(away()), memory(&neighbour));
    assert!(limit.abs_diff(FREE - before) < NEARLY, "{limit} for {before}: {preview}");
    let (kernel, here) = (["oom_kill", "pswpout"].map(vmstat), at_home(&be));
    let output = numalocctl(&[&relieve[..], &["-o", "json"]].concat());
    let document = json(&output);
    assert_eq!(code(&output), Some(0), "{document}");
    let (moved, came) = (on(&nodes(&be), home()), at_home(&be) - here);
    let account = &document["job"]["outcome"]["account"];
    let told = account["moved_bytes"].as_u64().expect("bytes");
    assert!(came.abs_diff(told) <= SLACK, "{came} for {told}: {document}");
    assert!(moved.abs_diff(FREE - before) < NEARLY, "no more than needed: {moved}: {document}");
    assert!(free_bytes(away()) + NEARLY >= FREE, "{document}");
    assert_eq!(on(&nodes(&be), away()) + moved, BEST_EFFORT);

    let mut bound = bound().expect("it is not killed");
    assert_eq!(["oom_kill", "pswpout"].map(vmstat), kernel);
    assert_eq!(memory(&neighbour), next_to_it, "nobody else's pages move");
    for app in [&mut bound, &mut be, &mut neighbour] {
        app.check();
    }
}

#[test]
fn what_cannot_be_relieved_is_named() {
    let app = Layout::remote(&["anon:1M"]).start("any");
    let pid = app.pid().to_string();
    let refused = |node: &str, more: &[&str], why: &str| {
        let words = ["relieve", node, "--pid", &pid, "--standalone"];
        assert_refused(&[&words[..], more].concat(), 2, why);
    };
    refused("9", &["--free", "1G"], "node 9");
    refused("1", &["--free", "1T"], "cannot relieve node 1: 1.0 TiB are to be free");
    refused("1", &["--free", "1G", "--to", "0-1"], "which include it: leave it out");
    assert_refused(&["relieve", "1", "--free", "1G", "--standalone"], 2, "no target: without");
}
