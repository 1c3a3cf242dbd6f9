//! Shared memory that one process maps.

use crate::scene::{Scene, assert_complete};
use numaloc_core::Options;

const MIB: u64 = 1 << 20;

#[test]
fn shared_anonymous_memory_comes_home() {
    let scene = Scene::remote(&["shm:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("shm", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn memfd_comes_home() {
    let scene = Scene::remote(&["memfd:32M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("memfd", 0, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}
