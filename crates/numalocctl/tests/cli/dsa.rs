//! `dsa` on trees in a temporary directory.

use crate::run::{json, numalocctl, text};
use serde_json::json;
use std::{fs, os::unix::fs::symlink, path::Path};
use tempfile::TempDir;

fn tree(files: &[(&str, &str)]) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = tree.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    tree
}

fn dsa(tree: &Path, more: &str) -> String {
    format!("dsa --sys {} {more}", tree.display())
}

/// The files of a device as after a boot, and of a queue in use on a kernel from 6.7 on.
const FILES: [(&str, &str); 20] = [
    ("bus/dsa/devices/dsa0/numa_node", "0"),
    ("bus/dsa/devices/dsa0/state", "enabled"),
    ("bus/dsa/devices/dsa0/cmd_status", "0"),
    ("bus/dsa/devices/dsa0/errors", "00000000,00000000"),
    ("bus/dsa/devices/dsa0/pasid_enabled", "1"),
    ("bus/dsa/devices/dsa0/max_work_queues_size", "128"),
    ("bus/dsa/devices/wq0.0/state", "enabled"),
    ("bus/dsa/devices/wq0.0/type", "kernel"),
    ("bus/dsa/devices/wq0.0/mode", "dedicated"),
    ("bus/dsa/devices/wq0.0/name", "x"),
    ("bus/dsa/devices/wq0.0/size", "64"),
    ("bus/dsa/devices/wq0.0/group_id", "0"),
    ("bus/dsa/devices/wq0.1/state", "disabled"),
    ("bus/dsa/devices/wq0.1/type", "none"),
    ("bus/dsa/devices/wq0.1/mode", "shared"),
    ("bus/dsa/devices/wq0.1/group_id", "-1"),
    ("bus/dsa/devices/engine0.0/group_id", "0"),
    ("bus/dsa/devices/group0.0/engines", "engine0.0"),
    ("bus/dsa/devices/dsa2/state", "disabled"),
    ("bus/dsa/devices/dsa2/numa_node", "-1"),
];

#[test]
fn devices_and_their_queues_are_shown() {
    let tree = tree(&FILES);
    // The driver that a queue is bound to is a link; from 6.7 on there is driver_name, too.
    for (file, driver) in [("driver", "dmaengine"), ("driver_name", "dmaengine")] {
        let queue = tree.path().join("bus/dsa/devices/wq0.0");
        match file {
            "driver" => symlink("../../../drivers/dmaengine", queue.join(file)).unwrap(),
            _ => {
                fs::remove_file(queue.join("driver")).unwrap();
                fs::write(queue.join(file), "dmaengine\n").unwrap();
            }
        }
        let document = json(&numalocctl(&dsa(tree.path(), "-o json")), 0);
        let device = &document["devices"][0];
        assert_eq!((&device["name"], &device["numa_node"]), (&json!("dsa0"), &json!(0)));
        assert_eq!((&device["state"], &device["errors"]), (&json!("enabled"), &json!(null)));
        let queues = device["work_queues"].as_array().unwrap();
        assert_eq!(queues.len(), 2);
        for (key, value) in [
            ("name", json!("wq0.0")),
            ("state", json!("enabled")),
            ("type", json!("kernel")),
            ("mode", json!("dedicated")),
            ("driver", json!(driver)),
            ("ready", json!(true)),
            ("size", json!(64)),
            ("group", json!(0)),
        ] {
            assert_eq!(queues[0][key], value, "{key}");
        }
        assert_eq!((&queues[1]["driver"], &queues[1]["group"]), (&json!(null), &json!(null)));
        assert_eq!(document["devices"][1]["numa_node"], json!(null));
        let offload = &document["kernel_offload"];
        assert_eq!((&offload["interface"], &offload["available"]), (&json!(null), &json!(false)));
        assert!(offload["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
        let table = text(&numalocctl(&dsa(tree.path(), "")), 0);
        assert!(table.contains("wq0.0") && !table.contains("wq0.1"), "{table}");
        assert!(text(&numalocctl(&dsa(tree.path(), "-o wide")), 0).contains("wq0.1"));
    }
}

#[test]
fn what_is_missing_is_said() {
    let missing = |tree: &TempDir| {
        let document = json(&numalocctl(&dsa(tree.path(), "-o json")), 0);
        let missing = document["missing"].as_array().unwrap().clone();
        missing.iter().map(|it| it["remedy"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let remedies = missing(&tree(&[]));
    assert!(remedies[0].contains("modprobe idxd"), "{remedies:?}");
    assert!(remedies[1].contains("Alibaba Cloud Linux"), "{remedies:?}");
    let without = tree(&[
        ("bus/dsa/devices/dsa0/state", "disabled"),
        ("bus/dsa/devices/dsa0/pasid_enabled", "0"),
    ]);
    let remedies = missing(&without);
    assert!(remedies[0].contains("manage_work_queue = true"), "{remedies:?}");
    assert!(remedies[2].contains("intel_iommu=on,sm_on"), "{remedies:?}");
    let nowhere = numalocctl("dsa --sys /nonexistent");
    assert!(text(&nowhere, 0).contains("missing: no DSA device"));
}
