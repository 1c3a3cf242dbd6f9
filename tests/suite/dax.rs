//! Persistent memory: 384 MiB on node 0, which the kernel takes DRAM for (`memmap=`), and a DIMM of 256 MiB on node
//! 1. The mappings of files there are the storage itself. Another DIMM, of 512 MiB, becomes a node of its own.

mod fio;
mod kmem;

mod measured;

use crate::{
    advise::{advise, assert_silent, cpus, follow, only},
    app::{App, Layout},
    cli::{NOBODY, as_nobody, code, json as answer_of, numalocctl},
    disk::{Layered, Mounted},
    engine::{inspect, migrate},
    scene::assert_complete,
    settings::Setting,
    traced::PageMapReads,
    truth::{Truth, node_bytes},
};
use numaloc_core::{FixedKind, NodeId, Options, page_size};
use numaloc_host::Target;
use serde_json::{Value, json};
use std::{
    fs::{self, File, Permissions},
    ops::Range,
    os::unix::fs::{FileExt, PermissionsExt},
    path::Path,
    process::Command,
};

const MIB: u64 = 1 << 20;
/// The disk of the first range.
const DISK: &str = "/dev/pmem0";
/// The frames of both: DRAM ends at 2 GiB, and a DIMM that is plugged in is above 4 GiB.
const FRAMES: [Range<u64>; 2] = [512 << 8..896 << 8, 1 << 20..u64::MAX];

/// Has xfs_io run a command on a file.
fn xfs_io(command: &str, path: &Path) -> String {
    let output = Command::new("xfs_io").args(["-c", command]).arg(path).output();
    let output = output.expect("xfs_io");
    assert!(output.status.success(), "{command} {}: {output:?}", path.display());
    String::from_utf8(output.stdout).expect("text")
}

/// The kernel's report: STATX_ATTR_DAX (include/uapi/linux/stat.h).
fn has_dax(path: &Path) -> bool {
    let text = xfs_io("statx -r", path);
    let line = text.lines().find_map(|line| line.strip_prefix("stat.attributes = 0x"));
    let attributes = u64::from_str_radix(line.expect("attributes"), 16).expect("a number");
    attributes & 0x20_0000 != 0
}

/// The frames of a region's pages: bits 0-54 of entries whose bit 63 is set (Documentation/admin-guide/mm/pagemap.rst).
fn frames(app: &App, region: &str) -> Vec<u64> {
    let (range, mut entry) = (app.range(region), [0; 8]);
    let pagemap = File::open(format!("/proc/{}/pagemap", app.pid())).expect("a child");
    let mut frame = |page: u64| {
        pagemap.read_exact_at(&mut entry, page * 8).expect("an entry");
        let entry = u64::from_ne_bytes(entry);
        (entry >> 63 == 1).then_some(entry & ((1 << 55) - 1))
    };
    (range.start / page_size()..range.end / page_size()).filter_map(&mut frame).collect()
}

/// Whether the file of a region is on a file system with a disk, as maps has it: major and minor number.
fn maps_has_a_disk(app: &App, region: &str) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", app.pid())).expect("a child");
    let start = format!("{:x}-", app.range(region).start);
    let line = maps.lines().find(|line| line.starts_with(&start)).expect("a mapping");
    line.split_whitespace().nth(3).is_some_and(|device| !device.starts_with("00:"))
}

/// Asserts that all of a region is persistent memory. Returns its frames.
fn assert_storage(app: &App, region: &str) -> Vec<u64> {
    let (found, range) = (frames(app, region), app.range(region));
    assert_eq!(found.len() as u64, (range.end - range.start) / page_size(), "{region}");
    let is_there = |frame: &u64| FRAMES.iter().any(|frames| frames.contains(frame));
    assert!(found.iter().all(is_there), "{region}: {:x?}", &found[..found.len().min(8)]);
    found
}

/// Asserts that this much is storage of this node, if it is known, that cannot move, and that the rest comes home in one run.
fn assert_only_the_rest_moves(app: &mut App, storage: &[&str], (node, bytes): (Option<u32>, u64)) {
    let before: Vec<_> = storage.iter().map(|region| assert_storage(app, region)).collect();
    let target = [Target::Pid(app.pid())];
    let plan = inspect(&target, &Options::default()).plan;
    let fixed = plan.fixed.get(&FixedKind::Dax);
    assert_eq!(fixed.map(|fixed| fixed.mapped_bytes), Some(bytes), "{:?}", plan.fixed);
    let nodes = node.map(|node| (NodeId(node), bytes)).into_iter().collect();
    assert_eq!(fixed.map(|fixed| &fixed.nodes), Some(&nodes));
    let ranges: Vec<_> = storage.iter().map(|region| app.range(region)).collect();
    let is_storage = |start: u64| ranges.iter().any(|range| range.contains(&start));
    assert!(!plan.skipped.iter().any(|each| is_storage(each.mapping.start)), "{plan:?}");
    assert!(!plan.moves.iter().any(|each| is_storage(each.mappings[0].start)), "{plan:?}");
    assert_eq!(plan.unplaced_bytes, 0, "{plan:?}");

    let outcome = migrate(&target, &Options::default());
    assert_complete(&outcome);
    assert!(!outcome.is_partial(), "{outcome:?}");
    assert_eq!(Truth::of(app.pid()).region(app.range("anon")), [(0, 16 * MIB)].into());
    let again = inspect(&target, &Options::default()).plan;
    assert_eq!(again.planned_bytes(), 0, "{again:?}");

    let pid = app.pid().to_string();
    let mib = bytes / MIB;
    let on_node = node.map_or(String::new(), |node| format!(": {mib}.0 MiB on node {node}"));
    let row = format!("cannot move: {mib}.0 MiB of storage (DAX){on_node}\n");
    for command in ["plan", "locality", "migrate"] {
        let shown = numalocctl(&[command, "--pid", &pid]);
        let text = String::from_utf8_lossy(&shown.stdout);
        assert_eq!(code(&shown), Some(0), "{command}: {shown:?}");
        assert!(command == "migrate" || text.contains(&row), "{command}: {text}");
    }
    let after: Vec<_> = storage.iter().map(|region| frames(app, region)).collect();
    assert!(before == after, "storage moved");
    app.check();
}

fn refuses_as_file(path: &Path, why: &str) {
    let path = path.to_str().expect("a name");
    for command in ["locality", "plan", "migrate"] {
        let to: &[&str] = if command == "locality" { &[] } else { &["--to", "0"] };
        let output = numalocctl(&[&[command, "--file", path], to].concat());
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), Some(2), "{command} {path}: {complaint}");
        assert!(complaint.contains(why), "{command} {path}: {complaint}");
    }
}

#[test]
fn files_of_a_mount_with_dax_are_storage() {
    let _settings = Setting::still_host();
    for kind in ["ext4", "xfs"] {
        let mounted = Mounted::on(DISK, kind, "dax=always");
        let [shared, synced] = ["shared", "synced"].map(|name| mounted.path().join(name));
        let regions = [
            "anon:16M",
            &format!("shared=file:{}:16M:dirty", shared.display()),
            &format!("synced=file:{}:8M:dirty:sync", synced.display()),
        ];
        let mut app = Layout::remote(&regions).start("target");
        assert!(has_dax(&shared) && has_dax(&synced), "the scene");
        assert_only_the_rest_moves(&mut app, &["shared", "synced"], (Some(0), 24 * MIB));
        refuses_as_file(&shared, "its memory is the storage itself (DAX), attached to node 0");
        drop(app);
        drop(mounted);
    }
}

/// A pool may be larger than all memory of the host. What the kernel is asked is seen by probes in it.
#[test]
fn no_entry_of_storage_is_read() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let storage = format!("storage=file:{}:64M:dirty", mounted.path().join("pool").display());
    let app = Layout::remote(&["anon:16M", &storage]).load("idle").start("target");
    assert_storage(&app, "storage");
    let pid = app.pid().to_string();
    for command in ["locality", "plan", "migrate"] {
        let reads = PageMapReads::begin();
        let output = numalocctl(&[command, "--pid", &pid]);
        let reads = reads.end();
        assert_eq!(code(&output), Some(0), "{command}: {output:?}");
        let of = |region: &str| {
            let range = app.range(region);
            reads.iter().filter(|read| read.start < range.end && range.start < read.end).count()
        };
        assert!(of("anon") > 0, "{command}: the probes see nothing: {reads:?}");
        assert_eq!(of("storage"), 0, "{command}: {:x?} {reads:x?}", app.range("storage"));
    }
    drop((app, mounted));
}

/// The work goes to the storage, which cannot go to the work.
#[test]
fn advice_brings_work_to_its_storage() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let region = format!("storage=file:{}:32M:dirty", mounted.path().join("pool").display());
    let mut app = Layout::remote(&["anon:24M", &region]).on(1).memory_on(1).start("target");
    let pid = app.pid().to_string();
    let advice = advise(&["--pid", &pid]);
    let finding = only(&advice);
    assert_eq!(finding["kind"], "FINDING_KIND_STORAGE", "{advice:#}");
    assert_eq!(finding["from_node_ids"], json!([1]), "{advice:#}");
    assert_eq!(finding["home_node_ids"], json!([0]), "{advice:#}");
    assert_eq!(finding["storage_bytes"], 32 * MIB, "{advice:#}");
    follow(finding);
    assert_eq!(cpus(&pid), "0-1");
    assert_eq!(Truth::of(app.pid()).region(app.range("anon")), [(0, 24 * MIB)].into());
    assert_silent(&["--pid", &pid]);
    app.check();
    drop((app, mounted));
}

#[test]
fn memory_goes_to_the_node_of_a_disk_or_of_a_path_on_it() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let app = Layout::remote(&["anon:8M"]).load("idle").start("target");
    let path = format!("path:{}", mounted.path().display());
    for (to, node) in [(path.as_str(), 0), ("block:pmem1", 1), ("block:pmem0", 0)] {
        let output = numalocctl(&["migrate", "--pid", &app.pid().to_string(), "--to", to]);
        assert_eq!(code(&output), Some(0), "{to}: {output:?}");
        assert_eq!(Truth::of(app.pid()).region(app.range("anon")), [(node, 8 * MIB)].into());
    }
    drop((app, mounted));
}

/// Beside it is a file of the same file system in page cache.
#[test]
fn a_file_that_has_dax_by_its_attribute_is_storage() {
    let _settings = Setting::still_host();
    for kind in ["ext4", "xfs"] {
        let mounted = Mounted::on(DISK, kind, "dax=inode");
        let directory = mounted.path().join("dax");
        fs::create_dir(&directory).expect("it has room");
        // New files in it get the attribute.
        xfs_io("chattr +x", &directory);
        let [storage, cached] = [directory.join("storage"), mounted.path().join("cached")];
        let regions = [
            "anon:16M",
            &format!("storage=file:{}:16M:dirty", storage.display()),
            &format!("cached=file:{}:8M:dirty", cached.display()),
        ];
        let mut app = Layout::remote(&regions).start("target");
        assert!(has_dax(&storage) && !has_dax(&cached), "the scene");
        assert_eq!(Truth::of(app.pid()).region(app.range("cached")), [(1, 8 * MIB)].into());
        assert_only_the_rest_moves(&mut app, &["storage"], (Some(0), 16 * MIB));
        assert_eq!(Truth::of(app.pid()).region(app.range("cached")), [(0, 8 * MIB)].into());
        refuses_as_file(&storage, "its memory is the storage itself (DAX)");
        let shown = numalocctl(&["locality", "--file", &cached.display().to_string()]);
        assert_eq!(code(&shown), Some(0), "{shown:?}");
        drop(app);

        // A process that may not follow the links of map_files has the path alone.
        fs::set_permissions(&storage, Permissions::from_mode(0o666)).expect("root");
        let layout = Layout::remote(&["anon:1M", regions[1]]).owned_by(NOBODY).load("idle");
        let app = layout.start("nobody");
        let plan = as_nobody(&["plan", "--pid", &app.pid().to_string()]);
        let text = String::from_utf8_lossy(&plan.stdout);
        assert!(text.contains("cannot move: 16.0 MiB of storage (DAX)"), "{plan:?}");
        drop((app, mounted));
    }
}

/// A private mapping of such a file shows storage, too. Written pages are the process's own and stay all the same
/// (include/linux/migrate.h, `vma_migratable`).
#[test]
fn a_private_mapping_of_storage_stays() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=always");
    let path = mounted.path().join("file");
    let region = |access: &str| format!("storage=file:{}:16M:{access}", path.display());
    drop(Layout::remote(&[&region("dirty")]).start("writer"));
    let mut app = Layout::remote(&["anon:16M", &region("private")]).start("target");
    assert_only_the_rest_moves(&mut app, &["storage"], (Some(0), 16 * MIB));
    drop(app);
    drop(mounted);
}

/// An overlay has no attributes of its own. From Linux 6.12 on maps has its device.
#[test]
fn a_file_in_a_layer_is_storage_if_the_layer_has_dax() {
    let _settings = Setting::still_host();
    let mounted = Mounted::on(DISK, "ext4", "dax=inode");
    let layers = ["dax", "plain"].map(|name| mounted.path().join(name));
    layers.iter().for_each(|layer| fs::create_dir(layer).expect("it has room"));
    xfs_io("chattr +x", &layers[0]);
    let files = [layers[0].join("storage"), layers[1].join("cached")];
    let in_layers = files.each_ref().map(|file| format!("file:{}:8M:dirty", file.display()));
    drop(Layout::remote(&in_layers.each_ref().map(String::as_str)).start("writer"));
    assert!(has_dax(&files[0]) && !has_dax(&files[1]), "the scene");
    let options = format!("lowerdir={}:{}", layers[0].display(), layers[1].display());
    let overlay = Layered::new("overlay", "over", &options);
    let region = |name| format!("{name}=file:{}:8M:read", overlay.path().join(name).display());
    let regions = ["storage", "cached"].map(region);
    let mut app = Layout::remote(&["anon:16M", &regions[0], &regions[1]]).start("target");
    assert_eq!(Truth::of(app.pid()).region(app.range("cached")), [(1, 8 * MIB)].into());
    // The overlay is on no disk.
    let node = maps_has_a_disk(&app, "storage").then_some(0);
    assert_only_the_rest_moves(&mut app, &["storage"], (node, 8 * MIB));
    assert_eq!(Truth::of(app.pid()).region(app.range("cached")), [(0, 8 * MIB)].into());
    drop((app, overlay));
    drop(mounted);
}

/// Has the kernel make a character device of the DIMM of this node, as `ndctl create-namespace --mode=devdax --force` does: /dev/dax1.0 for
/// node 1.
fn make_character_device(node: u32) {
    let write = |path: &str, text: &str| {
        fs::write(format!("/sys/bus/nd/{path}"), text).unwrap_or_else(|e| panic!("{path}: {e}"));
    };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let namespace = format!("namespace{node}.0");
    write("drivers/nd_pmem/unbind", &namespace);
    let device = read(&format!("/sys/bus/nd/devices/region{node}/dax_seed"));
    let device = device.trim();
    // The descriptors of its pages (struct page) are in DRAM.
    for (file, text) in [
        ("mode", "ram"),
        ("align", "2097152"),
        ("uuid", &read("/proc/sys/kernel/random/uuid")),
        ("namespace", &namespace),
    ] {
        write(&format!("devices/{device}/{file}"), text.trim());
    }
    write("drivers/dax_pmem/bind", device);
}

/// The report of `doctor` on memory behind DAX devices: level and finding.
fn diagnosis() -> (String, String) {
    let output = numalocctl(&["doctor", "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = document["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["name"] == "dax_memory").expect("the check");
    ["level", "found"].map(|field| check[field].as_str().expect("text").to_owned()).into()
}

/// First a process maps the device; then the kernel adds its memory to that of node 1, as `daxctl reconfigure-device --mode=system-ram` has it
/// do.
#[test]
fn storage_without_a_file_system_becomes_memory_of_a_node() {
    let _settings = Setting::still_host();
    make_character_device(1);
    let region = "storage=file:/dev/dax1.0:16M:dirty";
    let mut app = Layout::remote(&["anon:16M", region]).start("target");
    assert_only_the_rest_moves(&mut app, &["storage"], (Some(1), 16 * MIB));
    refuses_as_file(Path::new("/dev/dax1.0"), "not a regular file");
    drop(app);
    assert_eq!(diagnosis().0, "ok");

    let _online = Setting::set("/sys/devices/system/memory/auto_online_blocks", "online_movable");
    let before = node_bytes(1, "MemTotal:");
    for file in ["device_dax/unbind", "kmem/new_id"] {
        fs::write(format!("/sys/bus/dax/drivers/{file}"), "dax1.0").expect("the drivers' files");
    }
    assert_eq!(node_bytes(1, "MemTotal:") - before, 128 * MIB, "whole memory blocks of it");

    let (level, found) = diagnosis();
    assert_eq!(level, "warning", "{found}");
    assert!(found.starts_with("node 1 has up to 254 MiB behind dax1.0 (kmem): "), "{found}");
    let size = fs::read_to_string("/sys/bus/dax/devices/dax1.0/size").expect("a size");
    let answer = answer_of(&numalocctl(&["topology", "-o", "json"]));
    let nodes = answer["topology"]["nodes"].as_array().expect("a list");
    let device = json!([{ "name": "dax1.0", "bytes": size.trim().parse::<u64>().expect("bytes") }]);
    assert_eq!(nodes[1]["dax_devices"], device, "{answer:#}");
    assert!(nodes[0]["dax_devices"].as_array().is_none_or(Vec::is_empty), "{answer:#}");
    let shown = numalocctl(&["topology"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("DRAM, 254.0 MiB of dax1.0"), "{text}");
}
