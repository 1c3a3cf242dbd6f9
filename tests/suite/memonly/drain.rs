//! `drain-node`: a node without CPUs becomes empty, so that its memory can go offline.

use crate::{
    cli::{assert_refused, code, numalocctl},
    filled::{NODE, NOISE, cached_file, movable_bytes, services},
    settings::Setting,
    truth::{Truth, on},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

const MIB: u64 = 1 << 20;

/// The blocks of the node's memory, in ascending order.
fn blocks() -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/sys/devices/system/node/node{NODE}")).expect("a node");
    let number =
        |path: &PathBuf| path.file_name()?.to_str()?.strip_prefix("memory")?.parse::<u64>().ok();
    let mut blocks: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|at| number(at).is_some())
        .collect();
    blocks.sort_by_key(number);
    blocks
}

fn set(block: &Path, state: &str) -> bool {
    fs::write(block.join("state"), state).is_ok()
}

/// Puts as much of the node as possible into the zone Movable, as kmem memory is. Returns these blocks.
fn movable_blocks() -> Vec<PathBuf> {
    let blocks: Vec<_> = blocks().into_iter().rev().filter(|block| set(block, "offline")).collect();
    // Blocks of a zone are adjacent, the highest ones first.
    blocks.into_iter().filter(|block| set(block, "online_movable")).collect()
}

fn kind(contents: &Value, kind: &str) -> u64 {
    let kinds = contents["kinds"].as_array().expect("kinds");
    let found = kinds.iter().find(|each| each["kind"] == format!("CONTENT_KIND_{kind}"));
    found.map_or(0, |each| {
        let bytes = &each["bytes"];
        bytes.as_u64().or_else(|| bytes.as_str()?.parse().ok()).expect("a number")
    })
}

#[test]
fn a_node_with_services_and_cache_becomes_empty_and_goes_offline() {
    let _still = Setting::still_host();
    let movable = movable_blocks();
    assert!(movable.len() > 1, "the scene: {movable:?}");
    let (services, file) = (services(), cached_file());
    let path = file.path().to_str().expect("text");
    let before = movable_bytes();
    assert!(before >= 160 * MIB, "the scene: {before}");

    let preview = numalocctl(&["drain-node", "2", "--dry-run", "--file", path]);
    let text = String::from_utf8_lossy(&preview.stdout);
    assert_eq!(code(&preview), Some(0), "{text}");
    assert!(text.contains("anonymous") && text.contains("zone Movable"), "{text}");
    assert!(movable_bytes() >= before - NOISE, "a preview moves nothing");

    let output = numalocctl(&["drain-node", "2", "--to", "0", "--file", path, "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert!(matches!(code(&output), Some(0 | 6)), "{document}");
    for service in services {
        let all = Truth::of(service.pid()).all();
        assert!(on(&all, NODE) < NOISE, "{all:?}");
        let mut service = service;
        service.check();
    }
    assert_eq!(on(&file.cached(), NODE), 0, "{:?}", file.cached());
    let left = movable_bytes();
    assert!(left < NOISE, "{left} bytes: {document}");
    let after = &document["after"];
    let told = kind(after, "ANONYMOUS") + kind(after, "SHMEM") + kind(after, "CACHE");
    assert!(told.abs_diff(left) < NOISE, "{told} for {left}: {document}");
    assert!(kind(&document["before"], "ANONYMOUS") >= 110 * MIB, "{document}");
    let kept: Vec<_> = movable.iter().filter(|block| !set(block, "offline")).collect();
    assert_eq!(kept, Vec::<&PathBuf>::new(), "all of its movable memory goes offline");
    movable.iter().for_each(|block| assert!(set(block, "online"), "{block:?}"));
}

#[test]
fn a_node_that_cannot_be_drained_is_named() {
    assert_refused(&["drain-node", "9"], 2, "node 9 has no memory");
    assert_refused(&["drain-node", "2", "--to", "1-2"], 2, "--to names node 2");
    assert_refused(&["drain-node", "2", "--to", "7"], 2, "node 7 does not exist");
}
