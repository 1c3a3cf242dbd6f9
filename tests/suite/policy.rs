//! Memory that may move, by the policies of the application, of the administrator and of the request.

use crate::{
    app::Layout,
    engine::{inspect, inspect_briefly},
    place::{away, home},
    scene::{Scene, assert_complete, assert_left},
    settings::Cgroup,
    truth::{off, on},
};
use numaloc_core::{Options, Reason};

const MIB: u64 = 1 << 20;

#[test]
fn bound_memory_stays() {
    let scene = Scene::remote(&[&format!("bound:32M:bind={}", away()), "anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("bound", away(), 32 * MIB);
    scene.assert_on("anon", home(), 16 * MIB);
    assert_left(&outcome, Reason::Bound, 32 * MIB);
    assert!(!outcome.is_partial(), "the application's own wish is not a shortfall");
    scene.finish();
}

#[test]
fn bound_memory_comes_home_when_included() {
    let scene = Scene::remote(&[&format!("bound:32M:bind={}", away()), "anon:16M"]);
    let outcome = scene.migrate(&Options { include_bound: true, ..Options::default() });
    scene.assert_on("bound", home(), 32 * MIB);
    scene.assert_on("anon", home(), 16 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_plan_asks_for_policies_in_passing() {
    let small = Scene::remote(&[&format!("bound:8M:bind={}", away()), "anon:8M"]);
    let plan = inspect_briefly(&small.target(), &Options::default()).plan;
    assert_eq!(plan.skipped_bytes().get(&Reason::Bound), Some(&(8 * MIB)), "{plan:?}");
    assert_eq!(plan.unasked_bytes, 0);
    let large = Scene::remote(&[&format!("bound:32M:bind={}", away())]);
    let plan = inspect_briefly(&large.target(), &Options::default()).plan;
    assert!(!plan.skipped_bytes().contains_key(&Reason::Bound), "{plan:?}");
    assert!((32 * MIB..33 * MIB).contains(&plan.unasked_bytes), "{plan:?}");
}

#[test]
fn a_look_after_the_move_knows_what_was_asked_before() {
    let scene = Scene::remote(&[&format!("bound:32M:bind={}", away())]);
    let before = inspect(&scene.target(), &Options::default());
    let after = before.look_again();
    assert_eq!(after.skipped_bytes().get(&Reason::Bound), Some(&(32 * MIB)), "{after:?}");
}

#[test]
fn cpuset_without_the_target_keeps_everything() {
    let cgroup = Cgroup::new("mems");
    cgroup.write("cpuset.mems", &away().to_string());
    let scene = Scene::of(Layout::remote(&["anon:32M"]).within(cgroup.path()));
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", away(), 32 * MIB);
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
    let percent = on(&nodes, home()) * 100 / (64 * MIB);
    assert!((45..=60).contains(&percent), "{percent}% are home: {nodes:?}");
    assert!(outcome.account().left_for(Reason::RatioReached) > 0, "{outcome:?}");
    assert!(!outcome.is_partial());
    scene.finish();
}

#[test]
fn nodes_can_be_named() {
    let scene = Scene::of(Layout::remote(&["anon:32M"]).memory_on(home()));
    let outcome = {
        let to = Some(away().to_string().parse().expect("a list"));
        crate::engine::migrate(&scene.target(), &Options { to, ..Options::default() })
    };
    scene.assert_on("anon", away(), 32 * MIB);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn a_reserve_is_kept_free() {
    let scene = Scene::remote(&["anon:32M"]);
    // More than the node has, so no room is left at all.
    let reserve_bytes = Some(1 << 40);
    let outcome = scene.migrate(&Options { reserve_bytes, ..Options::default() });
    assert_eq!(off(&scene.nodes("anon"), away()), 0);
    assert!(outcome.account().left_for(Reason::NoMemory) >= 32 * MIB, "{outcome:?}");
    scene.finish();
}
