//! Page cache of mapped files.

use crate::{
    app::Layout,
    scene::{Scene, assert_complete, assert_left},
    truth::Truth,
};
use numaloc_core::{Options, Reason};
use std::fs;

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
        scene.assert_on("file", 0, 32 * MIB);
        assert_complete(&outcome);
    });
}

#[test]
fn dirty_pages_come_home() {
    // Pages under writeback are busy for a while. The disk is fast here, so retries move them.
    with_file(":dirty", |scene| {
        let outcome = scene.migrate(&Options::default());
        scene.assert_on("file", 0, 32 * MIB);
        assert_complete(&outcome);
    });
}

#[test]
fn excluded_pages_stay() {
    with_file("", |scene| {
        let outcome = scene.migrate(&Options { exclude_file: true, ..Options::default() });
        scene.assert_on("file", 1, 32 * MIB);
        scene.assert_on("anon", 0, 16 * MIB);
        assert!(outcome.account().left_for(Reason::FileExcluded) >= 32 * MIB, "{outcome:?}");
    });
}

#[test]
fn pages_that_a_stranger_maps_stay_unless_included() {
    with_file("", |scene| {
        let stranger = Layout::remote(&["file:/mnt/disk/target:32M:touch"]).load("idle");
        let stranger = stranger.start("stranger");
        let outcome = scene.migrate(&Options::default());
        scene.assert_on("file", 1, 32 * MIB);
        scene.assert_on("anon", 0, 16 * MIB);
        assert!(outcome.account().left_for(Reason::Shared) >= 32 * MIB, "{outcome:?}");

        let all = Options { include_shared: true, ..Options::default() };
        let outcome = scene.migrate(&all);
        scene.assert_on("file", 0, 32 * MIB);
        assert!(outcome.account().moved_bytes() >= 32 * MIB, "{outcome:?}");
        let seen_by_stranger = Truth::of(stranger.pid()).region(stranger.range("file"));
        assert_eq!(seen_by_stranger, [(0, 32 * MIB)].into());
        assert_left(&outcome, Reason::Shared, 0);
    });
}
