//! What files on persistent memory cost, by `numalocctl bench storage`.

use super::{DISK, MIB, xfs_io};
use crate::{
    app::until,
    cli::{assert_refused, command, json as answer_of, numalocctl},
    disk::Mounted,
    settings::Setting,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The bytes of a file system that have no use yet, as df(1) has them.
fn free_bytes_of(path: &Path) -> u64 {
    let output = Command::new("stat").args(["-f", "-c", "%f %S"]).arg(path).output().expect("stat");
    let text = String::from_utf8(output.stdout).expect("text");
    let (blocks, size) = text.trim().split_once(' ').expect("two numbers");
    blocks.parse::<u64>().expect("a number") * size.parse::<u64>().expect("a number")
}

/// A file without a name on the mount is mapped while it is measured, in whole and shared; afterwards nothing of it is left.
#[test]
fn a_file_of_its_own_is_measured_on_each_node_and_leaves_nothing() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let precious = mounted.path().join("precious");
    fs::write(&precious, "precious").expect("it has room");
    let free = free_bytes_of(mounted.path());
    let path = mounted.path().to_str().expect("a name");
    let size = ["--size", "32M", "--seconds", "200ms"];
    let measuring = [&["bench", "storage", path], &size[..]].concat();
    let mut child = command();
    child.args([&measuring[..], &["-o", "json"]].concat()).stdout(Stdio::piped());
    let child = child.spawn().expect("it starts");
    let maps = format!("/proc/{}/smaps", child.id());
    let (mut seen, mut has_sync) = (false, false);
    // It ends as a zombie, whose smaps cannot be read.
    while let Some(text) = fs::read_to_string(&maps).ok().filter(|text| !text.is_empty()) {
        let line = |line: &&str| line.contains(" rw-s ") && line.contains("(deleted)");
        seen |= text.lines().any(|text| line(&text) && text.contains(path));
        has_sync |= text.lines().any(|line| line.starts_with("VmFlags:") && line.contains(" sf"));
        thread::sleep(Duration::from_millis(20));
    }
    let document = answer_of(&child.wait_with_output().expect("it ends"));
    assert!(seen && has_sync, "mapped {seen}, with MAP_SYNC {has_sync}: {document:#}");
    for (field, expected) in [
        ("file_system", json!("ext4")),
        ("storage_node", json!(0)),
        ("map_sync", json!(true)),
        ("file_bytes", json!(32 * MIB)),
        ("block_bytes", json!(4096)),
    ] {
        assert_eq!(document[field], expected, "{field}: {document:#}");
    }
    let runs = document["runs"].as_array().expect("a list");
    let text = |run: &Value, field: &str| run[field].as_str().expect("a text").to_owned();
    let what =
        |run: &Value| (run["cpu_node"].as_u64(), text(run, "pattern"), text(run, "operation"));
    let mut expected = Vec::new();
    for node in 0..2 {
        for pattern in ["sequential", "random"] {
            let what = |operation: &str| (Some(node), pattern.to_owned(), operation.to_owned());
            expected.extend(["read", "write"].map(what));
        }
    }
    assert_eq!(runs.iter().map(what).collect::<Vec<_>>(), expected, "{document:#}");
    let figures =
        ["bandwidth_bytes_per_second", "operations_per_second", "latency_ns", "latency_p99_ns"];
    for run in runs {
        for field in figures {
            assert!(run[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {run}");
        }
    }
    let shown = numalocctl(&measuring);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("(ext4, attached to node 0)") && text.contains("MAP_SYNC"), "{text}");
    let names = fs::read_dir(mounted.path()).expect("it is mounted");
    let mut names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["lost+found", "precious"]);
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious");
    until("its blocks are free again", || free_bytes_of(mounted.path()) == free);
    drop(mounted);
}

/// What cannot be measured is refused, and nothing is left of the attempt, also if it is killed.
#[test]
fn storage_without_dax_or_room_is_refused_and_a_kill_leaves_nothing() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "xfs", "dax=inode");
    let [with, without] = ["dax", "plain"].map(|name| mounted.path().join(name));
    for path in [&with, &without] {
        fs::create_dir(path).expect("it has room");
    }
    xfs_io("chattr +x", &with);
    let file = with.join("precious");
    fs::write(&file, "precious").expect("it has room");
    let path = |path: &Path| path.to_str().expect("a name").to_owned();
    let no_dax = "have page cache (no DAX)";
    for (place, size, why) in [
        (path(&without), "4M", no_dax),
        ("/mnt/disk".to_owned(), "4M", no_dax),
        (path(&file), "4M", "it is not a directory"),
        (path(&with), "1G", "MiB free, and --size is 1024 MiB"),
    ] {
        assert_refused(&["bench", "storage", &place, "--size", size, "--seconds", "100ms"], 2, why);
    }
    let free = free_bytes_of(mounted.path());
    let mut measuring = command();
    measuring.args(["bench", "storage", &path(&with), "--size", "16M", "--seconds", "10s"]);
    let mut child = measuring.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it");
    until("it has its file", || free_bytes_of(mounted.path()) <= free - 16 * MIB);
    child.kill().and_then(|()| child.wait()).expect("our own");
    until("its blocks are free again", || free_bytes_of(mounted.path()) + MIB >= free);
    assert_eq!(fs::read_dir(&with).expect("it is there").count(), 1);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious");
    drop(mounted);
}
