//! Which nodes are home.

use crate::{app::Layout, engine::look, scene::Scene, truth::node_count};
use numaloc_core::{Options, Skip};

const MIB: u64 = 1 << 20;

fn is_skipped(layout: Layout) {
    let scene = Scene::of(layout);
    let look = look(&scene.target(), &Options::default());
    let plan = &look.plan;
    assert_eq!(plan.processes[0].skip, Some(Skip::NoTargetNode));
    assert_eq!(plan.processes[0].skip.map(Skip::message), Some("no target node"));
    assert!(plan.is_skipped() && plan.moves.is_empty());
    let outcome = look.carry_out(&Default::default(), &Default::default());
    assert_eq!(outcome.account().moved_bytes(), 0);
    scene.assert_on("anon", 1, 16 * MIB);
    scene.finish();
}

#[test]
fn a_process_that_may_run_everywhere_is_skipped() {
    is_skipped(Layout::remote(&["anon:16M"]).on(""));
}

#[test]
fn threads_on_all_nodes_are_skipped() {
    assert_eq!(node_count(), 2, "this test is for two nodes");
    is_skipped(Layout::remote(&["anon:16M"]).on("0,1"));
}
