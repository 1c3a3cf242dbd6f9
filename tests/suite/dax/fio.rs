//! A second witness of what files on persistent memory cost: fio with its engine libpmem, beside `numalocctl bench storage`.

use super::DISK;
use crate::{
    cli::{json, numalocctl},
    disk::Mounted,
    settings::Setting,
};
use serde_json::Value;
use std::{path::Path, process::Command};

/// The largest factor between the two. Both copy between the file and memory, with other instructions. Blocks of fio are large, and of
/// random ones there is no comparison: what it does for each block takes longer than 4 KiB in an emulated machine.
const FACTOR: f64 = 4.0;

/// Bytes per second of fio, which runs on the CPUs of node 0.
fn by_fio(directory: &Path, operation: &str) -> f64 {
    let output = Command::new("taskset")
        .args(["-c", "0", "fio", "--name=witness", "--ioengine=libpmem", "--direct=1", "--thread"])
        .args(["--bs=1M", "--size=32M", "--time_based", "--runtime=2", "--output-format=json"])
        .args([format!("--rw={operation}"), format!("--directory={}", directory.display())])
        .output()
        .expect("fio");
    assert!(output.status.success(), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    document["jobs"][0][operation]["bw_bytes"].as_f64().expect("a number")
}

#[test]
fn fio_finds_the_same_bandwidths() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let path = mounted.path().to_str().expect("a name");
    let measuring = ["bench", "storage", path, "--size", "32M", "--seconds", "2s", "-o", "json"];
    let document = json(&numalocctl(&measuring));
    let runs = document["runs"].as_array().expect("a list");
    for operation in ["read", "write"] {
        let is = |run: &&Value| {
            run["cpu_node"] == 0 && run["pattern"] == "sequential" && run["operation"] == operation
        };
        let run = runs.iter().find(is).unwrap_or_else(|| panic!("{operation}: {document:#}"));
        let ours = run["bandwidth_bytes_per_second"].as_f64().expect("a number");
        let fio = by_fio(mounted.path(), operation);
        println!("{operation}: {:.2} times what fio finds", ours / fio);
        let factor = (ours / fio).max(fio / ours);
        assert!(factor <= FACTOR, "{operation}: {ours} by ours, {fio} by fio: {document:#}");
    }
    drop(mounted);
}
