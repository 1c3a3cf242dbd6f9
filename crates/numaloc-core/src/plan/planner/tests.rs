mod by_use;
mod cells;
mod named;
mod near;
mod one_sided;
mod portions;
mod relief;
mod room;
mod saturated;
mod tiers;
mod wide;

use super::*;
use crate::{OneSided, Skip};
use crate::{
    ask::{
        heat::HeatSource,
        pace::{Order, Pacing, Profile},
    },
    machine::{
        ids::CpuId,
        process::{Identity, Thread, Threads},
        room::MakeRoom,
        supply::HugetlbSource,
        topology::{HugePool, Node},
    },
    memory::{
        extent::{Mapping, NodeResidency, Pages, Residency},
        locality::Share,
        mempolicy::Mempolicy,
    },
};
use proptest::{collection::vec, prelude::*};
use std::{convert::Infallible, time::Duration};

const MIB: u64 = 1 << 20;

fn nodes(list: &str) -> NodeSet {
    list.parse().unwrap()
}

/// Nodes with 2 CPUs each (node N: CPUs 2N and 2N+1), 64 GiB, half of it free; `bare` ones have no CPU.
fn machine(ids: &[u32], bare: &[u32]) -> Topology {
    let node = |&id: &u32| Node {
        id: NodeId(id),
        cpus: if bare.contains(&id) {
            Default::default()
        } else {
            [2 * id, 2 * id + 1].map(CpuId).into_iter().collect()
        },
        memory: NodeMemory {
            total_bytes: 64 << 30,
            free_bytes: 32 << 30,
            high_watermark_bytes: 64 * MIB,
            ..NodeMemory::default()
        },
    };
    let distance = |&a: &u32, &b: &u32| {
        ((NodeId(a), NodeId(b)), if a == b { 10 } else { 10 + u64::from(a.abs_diff(b)) })
    };
    Topology::new(
        ids.iter().map(node),
        ids.iter().flat_map(|a| ids.iter().map(move |b| distance(a, b))),
    )
}

fn process(cpus: &str, mems: &str) -> Process {
    let identity = Identity { pid: 100, start_time: 1 };
    let (cpus, threads) = (cpus.parse().unwrap(), Vec::new());
    let (mems_allowed, device_nodes) = (nodes(mems), NodeSet::new());
    Process {
        identity,
        comm: "app".into(),
        cpus,
        threads,
        mems_allowed,
        device_nodes,
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    }
}

fn extent(start: u64, resident: &[(u32, u64)]) -> Extent {
    let tally =
        |&(node, owned_bytes)| (NodeId(node), NodeResidency { owned_bytes, ..Default::default() });
    let nodes = resident.iter().map(tally).collect();
    Extent::anonymous(start, 1 << 30, Residency { nodes, ..Residency::default() })
}

fn plan_of(topology: &Topology, process: Process, extents: Vec<Extent>, options: &Options) -> Plan {
    plan_all(topology, &[process], |_| extents, options)
}

/// As `plan_of`, for several processes; `extents` is given their claims.
fn plan_all(
    topology: &Topology,
    processes: &[Process],
    extents: impl FnOnce(&Claims) -> Vec<Extent>,
    options: &Options,
) -> Plan {
    let extents = extents(&claims(topology, processes, options));
    plan(Scene { topology, processes, caller_mems: &topology.ids() }, extents, options)
}

#[test]
fn what_is_counted_to_processes_adds_up_to_the_whole() {
    let machine = machine(&[0, 8], &[]);
    let processes = [process("0-1", "0,8"), process("16-17", "0,8")];
    let both = vec![Mapping { process: 1, start: 0 }, Mapping { process: 0, start: 0 }];
    let shared = Extent { mappings: both, ..extent(0, &[(0, MIB), (8, MIB)]) };
    let own = extent(1 << 30, &[(0, MIB), (8, 3 * MIB)]);
    let plan = plan_all(&machine, &processes, |_| vec![own, shared], &Options::default());
    let [first, second] = &plan.processes[..] else { panic!("{plan:?}") };
    // Both nodes are home to memory that both processes map: none of it is remote.
    assert_eq!(first.remote, [(NodeId(8), 3 * MIB)].into());
    assert!(second.remote.is_empty());
    assert_eq!(
        second.counted.overall,
        Share { local_bytes: 2 * MIB, remote_bytes: 0, ..Share::default() }
    );
    assert_eq!(second.locality, Locality::default(), "it maps nothing alone");
    let mut sum = first.counted;
    sum.add(second.counted);
    assert_eq!(sum, plan.locality);
}

#[test]
fn memory_that_no_option_names_is_moved_and_reported() {
    let mut unasked = extent(0, &[(0, MIB), (8, 3 * MIB)]);
    unasked.policy = Mempolicy::Unasked;
    let extents = vec![unasked, extent(1 << 30, &[(8, MIB)])];
    let machine = machine(&[0, 8], &[]);
    let plan = plan_of(&machine, process("0-1", "0,8"), extents, &Options::default());
    assert_eq!((plan.moves.len(), plan.unasked_bytes), (2, 3 * MIB));
}

#[test]
fn what_balancing_could_move_away_again_is_counted() {
    let machine = machine(&[0, 8], &[]);
    let undoable = |mems: &str, change: fn(Extent) -> Extent| {
        let extents = vec![change(extent(0, &[(0, MIB), (8, 3 * MIB)]))];
        let plan = plan_of(&machine, process("0-1", mems), extents, &Options::default());
        assert_eq!(plan.moves.len(), 1);
        assert_eq!(plan.can_be_undone(), plan.undoable_bytes > 0);
        plan.undoable_bytes
    };
    assert_eq!(undoable("0,8", |extent| extent), 3 * MIB);
    assert_eq!(undoable("0", |extent| extent), 0, "its cpuset allows one node");
    assert_eq!(undoable("0,3", |extent| extent), 0, "the other node that it allows has no memory");
    let preferred = |extent| Extent { policy: "prefer:0".parse().unwrap(), ..extent };
    assert_eq!(undoable("0,8", preferred), 0, "a policy, also of the process");
    let huge = |extent| Extent { hugetlb_bytes: Some(2 * MIB), ..extent };
    assert_eq!(undoable("0,8", huge), 0);
}

#[test]
fn remote_memory_goes_home() {
    let plan = plan_of(
        &machine(&[0, 8], &[]),
        process("0-1", "0,8"),
        vec![extent(0, &[(0, MIB), (8, 3 * MIB)])],
        &Options::default(),
    );
    assert_eq!(plan.expected_flows, [((NodeId(8), NodeId(0)), 3 * MIB)].into());
    assert_eq!(plan.locality.movable.percent(), 25.0);
    assert_eq!(plan.expected_share().percent(), 100.0);
    assert!(plan.skipped.is_empty());
}

#[test]
fn all_nodes_local_is_skipped_and_a_memory_only_node_is_never_local() {
    let machine = machine(&[0, 1, 2], &[2]);
    let everywhere = process("0-3", "0-2");
    let from = Some(nodes("0-2"));
    let plan = plan_of(
        &machine,
        everywhere.clone(),
        vec![extent(0, &[(2, MIB)])],
        &Options { from, ..Options::default() },
    );
    assert_eq!(plan.processes[0].skip, None, "node 2 is remote for all");
    assert_eq!(plan.expected_bytes, MIB);
    let machine = self::machine(&[0, 1], &[]);
    let plan =
        plan_of(&machine, everywhere, vec![extent(0, &[(0, MIB), (1, MIB)])], &Options::default());
    assert_eq!(plan.processes[0].skip, Some(Skip::NoTargetNode));
    assert!(plan.moves.is_empty() && plan.is_skipped());
}

#[test]
fn private_memory_goes_to_the_home_of_its_process_and_shared_memory_to_that_of_its_sharers() {
    let machine = machine(&[0, 1, 2], &[]);
    let processes = [process("0", "0-2"), process("2", "0-2"), process("0-5", "0-2")];
    let own = |process| Extent {
        mappings: vec![Mapping { process, start: 0xc0_0000_0000 }],
        pages: Pages::Own,
        ..extent(0, &[(0, MIB), (1, MIB), (2, MIB)])
    };
    let common = |claims: &Claims, sharers: &[usize]| Extent {
        mappings: (0..3).map(|process| Mapping { process, start: 0xc0_0000_0000 }).collect(),
        pages: Pages::Common(claims.of(sharers.iter().copied())),
        ..extent(0, &[(0, MIB), (1, MIB), (2, MIB)])
    };
    let all = |claims: &Claims| {
        vec![own(0), own(1), own(2), common(claims, &[0, 1]), common(claims, &[1, 2])]
    };
    let plan = plan_all(&machine, &processes, all, &Options::default());
    let homes: Vec<NodeSet> = plan
        .moves
        .iter()
        .map(|planned_move| plan.routes[planned_move.routes].home.clone())
        .collect();
    assert_eq!(homes, [nodes("0"), nodes("1"), nodes("0-1")], "the third belongs everywhere");
    assert_eq!(plan.expected_bytes, 5 * MIB);
    let of = |index: usize| plan.processes[index].resident.values().sum::<u64>();
    assert_eq!((of(0), of(1), of(2)), (3 * MIB, 3 * MIB, 3 * MIB));
    assert_eq!(plan.family_resident.values().sum::<u64>(), 6 * MIB);
}

#[test]
fn the_nearest_home_node_comes_first_and_then_the_freest() {
    let plan = plan_of(
        &machine(&[0, 1, 5, 9], &[]),
        process("2-3,10-11", "0-9"),
        vec![extent(0, &[(9, MIB), (0, MIB)])],
        &Options::default(),
    );
    let route = |from| plan.routes[plan.moves[0].routes].from(NodeId(from)).to_vec();
    assert_eq!(route(9), [NodeId(5), NodeId(1)]);
    assert_eq!(route(0), [NodeId(1), NodeId(5)]);
    assert_eq!(route(5), []);
}

#[test]
fn wide_threads_are_counted_and_the_busiest_are_named() {
    let seconds = Duration::from_secs;
    let thread = |tid, used| Thread { tid, comm: "io".into(), cpu_time: seconds(used) };
    let group = |cpus: &str, count, used, busiest| Threads {
        mems_allowed: None,
        cpus: cpus.parse().unwrap(),
        count,
        cpu_time: seconds(used),
        busiest,
    };
    let narrow = group("0-1", 4, 60, vec![thread(1, 60)]);
    let wide = [
        group("2-3", 2, 25, vec![thread(2, 20), thread(3, 5)]),
        group("0-3", 3, 15, vec![thread(4, 15)]),
    ];
    let threads = [vec![narrow], wide.to_vec()].concat();
    let process = Process { threads, ..process("0-3", "0-2") };
    let plan = plan_of(&machine(&[0, 1, 2], &[]), process, Vec::new(), &Options::default());
    let planned = &plan.processes[0];
    assert_eq!(planned.wide_thread_count(), 5);
    let named = planned.wide_threads_by_name();
    let named: Vec<_> =
        named.iter().map(|wide| (wide.thread.tid, wide.cpu_percent, wide.cpus)).collect();
    let [two, three] = [&wide[0].cpus, &wide[1].cpus];
    assert_eq!(named, [(2, 20.0, two), (4, 15.0, three), (3, 5.0, two)]);
}

#[test]
fn what_is_remote_of_a_move_is_what_moves_and_what_is_shared() {
    let shared = NodeResidency { owned_bytes: 3 * MIB, shared_bytes: 2 * MIB, huge_bytes: 0 };
    let mut extent = extent(0, &[(0, MIB)]);
    extent.residency.nodes.insert(NodeId(1), shared);
    let plan =
        plan_of(&machine(&[0, 1], &[]), process("0", "0-1"), vec![extent], &Options::default());
    assert_eq!((plan.moves[0].shared_bytes, plan.moves[0].remote_bytes()), (2 * MIB, 5 * MIB));
}

/// The method that finds the most used memory where DAMON can be used.
fn order_of_heat(plan: Plan) -> HeatSource {
    let Ok(plan) = plan.hottest_first(|| Ok::<_, Infallible>(HeatSource::Damon));
    plan.order
}

#[test]
fn heat_is_only_measured_where_the_move_takes_ten_times_as_long() {
    let extents = vec![extent(0, &[(1, MIB)])];
    let options = Options { order: Order::Probed, ..Options::default() };
    let plan = plan_of(&machine(&[0, 1], &[]), process("0", "0-1"), extents, &options);
    let share = f64::from(options.pacing.pace().duty_percent) / 100.0;
    let order_of = |paced: f64| {
        let plan = Plan { expected_seconds: paced * share, ..plan.clone() };
        order_of_heat(plan)
    };
    assert_eq!(order_of(9.9), HeatSource::Address);
    assert_eq!(order_of(10.1), HeatSource::Damon);
}

#[test]
fn what_stays_says_why() {
    let machine = machine(&[0, 1], &[]);
    let reasons = |extent: Extent, mems: &str, options: &Options| {
        let plan = plan_of(&machine, process("0", mems), vec![extent], options);
        assert_eq!(plan.expected_bytes + plan.skipped_bytes().values().sum::<u64>(), MIB);
        plan.skipped_bytes().keys().copied().collect::<Vec<_>>()
    };
    let remote = || extent(0, &[(1, MIB)]);
    let bound = |policy: &str| Extent { policy: policy.parse().unwrap(), ..remote() };
    let default = Options::default();
    assert_eq!(reasons(remote(), "0-1", &default), []);
    assert_eq!(reasons(bound("bind:1"), "0-1", &default), [Reason::Bound]);
    assert_eq!(reasons(bound("interleave:0-1"), "0-1", &default), [Reason::Bound]);
    assert_eq!(reasons(bound("bind:0-1"), "0-1", &default), []);
    assert_eq!(
        reasons(bound("bind:1"), "0-1", &Options { include_bound: true, ..default.clone() }),
        []
    );
    assert_eq!(reasons(remote(), "1", &default), [Reason::NotAllowed]);
    let file = Extent { kind: Kind::File, ..remote() };
    assert_eq!(reasons(file.clone(), "0-1", &default), []);
    assert_eq!(
        reasons(file, "0-1", &Options { exclude_file: true, ..default.clone() }),
        [Reason::FileExcluded]
    );
    let served = Extent { kind: Kind::NetworkFile, ..remote() };
    assert_eq!(reasons(served.clone(), "0-1", &default), [Reason::NetworkFile]);
    let taken = Options { include_network: true, ..default.clone() };
    assert_eq!(reasons(served.clone(), "0-1", &taken), []);
    let none = Options { exclude_file: true, ..taken };
    assert_eq!(reasons(served, "0-1", &none), [Reason::FileExcluded]);
    let mut shared = remote();
    shared.residency.nodes =
        [(NodeId(1), NodeResidency { shared_bytes: MIB, ..Default::default() })].into();
    assert_eq!(reasons(shared.clone(), "0-1", &default), [Reason::Shared]);
    assert_eq!(reasons(shared, "0-1", &Options { include_shared: true, ..default }), []);
}

#[test]
fn a_ratio_that_is_reached_moves_nothing_and_one_that_is_not_moves_no_more_than_it_takes() {
    let machine = machine(&[0, 1], &[]);
    let at = |target_ratio| {
        let extents = vec![extent(0, &[(0, 60 * MIB), (1, 40 * MIB)])];
        plan_of(
            &machine,
            process("0", "0-1"),
            extents,
            &Options { target_ratio, ..Options::default() },
        )
    };
    assert_eq!(at(60).expected_bytes, 0);
    assert_eq!(at(60).skipped_bytes(), [(Reason::RatioReached, 40 * MIB)].into());
    assert_eq!((at(90).expected_bytes, at(90).limit_bytes), (30 * MIB, Some(30 * MIB)));
    assert_eq!((at(100).expected_bytes, at(100).limit_bytes), (40 * MIB, None));
}

fn any_extent() -> impl Strategy<Value = Extent> {
    let policy = prop_oneof![
        Just("default"),
        Just("bind:0"),
        Just("bind:2"),
        Just("prefer:1"),
        Just("interleave:0-2")
    ];
    let residency = vec((0u32..4, 0u64..1000, 0u64..1000), 0..4);
    (residency, policy, any::<bool>(), 0u64..1 << 30).prop_map(
        |(residency, policy, file, start)| {
            let mut extent = extent(start * 4096, &[]);
            extent.policy = policy.parse().unwrap();
            extent.kind = if file { Kind::File } else { Kind::Anonymous };
            for (node, owned, shared) in residency {
                let (owned_bytes, shared_bytes) = (owned * 4096, shared * 4096);
                extent.residency.nodes.insert(
                    NodeId(node),
                    NodeResidency { owned_bytes, shared_bytes, huge_bytes: 0 },
                );
            }
            extent
        },
    )
}

prop_compose! {
    fn any_options()(flags in any::<[bool; 3]>(), target_ratio in 0u8..=100) -> Options {
        let [include_shared, exclude_file, include_bound] = flags;
        Options { include_shared, exclude_file, include_bound, target_ratio, ..Options::default() }
    }
}

fn remote_bytes(extents: &[Extent], home: &NodeSet) -> u64 {
    let away = extents
        .iter()
        .flat_map(|extent| &extent.residency.nodes)
        .filter(|(node, _)| !home.contains(**node));
    away.map(|(_, resident)| resident.total_bytes()).sum()
}

proptest! {
    #[test]
    fn every_remote_byte_is_decided_on_once(
        extents in vec(any_extent(), 0..20), options in any_options(), cpus in "[0-3]", mems in "0|1|0-1|0-3"
    ) {
        let machine = machine(&[0, 1, 2, 3], &[3]);
        let process = process(&cpus, &mems);
        let home = machine.local_nodes(&process.cpus);
        let plan = plan_of(&machine, process.clone(), extents.clone(), &options);
        let moving: u64 = plan.moves.iter().map(|planned_move| planned_move.remote.values().sum::<u64>()).sum();
        prop_assert_eq!(moving + plan.skipped_bytes().values().sum::<u64>(), remote_bytes(&extents, &home));
        prop_assert!(plan.expected_bytes + plan.no_room_bytes <= moving);
        for planned_move in &plan.moves {
            let routes = &plan.routes[planned_move.routes];
            prop_assert!(routes.targets.is_subset(&process.mems_allowed));
            for &from in planned_move.remote.keys() {
                prop_assert!(!routes.from(from).is_empty() && routes.from(from).iter().all(|to| home.contains(*to)));
                let nearer = machine.nearer(&home, from);
                prop_assert!(routes.nearer(from).iter().all(|to| nearer.contains(*to)));
            }
        }
    }

    #[test]
    fn planning_again_after_a_perfect_run_finds_nothing(
        extents in vec(any_extent(), 0..20), options in any_options(), cpus in "[0-2]", kind in 0..4_u32
    ) {
        let bare: &[u32] = if kind < 2 { &[3] } else { &[2, 3] };
        let mut machine = machine(&[0, 1, 2, 3], bare);
        if kind % 2 == 1 {
            machine.set_memory(NodeId(1), NodeMemory::default());
        }
        if kind == 3 {
            machine = machine.with_tiers([(0, 4), (2, 1), (3, 1)].map(|(node, tier)| (NodeId(node), tier)));
        }
        let process = process(&cpus, "0-3");
        let options = Options { target_ratio: 100, ..options };
        let first = plan_of(&machine, process.clone(), extents.clone(), &options);
        let moved: BTreeMap<u64, &Move> =
            first.moves.iter().map(|planned_move| (planned_move.mappings[0].start, planned_move)).collect();
        prop_assume!(moved.len() == first.moves.len());
        let after = extents.into_iter().map(|mut extent| {
            if let Some(planned_move) = moved.get(&extent.mappings[0].start) {
                for (&node, &bytes) in &planned_move.remote {
                    let resident = extent.residency.nodes.get_mut(&node).unwrap();
                    let owned = bytes.min(resident.owned_bytes);
                    resident.owned_bytes -= owned;
                    resident.shared_bytes -= bytes - owned;
                    let to = first.routes[planned_move.routes].from(node)[0];
                    extent.residency.nodes.entry(to).or_default().owned_bytes += bytes;
                }
            }
            extent
        });
        let second = plan_of(&machine, process, after.collect(), &options);
        prop_assert_eq!(second.expected_bytes, 0);
    }
}

#[test]
fn pages_leave_only_the_nodes_that_they_may_leave() {
    let machine = machine(&[0, 1, 2], &[2]);
    let plan = |from: Option<&str>| {
        let extents = vec![extent(0, &[(0, MIB), (1, 2 * MIB), (2, 4 * MIB)])];
        let options = Options { from: from.map(nodes), ..Options::default() };
        let plan = plan_of(&machine, process("0", "0-2"), extents, &options);
        let Share { local_bytes, remote_bytes, .. } = plan.locality.movable;
        let overall = plan.locality.overall;
        let may_leave = from.is_some_and(|from| nodes(from).contains(NodeId(2)));
        let demoted = if may_leave { 0 } else { 4 * MIB };
        assert_eq!((overall.bytes(), overall.demoted_bytes, local_bytes), (7 * MIB, demoted, MIB));
        assert_eq!(plan.expected_overall().demoted_bytes, demoted, "it stays");
        assert_eq!(remote_bytes, plan.expected_bytes, "what stays is not movable");
        assert!(
            plan.moves
                .iter()
                .all(|planned_move| plan.routes[planned_move.routes].iter().count() > 0)
        );
        (plan.expected_bytes, plan.skipped_bytes())
    };
    assert_eq!(plan(None), (2 * MIB, [(Reason::OtherTier, 4 * MIB)].into()));
    assert_eq!(plan(Some("0-2")), (6 * MIB, [].into()));
    assert_eq!(plan(Some("2")), (4 * MIB, [(Reason::NodeExcluded, 2 * MIB)].into()));
    assert_eq!(plan(Some("0")), (0, [(Reason::NodeExcluded, 6 * MIB)].into()));
}

#[test]
fn the_kernels_tiers_say_which_memory_only_nodes_are_others() {
    let others = |topology: Topology| topology.other_tiers().to_string();
    let tiers = |tiers: &[u32]| {
        let tiers: Vec<_> = (0..).map(NodeId).zip(tiers.iter().copied()).collect();
        machine(&[0, 1, 2, 3], &[2, 3]).with_tiers(tiers)
    };
    assert_eq!(others(tiers(&[])), "2-3", "no tiers");
    assert_eq!(others(tiers(&[4, 4, 4, 4])), "2-3", "a kernel that tells none apart");
    assert_eq!(others(tiers(&[4, 4, 4, 22])), "3", "2 has only lost its CPUs");
    assert_eq!(others(tiers(&[4, 4, 1, 22])), "2-3", "a faster one is another, too");
    let offline = tiers(&[4, 4, 4, 4]).with_cpus_offline("2".parse().unwrap());
    assert_eq!(others(offline), "3", "the CPUs of 2 are offline");
    assert_eq!(others(machine(&[0, 1], &[])), "");
    // The memory-only node is at the local distance from the CPUs.
    let pair = |a: u32, b: u32| ((NodeId(a), NodeId(b)), 10);
    let nodes: Vec<_> = machine(&[0, 1], &[1]).nodes().cloned().collect();
    assert_eq!(others(Topology::new(nodes, [pair(0, 1), pair(1, 0)])), "");
}

#[test]
fn unasked_only_long_moves_are_worth_a_measurement() {
    let source = |order, profile, expected_seconds| {
        let pacing = Pacing { profile, ..Pacing::default() };
        let options = Options { order, pacing, ..Options::default() };
        let plan = plan_of(&machine(&[0, 1], &[]), process("0", "0"), vec![], &options);
        order_of_heat(Plan { expected_seconds, ..plan })
    };
    // `balanced` moves for 42% of the time, so a move of 4.2 s takes 10 s.
    assert_eq!(source(Order::Probed, Profile::Balanced, 4.3), HeatSource::Damon);
    assert_eq!(source(Order::Probed, Profile::Balanced, 4.1), HeatSource::Address);
    assert_eq!(source(Order::Probed, Profile::Gentle, 1.1), HeatSource::Damon);
    assert_eq!(source(Order::Probed, Profile::Fast, 3600.0), HeatSource::Address);
    assert_eq!(source(Order::Damon, Profile::Fast, 0.0), HeatSource::Damon, "asked for");
}
