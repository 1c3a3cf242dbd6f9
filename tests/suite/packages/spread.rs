//! Services of Debian whose memory is spread over both nodes on purpose, while they serve. Afterwards their data is the same.

use super::{
    real::{Load, Pinned, jvm_goes_round, jvm_on, pgbench, pgbench_on, with_frames},
    *,
};
use crate::{
    cpus::cpus_of,
    scene::SLACK,
    settings::Setting,
    truth::{Nodes, Truth, on},
};

/// Lets a service run on both nodes, and moves its memory as these arguments say.
fn spread(server: &Pinned, arguments: &[&str]) -> Output {
    server.pin_to(&format!("{},{}", cpus_of(0), cpus_of(1)));
    let output =
        run("/usr/bin/numalocctl", &[&["migrate", "--unit", &server.unit], arguments].concat());
    // What it shares with processes beside it may be left. What has moved is seen by the caller.
    assert!(matches!(output.status.code(), Some(0 | 6)), "{}: {output:?}", server.unit);
    output
}

/// Asserts that each node has half, to within a hundredth.
fn assert_halves(nodes: &Nodes, output: &Output) {
    let all: u64 = nodes.values().sum();
    assert!(on(nodes, 0).abs_diff(all / 2) <= all / 100, "{nodes:?}: {output:?}");
}

#[test]
fn the_buffers_of_postgresql_are_interleaved_and_nothing_else_moves() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let (server, mut session, pid) = pgbench_on(1);
    let beside = || {
        let truth = Truth::of(pid);
        on(&truth.all(), 1) - on(&truth.segments(), 1)
    };
    let before = beside();
    let mut load = Load::new("runuser", &pgbench(&["-n", "-c", "3", "-T", "3600"]));
    let output = spread(&server, &["--map", "/dev/zero=interleave"]);
    load.assert_runs();
    assert_halves(&Truth::of(pid).segments(), &output);
    assert!(beside().abs_diff(before) <= SLACK, "{before}, then {}: {output:?}", beside());
    drop(load);
    // Each transaction adds the same to all three.
    let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches), \
                (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history), \
                (select count(*) from pgbench_accounts)";
    assert_eq!(session.ask(sums), "t|t|300000");
}

#[test]
fn the_heap_of_a_jvm_is_balanced() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let jvm = jvm_on(1);
    let output = spread(&jvm, &["--place", "balance"]);
    // The heap is its largest mapping. What else it has is small, and changes while it runs.
    let bytes = |nodes: &Nodes| nodes.values().sum::<u64>();
    let vmas = Truth::of(jvm.pid()).vmas;
    let heap = vmas.iter().max_by_key(|vma| bytes(&vma.nodes)).expect("it has memory");
    assert!(bytes(&heap.nodes) >= 64 * MIB, "{heap:?}");
    assert_halves(&heap.nodes, &output);
    jvm_goes_round();
}
