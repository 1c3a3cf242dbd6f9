//! A second witness of what files on persistent memory cost: fio with its engine libpmem, beside `numalocctl bench storage`.

use super::{DISK, MIB};
use crate::{
    cli::{json, numalocctl},
    disk::Mounted,
    settings::Setting,
};
use serde_json::Value;
use std::{path::Path, process::Command};

/// The largest factor between the two. Both copy blocks of 4 KiB between the file and memory, with other instructions.
const FACTOR: f64 = 4.0;

/// Bytes per second of fio, which runs on the CPUs of node 0.
fn by_fio(directory: &Path, rw: &str) -> f64 {
    let output = Command::new("taskset")
        .args(["-c", "0", "fio", "--name=witness", "--ioengine=libpmem", "--direct=1", "--thread"])
        .args(["--bs=4k", "--size=32M", "--time_based", "--runtime=2", "--output-format=json"])
        .args([format!("--rw={rw}"), format!("--directory={}", directory.display())])
        .output()
        .expect("fio");
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let side = if rw.ends_with("read") { "read" } else { "write" };
    document["jobs"][0][side]["bw_bytes"].as_f64().expect("a number")
}

#[test]
fn fio_finds_the_same_bandwidths() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let path = mounted.path().to_str().expect("a name");
    let measuring = ["bench", "storage", path, "--size", "32M", "--seconds", "2s", "-o", "json"];
    let document = json(&numalocctl(&measuring));
    let runs = document["runs"].as_array().expect("a list");
    for (pattern, rw) in [
        (("sequential", "read"), "read"),
        (("sequential", "write"), "write"),
        (("random", "read"), "randread"),
        (("random", "write"), "randwrite"),
    ] {
        let is = |run: &&Value| {
            run["cpu_node"] == 0 && run["pattern"] == pattern.0 && run["operation"] == pattern.1
        };
        let run = runs.iter().find(is).unwrap_or_else(|| panic!("{pattern:?}: {document:#}"));
        let ours = run["bandwidth_bytes_per_second"].as_f64().expect("a number");
        let fio = by_fio(mounted.path(), rw);
        println!(
            "{pattern:?}: ours {:.0} MiB/s, fio {:.0} MiB/s",
            ours / MIB as f64,
            fio / MIB as f64
        );
        let factor = (ours / fio).max(fio / ours);
        assert!(factor <= FACTOR, "{pattern:?}: {ours} by ours, {fio} by fio: {document:#}");
    }
    drop(mounted);
}
