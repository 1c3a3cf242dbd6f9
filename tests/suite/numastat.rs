//! `numastat -p`, which is not ours, beside numa_maps as the suites read it and beside `numalocctl locality`: all three say the same.

use crate::{
    cli::{code, json, located, numalocctl},
    place::{away, both, home},
    scene::{SLACK, Scene},
    settings::Setting,
    truth::{Nodes, on},
};
use serde_json::Value;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// What `numastat -p` tells apart (numastat.c, `process_table` of numactl), and by our kinds: its Private is all else.
const ROWS: [&str; 4] = ["Huge", "Heap", "Stack", "Private"];

/// A row of `numastat -p`: MiB with two decimals for each node, and their sum.
fn numastat(pid: i32, name: &str) -> Nodes {
    let output = Command::new("numastat").args(["-p", &pid.to_string()]).output();
    let output = output.expect("setup.sh installs numactl");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let row = text.lines().rfind(|line| line.starts_with(name));
    let row = row.unwrap_or_else(|| panic!("no {name}: {text}"));
    let bytes = |number: &str| (number.parse::<f64>().expect("MiB") * MIB as f64) as u64;
    let mut columns: Vec<u64> = row.split_whitespace().skip(1).map(bytes).collect();
    let sum = columns.pop().expect("a sum");
    assert!(sum.abs_diff(columns.iter().sum()) <= SLACK, "{text}");
    (0..).zip(columns).collect()
}

/// What `locality` answers of a process that is the only one of the target.
fn locality(pid: i32) -> Value {
    json(&numalocctl(&["locality", "--pid", &pid.to_string(), "-o", "json"]))
}

/// The nodes of the memory that numastat has in this row.
fn of_kind(answer: &Value, name: &str) -> Nodes {
    let row = |of: &Value| match (of["hugetlb"].as_bool(), of["kind"].as_str()) {
        (Some(true), _) => "Huge",
        (_, Some("MEMORY_KIND_HEAP")) => "Heap",
        (_, Some("MEMORY_KIND_STACK")) => "Stack",
        _ => "Private",
    };
    let kinds = answer["kinds"].as_array().expect("a list");
    let mut nodes = Nodes::new();
    for on in
        kinds.iter().filter(|of| row(of) == name).flat_map(|of| of["nodes"].as_array()).flatten()
    {
        let node = on["node_id"].as_u64().and_then(|node| node.try_into().ok()).expect("a node");
        *nodes.entry(node).or_default() += on["bytes"].as_u64().expect("a number");
    }
    nodes
}

/// Compares all three, and the kinds of memory that numastat knows. Returns what numastat says of all together.
fn compare(scene: &Scene) -> Nodes {
    let pid = scene.app.pid();
    let (truth, told, answer) = (scene.truth().all(), numastat(pid, "Total"), locality(pid));
    let ours = located(&answer);
    for name in ROWS {
        let (told, ours) = (numastat(pid, name), of_kind(&answer, name));
        for node in both() {
            let [told, ours] = [&told, &ours].map(|nodes| on(nodes, node));
            assert!(
                ours.abs_diff(told) <= SLACK,
                "{name}, node {node}: {ours} ours, {told} in numastat"
            );
        }
    }
    for node in both() {
        let [truth, told, ours] = [&truth, &told, &ours].map(|nodes| on(nodes, node));
        assert!(told.abs_diff(truth) <= SLACK, "node {node}: {told} in numastat, {truth} true");
        assert!(ours.abs_diff(told) <= SLACK, "node {node}: {ours} ours, {told} in numastat");
    }
    told
}

fn agrees(regions: &[&str], bytes: u64) {
    let scene = Scene::remote(regions);
    let before = compare(&scene);
    assert!(on(&before, away()) >= bytes, "{before:?}");
    let output = numalocctl(&["migrate", "--pid", &scene.app.pid().to_string()]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let after = compare(&scene);
    assert!(
        on(&after, home()) >= bytes && on(&after, away()) + bytes <= on(&before, away()) + SLACK,
        "{after:?}"
    );
    scene.finish();
}

#[test]
fn numastat_agrees_before_and_after_a_migration() {
    agrees(&["anon:16M", "thp:32M", "shm:8M", "file:/dev/shm/numastat{}:8M"], 64 * MIB);
}

/// numa_maps counts these by their own size, and numastat multiplies.
#[test]
fn numastat_agrees_on_hugetlb_pages() {
    let _pools = both().map(|node| Setting::huge_pool(node, 32));
    agrees(&["hugetlb:32M", "anon:16M"], 48 * MIB);
}
