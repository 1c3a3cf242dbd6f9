//! Home nodes: what a single thread would make too many, and nodes that are named by a device.

use crate::{
    app::Layout,
    cli::{assert_refused, code, numalocctl},
    engine::inspect,
    scene::{Scene, assert_complete},
};
use nix::{
    sys::stat::{Mode, SFlag, mknod},
    unistd::dup,
};
use numaloc_core::{HomeRule, Options, Skip};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

const MIB: u64 = 1 << 20;

#[test]
fn an_unpinned_helper_is_left_out_if_asked() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).with_helper());
    let plan = inspect(&scene.target(), &Options::default()).plan;
    let process = &plan.processes[0];
    assert_eq!(
        (process.home.to_string().as_str(), process.skip),
        ("0-1", Some(Skip::NoTargetNode))
    );
    let names: Vec<_> =
        process.wide_threads_by_name().iter().map(|wide| wide.thread.comm.clone()).collect();
    assert_eq!((names.as_slice(), process.wide_thread_count()), (&["helper".to_owned()][..], 1));

    let options = Options { home: HomeRule::Busy, ..Options::default() };
    let plan = inspect(&scene.target(), &options).plan;
    assert_eq!(plan.processes[0].home.to_string(), "0");
    let outcome = scene.migrate(&options);
    scene.assert_on("anon", 0, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

/// Memory that is to be away from its CPUs, because the request names other nodes, is on target and not local.
#[test]
fn a_target_that_is_not_local_is_called_so() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(0));
    let pid = scene.app.pid().to_string();
    let ask = |command: &str| {
        let output = numalocctl(&[command, "--standalone", "--pid", &pid, "--to", "1"]);
        assert_eq!(code(&output), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let plan = ask("plan");
    let warning = plan.lines().find(|line| line.starts_with("warning:"));
    assert!(warning.is_some_and(|line| line.contains("node 1") && line.contains(&pid)), "{plan}");
    let moved = ask("migrate");
    assert!(plan.contains("on target:") && moved.contains("on target:"), "{plan}{moved}");
    assert!(!plan.contains("local:") && !moved.contains("local:"), "{plan}{moved}");
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

/// The machine has its slow disk on node 1, and all else where no firmware says.
#[test]
fn memory_goes_to_the_node_of_a_device() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(0));
    let pid = scene.app.pid().to_string();
    assert_refused(&["migrate", "--pid", &pid, "--to", "block:vda"], 2, "numa_node in sysfs is -1");
    scene.assert_on("anon", 0, 16 * MIB);
    let migrate = |device: &str, to: &str| {
        let output = numalocctl(&["migrate", "--pid", &pid, to, device]);
        assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    migrate("block:vdb", "--to");
    scene.assert_on("anon", 1, 16 * MIB);
    // Home again, from the node of the PCI device that the disk is on.
    let disk = fs::canonicalize("/sys/block/vdb/device/..").expect("a PCI device");
    let address = disk.file_name().and_then(|name| name.to_str()).expect("an address");
    migrate(&format!("device:{address}"), "--from");
    scene.assert_on("anon", 0, 16 * MIB);
    migrate("device:/dev/vdb", "--to");
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

/// No device here accesses memory by itself as a GPU does. So the file of the slow disk, which is on node 1, gets the name of one.
#[test]
fn memory_goes_to_the_node_of_the_devices_that_are_open() {
    let file = Path::new("/dev/dri/renderD128");
    fs::create_dir_all("/dev/dri").expect("a directory");
    let number = fs::metadata("/dev/vdb").expect("a disk").rdev();
    mknod(file, SFlag::S_IFBLK, Mode::S_IRUSR, number).expect("a device file");
    // A copy of an open file is inherited by the program that is started next.
    let open = dup(fs::File::open(file).expect("it opens")).expect("a copy");
    let scene = Scene::of(Layout::remote(&["anon:16M"]).memory_on(0));
    drop(open);
    let of = |home| Options { home, ..Options::default() };
    let home = |rule| inspect(&scene.target(), &of(rule)).plan.processes[0].home.to_string();
    assert_eq!((home(HomeRule::Cpus), home(HomeRule::Devices)), ("0".to_owned(), "1".to_owned()));
    let pid = scene.app.pid().to_string();
    let output = numalocctl(&["migrate", "--pid", &pid, "--home", "devices"]);
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    scene.assert_on("anon", 1, 16 * MIB);
    // The firmware does not say where the first disk is: then the CPUs count.
    fs::remove_file(file).expect("our own");
    let number = fs::metadata("/dev/vda").expect("a disk").rdev();
    mknod(file, SFlag::S_IFBLK, Mode::S_IRUSR, number).expect("a device file");
    let open = dup(fs::File::open(file).expect("it opens")).expect("a copy");
    let other = Layout::remote(&["anon:2M"]).start("other");
    drop(open);
    let target = [numaloc_host::Target::Pid(other.pid())];
    let plan = inspect(&target, &of(HomeRule::Devices)).plan;
    assert_eq!(plan.processes[0].home.to_string(), "0");
    fs::remove_file(file).expect("our own");
    scene.finish();
}

fn locality(arguments: &[&str]) -> String {
    let output = numalocctl(&[&["locality", "--pid"], arguments].concat());
    assert_eq!(code(&output), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn locality_says_which_thread_it_is() {
    let scene = Scene::of(Layout::remote(&["anon:16M"]).with_helper());
    let pid = scene.app.pid().to_string();
    let text = locality(&[&pid]);
    // Its share is that of the little time since it was started.
    let (_, share) = text.split_once("(helper) on CPUs 0-3 with ").expect(&text);
    let share = share.split_once(" % of the CPU time").expect(&text).0;
    assert!(share.parse::<f64>().expect("a share") < 50.0, "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&locality(&[&pid, "-o", "json"])).expect("JSON");
    let process = &json["locality"]["processes"][0];
    assert_eq!(process["home_node_ids"], serde_json::json!([0, 1]));
    let threads = process["wide_threads"].as_array().expect("a list");
    assert_eq!((threads.len(), threads[0]["comm"].as_str()), (1, Some("helper")), "{process}");
    // In a process whose CPUs are all of one node, threads are not even read.
    let pinned = Scene::of(Layout::remote(&["anon:16M"]));
    let plan = inspect(&pinned.target(), &Options::default()).plan;
    assert!(plan.processes[0].process.threads.is_empty());
    pinned.finish();
    scene.finish();
}
