//! Which way of measuring is chosen.

use super::*;
use crate::fake::Fake;
use numaloc_core::{
    Options, Pacing, Topology,
    planner::{self, Scene},
};

/// An empty plan whose move takes this long without pauses.
fn plan(order: Order, profile: Profile, expected_seconds: f64) -> Plan {
    let pacing = Pacing { profile, ..Pacing::default() };
    let options = Options { order, pacing, ..Options::default() };
    let topology = Topology::default();
    let scene = Scene { topology: &topology, processes: &[], caller_mems: &topology.ids() };
    Plan { expected_seconds, ..planner::plan(scene, [], &options) }
}

fn with_damon() -> Fake {
    let fake = Fake::new();
    fake.write("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n");
    fake
}

#[test]
fn what_is_asked_for_is_chosen() {
    let (with, without) = (with_damon(), Fake::new());
    for (order, source) in [
        (Order::Address, HeatSource::Address),
        (Order::Referenced, HeatSource::Referenced),
        (Order::Damon, HeatSource::Damon),
    ] {
        let plan = plan(order, Profile::Fast, 0.0);
        assert_eq!(choose(&with.roots(), &plan).ok(), Some(source));
        let chosen = choose(&without.roots(), &plan);
        match order {
            Order::Damon => assert!(matches!(chosen, Err(Error::NoDamon { .. })), "{chosen:?}"),
            _ => assert_eq!(chosen.ok(), Some(source)),
        }
    }
}

#[test]
fn unasked_only_long_moves_are_worth_it() {
    let (with, without) = (with_damon(), Fake::new());
    let chosen = |host: &Fake, profile, seconds| {
        choose(&host.roots(), &plan(Order::Probed, profile, seconds)).expect("there is a way")
    };
    // `balanced` moves for 42% of the time, so a move of 4.2 s takes 10 s.
    assert_eq!(chosen(&with, Profile::Balanced, 4.3), HeatSource::Damon);
    assert_eq!(chosen(&with, Profile::Balanced, 4.1), HeatSource::Address);
    assert_eq!(chosen(&with, Profile::Gentle, 1.1), HeatSource::Damon);
    assert_eq!(chosen(&with, Profile::Fast, 3600.0), HeatSource::Address);
    assert_eq!(chosen(&without, Profile::Balanced, 3600.0), HeatSource::Address);
    with.write("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n");
    assert_eq!(chosen(&with, Profile::Balanced, 3600.0), HeatSource::Address);
}
