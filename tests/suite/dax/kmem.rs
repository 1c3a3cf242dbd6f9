//! Persistent memory as a node of its own, which daxctl makes and takes offline.

use super::make_character_device;
use crate::{
    app::{Layout, until},
    cli::{assert_refused, code, command, json, numalocctl},
    disk::is_slow_disk_writing,
    filled::{NODE, NOISE, cached_file, movable_bytes, services},
    settings::Setting,
    truth::{Truth, node_bytes, on},
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const MIB: u64 = 1 << 20;

/// What the kernel does with new memory, until it is set back.
fn as_daxctl_wants() -> Setting {
    Setting::set("/sys/devices/system/memory/auto_online_blocks", "offline")
}

fn daxctl(arguments: &[&str]) {
    let output = Command::new("daxctl").args(arguments).output().expect("daxctl");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Makes the DIMM of the node its memory, unless an earlier test has. The memory is in the zone Movable.
fn memory_of_the_node() {
    if !Path::new("/sys/bus/dax/devices/dax2.0").exists() {
        make_character_device(NODE);
    }
    let driver = fs::read_link("/sys/bus/dax/devices/dax2.0/driver").expect("it has a driver");
    match driver.ends_with("kmem") {
        true => daxctl(&["online-memory", "dax2.0"]),
        false => daxctl(&["reconfigure-device", "--mode=system-ram", "dax2.0"]),
    }
    assert!(node_bytes(NODE, "MemTotal:") >= 256 * MIB, "the scene");
}

fn has_memory() -> bool {
    let nodes = fs::read_to_string("/sys/devices/system/node/has_memory").expect("a list");
    nodes.trim() == "0-2"
}

fn kind_of_the_node() -> Value {
    let answer = json(&numalocctl(&["topology", "-o", "json"]));
    answer["topology"]["nodes"][NODE as usize]["kind"].clone()
}

#[test]
fn a_drained_node_goes_offline_and_what_cannot_leave_is_named() {
    let _settings = (Setting::still_host(), as_daxctl_wants());
    memory_of_the_node();
    assert_eq!(kind_of_the_node(), "NODE_KIND_PERSISTENT");
    let (services, file) = (services(), cached_file());
    let path = file.path().to_str().expect("text");
    // A disk that takes seconds for its first 256 KiB reads from the region: these pages stay until it has.
    let mut writer = Layout::remote(&["direct:/dev/vdb:1M"]).memory_on(NODE).start("writer");
    until("a write is in flight", is_slow_disk_writing);

    let drain = ["drain-node", "2", "--to", "0", "--file", path, "-o", "json"];
    let output = numalocctl(&drain);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(code(&output), Some(6), "{document}");
    let truth = Truth::of(writer.pid());
    let left = on(&truth.region(writer.range("direct")), NODE);
    assert!((1..=256 << 10).contains(&left), "{left} in flight: {document}");
    let named = document["jobs"][0]["outcome"]["processes"].as_array().expect("a list");
    let pid = |process: &&Value| process["process"]["pid"] == writer.pid();
    let process = named.iter().find(pid).unwrap_or_else(|| panic!("the owner: {document}"));
    let reasons = process["account"]["left"].to_string();
    assert!(reasons.contains("PINNED") || reasons.contains("BUSY"), "{process}");
    for service in &services {
        assert!(on(&Truth::of(service.pid()).all(), NODE) < NOISE, "{document}");
    }
    assert_eq!(on(&file.cached(), NODE), 0, "{:?}", file.cached());

    writer.kill();
    let output = numalocctl(&drain);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(matches!(code(&output), Some(0 | 6)), "{text}");
    assert!(movable_bytes() < NOISE, "{text}");
    daxctl(&["offline-memory", "dax2.0"]);
    assert!(!has_memory(), "all of it is offline");
    for mut service in services {
        service.check();
    }
    assert_refused(&["drain-node", "2"], 2, "node 2 has no memory");
    daxctl(&["reconfigure-device", "--mode=devdax", "--force", "dax2.0"]);
}

/// The node may be gone before the first call, between two, or after the last.
#[test]
fn a_node_that_goes_offline_while_memory_moves_loses_nothing() {
    let _settings = (Setting::still_host(), as_daxctl_wants());
    let mut app = Layout::remote(&["anon:96M", "thp:32M"]).start("target");
    let pid = app.pid().to_string();
    let there = ["migrate", "--pid", &pid, "--to", "2"];
    let away = ["drain-node", "2", "--to", "1"];
    for (round, arguments) in [&there[..], &away, &there, &away].into_iter().enumerate() {
        memory_of_the_node();
        if arguments == away {
            assert_eq!(code(&numalocctl(&there)), Some(0), "the scene");
        }
        let mut run = command();
        run.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = run.spawn().expect("it starts");
        daxctl(&["offline-memory", "dax2.0"]);
        let output = run.wait_with_output().expect("it ends");
        assert!(matches!(code(&output), Some(0 | 2 | 6)), "round {round}: {output:?}");
        let all = Truth::of(app.pid()).all();
        assert_eq!(on(&all, NODE), 0, "round {round}: {all:?}");
        app.check();
    }
    daxctl(&["reconfigure-device", "--mode=devdax", "--force", "dax2.0"]);
}
