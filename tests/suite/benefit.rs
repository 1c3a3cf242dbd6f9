//! Benefit of a move, weights by bandwidth, and settings that work against a placement on several nodes.

use crate::{
    app::{Layout, until},
    cli::{assert_refused, code, command, json, numalocctl},
    scene::Scene,
    settings::Setting,
    spread::assert_spread,
    truth::Truth,
};
use numaloc_core::page_size;
use serde_json::Value;
use std::{
    fs::{self, File},
    process::{Command, Stdio},
};

const MIB: u64 = 1 << 20;
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";

fn plan(arguments: &[&str]) -> Value {
    json(&numalocctl(&[&["plan", "-o", "json"], arguments].concat()))["plan"].clone()
}

fn number(of: &Value) -> f64 {
    let number = of.as_f64().or_else(|| of.as_str()?.parse().ok());
    number.unwrap_or_else(|| panic!("{of} is not a number"))
}

/// The distances of nodeN/distance.
fn distance(from: u32, to: usize) -> f64 {
    let row = fs::read_to_string(format!("/sys/devices/system/node/node{from}/distance"));
    let row = row.expect("a list of distances");
    row.split_whitespace().nth(to).and_then(|text| text.parse().ok()).expect("a distance")
}

#[test]
fn a_plan_says_what_it_would_bring_as_a_range() {
    let scene = Scene::remote(&["anon:48M"]);
    let pid = scene.app.pid().to_string();
    assert!(plan(&["--pid", &pid])["benefit"].is_null(), "it was not asked for");
    // The kept result of another test would be taken first.
    let kept = "/var/lib/numalocctl/bench.json";
    drop(fs::remove_file(kept));
    let found = plan(&["--pid", &pid, "--benefit"]);
    let benefit = &found["benefit"];
    assert_eq!(benefit["source"], "LATENCY_SOURCE_DISTANCES", "{benefit}");
    let (local, remote) = (distance(0, 0), distance(0, 1));
    assert_eq!(number(&benefit["latency_before"]), remote, "{benefit}");
    assert_eq!(number(&benefit["latency_after"]), local, "{benefit}");
    assert_eq!(number(&benefit["min_percent"]), 0.0);
    let overall = &found["overall_before"];
    let all = number(&overall["local_bytes"]) + number(&overall["remote_bytes"]);
    let share = number(&found["expected_bytes"]) / all;
    let mean = share * remote + (1.0 - share) * local;
    let most = 100.0 * share * (remote - local) / mean;
    assert!((number(&benefit["max_percent"]) - most).abs() < 0.01, "{most}: {benefit}");

    let measured = numalocctl(&["bench", "--size", "2M", "--seconds", "100ms"]);
    assert_eq!(code(&measured), Some(0));
    let by_bench = plan(&["--pid", &pid, "--benefit"])["benefit"].clone();
    assert_eq!(by_bench["source"], "LATENCY_SOURCE_BENCH", "{by_bench}");
    let text = numalocctl(&["plan", "--pid", &pid, "--benefit"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains("\nbenefit: ") && text.contains("(bench: "), "{text}");
    fs::remove_file(kept).expect("root keeps it there");
    scene.assert_on("anon", 1, 48 * MIB);
    // This kernel has no resctrl here, and the move is made all the same.
    let moved = numalocctl(&["migrate", "--pid", &pid, "--benefit"]);
    assert_eq!(code(&moved), Some(0));
    let said = String::from_utf8_lossy(&moved.stderr);
    assert!(said.contains("remote memory traffic is not measured: no counters"), "{said}");
    scene.assert_on("anon", 0, 48 * MIB);
    scene.finish();
}

#[test]
fn advice_has_the_same_range_and_the_share_that_fits_on_one_node() {
    let scene = Scene::remote(&["anon:64M"]);
    let pid = scene.app.pid().to_string();
    let answer = json(&numalocctl(&["advise", "--pid", &pid, "--min-bytes", "16M", "-o", "json"]));
    let advice = &answer["advice"];
    let benefit = &advice["findings"][0]["benefit"];
    assert!(number(&benefit["max_percent"]) > 0.0, "{advice:#}");
    assert_eq!(advice["node_fit_count"], 1, "{advice:#}");
    let (fit, all) = (number(&advice["node_fit_bytes"]), number(&advice["memory_bytes"]));
    assert!(fit == all && all >= 64.0 * MIB as f64, "{advice:#}");
    scene.finish();
}

#[test]
fn weights_by_bandwidth_are_the_kernels_own() {
    let scene = Scene::of(Layout::remote(&["anon:24M"]).on("0,1"));
    let pid = scene.app.pid().to_string();
    let wanted = ["--pid", &pid, "--place", "weighted", "--weights", "bandwidth"];
    drop(fs::remove_file("/var/lib/numalocctl/bench.json"));
    if !fs::exists(WEIGHTS).expect("sysfs") {
        let plan = [&["plan"], &wanted[..]].concat();
        assert_refused(&plan, 2, "give numbers, on the command line for example --weights 0=3,1=1");
        // The figures of bench are enough.
        assert_eq!(code(&numalocctl(&["bench", "--size", "2M", "--seconds", "100ms"])), Some(0));
        assert_eq!(self::plan(&wanted)["weight_source"], "WEIGHT_SOURCE_BENCH");
        scene.assert_on("anon", 1, 24 * MIB);
        scene.finish();
        return;
    }
    let _weights = [("node0", "3"), ("node1", "1")]
        .map(|(name, weight)| Setting::set(format!("{WEIGHTS}/{name}"), weight));
    let found = plan(&wanted);
    assert_eq!(found["weight_source"], "WEIGHT_SOURCE_KERNEL", "{found:#}");
    let weights = serde_json::json!([{"node_id": 0, "weight": 3}, {"node_id": 1, "weight": 1}]);
    assert_eq!(found["weights"], weights);
    let moved = numalocctl(&[&["migrate"], &wanted[..]].concat());
    assert_eq!(code(&moved), Some(0), "{}", String::from_utf8_lossy(&moved.stderr));
    assert_spread(&scene.app, "anon", page_size(), &[0, 0, 0, 1]);
    let text = String::from_utf8_lossy(&moved.stdout);
    assert!(text.contains("numactl --weighted-interleave=0-1"), "{text}");
    scene.finish();
}

#[test]
fn devices_and_balancing_are_named_for_a_wide_placement() {
    let directory = "/dev/infiniband";
    let device = format!("{directory}/uverbs0");
    fs::create_dir_all(directory).expect("root may");
    fs::write(&device, "").expect("root may");
    let open = File::open(&device).expect("it is there");
    let mut child = Command::new("sleep").arg("600").stdin(Stdio::from(open)).spawn().expect("it");
    let pid = child.id().to_string();
    let wanted = ["--pid", &pid, "--place", "interleave"];
    let found = {
        let _on = Setting::numa_balancing(true);
        plan(&wanted)
    };
    assert_eq!(found["devices"][0]["paths"], serde_json::json!([device]), "{found:#}");
    assert_eq!(found["devices"][0]["process"]["pid"], child.id(), "{found:#}");
    let exposed = number(&found["exposed_bytes"]);
    let truth = Truth::of(child.id().try_into().expect("a pid"));
    let all: u64 = truth.all().values().sum();
    assert!(exposed > 0.0 && exposed <= all as f64, "{exposed} of {all}: {found:#}");
    let _off = Setting::numa_balancing(false);
    assert_eq!(number(&plan(&wanted)["exposed_bytes"]), 0.0);
    assert_eq!(plan(&["--pid", &pid])["devices"], serde_json::json!([]));
    let text = numalocctl(&[&["migrate"], &wanted[..]].concat());
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains(&format!("has {device} open")), "{text}");
    assert!(text.contains("numactl --interleave=0-1"), "{text}");
    child.kill().and_then(|()| child.wait()).expect("our own");
    fs::remove_dir_all(directory).expect("root may");
}

/// The shape is tested: what moves, and that nothing else does. How long it takes means nothing here.
#[test]
fn balancing_undoes_what_is_interleaved_and_leaves_blocks() {
    let _balancing = Setting::numa_balancing(true);
    let measuring =
        ["bench", "placement", "--switch-balancing", "--size", "24M", "--seconds", "20s"];
    let document = json(&numalocctl(&[&measuring[..], &["-o", "json"]].concat()));
    assert_eq!(fs::read_to_string(BALANCING).expect("a setting").trim(), "1", "it is put back");
    let runs = document["runs"].as_array().expect("a list");
    let run = |placement: &str, balancing: u64| {
        let is_it = |run: &&Value| {
            run["placement"] == placement && run["numa_balancing"].as_u64() == Some(balancing)
        };
        runs.iter().find(is_it).unwrap_or_else(|| panic!("{document:#}"))
    };
    let pages = 2 * 24 * MIB / page_size();
    for (placement, remote) in [("interleave", pages / 2), ("block", 0)] {
        for balancing in [0, 1] {
            let run = run(placement, balancing);
            assert_eq!(run["pages"], pages, "{document:#}");
            // A page or two may have moved before the first look.
            let found = number(&run["remote_pages"]);
            assert!((found - remote as f64).abs() <= pages as f64 / 100.0, "{document:#}");
        }
        assert_eq!(run(placement, 0)["moved_pages"], 0, "{document:#}");
    }
    let undone = number(&run("interleave", 1)["moved_pages"]);
    assert!(undone >= 0.9 * (pages / 2) as f64, "{document:#}");
    assert!(number(&run("block", 1)["moved_pages"]) <= pages as f64 / 100.0, "{document:#}");
    println!("{document:#}");
}

#[test]
fn balancing_is_put_back_after_a_measurement_that_is_killed() {
    let _balancing = Setting::numa_balancing(true);
    let value = || fs::read_to_string(BALANCING).expect("a setting").trim().to_owned();
    let measuring = ["bench", "placement", "--switch-balancing", "--size", "4M"];
    // The second run has it off.
    let mut child =
        command().args(measuring).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it");
    until("balancing is off", || value() == "0");
    child.kill().and_then(|()| child.wait()).expect("our own");
    until("it is on again", || value() == "1");
}
