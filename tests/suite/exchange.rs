//! A target node that is full of best-effort memory, which makes room by going to where the waiting memory comes from.

use crate::{
    app::{App, Layout, until},
    cli::{code, numalocctl},
    disk::drop_cache,
    engine::{exchange, inspect},
    place::{away, both, home},
    scene::{DISTRESS, SLACK, Scene, assert_complete, ballast, distress},
    truth::{Nodes, Truth, free_bytes, high_watermark_bytes, node_bytes, on, unused_bytes},
};
use numaloc_core::{Flows, MakeRoom, NodeId, Options, Reason, exchange::CHUNK};
use numaloc_executor::{Control, Outcome, RunLimits};
use numaloc_host::Target;
use serde_json::Value;
use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

const MIB: u64 = 1 << 20;
/// The application's memory, on the remote node at first.
pub const SIZE: u64 = 96 * MIB;
const RESERVE: u64 = 64 * MIB;
/// Bytes by which the unused memory of a node may differ after an exchange: page tables, logs, a huge page that was not
/// divided.
const NEARLY: u64 = 12 * MIB;

/// Takes the memory of a node, until `spared` bytes beyond the high watermark are free, or cache that can be dropped: that counts as
/// free.
pub fn fill(node: u32, spared: u64) -> App {
    drop_cache();
    // Memory in the lists of other CPUs is not room yet, and comes back to the node once it is filled. Within seconds
    // they are shorter.
    for _ in 0..50 {
        if unused_bytes(node).saturating_sub(free_bytes(node)) <= NEARLY {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    let cache = node_bytes(node, "Inactive(file):");
    let spared = (spared + high_watermark_bytes(node)).saturating_sub(cache);
    ballast(node, spared)
}

/// Fills the home node but for its reserve and very little.
pub fn fill_home() -> App {
    fill(home(), RESERVE + 2 * MIB)
}

/// An application with memory on the home node that may run on these nodes; on all nodes if `nodes` is empty.
pub fn best_effort(nodes: &str, mib: u64) -> App {
    Layout::remote(&[&format!("anon:{mib}M")]).memory_on(home()).on(nodes).load("idle").start("be")
}

/// Asserts that no more than what was `unused` beyond the reserve took memory that did not come in exchange: what other CPUs freed
/// before is in their lists for a while, and no room yet when the ballast starts.
pub fn assert_into_free(bytes: u64, node: u32, unused: u64) {
    let room = unused.saturating_sub(high_watermark_bytes(node));
    assert!(bytes <= room + NEARLY, "{bytes} of {room} on node {node}");
}

/// Bytes of the application by node.
pub fn nodes(of: &App) -> Nodes {
    Truth::of(of.pid()).region(of.range("anon"))
}

fn options() -> Options {
    Options { make_room: MakeRoom::Exchange, ..Options::default() }
}

/// No rests, so that the tests are fast.
fn hurried() -> RunLimits {
    RunLimits { duty_percent: Some(100), ..RunLimits::default() }
}

fn run(scene: &Scene, others: &[&App]) -> (Outcome, Vec<Outcome>) {
    let others: Vec<Target> = others.iter().map(|app| Target::Pid(app.pid())).collect();
    let inspected = inspect(&scene.target(), &options());
    exchange(&inspected, &others, &hurried(), &Control::default())
}

/// Bytes that were moved of the partners, from the home node to the other one.
fn gone(runs: &[Outcome]) -> u64 {
    let mut all = Flows::new();
    for (&flow, bytes) in runs.iter().flat_map(|run| &run.flows) {
        *all.entry(flow).or_default() += bytes;
    }
    let there = all.remove(&(NodeId(home()), NodeId(away()))).unwrap_or(0);
    assert!(all.is_empty(), "nothing else moved: {all:?}");
    there
}

#[test]
fn memory_comes_home_in_exchange_for_best_effort() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut other = best_effort("", 160);
    let mut ballast = fill_home();
    let (free, before) = (both().map(unused_bytes), distress());
    let (outcome, others) = run(&scene, &[&other]);
    let free_after = both().map(unused_bytes);
    scene.assert_on("anon", home(), SIZE);
    assert_complete(&outcome);
    let exchanged = outcome.calls.exchanged_bytes;
    assert!(exchanged > SIZE / 2 && exchanged <= SIZE + SLACK, "{outcome:?}");
    // The account of the others agrees with where their pages are, and no page is missing.
    let there = nodes(&other);
    assert_eq!(on(&there, home()) + on(&there, away()), 160 * MIB, "{there:?}");
    assert!(gone(&others).abs_diff(on(&there, away())) <= SLACK, "{there:?} {others:?}");
    assert!(gone(&others).abs_diff(exchanged) <= 2 * MIB + SLACK, "{outcome:?} {others:?}");
    let sums = [free, free_after].map(|[first, second]| first + second);
    assert!(sums[0].abs_diff(sums[1]) <= NEARLY, "{free:?} {free_after:?}");
    let into_free = SIZE.saturating_sub(on(&there, away()));
    assert_into_free(into_free, home(), free[0] - RESERVE);
    let kept = free_after[0] + into_free;
    assert!(free[0].abs_diff(kept) <= NEARLY, "{into_free} of {free:?} {free_after:?}");
    assert_eq!(distress(), before, "{DISTRESS:?}");
    other.check();
    ballast.check();
    drop((ballast, other));
    scene.finish();
}

#[test]
fn who_is_pinned_to_the_full_node_stays_while_others_are_there() {
    let scene = Scene::remote(&["anon:96M"]);
    let (mut pinned, mut other) = (best_effort(&home().to_string(), 128), best_effort("", 128));
    let mut ballast = fill_home();
    let (outcome, others) = run(&scene, &[&pinned, &other]);
    scene.assert_on("anon", home(), SIZE);
    assert_complete(&outcome);
    assert_eq!(on(&nodes(&pinned), home()), 128 * MIB, "{others:?}");
    assert!(on(&nodes(&other), away()) > SIZE / 2, "{others:?}");
    for app in [&mut pinned, &mut other, &mut ballast] {
        app.check();
    }
    drop((ballast, other, pinned));
    scene.finish();
}

#[test]
fn who_is_pinned_makes_room_once_no_other_can() {
    let scene = Scene::remote(&["anon:96M"]);
    let (mut pinned, mut other) = (best_effort(&home().to_string(), 128), best_effort("", 32));
    let mut ballast = fill_home();
    let (outcome, others) = run(&scene, &[&pinned, &other]);
    scene.assert_on("anon", home(), SIZE);
    assert_complete(&outcome);
    assert_eq!(on(&nodes(&other), away()), 32 * MIB, "{others:?}");
    let there = nodes(&pinned);
    assert!(on(&there, away()) > 0 && on(&there, home()) > 0, "{there:?}");
    for app in [&mut pinned, &mut other, &mut ballast] {
        app.check();
    }
    drop((ballast, other, pinned));
    scene.finish();
}

#[test]
fn without_others_the_rest_stays() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut ballast = fill_home();
    let (outcome, others) = run(&scene, &[]);
    assert!(others.is_empty() && outcome.calls.exchanged_bytes == 0, "{others:?}");
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert!(free_bytes(home()) >= RESERVE / 2, "the reserve is gone: {} free", free_bytes(home()));
    ballast.check();
    drop(ballast);
    scene.finish();
}

#[test]
fn nothing_is_pushed_onto_a_node_that_is_full_itself() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut other = best_effort("", 128);
    let (mut here, mut there) = (fill_home(), fill(away(), RESERVE / 2));
    let before = distress();
    let (outcome, others) = run(&scene, &[&other]);
    assert_eq!(gone(&others), 0, "{others:?}");
    assert_eq!(on(&nodes(&other), home()), 128 * MIB);
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert_eq!(distress(), before, "{DISTRESS:?}");
    for app in [&mut other, &mut here, &mut there] {
        app.check();
    }
    drop((here, there, other));
    scene.finish();
}

#[test]
fn a_cancelled_exchange_leaves_closed_accounts() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut other = best_effort("", 160);
    let mut ballast = fill_home();
    let inspected = inspect(&scene.target(), &options());
    let control = Control::default();
    // Slow enough to be cancelled in its middle.
    let limits = RunLimits { rate_bytes_per_second: Some(8 << 20), ..hurried() };
    let partners = [Target::Pid(other.pid())];
    let (outcome, others) = thread::scope(|scope| {
        let run = scope.spawn(|| exchange(&inspected, &partners, &limits, &control));
        // Free memory of the home node is used first.
        let moved = || control.moved_bytes.load(Relaxed);
        until("the exchange has begun", || moved() > SIZE / 3 && on(&nodes(&other), away()) > 0);
        control.cancel.store(true, Relaxed);
        run.join().expect("no panic")
    });
    let account = outcome.account();
    assert!(outcome.cancelled && account.left_for(Reason::Cancelled) > 0, "{outcome:?}");
    assert!(outcome.calls.exchanged_bytes > 0, "{outcome:?}");
    let (own, there) = (scene.nodes("anon"), nodes(&other));
    assert!(account.moved_bytes().abs_diff(on(&own, home())) <= SLACK, "{own:?} {outcome:?}");
    assert_eq!(on(&own, home()) + on(&own, away()), SIZE);
    assert!(gone(&others).abs_diff(on(&there, away())) <= SLACK, "{there:?} {others:?}");
    assert_eq!(on(&there, home()) + on(&there, away()), 160 * MIB);
    let stays: u64 = others.iter().map(|run| run.account().left_for(Reason::NotNeeded)).sum();
    assert!(stays > 0, "{others:?}");
    let exchanged = outcome.calls.exchanged_bytes;
    assert!(gone(&others) <= exchanged + CHUNK + 2 * MIB, "{outcome:?} {others:?}");
    other.check();
    ballast.check();
    drop((ballast, other));
    scene.finish();
}

#[test]
fn the_command_line_names_who_makes_room() {
    let scene = Scene::remote(&["anon:96M"]);
    let mut other = best_effort("", 160);
    let mut ballast = fill_home();
    let [pid, partner] = [scene.app.pid(), other.pid()].map(|pid| pid.to_string());
    let asked = ["--pid", &pid, "--make-room", "exchange", "--exchange-with", &partner];
    let plan = numalocctl(&[&["plan", "--standalone", "-o", "json"][..], &asked[..]].concat());
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    let room = &plan["plan"]["expected_room"][0];
    assert!(room["exchange_bytes"].as_u64() > Some(SIZE / 2), "{room}");
    assert_eq!(on(&nodes(&other), home()), 160 * MIB, "a plan moves nothing");
    let migrate = ["migrate", "--standalone", "--profile", "fast", "-o", "json"];
    let output = numalocctl(&[&migrate[..], &asked[..]].concat());
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    scene.assert_on("anon", home(), SIZE);
    let room = &document["plan"]["expected_room"][0];
    assert!(room["exchange_bytes"].as_u64() > Some(SIZE / 2), "as in the plan alone: {room}");
    let partners = &document["outcome"]["partners"];
    assert_eq!(partners[0]["member"]["pids"][0].as_i64(), Some(other.pid().into()), "{partners}");
    let moved = partners[0]["account"]["moved_bytes"].as_u64().expect("a number");
    assert!(moved.abs_diff(on(&nodes(&other), away())) <= SLACK, "{partners}");
    other.check();
    ballast.check();
    drop((ballast, other));
    scene.finish();
}
