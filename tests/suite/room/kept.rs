//! Page cache on a full target that does not count as room: dirty, locked, or protected by the cgroup that it is
//! charged to.

use super::*;
use crate::{
    engine::inspect,
    settings::{Cgroup, Setting},
};
use numaloc_core::NodeId;
use numaloc_executor::Outcome;
use numaloc_sys::fixture::{Backing, Region, skipped};

/// Cache in each of these scenes, in MiB. It comes before the ballast, see [`full`].
const CACHE: u64 = 200;

/// Nothing but a little that was free has found room, and no other process was harmed.
fn assert_no_room(outcome: &Outcome, before: [u64; 2]) {
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert!(outcome.calls.cache_bytes < 32 * MIB, "{outcome:?}");
    assert_eq!(distress(), before, "{DISTRESS:?}");
}

#[test]
fn dirty_cache_does_not_count_as_room_and_no_run_waits_until_it_is_written() {
    // Nothing is written to the disk meanwhile: neither because it is old, nor because there is much of it.
    let vm = |name: &str, value| Setting::set(format!("/proc/sys/vm/{name}"), value);
    let _unwritten = [
        vm("dirty_writeback_centisecs", "0"),
        vm("dirty_ratio", "95"),
        vm("dirty_background_ratio", "90"),
    ];
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    drop_cache();
    let file = OnDisk::named("dirty");
    let write = format!("dd if=/dev/zero of=\"$0\" bs=1M count={CACHE}");
    assert!(file.reader(0, &write).wait().expect("it ends").success());
    let mut ballast = ballast(LEFT);
    let dirty = node_bytes(0, "Dirty:");
    assert!(dirty > SIZE * 3 / 4, "the scene: {dirty} dirty, {} free", free_bytes(0));
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    assert_no_room(&outcome, before);
    let still = node_bytes(0, "Dirty:");
    assert!(still + 16 * MIB > dirty, "{dirty} were dirty, now {still}");
    ballast.check();
    drop(ballast);
    scene.finish();
}

#[test]
fn locked_cache_does_not_count_as_room() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let file = OnDisk::new("locked", CACHE);
    file.read(0);
    let opened = File::options().read(true).write(true).open(file.path()).expect("it is there");
    let region = Region::map((CACHE * MIB) as usize, Backing::File(&opened), None);
    let region = region.expect("addresses");
    region.lock().expect("root may");
    let mut ballast = ballast(LEFT);
    let locked = node_bytes(0, "Unevictable:");
    assert!(locked > SIZE * 3 / 4, "the scene: {locked} locked, {} free", free_bytes(0));
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    assert_no_room(&outcome, before);
    let still = node_bytes(0, "Unevictable:");
    assert!(still + 16 * MIB > locked, "{locked} were locked, now {still}");
    drop(region);
    ballast.check();
    drop(ballast);
    scene.finish();
}

/// Bytes of files that are charged to a cgroup.
fn cached(cgroup: &Cgroup) -> u64 {
    let text = fs::read_to_string(cgroup.path().join("memory.stat")).expect("memory.stat");
    let line = text.lines().find_map(|line| line.strip_prefix("file ")).expect("file");
    line.parse().expect("bytes")
}

/// The cache belongs to a cgroup with this limit. Its processes have ended; it is there as long as they may come back.
fn is_left_alone(limit: &str) {
    let cgroup = Cgroup::new("kept");
    if !cgroup.path().join(limit).exists() {
        skipped(&format!("cgroup v1 has no {limit}"));
        return;
    }
    cgroup.write(limit, &format!("{}M", CACHE + 56));
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let file = OnDisk::new("kept", CACHE);
    let procs = cgroup.path().join("cgroup.procs");
    // Up to 6.1 a process that joins a cpuset forgets on which CPUs it was to run (kernel/cgroup/cpuset.c, `cpuset_attach`).
    let read = format!("echo $$ > {}; taskset 1 cat \"$0\"", procs.display());
    assert!(file.reader(0, &read).wait().expect("it ends").success());
    let mut ballast = ballast(LEFT);
    let charged = cached(&cgroup);
    assert!(charged > SIZE, "the scene: {charged} charged, {} free", free_bytes(0));
    let plan = inspect(&scene.target(), &Options::default()).plan;
    let named = plan.protected_cache.get(&NodeId(0)).copied().unwrap_or(0);
    assert!(named > SIZE * 3 / 4, "{:?} {:?}", plan.protected_cache, plan.expected_room);
    let before = distress();
    let outcome = scene.migrate(&Options::default());
    assert_no_room(&outcome, before);
    let still = cached(&cgroup);
    assert!(still + 8 * MIB > charged, "{charged} were charged, now {still}");
    ballast.check();
    drop(ballast);
    scene.finish();
}

#[test]
fn cache_below_memory_min_is_left_alone() {
    is_left_alone("memory.min");
}

#[test]
fn cache_below_memory_low_is_left_alone() {
    is_left_alone("memory.low");
}
