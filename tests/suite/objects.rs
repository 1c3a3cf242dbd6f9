//! One object, and memory: files of overlays and tmpfs.

use crate::{
    app::{App, Layout, until},
    cli::{json, numalocctl},
    disk::{Layered, OnDisk, drop_cache},
    engine::{inspect, migrate},
    scene::assert_complete,
    settings::{Cgroup, Setting},
    truth::Truth,
};
use numaloc_core::{Kind, Options, Placement, Plan, Reason};
use numaloc_host::Target;
use std::{fs, os::unix::fs::MetadataExt, path::Path};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;

fn app(cgroup: &Cgroup, path: &Path, access: &str) -> App {
    let region = format!("file:{}:16M:{access}", path.display());
    Layout::remote(&[&region]).load("idle").within(cgroup.path()).start("app")
}

fn on(app: &App) -> numaloc_tests::truth::Nodes {
    Truth::of(app.pid()).region(app.range("file"))
}

/// Has all of a file cached on a node. Where the node is below its low watermark, the kernel takes some pages from another one.
fn cached_on(file: &OnDisk, node: u32) {
    until("its cache is on the node", || {
        drop_cache();
        file.read(node);
        file.cached() == [(node, SIZE)].into()
    });
}

/// Bytes of a file's region that a plan moves.
fn planned(plan: &Plan, app: &App) -> u64 {
    let start = app.range("file").start;
    let moves = plan.moves.iter().filter(|each| each.mappings[0].start == start);
    moves.map(|each| each.remote_bytes()).sum()
}

/// As in two containers of one image. From Linux 6.12 on, maps has another device for each of them.
#[test]
fn a_file_in_a_layer_of_two_overlays_is_one() {
    let _balancing = Setting::numa_balancing(false);
    for access in [["read", "read"], ["private", "private"], ["read", "private"]] {
        let names = ["lower", "empty"].map(|name| Path::new("/mnt/disk").join(name));
        names.iter().for_each(|path| fs::create_dir_all(path).expect("the disk has room"));
        let file = OnDisk::new("lower/file", SIZE / MIB);
        let options = format!("lowerdir={}:{}", names[0].display(), names[1].display());
        let mounts = ["over-a", "over-b"].map(|name| Layered::new("overlay", name, &options));
        cached_on(&file, 1);
        let cgroup = Cgroup::new("objects-one");
        let paths = mounts.each_ref().map(|mount| mount.path().join("file"));
        let mut apps: Vec<App> =
            (paths.iter().zip(access)).map(|(path, access)| app(&cgroup, path, access)).collect();
        // One that maps the layer's file itself, in one of the cases.
        apps.extend((access[0] != access[1]).then(|| app(&cgroup, file.path(), "read")));
        apps.iter().for_each(|app| assert_eq!(on(app), [(1, SIZE)].into(), "the scene"));
        let outcome = migrate(&[cgroup.target()], &Options::default());
        for app in &mut apps {
            assert_eq!(on(app), [(0, SIZE)].into(), "{access:?}: {outcome:?}");
            app.check();
        }
        assert_complete(&outcome);
        drop((apps, cgroup, mounts, file));
    }
}

/// A stranger that maps it through a mount of its own is one.
#[test]
fn a_file_that_a_stranger_maps_through_another_overlay_stays() {
    let _balancing = Setting::numa_balancing(false);
    let names = ["lower", "empty"].map(|name| Path::new("/mnt/disk").join(name));
    names.iter().for_each(|path| fs::create_dir_all(path).expect("the disk has room"));
    let file = OnDisk::new("lower/file", SIZE / MIB);
    let options = format!("lowerdir={}:{}", names[0].display(), names[1].display());
    let mounts = ["over-a", "over-b"].map(|name| Layered::new("overlay", name, &options));
    cached_on(&file, 1);
    let (cgroup, other) = (Cgroup::new("objects-ours"), Cgroup::new("objects-theirs"));
    let ours = app(&cgroup, &mounts[0].path().join("file"), "read");
    let theirs = app(&other, &mounts[1].path().join("file"), "read");
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_eq!([on(&ours), on(&theirs)], [1, 1].map(|node| [(node, SIZE)].into()));
    assert!(outcome.account().left_for(Reason::Shared) >= SIZE, "{outcome:?}");
    drop((ours, theirs, cgroup, other, mounts, file));
}

/// Each layer numbers its files from the same number on. Two processes map each file, so that a survey of one object would look at
/// a part of their mappings only.
#[test]
fn files_in_layers_of_an_overlay_over_two_file_systems_are_two() {
    let _balancing = Setting::numa_balancing(false);
    let layers = ["layer-a", "layer-b"].map(|name| Layered::new("tmpfs", name, "size=64M"));
    for (node, layer) in layers.iter().enumerate() {
        let path = layer.path().join(format!("file-{node}"));
        let region = format!("file:{}:16M", path.display());
        drop(Layout::remote(&[&region]).memory_on(node as u32).load("idle").start("writer"));
    }
    let [a, b] = layers.each_ref().map(|layer| layer.path().display());
    let overlay = Layered::new("overlay", "over", &format!("lowerdir={a}:{b},xino=off"));
    let paths = [0, 1].map(|node| overlay.path().join(format!("file-{node}")));
    let [one, other] = paths.each_ref().map(|path| fs::metadata(path).expect("a file").ino());
    assert_eq!(one, other, "the scene");
    let cgroup = Cgroup::new("objects-two");
    let open = |access| paths.each_ref().map(|path| app(&cgroup, path, access));
    let mut apps: Vec<App> = open("read").into_iter().chain(open("read")).collect();
    let before: Vec<_> = apps.iter().map(on).collect();
    assert_eq!(before, [0, 1, 0, 1].map(|node| [(node, SIZE)].into()), "the scene");
    let outcome = migrate(&[cgroup.target()], &Options::default());
    for app in &mut apps {
        assert_eq!(on(app), [(0, SIZE)].into(), "{outcome:?}");
        app.check();
    }
    assert_complete(&outcome);
    assert!(outcome.account().moved_bytes() >= SIZE, "{outcome:?}");
    drop((apps, cgroup, overlay, layers));
}

#[test]
fn a_tmpfs_is_memory_wherever_it_is_mounted() {
    let _balancing = Setting::numa_balancing(false);
    let (tmpfs, cgroup) =
        (Layered::new("tmpfs", "memory", "size=64M"), Cgroup::new("objects-memory"));
    let app = app(&cgroup, &tmpfs.path().join("file"), "dirty");
    let options = Options { exclude_file: true, ..Options::default() };
    let outcome = migrate(&[cgroup.target()], &options);
    assert_eq!(on(&app), [(0, SIZE)].into(), "{outcome:?}");
    drop((app, cgroup, tmpfs));
}

/// The kernel counts with the inode number (mm/shmem.c, `shmem_get_pgoff_policy`), so an odd one begins on the second node.
#[test]
fn files_of_a_tmpfs_that_is_interleaved_stay_where_its_policy_puts_them() {
    let _balancing = Setting::numa_balancing(false);
    let options = "size=64M,mpol=interleave:0-1";
    let (tmpfs, cgroup) = (Layered::new("tmpfs", "memory", options), Cgroup::new("objects-policy"));
    let paths = ["a", "b"].map(|name| tmpfs.path().join(name));
    let apps = paths.each_ref().map(|path| app(&cgroup, path, "dirty"));
    let inodes = paths.each_ref().map(|path| fs::metadata(path).expect("a file").ino());
    assert!((inodes[0] + inodes[1]) % 2 == 1, "the scene: {inodes:?}");
    let half = SIZE / 2;
    apps.iter().for_each(|app| assert_eq!(on(app), [(0, half), (1, half)].into(), "the scene"));
    let both = "0-1".parse().ok();
    let placed = Options {
        placement: Placement::Interleave(both),
        include_bound: true,
        ..Options::default()
    };
    let path = paths[0].to_string_lossy();
    let looked = json(&numalocctl(&["locality", "--file", &path, "-o", "json"]));
    let file = &looked["locality"]["files"]["files"][0];
    assert_eq!(file["mount_policy"], "interleave:0-1", "{looked}");
    for app in &apps {
        let plan = inspect(&[Target::Pid(app.pid())], &placed).plan;
        assert_eq!(planned(&plan, app), 0, "{inodes:?}: {:#?}", plan.moves);
        let plan = inspect(&[Target::Pid(app.pid())], &Options::default()).plan;
        let start = app.range("file").start;
        let of = |skip: &&numaloc_core::Skipped| skip.mapping.start == start;
        let left = plan.skipped.iter().find(of).expect("it is left");
        assert_eq!((left.kind, left.reason), (Kind::Shmem, Reason::Bound), "{left:?}");
    }
    drop((apps, cgroup, tmpfs));
}
