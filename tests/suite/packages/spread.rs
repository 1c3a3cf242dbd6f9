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
    // Memory that it shares with processes beside it may be left. The caller checks the moved bytes.
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
    // The heap is its largest mapping. The rest is small, and changes while it runs.
    let heap = largest(jvm.pid());
    assert!(heap.values().sum::<u64>() >= 64 * MIB, "{heap:?}");
    assert_halves(&heap, &output);
    jvm_goes_round();
}

/// Bytes that all threads of `perf bench` use.
const PERF_BYTES: u64 = 96 * MIB;

/// The child of `perf bench` that has the memory, once it is all there.
fn worker(bench: &Load) -> i32 {
    let children = format!("/proc/{0}/task/{0}/children", bench.pid());
    let mut found = None;
    until("perf has its memory", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        found = pids.into_iter().find(|&pid| on(&largest(pid), 1) >= PERF_BYTES);
        found.is_some()
    });
    found.expect("just found")
}

/// Where the largest mapping of a process is.
fn largest(pid: i32) -> Nodes {
    let vmas = Truth::of(pid).vmas.into_iter().map(|vma| vma.nodes);
    vmas.max_by_key(|nodes| nodes.values().sum::<u64>()).unwrap_or_default()
}

/// A program of others that reads and writes all of its memory again and again.
#[test]
fn perf_bench_numa_is_interleaved_while_it_runs() {
    let _balancing = Setting::numa_balancing(false);
    let _system = with_frames();
    let cpus = cpus_of(1);
    let memory = ["-p", "1", "-t", "2", "-P", "96", "-s", "900", "-l", "100000000"];
    let perf = ["-c", &cpus, "perf", "bench", "numa", "mem", "-q"];
    let mut bench = Load::new("taskset", &[&perf[..], &memory].concat());
    let worker = worker(&bench);
    let pid = worker.to_string();
    // Its parent has a part of the memory mapped, too.
    let parent = bench.pid().to_string();
    let arguments = ["migrate", &parent, &pid, "--place", "interleave", "--nodes", "0,1"];
    let output = run("/usr/bin/numalocctl", &arguments);
    assert!(matches!(output.status.code(), Some(0 | 6)), "{output:?}");
    // Its huge pages may be an odd number.
    let nodes = largest(worker);
    assert!(on(&nodes, 0).abs_diff(on(&nodes, 1)) <= 2 * MIB, "{nodes:?}: {output:?}");
    bench.assert_runs();
    // It has no parent to end with.
    done("kill", &[&pid]);
}
