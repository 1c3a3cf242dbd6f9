//! Shared memory that one process maps.

use crate::{
    app::Layout,
    cli::{code, command, json, numalocctl},
    engine::inspect,
    place::home,
    scene::{Scene, assert_complete},
    settings::Setting,
};
use nix::sys::memfd::{MFdFlags, memfd_create};
use numaloc_core::{Options, page_size};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::Target;
use numaloc_sys::{FilePages, page_bytes};
use std::{
    fs::{self, File},
    process::Command,
};

const MIB: u64 = 1 << 20;

#[test]
fn shared_anonymous_memory_comes_home() {
    let scene = Scene::remote(&["shm:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("shm", home(), 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memfd_comes_home() {
    let scene = Scene::remote(&["memfd:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("memfd", home(), 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn what_a_stranger_leaves_behind_is_late() {
    const FILE: &str = "/dev/shm/left-behind";
    let _balancing = Setting::numa_balancing(false);
    let segment = format!("segment=file:{FILE}:16M");
    let mut stranger = Layout::remote(&[&segment]).load("idle").start("stranger");
    let mut app = Layout::remote(&[&segment, "anon:16M"]).load("idle").start("target");
    stranger.check();
    app.check();
    let target = [Target::Pid(app.pid())];
    let before = inspect(&target, &Options::default());
    let limits = RunLimits { duty_percent: Some(100), ..RunLimits::default() };
    let account = before.carry_out(&limits, &Control::default()).account();
    let after = || before.look_again().locality;
    assert_eq!(account.late_bytes(&after(), 100), 0, "{account:?}");
    drop(stranger);
    fs::remove_file(FILE).expect("it is there");
    let late = account.late_bytes(&after(), 100);
    // The stranger mapped the program file too.
    assert!((16 * MIB..20 * MIB).contains(&late), "{late} of {account:?}");
    assert!(!account.is_partial(), "it was the stranger's, too");
}

#[test]
fn processes_that_share_it_are_named() {
    const FILE: &str = "/dev/shm/named";
    let _balancing = Setting::numa_balancing(false);
    let segment = format!("segment=file:{FILE}:16M");
    let stranger = Layout::remote(&[&segment]).load("idle").start("stranger");
    let app = Layout::remote(&[&segment, "anon:16M"]).load("idle").start("target");
    let pid = app.pid().to_string();
    let plan = |extra: &[&str]| {
        let asked = [&["plan", "--standalone", "-o", "json", "--pid", &pid], extra].concat();
        json(&numalocctl(&asked))["plan"].clone()
    };
    let planned = plan(&[]);
    let named = |pid: i32| {
        let all = planned["sharing"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|one| one["process"]["pid"] == pid)
    };
    let named = named(stranger.pid()).unwrap_or_else(|| panic!("{planned}"));
    // Both map the program file, too.
    let bytes = named["bytes"].as_u64().expect("bytes");
    assert!((16 * MIB..20 * MIB).contains(&bytes), "{named}");
    assert_eq!(named["name"], FILE);
    let cgroup = fs::read_to_string(format!("/proc/{}/cgroup", stranger.pid())).expect("it lives");
    let cgroup = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    assert_eq!(named["cgroup"].as_str().unwrap_or(""), cgroup.unwrap_or(""), "{named}");
    assert!(planned["sharing_count"].as_u64().is_some_and(|count| count >= 1), "{planned}");
    let alone = plan(&["--include-shared"]);
    assert!(alone["sharing"].as_array().is_none_or(Vec::is_empty), "nothing stays shared: {alone}");
    drop((stranger, app));
    fs::remove_file(FILE).expect("it is there");
}

/// Copies that a fork has left common: no maps name them, and the parent outside the target is known by its layout.
#[test]
fn a_parent_that_shares_private_memory_is_named() {
    let _balancing = Setting::numa_balancing(false);
    let mut family = Layout::remote(&["anon:16M"]).load("idle").start("family");
    let forked = family.ask("fork 1");
    let child = forked.trim_start_matches("forked [").trim_end_matches(']');
    let asked = ["plan", "--standalone", "-o", "json", "--pid", child];
    let planned = json(&numalocctl(&asked))["plan"].clone();
    let all = planned["sharing"].as_array().cloned().unwrap_or_default();
    let parent = all.iter().find(|one| one["process"]["pid"] == family.pid());
    let parent = parent.unwrap_or_else(|| panic!("{planned}"));
    assert!(parent["bytes"].as_u64().is_some_and(|bytes| bytes >= 16 * MIB), "{planned}");
}

/// Maps a memfd of `pages` pages once for each page, from that page to its end.
fn overlapping(pages: usize) -> Vec<FilePages> {
    let file = File::from(memfd_create("overlaps", MFdFlags::empty()).expect("a memfd"));
    file.set_len(pages as u64 * page_size()).expect("its length");
    let map = |page: usize| {
        FilePages::map(&file, page as u64 * page_size(), (pages - page) * page_bytes())
    };
    (0..pages).map(|page| map(page).expect("fewer than vm.max_map_count")).collect()
}

/// The work of comparing the mappings of one process grows with the square of their number. A client may have its own
/// process looked at, and numalocd has to live on.
#[test]
fn mappings_that_overlap_by_the_thousand_cost_little_memory() {
    let mappings = overlapping(65_000);
    let pid = std::process::id().to_string();
    for subcommand in ["plan", "locality"] {
        let mut bounded = Command::new("/bin/sh");
        bounded.args(["-c", "ulimit -d 65536 && exec \"$0\" \"$@\""]);
        bounded.arg(command().get_program()).args([subcommand, "--standalone", "--pid", &pid]);
        let output = bounded.output().expect("a shell");
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), Some(1), "{words}");
        assert!(words.contains(&pid) && words.contains("/memfd:overlaps"), "{words}");
    }
    drop(mappings);
}

#[test]
fn some_hundred_mappings_that_overlap_are_looked_at() {
    const PAGES: usize = 300;
    let mappings = overlapping(PAGES);
    mappings.iter().for_each(|mapping| mapping.populate(0..1).expect("memory"));
    let own = Target::Pid(std::process::id() as i32);
    let inspected = inspect(&[own], &Options::default());
    let seen = inspected.plan.locality.overall;
    assert!(seen.local_bytes + seen.remote_bytes >= PAGES as u64 * page_size(), "{seen:?}");
}
