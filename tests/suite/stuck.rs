//! Calls that do not return: a real-time thread keeps a CPU, and the kernel waits for it. The command that has made the call names the thread and ends.

use crate::{
    app::until,
    cli::{code, command, json, numalocctl},
    disk::OnDisk,
    engine::migrate,
    hog::{Hog, companions},
    scene::Scene,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use numaloc_core::Options;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
/// Far below the time for which a run waits for a call without a request to end.
const SOON: Duration = Duration::from_secs(20);

/// Runs numalocctl without a daemon, and for a second, which does not suffice.
fn for_a_second(arguments: &[&str]) -> String {
    fails(&[&["--timeout", "1s"], arguments].concat())
}

fn fails(arguments: &[&str]) -> String {
    let begin = Instant::now();
    let output =
        command().args(["migrate", "--standalone"]).args(arguments).output().expect("it starts");
    let all = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&all).into_owned();
    assert!(begin.elapsed() < SOON, "{:?}: {text}", begin.elapsed());
    assert_eq!(code(&output), Some(1), "{text}");
    text
}

fn names(text: &str, hog: &Hog) {
    assert!(text.contains("move_pages has not returned for "), "{text}");
    assert!(text.contains(&hog.name()), "{text}");
}

#[test]
fn a_call_that_does_not_return_ends_the_command_by_name() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    let file = OnDisk::new("stuck", 4);
    file.read(1);
    let hog = Hog::unlimited();

    names(&for_a_second(&["--pid", &pid]), &hog);
    let path = file.path().to_str().expect("UTF-8");
    names(&for_a_second(&["--to", "0", "--file", path]), &hog);

    // No end is requested, but it is known what the call waits for.
    names(&fails(&["--pid", &pid]), &hog);

    // Ctrl-C: the process ends, and is gone, although its call is not.
    let child = command()
        .args(["migrate", "--standalone", "--pid", &pid, "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let before = companions();
    until("it calls", || companions() > before);
    let begin = Instant::now();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert!(begin.elapsed() < SOON, "{:?}: {output:?}", begin.elapsed());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let state = report["state"].as_str().unwrap_or_default();
    let message = report["state_message"].as_str().unwrap_or_default();
    assert!(matches!(state, "JOB_STATE_FAILED" | "JOB_STATE_CANCELLED"), "{report:#}");
    names(message, &hog);
    assert!(companions() > 0, "the calls have not returned");

    let doctor = numalocctl(&["doctor", "--standalone"]);
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(doctor.contains(&hog.name()) && doctor.contains("until the thread sleeps"), "{doctor}");

    drop(hog);
    until("the calls return", || companions() == 0);
    json(&numalocctl(&["migrate", "--standalone", "--pid", &pid, "-o", "json"]));
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
}

#[test]
fn a_limited_real_time_thread_delays_calls_and_no_more() {
    let scene = Scene::remote(&["anon:32M"]);
    let hog = Hog::limited();
    let outcome = migrate(&scene.target(), &Options::default());
    drop(hog);
    scene.assert_on("anon", 0, 32 * MIB);
    let calls = outcome.calls;
    // Calls of a quarter of a second and more have waited for the CPU, and not for pages of the application.
    let (slow, fast): (u64, u64) = (calls.times[11..].iter().sum(), calls.times[..11].iter().sum());
    println!("{slow} slow calls, {fast} fast ones, longest {:?}", calls.longest);
    assert!(calls.over_stall <= fast, "{calls:?}");
    scene.finish();
}
