//! Pictures: what they show of each mapping is what numa_maps says.

use crate::{
    cli::{assert_refused, code, numalocctl},
    place::{away, home},
    scene::{SLACK, Scene},
    truth::{Nodes, huge_bytes},
};
use serde_json::Value;
use std::{fs, ops::Range};

const MIB: u64 = 1 << 20;

/// The picture of a process as JSON; without a file.
fn picture(pid: i32) -> Value {
    let output = numalocctl(&["locality", "--draw", "--pid", &pid.to_string(), "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn nodes(of: &Value) -> Nodes {
    let nodes = of["nodes"].as_array().expect("a list").iter();
    nodes.map(|on| (on["node"].as_u64().expect("a node") as u32, number(on, "bytes"))).collect()
}

fn number(of: &Value, field: &str) -> u64 {
    of[field].as_u64().unwrap_or_else(|| panic!("{field} of {of}"))
}

fn add(sum: &mut Nodes, nodes: Nodes) {
    nodes.into_iter().for_each(|(node, bytes)| *sum.entry(node).or_default() += bytes);
}

fn close(shown: &Nodes, truth: &Nodes, what: &str) {
    for node in shown.keys().chain(truth.keys()) {
        let [shown, truth] = [shown, truth].map(|nodes| nodes.get(node).copied().unwrap_or(0));
        assert!(shown.abs_diff(truth) <= SLACK, "{what}, node {node}: {shown} shown, {truth} true");
    }
}

/// The mappings of a picture, with their addresses.
fn mappings(process: &Value) -> impl Iterator<Item = (Range<u64>, &Value)> {
    process["mappings"].as_array().expect("a list").iter().map(|mapping| {
        let address = mapping["address"].as_str().expect("an address");
        let start = u64::from_str_radix(address, 16).expect("hexadecimal");
        (start..start + number(mapping, "bytes"), mapping)
    })
}

/// Compares each mapping of a picture, and all of it, with numa_maps.
fn compare(scene: &Scene) -> Value {
    let picture = picture(scene.app.pid());
    let truth = scene.truth();
    let process = &picture["processes"][0];
    assert_eq!(picture["sampled"], false);
    for (range, mapping) in mappings(process) {
        let mut shown = Nodes::new();
        mapping["cells"]
            .as_array()
            .expect("a list")
            .iter()
            .for_each(|cell| add(&mut shown, nodes(cell)));
        let mut true_nodes = Nodes::new();
        let vmas = truth.vmas.iter().filter(|vma| range.contains(&vma.start));
        vmas.for_each(|vma| add(&mut true_nodes, vma.nodes.clone()));
        close(&shown, &true_nodes, &mapping["name"].to_string());
    }
    close(&nodes(process), &truth.all(), "all");
    picture
}

/// The mapping that a region is in.
fn mapping_of<'a>(picture: &'a Value, range: &Range<u64>) -> &'a Value {
    let found = mappings(&picture["processes"][0]).find(|(area, _)| area.contains(&range.start));
    found.unwrap_or_else(|| panic!("no mapping has {range:x?} in {picture}")).1
}

#[test]
fn a_picture_shows_what_numa_maps_says_before_and_after_a_move() {
    let scene = Scene::remote(&["anon:16M", "thp:32M"]);
    let thp = scene.app.range("thp");
    let before = compare(&scene);
    let cells = mapping_of(&before, &thp)["cells"].as_array().expect("a list").iter();
    let huge: u64 = cells.map(|cell| number(cell, "huge_bytes")).sum();
    assert_eq!(huge, huge_bytes(scene.app.pid(), thp), "the test needs huge pages");
    let remote = number(&before["processes"][0], "remote_bytes");
    assert!(remote >= 48 * MIB, "{remote} bytes remote");

    let file = std::env::temp_dir().join(format!("map-{}.svg", std::process::id()));
    let (pid, name) = (scene.app.pid().to_string(), file.display().to_string());
    let output = numalocctl(&["migrate", "--pid", &pid, "--draw", &name]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = fs::read_to_string(&file).expect("a picture");
    fs::remove_file(&file).expect("it is there");
    assert!(svg.contains(&format!("{pid} ")) && svg.contains("; afterwards "), "{svg}");

    let after = compare(&scene);
    // Memory that strangers map, too, stays where it is.
    let still_remote = number(&after["processes"][0], "remote_bytes");
    assert!(still_remote + 48 * MIB <= remote + SLACK, "{still_remote} of {remote} bytes remote");
    scene.assert_on("anon", home(), 16 * MIB);
    scene.finish();
}

#[test]
fn a_picture_that_cannot_be_written_moves_nothing() {
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    assert_refused(&["migrate", "--pid", &pid, "--draw", "/no/such/a.svg"], 1, "/no/such/a.svg");
    assert_refused(&["migrate", "--pid", &pid, "--draw", "/tmp/a.png"], 2, "/tmp/a.png");
    scene.assert_on("anon", away(), 16 * MIB);
    scene.finish();
}
