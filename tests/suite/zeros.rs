//! Memory that was only read: the kernel shows one page of zeros for all of it, which takes no memory and is on no side.

use crate::{
    app::{App, Layout},
    cli::{NOBODY, as_nobody, json, located, numalocctl},
    place::{away, home},
    settings::Setting,
    top::{after_a_full_pass, row},
    truth::{Truth, off, on},
};
use numaloc_core::page_size;
use std::{fs::File, os::unix::fs::FileExt};

const MIB: u64 = 1 << 20;
/// Memory of a process besides its regions, and the largest difference of its counters from its page tables.
const SLACK: u64 = 4 * MIB;

/// The page table entries of a region that show a page, as the kernel counts them in the page map.
fn present_pages(app: &App, name: &str) -> u64 {
    let range = app.range(name);
    let map = File::open(format!("/proc/{}/pagemap", app.pid())).expect("our own child");
    let mut bytes = vec![0; ((range.end - range.start) / page_size() * 8) as usize];
    map.read_exact_at(&mut bytes, range.start / page_size() * 8).expect("a page map");
    bytes.chunks_exact(8).filter(|entry| entry[7] & 0x80 != 0).count() as u64
}

/// A process with 8 MiB at home, and another region that it has only read. The page of zeros is on either node.
fn reader(region: &str) -> App {
    let app = Layout::remote(&["own=anon:8M", region]).on(away()).load("idle").start("zeros");
    let truth = Truth::of(app.pid());
    assert_eq!(on(&truth.region(app.range("own")), away()), 8 * MIB);
    assert_eq!(truth.region(app.range("read")), [].into(), "numa_maps does not count zeros");
    let range = app.range("read");
    assert_eq!(
        present_pages(&app, "read"),
        (range.end - range.start) / page_size(),
        "all of it is shown"
    );
    app
}

/// The figures of `top` and `locality` for a process are those of numa_maps.
fn no_process_has_zeros(region: &str) {
    let _balancing = Setting::numa_balancing(false);
    let app = reader(region);
    let pid = app.pid().to_string();
    let truth = Truth::of(app.pid()).all();
    let all: u64 = truth.values().sum();

    let document = after_a_full_pass(&["--cpu-budget", "50"]);
    let row = row(&document, app.pid());
    let seen = row["local_bytes"].as_u64().unwrap() + row["remote_bytes"].as_u64().unwrap();
    assert!(seen.abs_diff(all) <= SLACK, "top: {row}, numa_maps: {truth:?}");

    let output = numalocctl(&["locality", "--pid", &pid, "-o", "json", "--standalone"]);
    let document = json(&output);
    let seen: u64 = located(&document).values().sum();
    assert!(seen.abs_diff(all) <= SLACK, "locality: {document:#}, numa_maps: {truth:?}");
    assert_eq!(document["locality"]["unplaced_bytes"], 0);
}

#[test]
fn base_pages_of_zeros_are_nobodys() {
    no_process_has_zeros("read=anon:256M:touch");
}

#[test]
fn huge_pages_of_zeros_are_nobodys() {
    no_process_has_zeros("read=thp:256M:touch");
}

/// Advice samples what is large: what was only read weighs nothing there.
#[test]
fn advice_is_about_memory_that_is_there() {
    let _balancing = Setting::numa_balancing(false);
    let layout = Layout::remote(&["own=anon:64M", "read=anon:1100M:touch"]).load("idle");
    let app = layout.start("zeros");
    let pid = app.pid().to_string();
    let output = numalocctl(&[
        "advise",
        "--seconds",
        "1",
        "--min-bytes",
        "16M",
        "--pid",
        &pid,
        "-o",
        "json",
    ]);
    let advice = json(&output);
    let bytes = advice["advice"]["findings"][0]["bytes"].as_u64().expect("a finding");
    let truth = off(&Truth::of(app.pid()).all(), home());
    assert!(bytes.abs_diff(truth) <= SLACK, "{advice:#}, {truth} in numa_maps");
}

/// Without CAP_SYS_ADMIN frames are hidden, and the page of zeros is known by the answer of move_pages(2).
#[test]
fn without_page_frames_zeros_are_nobodys_either() {
    let _balancing = Setting::numa_balancing(false);
    for region in ["read=anon:64M:touch", "read=thp:64M:touch"] {
        let layout = Layout::remote(&["own=anon:8M", region]).on(away()).load("idle");
        let app = layout.owned_by(NOBODY).start("zeros");
        let pid = app.pid().to_string();
        let output = as_nobody(&["locality", "--pid", &pid, "-o", "json"]);
        let document = json(&output);
        let seen: u64 = located(&document).values().sum();
        let all = Truth::of(app.pid()).all().values().sum();
        assert!(seen.abs_diff(all) <= SLACK, "{region}: {document:#}");
        assert_eq!(document["locality"]["unplaced_bytes"], 0, "{region}");
    }
}
