//! Benefits of findings, and the amount of memory that fits on one node.

use super::build::{GIB, MIB, MIN, clusters, process, sockets};
use crate::{
    NodeId, Speed, Speeds,
    speeds::LatencySource,
    views::advise::{FindingKind, HostLook, advise, node_fit},
};

fn percents(look: &HostLook) -> Vec<(String, FindingKind, f64)> {
    let findings = advise(look, MIN).into_iter();
    findings.map(|one| (one.name, one.kind, one.benefit.map_or(0.0, |it| it.max_percent))).collect()
}

#[test]
fn findings_of_one_kind_are_ordered_by_what_they_bring() {
    // The first one uses more CPUs. The last one is near to its memory, which is not a finding.
    let look = clusters()
        .with(process(1, "0-7", &[(0, 4.0)], &[(0, 2000), (2, 2000)]))
        .with(process(2, "0-7", &[(0, 1.0)], &[(2, 1000)]))
        .with(process(3, "8-15", &[(1, 1.0)], &[(0, 1000)]));
    let found = percents(&look);
    let order: Vec<&str> = found.iter().map(|(name, ..)| &**name).collect();
    assert_eq!(order, ["process 2", "process 1"]);
    let expected = [100.0 * (1.0 - 10.0 / 21.0), 100.0 * (1.0 - 10.0 / 15.5)];
    for ((name, kind, percent), expected) in found.into_iter().zip(expected) {
        assert_eq!(kind, FindingKind::PinnedRemote);
        assert!((percent - expected).abs() < 1e-9, "{name}: {percent}");
    }
}

#[test]
fn who_gets_other_cpus_gains_from_memory_that_stays_as_well() {
    let look = sockets(2).with(process(1, "", &[(0, 1.5), (1, 1.5)], &[(0, 2000), (1, 2000)]));
    let finding = &advise(&look, MIN)[0];
    assert_eq!(finding.kind, FindingKind::UnpinnedFits);
    let benefit = finding.benefit.expect("it comes nearer");
    assert_eq!((benefit.waits.before, benefit.waits.after), (15.0, 10.0));
    assert!((benefit.max_percent - 100.0 / 3.0).abs() < 1e-9, "{benefit:?}");
}

#[test]
fn what_was_measured_counts_more_than_distances() {
    let mut look = sockets(2).with(process(1, "0-7", &[(0, 4.0)], &[(1, 2000)]));
    let speed = |ns: u64| Speed { latency_ps: Some(1000 * ns), ..Speed::default() };
    let pair = |memory: u32, ns| ((NodeId(0), NodeId(memory)), speed(ns));
    let measured = [pair(0, 100), pair(1, 125)].into();
    look.topology = look.topology.with_speeds(Speeds { measured, ..Speeds::default() });
    let benefit = advise(&look, MIN)[0].benefit.expect("it comes nearer");
    assert_eq!(benefit.waits.source, LatencySource::Bench);
    assert!((benefit.max_percent - 20.0).abs() < 1e-9, "{benefit:?}");
}

#[test]
fn settings_bring_no_memory_nearer() {
    let mut look = sockets(2).with(process(1, "0-7", &[(0, 4.0)], &[(0, 2000)]));
    look.numa_balancing = Some(1);
    let findings = advise(&look, MIN);
    assert_eq!(findings[0].kind, FindingKind::Balancing);
    assert_eq!(findings[0].benefit, None);
}

#[test]
fn memory_of_subjects_that_fit_on_one_node_is_counted() {
    assert_eq!(node_fit(&sockets(2)).percent(), 100.0);
    let look = sockets(2)
        // It fits although it is spread now.
        .with(process(1, "", &[(0, 1.0), (1, 1.0)], &[(0, 1000), (1, 1000)]))
        // Too much work for 8 CPUs, too much memory for 64 GiB, and with hugetlb memory.
        .with(process(2, "", &[(0, 4.0), (1, 4.0)], &[(0, 3000)]))
        .with(process(3, "", &[(0, 1.0)], &[(0, 60 << 10)]))
        .with(process(4, "", &[(0, 1.0)], &[(0, 1000)]).hugetlb(&[(0, 60 << 10)]))
        // Only one of its CPUs is on a node.
        .with(process(5, "7-8", &[(0, 0.6), (1, 0.6)], &[(0, 500)]));
    let fit = node_fit(&look);
    assert_eq!((fit.fit_bytes, fit.fit_count), (2000 * MIB, 1));
    assert_eq!(fit.all_bytes, 6500 * MIB + 2 * 60 * GIB);
    assert!(fit.percent() > 1.0 && fit.percent() < 2.0);
}
