//! Guarantees of advice on random hosts: see the name of each test.

use super::{
    build::{GIB, MIB, MIN, clusters, node, of, process, sockets},
    followed, text,
};
use crate::{
    CpuSet, NodeId,
    views::advise::{
        Finding, FindingKind, HostLook, Subject, Who, advise, capacity::room, order::smallest_first,
    },
};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeMap;

const NODES: u32 = 4;

/// Four nodes, equally far from each other or clusters of two sockets, with little or much that is free.
fn machine() -> impl Strategy<Value = HostLook> {
    (0..3, vec(1..40_u64, 4), vec(0.0..2.0_f64, 4)).prop_map(|(shape, free, busy)| {
        let host = match shape {
            0 => sockets(NODES),
            1 => clusters(),
            _ => {
                let cpus = |id: u32| format!("{}-{}", 8 * id, 8 * id + 7);
                of((0..NODES).map(|id| node(id, &cpus(id), 16 << id, 1)), &[])
            }
        };
        let nodes = (0..NODES).zip(free).zip(busy);
        nodes.fold(host, |host, ((id, free), busy)| {
            let set = |memory: &mut crate::NodeMemory| {
                memory.free_bytes = (free * GIB).min(memory.total_bytes / 2);
            };
            host.memory(id, set).busy(id, busy)
        })
    })
}

/// A subject of some kind.
fn subject(pid: i32) -> impl Strategy<Value = Subject> {
    let cpus = prop_oneof![
        Just(String::new()),
        (0..NODES).prop_map(|node| format!("{}-{}", 8 * node, 8 * node + 7)),
        (0..20_u32, 1..12_u32).prop_map(|(first, count)| format!("{first}-{}", first + count)),
    ];
    let policy = prop_oneof![
        8 => Just("default".to_owned()),
        1 => (0..NODES).prop_map(|node| format!("bind:{node}")),
        1 => Just("interleave:0-3".to_owned()),
    ];
    let memory = vec(prop_oneof![Just(0), 1..6000_u64], NODES as usize);
    (cpus, memory, 0.0..3.0_f64, 0..7, policy).prop_map(
        move |(cpus, memory, used, handle, policy)| {
            let topology = sockets(NODES).topology;
            let list = if cpus.is_empty() { "0-31" } else { &cpus };
            let home = topology.local_nodes(&list.parse().expect("a list"));
            let share = used / home.len() as f64;
            let used: Vec<(u32, f64)> = home.iter().map(|node| (node.0, share)).collect();
            let resident: Vec<(u32, u64)> = (0..).zip(memory).collect();
            let subject = process(pid, &cpus, &used, &resident).policy(&policy);
            match handle {
                0 => subject.cpuset(&format!("/c{pid}")),
                1 => subject.unit(&format!("u{pid}.service")),
                2 => subject.of_kubelet(&format!("/kubepods/{pid}")),
                3 => subject.devices("1"),
                4 => subject.devices("0,2"),
                5 => subject.storage(&[(2, 900), (1, 100)]),
                _ => subject,
            }
        },
    )
}

fn host() -> impl Strategy<Value = HostLook> {
    let subjects = (1..8_i32).prop_map(|count| (1..=count).collect::<Vec<_>>());
    let subjects = subjects.prop_flat_map(|pids| pids.into_iter().map(subject).collect::<Vec<_>>());
    (machine(), subjects)
        .prop_map(|(host, subjects)| subjects.into_iter().fold(host, HostLook::with))
}

/// CPUs in use by node.
fn busy(look: &HostLook, node: NodeId) -> f64 {
    look.busy.get(&node).copied().unwrap_or(0.0)
}

/// The CPUs that each has been given.
fn given(findings: &[Finding]) -> BTreeMap<Who, CpuSet> {
    let given =
        findings.iter().filter_map(|finding| Some((finding.who.clone()?, finding.cpus.clone()?)));
    given.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_node_is_given_more_than_it_has(host in host()) {
        let mut look = host;
        for finding in advise(&look, MIN) {
            for ((_, to), bytes) in &finding.flows {
                prop_assert!(*bytes <= room(&look.topology, *to), "{}", text(std::slice::from_ref(&finding)));
            }
            look = followed(&look, std::slice::from_ref(&finding));
            if finding.cpus.is_some() {
                for node in finding.home.iter() {
                    let cpus = look.topology.node(node).expect("a node").cpus.len() as f64;
                    prop_assert!(busy(&look, node) <= cpus, "{}", text(std::slice::from_ref(&finding)));
                }
            }
        }
    }

    #[test]
    fn the_smallest_may_come_first(host in host()) {
        let findings = advise(&host, MIN);
        let order = smallest_first(findings.clone());
        prop_assert_eq!(order.len(), findings.len());
        let of = |list: &[Finding], who: &Option<Who>| {
            text(&list.iter().filter(|one| one.who == *who).cloned().collect::<Vec<_>>())
        };
        let mut look = host;
        for finding in &order {
            prop_assert_eq!(of(&order, &finding.who), of(&findings, &finding.who));
            for ((_, to), bytes) in &finding.flows {
                prop_assert!(*bytes <= room(&look.topology, *to), "{} as {}", text(&findings), text(&order));
            }
            look = followed(&look, std::slice::from_ref(finding));
        }
        let settings = order.iter().position(|finding| finding.who.is_none());
        prop_assert!(order.iter().skip(settings.unwrap_or(order.len())).all(|one| one.who.is_none()));
        if let Some(canary) = order.first().filter(|canary| canary.who.is_some()) {
            let first = &findings[0];
            prop_assert!(canary.resident_bytes <= first.resident_bytes, "the first waits for no other");
        }
    }

    #[test]
    fn nothing_is_left_to_advise_after_it_was_followed(host in host()) {
        let findings = advise(&host, MIN);
        let again = advise(&followed(&host, &findings), MIN);
        prop_assert_eq!(text(&again), "nothing\n", "{}", text(&findings));
    }

    #[test]
    fn the_order_in_which_subjects_were_seen_does_not_matter(host in host()) {
        let mut turned = host.clone();
        turned.subjects.reverse();
        prop_assert_eq!(text(&advise(&host, MIN)), text(&advise(&turned, MIN)));
    }

    #[test]
    fn noise_moves_no_subject(host in host(), noise in vec(-3.0..3.0_f64, 16)) {
        let findings = advise(&host, MIN);
        let given = given(&findings);
        let mut after = followed(&host, &findings);
        let mut noise = noise.into_iter().cycle();
        for subject in &mut after.subjects {
            let factor = 1.0 + noise.next().expect("endless") / 100.0;
            for (node, cpus) in &mut subject.cpu_use {
                *after.busy.entry(*node).or_default() += *cpus * (factor - 1.0);
                *cpus *= factor;
            }
            for bytes in subject.resident.values_mut() {
                *bytes = (*bytes as f64 * factor) as u64 / MIB * MIB;
            }
        }
        for finding in advise(&after, MIN) {
            let who = finding.who.clone().expect("no settings");
            // Noise may let it fit on fewer of the nodes that it was given, and on no others.
            let sent = match (&finding.cpus, given.get(&who)) {
                (Some(cpus), Some(given)) => !cpus.is_subset(given),
                _ => false,
            };
            prop_assert!(!sent, "{}then {}", text(&findings), text(std::slice::from_ref(&finding)));
        }
    }

    #[test]
    fn pins_are_only_ever_narrowed_unless_their_node_is_full_or_their_storage_is_elsewhere(host in host()) {
        let before: BTreeMap<_, _> =
            host.subjects.iter().map(|subject| (subject.who.clone(), subject.cpus.clone())).collect();
        for finding in advise(&host, MIN) {
            let is_pin = ![FindingKind::Overcommitted, FindingKind::Storage].contains(&finding.kind);
            if let (Some(who), Some(cpus), true) = (&finding.who, &finding.cpus, is_pin) {
                let moved_before = !cpus.is_subset(&before[who]);
                prop_assert!(!moved_before, "{}", text(std::slice::from_ref(&finding)));
            }
        }
    }
}
