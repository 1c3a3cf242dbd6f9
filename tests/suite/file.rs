//! Page cache of mapped files.

use crate::{
    app::{App, Layout, run},
    disk::Mounted,
    engine::migrate,
    place::{away, both, home},
    scene::{Scene, assert_complete, assert_left},
    settings::{Cgroup, Setting},
    truth::Truth,
};
use numaloc_core::{Options, Reason};
use std::{fs, os::unix::fs::MetadataExt};

const MIB: u64 = 1 << 20;

/// Makes a scene with a file on the disk, and removes the file afterwards.
fn with_file(options: &str, test: impl FnOnce(&Scene)) {
    let region = format!("file:/mnt/disk/{{}}:32M{options}");
    let scene = Scene::remote(&[&region, "anon:16M"]);
    test(&scene);
    drop(scene.finish());
    for name in ["target", "control"] {
        fs::remove_file(format!("/mnt/disk/{name}")).expect("the application made it");
    }
}

#[test]
fn clean_pages_come_home() {
    with_file("", |scene| {
        let outcome = scene.migrate(&Options::default());
        scene.assert_on("file", home(), 32 * MIB);
        assert_complete(&outcome);
    });
}

#[test]
fn dirty_pages_come_home() {
    // Pages under writeback are busy for a while. The disk is fast here, so retries move them.
    with_file(":dirty", |scene| {
        let outcome = scene.migrate(&Options::default());
        scene.assert_on("file", home(), 32 * MIB);
        assert_complete(&outcome);
    });
}

#[test]
fn excluded_pages_stay() {
    with_file("", |scene| {
        let outcome = scene.migrate(&Options { exclude_file: true, ..Options::default() });
        scene.assert_on("file", away(), 32 * MIB);
        scene.assert_on("anon", home(), 16 * MIB);
        assert!(outcome.account().left_for(Reason::FileExcluded) >= 32 * MIB, "{outcome:?}");
    });
}

#[test]
fn pages_that_a_stranger_maps_stay_unless_included() {
    with_file("", |scene| {
        let stranger = Layout::remote(&["file:/mnt/disk/target:32M:touch"]).load("idle");
        let stranger = stranger.start("stranger");
        let outcome = scene.migrate(&Options::default());
        scene.assert_on("file", away(), 32 * MIB);
        scene.assert_on("anon", home(), 16 * MIB);
        assert!(outcome.account().left_for(Reason::Shared) >= 32 * MIB, "{outcome:?}");

        let all = Options { include_shared: true, ..Options::default() };
        let outcome = scene.migrate(&all);
        scene.assert_on("file", home(), 32 * MIB);
        assert!(outcome.account().moved_bytes() >= 32 * MIB, "{outcome:?}");
        let seen_by_stranger = Truth::of(stranger.pid()).region(stranger.range("file"));
        assert_eq!(seen_by_stranger, [(home(), 32 * MIB)].into());
        assert_left(&outcome, Reason::Shared, 0);
    });
}

/// Both files have the same inode, and maps shows the same device for them. Two processes map each, so that a survey looks at a part
/// of their mappings only.
#[test]
fn files_of_two_subvolumes_of_a_btrfs_are_two() {
    const SIZE: u64 = 16 * MIB;
    let _balancing = Setting::numa_balancing(false);
    let (btrfs, cgroup) = (Mounted::new("btrfs", 128), Cgroup::new("btrfs"));
    let paths = ["a", "b"].map(|name| {
        let subvolume = format!("{}/{name}", btrfs.path().display());
        run(&["btrfs", "subvolume", "create", &subvolume]);
        format!("{subvolume}/file")
    });
    let app = |path: &String, options: &str, node| {
        let layout = Layout::remote(&[&format!("file:{path}:16M{options}")]).memory_on(node);
        layout.load("idle").within(cgroup.path()).start("app")
    };
    let mut apps: Vec<App> =
        paths.iter().zip(both()).map(|(path, node)| app(path, "", node)).collect();
    apps.extend(paths.iter().map(|path| app(path, ":touch", home())));
    let [one, other] = paths.each_ref().map(|path| fs::metadata(path).expect("a file").ino());
    assert_eq!(one, other, "the scene");
    let on = |app: &App| Truth::of(app.pid()).region(app.range("file"));
    let before: Vec<_> = apps.iter().map(on).collect();
    assert_eq!(before, [home(), away(), home(), away()].map(|node| [(node, SIZE)].into()));
    let outcome = migrate(&[cgroup.target()], &Options::default());
    for app in &mut apps {
        assert_eq!(on(app), [(home(), SIZE)].into(), "{outcome:?}");
        app.check();
    }
    assert_complete(&outcome);
    assert!(outcome.account().moved_bytes() >= SIZE, "{outcome:?}");
    drop((apps, cgroup, btrfs));
}
