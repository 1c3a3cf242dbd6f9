//! A target node whose memory is full of page cache, as on a host that has run for a while.

mod beside;
pub mod blocks;
mod kept;
mod moved;

use crate::{
    app::{App, Layout},
    disk::{OnDisk, drop_cache},
    scene::{self, DISTRESS, Scene, assert_complete, distress},
    truth::{free_bytes, high_watermark_bytes, node_bytes, on, vmstat},
};
use numaloc_core::{CacheStop, MakeRoom, Options, Reason};
use std::{
    fs::{self, File},
    process::{Child, Command, Stdio},
};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 160 * MIB;

/// Memory that a ballast leaves free beyond the high watermark after the cache is there: too much for the kernel to
/// reclaim any of it, and less than the reserve of 64 MiB. With 200 MiB of cache it is room for [`SIZE`] and little
/// more.
const LEFT: u64 = 40 * MIB;

/// Takes the memory of node 0 but for `spared` bytes beyond the high watermark.
fn ballast(spared: u64) -> App {
    scene::ballast(0, spared + high_watermark_bytes(0))
}

/// Node 0 has little free, and `mib` MiB of unused cache. The cache comes first: it gets to the node as long as there
/// is much free, and what takes the rest leaves enough for the kernel to reclaim nothing.
fn full(mib: u64) -> (OnDisk, App) {
    let file = OnDisk::new("cache", mib);
    file.read(0);
    let ballast = ballast(LEFT);
    assert_little_free();
    let cache = node_bytes(0, "Inactive(file):");
    assert!(cache > SIZE, "the scene: {cache} in cache");
    (file, ballast)
}

/// Memory below the reserve of 64 MiB above the high watermark is not room, and the memory above it is little of what
/// is to come. Some more may be free than the ballast has left: each CPU's own list of free pages gives back up to a
/// few MiB.
fn assert_little_free() {
    let free = free_bytes(0);
    assert!(free < high_watermark_bytes(0) + 64 * MIB + SIZE / 8, "the scene: {free} free");
}

#[test]
fn memory_comes_home_to_a_node_full_of_cache() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast) = full(320);
    let before = distress();
    let none = scene.migrate(&Options { make_room: MakeRoom::None, ..Options::default() });
    assert!(none.account().left_for(Reason::NoMemory) > SIZE / 2, "{none:?}");
    assert_eq!(none.calls.cache_bytes, 0);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 0, SIZE);
    assert_complete(&outcome);
    assert!(outcome.calls.cache_bytes > 0, "{outcome:?}");
    assert_eq!(outcome.calls.cache_stop, None);
    assert_eq!(distress(), before, "{DISTRESS:?}");
    ballast.check();
    drop((ballast, file));
    scene.finish();
}

#[test]
fn cache_in_use_is_left_alone() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let file = OnDisk::new("cache", 200);
    let mut ballast = ballast(200 * MIB);
    file.read(0);
    let mut reader = file.reader(0, "while cat \"$0\"; do :; done");
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    reader.kill().expect("it runs");
    reader.wait().expect("it ends");
    let account = outcome.account();
    assert!(account.left_for(Reason::NoMemory) > 0, "{outcome:?}");
    assert!(outcome.calls.cache_stop.is_some(), "{outcome:?}");
    assert_ne!(outcome.calls.cache_stop, Some(CacheStop::Swap));
    let nodes = scene.nodes("anon");
    assert_eq!(on(&nodes, 0) + on(&nodes, 1), SIZE);
    assert_eq!(distress(), before, "{DISTRESS:?}");
    ballast.check();
    drop(ballast);
    scene.finish();
}

#[test]
fn memory_of_a_tmpfs_does_not_count_as_room() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let fill = "dd if=/dev/zero of=/tmp/numaloc-room bs=1M count=200";
    let mut fill = Command::new("taskset").args(["1", "sh", "-c", fill]).spawn().expect("busybox");
    assert!(fill.wait().expect("it ends").success());
    let mut ballast = ballast(LEFT);
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    fs::remove_file("/tmp/numaloc-room").expect("it is there");
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert_eq!(distress(), before, "{DISTRESS:?}");
    ballast.check();
    drop(ballast);
    scene.finish();
}
