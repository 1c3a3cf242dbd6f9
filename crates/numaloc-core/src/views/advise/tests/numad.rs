//! Mistakes of numad (openEuler-Computing/numad, numad.c).

use super::{
    build::{GIB, MIN, node, of, process, sockets},
    followed,
};
use crate::{
    NodeId,
    views::advise::{Finding, FindingKind, HostLook, Who, advise},
};

fn of_pid(findings: &[Finding], pid: i32) -> &Finding {
    let is_of = |finding: &&Finding| matches!(finding.who, Some(Who::Process(identity)) if identity.pid == pid);
    findings.iter().find(is_of).unwrap_or_else(|| panic!("nothing of {pid}: {findings:#?}"))
}

#[test]
fn pins_are_not_ignored() {
    // numad sets the affinity to all CPUs of the node that it has chosen.
    let across = process(1, "2-3,8-9", &[(0, 0.5), (1, 0.5)], &[(0, 3000), (1, 3000)]);
    let findings = advise(&sockets(2).with(across), MIN);
    let finding = of_pid(&findings, 1);
    let cpus = finding.cpus.as_ref().expect("fewer CPUs").to_string();
    assert!(["2-3", "8-9"].contains(&&cpus[..]), "{cpus}");
    // Memory goes to the pin, and the pin does not go to the memory.
    let pinned = sockets(2).with(process(1, "0", &[(0, 0.9)], &[(1, 9000)]));
    let findings = advise(&pinned, MIN);
    let finding = of_pid(&findings, 1);
    assert_eq!((finding.kind, &finding.cpus), (FindingKind::PinnedRemote, &None));
}

#[test]
fn each_node_has_its_own_size() {
    // numad takes node 0 for the size of all: here node 1 is an eighth of it.
    let nodes = [node(0, "0-15", 512, 4), node(1, "16-19", 64, 20), node(2, "20-35", 512, 200)];
    let large = process(1, "", &[(0, 2.0), (1, 2.0)], &[(1, 30_000), (0, 30_000)]);
    let findings = advise(&of(nodes, &[]).with(large), MIN);
    assert_eq!(of_pid(&findings, 1).home.to_string(), "2", "{findings:#?}");
}

#[test]
fn all_processes_are_advised_at_once() {
    // numad handles one a round, and only those above 300 MB and half a CPU.
    let small = |pid| process(pid, "", &[(0, 0.2), (1, 0.2)], &[(0, 100), (1, 100)]);
    let host = (1..=12).fold(sockets(2), |host, pid| host.with(small(pid)));
    assert_eq!(advise(&host, MIN).len(), 12);
}

#[test]
fn memory_that_did_not_move_is_found_again() {
    // numad takes for granted that memory did move.
    let host = sockets(2).with(process(1, "", &[(0, 1.0), (1, 1.0)], &[(0, 2000), (1, 4000)]));
    let findings = advise(&host, MIN);
    let mut after = followed(&host, &findings);
    after.subjects[0].resident = host.subjects[0].resident.clone();
    let again = advise(&after, MIN);
    let [finding] = &again[..] else { panic!("{again:#?}") };
    assert_eq!((finding.kind, finding.bytes), (FindingKind::PinnedRemote, 2000 << 20));
    assert_eq!(finding.cpus, None, "its CPUs are right by now");
}

#[test]
fn nodes_are_not_filled_twice() {
    // Two that fit each, but not both: numad looks at one a round, and at free memory that the other has not taken yet.
    let host = sockets(2).memory(0, |memory| memory.free_bytes = 12 * GIB);
    let host = host
        .with(process(1, "0-7", &[(0, 2.0)], &[(1, 8000)]))
        .with(process(2, "0-7", &[(0, 1.0)], &[(1, 8000)]).cpus_above("0-7"));
    let findings = advise(&host, MIN);
    let moved: u64 = findings.iter().filter(|f| f.home.contains(NodeId(0))).map(|f| f.bytes).sum();
    assert!(moved <= 12 * GIB, "{findings:#?}");
    let free = |look: &HostLook| look.topology.node(NodeId(0)).expect("it").memory.free_bytes;
    assert!(free(&followed(&host, &findings)) >= 64 << 20, "{findings:#?}");
}
