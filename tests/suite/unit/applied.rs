//! `advise --apply` on five misplaced services, of which the fourth gets worse, and `advise --undo`.

use super::{MIB, Service};
use crate::{
    cli::{code, command, json, numalocctl},
    truth::on,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::Stdio,
};

const SIZES_MIB: [u64; 5] = [24, 28, 32, 56, 64];
/// The number of the service that gets worse.
const WORSE: usize = 3;
/// The number of the service whose cpuset forbids its home.
const FORBIDDEN: usize = 1;

fn name(number: usize) -> String {
    format!("numaloc-apply{number}.service")
}

/// The arguments that name all five.
fn targets() -> Vec<String> {
    let target = |number| ["--cgroup".to_owned(), format!("/system.slice/{}", name(number))];
    (0..5).flat_map(target).collect()
}

/// cpuset.mems of the service that has one.
fn mems(services: &[Service]) -> String {
    let file = services[FORBIDDEN].unit.cgroup().join("cpuset.mems");
    fs::read_to_string(file).expect("its nodes").trim().to_owned()
}

fn allowed(services: &[Service]) -> String {
    services[FORBIDDEN].unit.property("AllowedMemoryNodes")
}

/// Applies the advice, and pulls the fourth service's memory away as soon as it has been moved.
fn apply(services: &[Service]) -> (Option<i32>, Value) {
    let mut ctl = command();
    ctl.args(["advise", "--apply", "--yes", "--seconds", "2", "--min-bytes", "16M", "-o", "json"]);
    ctl.args(targets()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut ctl = ctl.spawn().expect("it starts");
    let said = BufReader::new(ctl.stderr.take().expect("piped"));
    let hold = |signal| kill(Pid::from_raw(ctl.id() as i32), signal).expect("a child");
    for line in said.lines().map_while(Result::ok) {
        println!("{line}");
        if line.contains(&format!("{} of 5: looking again", WORSE + 1)) {
            hold(Signal::SIGSTOP);
            services[WORSE].assert_on(0);
            pull(&services[WORSE], &["--to", "1"]);
            services[WORSE].assert_on(1);
            hold(Signal::SIGCONT);
        }
    }
    let mut text = String::new();
    ctl.stdout.take().expect("piped").read_to_string(&mut text).expect("text");
    let code = ctl.wait().expect("it ends").code();
    (code, serde_json::from_str(&text).expect("JSON"))
}

fn pull(service: &Service, options: &[&str]) {
    let pid = service.pid().to_string();
    let output = numalocctl(&[&["migrate", "--standalone", "--pid", &pid], options].concat());
    assert_eq!(code(&output), Some(0), "{output:?}");
}

/// Asserts that half of the fourth service is on each node, give or take what whole percents take.
fn assert_half(service: &Service) {
    let (nodes, half) = (service.nodes(), service.bytes / 2);
    let is_half = |node| on(&nodes, node).abs_diff(half) <= 4 * MIB;
    assert!(is_half(0) && is_half(1), "{nodes:?}");
}

#[test]
fn five_services_are_brought_home_until_one_gets_worse_and_are_sent_back() {
    let services: Vec<Service> = (0..5)
        .map(|number| {
            let mems = if number == FORBIDDEN { "AllowedMemoryNodes=1" } else { "" };
            Service::with(&name(number), mems, (SIZES_MIB[number], "idle"))
        })
        .collect();
    pull(&services[WORSE], &["--to", "0", "--target-ratio", "50"]);
    assert_half(&services[WORSE]);
    let before = (mems(&services), allowed(&services));
    assert_eq!(before, ("1".into(), "1".into()));

    let (code, answer) = apply(&services);
    println!("{answer:#}");
    let ends: Vec<&str> = answer["applied"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["end"].as_str().expect("a word"))
        .collect();
    assert_eq!((code, &ends[..]), (Some(1), &["done", "done", "done", "worse", "not_done"][..]));
    let worse = &answer["applied"][WORSE];
    let fell = "its local share fell from 5";
    assert!(worse["reason"].as_str().is_some_and(|why| why.starts_with(fell)), "{worse:#}");
    for service in &services[..WORSE] {
        service.assert_on(0);
    }
    assert_eq!((mems(&services), allowed(&services)), ("0".into(), "0".into()));
    // It was taken back at once, to where it was and not to where it was pulled.
    assert_half(&services[WORSE]);
    services[4].assert_on(1);

    let answer = json(&numalocctl(&["advise", "--undo", "-o", "json"]));
    println!("{answer:#}");
    // A migration ends at whole percents, and some of a service's memory was on node 0 from the start.
    for (number, service) in services.iter().enumerate().filter(|(number, _)| *number != WORSE) {
        let (nodes, all) = (service.nodes(), SIZES_MIB[number] * MIB);
        assert!(
            on(&nodes, 1) >= all - MIB && all == on(&nodes, 0) + on(&nodes, 1),
            "{number}: {nodes:?}"
        );
    }
    assert_half(&services[WORSE]);
    assert_eq!((mems(&services), allowed(&services)), before);
    let again = json(&numalocctl(&["advise", "--undo", "-o", "json"]));
    assert_eq!(again["undone"], serde_json::json!([]));
}
