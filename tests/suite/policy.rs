//! What may move, by the policies of the application, of the administrator and of the request.

use crate::{
    app::Layout,
    engine::{inspect, inspect_briefly},
    scene::{Scene, assert_complete, assert_left},
    settings::Cgroup,
    truth::{off, on},
};
use numaloc_core::{Options, Reason};

const MIB: u64 = 1 << 20;

#[test]
fn bound_memory_stays() {
    let scene = Scene::remote(&["bound:32M:bind=1", "anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("bound", 1, 32 * MIB);
    scene.assert_on("anon", 0, 16 * MIB);
    assert_left(&outcome, Reason::Bound, 32 * MIB);
    assert!(!outcome.is_partial(), "the application's own wish is not a shortfall");
    scene.finish();
}

#[test]
fn bound_memory_comes_home_when_included() {
    let scene = Scene::remote(&["bound:32M:bind=1", "anon:16M"]);
    let outcome = scene.migrate(&Options { include_bound: true, ..Options::default() });
    scene.assert_on("bound", 0, 32 * MIB);
    scene.assert_on("anon", 0, 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_plan_asks_for_policies_in_passing() {
    let small = Scene::remote(&["bound:8M:bind=1", "anon:8M"]);
    let plan = inspect_briefly(&small.target(), &Options::default()).plan;
    assert_eq!(plan.skipped_bytes().get(&Reason::Bound), Some(&(8 * MIB)), "{plan:?}");
    assert_eq!(plan.unasked_bytes, 0);
    let large = Scene::remote(&["bound:32M:bind=1"]);
    let plan = inspect_briefly(&large.target(), &Options::default()).plan;
    assert!(!plan.skipped_bytes().contains_key(&Reason::Bound), "{plan:?}");
    assert!((32 * MIB..33 * MIB).contains(&plan.unasked_bytes), "{plan:?}");
}

#[test]
fn a_look_after_the_move_knows_what_was_asked_before() {
    let scene = Scene::remote(&["bound:32M:bind=1"]);
    let before = inspect(&scene.target(), &Options::default());
    let after = before.look_again();
    assert_eq!(after.skipped_bytes().get(&Reason::Bound), Some(&(32 * MIB)), "{after:?}");
}

#[test]
fn cpuset_without_the_target_keeps_everything() {
    let cgroup = Cgroup::new("mems");
    cgroup.write("cpuset.mems", "1");
    let scene = Scene::of(Layout::remote(&["anon:32M"]).within(cgroup.path()));
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", 1, 32 * MIB);
    assert_eq!(outcome.account().moved_bytes(), 0);
    assert!(outcome.account().left_for(Reason::NotAllowed) >= 32 * MIB, "{outcome:?}");
    assert!(outcome.is_partial());
    drop(scene.finish());
}

#[test]
fn a_target_ratio_ends_the_work() {
    let scene = Scene::remote(&["anon:64M"]);
    let outcome = scene.migrate(&Options { target_ratio: 50, ..Options::default() });
    let nodes = scene.nodes("anon");
    let percent = on(&nodes, 0) * 100 / (64 * MIB);
    assert!((45..=60).contains(&percent), "{percent}% are home: {nodes:?}");
    assert!(outcome.account().left_for(Reason::RatioReached) > 0, "{outcome:?}");
    assert!(!outcome.is_partial());
    scene.finish();
}

#[test]
fn nodes_can_be_named() {
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(0));
    let outcome = {
        let to = Some("1".parse().expect("a list"));
        crate::engine::migrate(&scene.target(), &Options { to, ..Options::default() })
    };
    scene.assert_on("anon", 1, 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_reserve_is_kept_free() {
    let scene = Scene::remote(&["anon:32M"]);
    // More than the node has, so there is no room at all.
    let reserve_bytes = Some(1 << 40);
    let outcome = scene.migrate(&Options { reserve_bytes, ..Options::default() });
    assert_eq!(off(&scene.nodes("anon"), 1), 0);
    assert!(outcome.account().left_for(Reason::NoMemory) >= 32 * MIB, "{outcome:?}");
    scene.finish();
}
