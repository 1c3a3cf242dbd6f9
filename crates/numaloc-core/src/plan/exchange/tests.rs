use super::*;
use crate::{
    Compact, Identity, Kind, Mapping, Node, NodeMemory, Process, Topology,
    memory::{
        extent::{Extent, NodeResidency, Residency},
        mempolicy::Mempolicy,
    },
    page_size,
    plan::planner::{self, Scene},
};
use proptest::{collection::vec, prelude::*};

const MIB: u64 = 1 << 20;

fn nodes(list: &str) -> NodeSet {
    list.parse().unwrap()
}

/// Nodes 0 to 2 with a CPU each; node 0 has room for `free_mib` beyond its reserve of 64 MiB.
fn machine(free_mib: u64) -> Topology {
    let node = |id: u32| {
        let free_bytes = if id == 0 { (64 + free_mib) * MIB } else { 1 << 30 };
        let memory = NodeMemory { total_bytes: 1 << 30, free_bytes, ..NodeMemory::default() };
        Node { id: NodeId(id), cpus: id.to_string().parse().unwrap(), memory }
    };
    Topology::new([0, 1, 2].map(node), [])
}

fn extent(process: usize, on: &[(u32, u64)]) -> Extent {
    let resident = |&(node, owned_bytes)| {
        (NodeId(node), NodeResidency { owned_bytes, shared_bytes: MIB, huge_bytes: 0 })
    };
    Extent {
        mappings: vec![Mapping { process, start: 1 << 30 }],
        pages: Pages::All,
        bytes: 1 << 30,
        kind: Kind::Anonymous,
        policy: Mempolicy::Default,
        hugetlb_bytes: None,
        mappers: Default::default(),
        stripe: None,
        rule: None,
        name: "".into(),
        residency: Residency { nodes: on.iter().map(resident).collect(), ..Residency::default() },
    }
}

/// A plan for processes on these CPUs.
fn plan(cpus: &[&str], extents: Vec<Extent>, free_mib: u64, options: &Options) -> Plan {
    plan_on(&machine(free_mib), cpus, extents, options)
}

fn plan_on(topology: &Topology, cpus: &[&str], extents: Vec<Extent>, options: &Options) -> Plan {
    let process = |(pid, cpus): (i32, &&str)| Process {
        identity: Identity { pid, start_time: 1 },
        comm: "a".into(),
        cpus: cpus.parse().unwrap(),
        threads: Vec::new(),
        mems_allowed: topology.ids(),
        device_nodes: Default::default(),
        swap_bytes: 0,
        page_table_bytes: 0,
        guest: None,
    };
    let processes: Vec<Process> = (1..).zip(cpus).map(process).collect();
    let scene = Scene { topology, processes: &processes, caller_mems: &topology.ids() };
    planner::plan(scene, extents, options)
}

fn exchanging() -> Options {
    Options { make_room: MakeRoom::Exchange, ..Options::default() }
}

#[test]
fn others_go_where_the_memory_comes_from() {
    let remote = vec![extent(0, &[(0, MIB), (1, MIB), (2, MIB)])];
    let found = sides(&plan(&["0"], remote, 0, &exchanging()));
    assert_eq!(found, [(NodeId(0), nodes("1-2"))].into());
}

#[test]
fn no_memory_is_sent_to_a_node_that_is_to_be_filled() {
    // Two processes whose memory is on each other's node.
    let crossed = vec![extent(0, &[(1, MIB)]), extent(1, &[(0, MIB)])];
    assert!(sides(&plan(&["0", "1"], crossed, 0, &exchanging())).is_empty());
    let third = vec![extent(0, &[(1, MIB), (2, MIB)]), extent(1, &[(2, MIB)])];
    let found = sides(&plan(&["0", "1"], third, 0, &exchanging()));
    assert_eq!(found, [(NodeId(0), nodes("2")), (NodeId(1), nodes("2"))].into());
}

/// On a ring the opposite node is far, and a neighbour is nearer. That some pages could go nearer if home had no room
/// does not prevent making that room: a few pages of a library on the node opposite to one home must not close the way
/// to the other.
#[test]
fn a_node_that_is_only_nearer_takes_what_others_give() {
    let node = |id: u32| {
        let memory =
            NodeMemory { total_bytes: 1 << 30, free_bytes: 64 * MIB, ..NodeMemory::default() };
        Node { id: NodeId(id), cpus: id.to_string().parse().unwrap(), memory }
    };
    let links = [(0, 1), (1, 2), (2, 3), (0, 3)].map(|pair| (pair, 16));
    let across = [(0, 2), (1, 3)].map(|pair| (pair, 22));
    let distances = links.into_iter().chain(across);
    let both = distances.flat_map(|((a, b), distance)| [((a, b), distance), ((b, a), distance)]);
    let ring = Topology::new(
        [0, 1, 2, 3].map(node),
        both.map(|((a, b), distance)| ((NodeId(a), NodeId(b)), distance)),
    );
    let few = vec![extent(0, &[(2, MIB)]), extent(1, &[(2, MIB), (3, page_size())])];
    let found = sides(&plan_on(&ring, &["0", "1"], few, &exchanging()));
    let expected = [(NodeId(0), nodes("2")), (NodeId(1), nodes("2-3"))];
    assert_eq!(found, expected.into());
}

#[test]
fn who_is_pinned_to_the_node_is_asked_last() {
    let homes = ["0", "0-1", "1", "0", "0,2"].map(nodes);
    assert_eq!(order(&homes, NodeId(0)), [2, 1, 4, 0, 3]);
    assert_eq!(order(&[], NodeId(0)), [0; 0]);
}

#[test]
fn nodes_are_compacted_for_others_only_as_for_the_run() {
    for compact in Compact::ALL {
        let run = Options { compact, ..exchanging() };
        assert_eq!(options(NodeId(0), &nodes("1"), &run).compact, compact);
    }
}

#[test]
fn only_their_own_memory_on_the_node_may_leave_it() {
    let options = options(NodeId(0), &nodes("1"), &exchanging());
    let file = Extent { kind: Kind::File, ..extent(0, &[(0, MIB)]) };
    let huge = Extent { hugetlb_bytes: Some(2 * MIB), ..extent(0, &[(0, 4 * MIB)]) };
    let bound = Extent { policy: Mempolicy::Bind(nodes("0")), ..extent(0, &[(0, 8 * MIB)]) };
    let own = extent(0, &[(0, 16 * MIB), (1, MIB), (2, MIB)]);
    let mut plan = plan(&["0"], vec![file, huge, bound, own], 0, &options);
    assert_eq!(offered_bytes(&plan, NodeId(0)), 16 * MIB);
    leave_hugetlb(&mut plan);
    let [planned_move] = &plan.moves[..] else { panic!("{:?}", plan.moves) };
    assert_eq!(planned_move.remote, [(NodeId(0), 16 * MIB)].into());
    assert_eq!(plan.routes[planned_move.routes].from(NodeId(0)), [NodeId(1)]);
    let stays = plan.skipped_bytes();
    assert_eq!(stays[&Reason::NotNeeded], 4 * MIB);
    assert_eq!(stays[&Reason::Bound], 8 * MIB);
    assert_eq!(stays[&Reason::FileExcluded], MIB);
    assert_eq!(stays[&Reason::Shared], 4 * MIB, "a MiB of each");
}

#[test]
fn a_plan_says_what_comes_by_exchange() {
    let of = |offered: &[(u32, u64)]| {
        let mut plan = plan(&["0"], vec![extent(0, &[(1, 30 * MIB)])], 10, &exchanging());
        assert_eq!((plan.expected_bytes, plan.no_room_bytes), (10 * MIB, 20 * MIB));
        expect(&mut plan, offered.iter().map(|&(id, bytes)| (NodeId(id), bytes)).collect());
        let taken = plan.expected_room[&NodeId(0)];
        assert_eq!(taken.free_bytes, 10 * MIB);
        assert_eq!(plan.expected_bytes, taken.bytes());
        assert_eq!(plan.expected_bytes + plan.no_room_bytes, 30 * MIB);
        assert_eq!(plan.expected_flows, [((NodeId(1), NodeId(0)), taken.bytes())].into());
        taken.exchange_bytes
    };
    assert_eq!(of(&[]), 0);
    assert_eq!(of(&[(1, 50 * MIB)]), 0, "that is not where the room lacks");
    assert_eq!(of(&[(0, 5 * MIB)]), 5 * MIB);
    assert_eq!(of(&[(0, 50 * MIB)]), 20 * MIB);
}

/// Nodes 0 and 1 are near to each other, and node 1 has room. Memory that would go there waits for an exchange at
/// home as well.
#[test]
fn what_would_go_to_a_nearer_node_comes_home_by_exchange() {
    let row = [10, 11, 32];
    let distance = |a: u32, b: u32| ((NodeId(a), NodeId(b)), row[a.abs_diff(b) as usize]);
    let pairs = [(0, 1), (1, 0), (0, 2), (2, 0)].map(|(a, b)| distance(a, b));
    let topology = Topology::new(machine(10).nodes().cloned().collect::<Vec<_>>(), pairs);
    let of = |offered: u64| {
        let mut plan = plan_on(&topology, &["0"], vec![extent(0, &[(2, 30 * MIB)])], &exchanging());
        assert_eq!((plan.nearer_bytes, plan.no_room_bytes), (20 * MIB, 0));
        assert!(lacks_room(&plan));
        expect(&mut plan, [(NodeId(0), offered)].into());
        assert_eq!((plan.expected_bytes, plan.no_room_bytes), (30 * MIB, 0));
        assert_eq!(plan.near_came_bytes, plan.nearer_bytes);
        let room = |node| plan.expected_room.get(&NodeId(node)).copied().unwrap_or_default();
        assert_eq!(room(1).bytes(), plan.nearer_bytes);
        assert_eq!(room(0).free_bytes, 10 * MIB);
        let flow = |to| plan.expected_flows.get(&(NodeId(2), NodeId(to))).copied().unwrap_or(0);
        assert_eq!((flow(0), flow(1)), (room(0).bytes(), room(1).bytes()));
        (room(0).exchange_bytes, plan.nearer_bytes)
    };
    assert_eq!(of(0), (0, 20 * MIB));
    assert_eq!(of(5 * MIB), (5 * MIB, 15 * MIB));
    assert_eq!(of(50 * MIB), (20 * MIB, 0));
}

#[test]
fn turns_alternate() {
    let mut balance = Balance::default();
    assert_eq!(balance.step(3 * CHUNK, 5 * CHUNK), Step::Ask(CHUNK));
    balance.asked_bytes = CHUNK;
    assert_eq!(balance.step(3 * CHUNK, 5 * CHUNK), Step::Wait, "they are at it");
    balance.out_bytes = CHUNK;
    assert_eq!(balance.vacated_bytes(), CHUNK);
    assert_eq!(
        balance.step(3 * CHUNK, 5 * CHUNK),
        Step::Stop,
        "another user of memory has taken it"
    );
    balance.in_bytes = CHUNK;
    assert_eq!(
        balance.step(10 * page_size(), 5 * CHUNK),
        Step::Ask(10 * page_size()),
        "the last bytes"
    );
    assert_eq!(balance.step(CHUNK, 10 * page_size()), Step::Stop, "there is no room for others");
    assert_eq!(balance.step(CHUNK, pmd_size()), Step::Ask(pmd_size()));
}

proptest! {
    // Memory of two kinds changes sides on nodes with limited room, while others now and then take what became free.
    #[test]
    fn no_more_leaves_than_fits_and_no_more_is_lost_than_a_chunk(
        waiting in 1..40u64,
        theirs in 0..40u64,
        room in 0..20u64,
        lost in vec(0..3u64, 60),
    ) {
        let unit = 8 * MIB;
        let (mut waiting, mut theirs, room) = (waiting * unit, theirs * unit, room * unit);
        let (all, mut balance, mut free_here, mut stolen) = (waiting, Balance::default(), 0, 0);
        for lost in lost {
            if waiting == 0 {
                break;
            }
            let room_there = room + balance.in_bytes - balance.out_bytes.min(room + balance.in_bytes);
            match balance.step(waiting, room_there) {
                Step::Stop => break,
                Step::Wait => {
                    // They take away what they were asked for, as far as they have it.
                    let goes = (balance.asked_bytes - balance.out_bytes).min(theirs);
                    if goes == 0 {
                        break;
                    }
                    theirs -= goes;
                    balance.out_bytes += goes;
                    let taken = goes.min(lost * unit);
                    (free_here, stolen) = (free_here + goes - taken, stolen + taken);
                    let comes = free_here.min(waiting);
                    (free_here, waiting) = (free_here - comes, waiting - comes);
                    balance.in_bytes += comes;
                }
                Step::Ask(more) => {
                    prop_assert!(more > 0 && more <= waiting && more <= room_there);
                    balance.asked_bytes += more;
                }
            }
            prop_assert!(balance.out_bytes <= room + balance.in_bytes, "{balance:?}");
            prop_assert!(balance.vacated_bytes() <= CHUNK, "{balance:?}");
            prop_assert!(stolen <= CHUNK);
        }
        prop_assert_eq!(balance.in_bytes + waiting, all);
        if stolen == 0 {
            prop_assert_eq!(balance.vacated_bytes(), 0, "as much has come as has left");
        }
    }
}

#[test]
fn a_partner_joins_as_a_whole_or_not_at_all() {
    let of = |pids: &[i32]| -> BTreeSet<Identity> {
        pids.iter().map(|&pid| Identity { pid, start_time: 1 }).collect()
    };
    let mut taken = of(&[1, 2]);
    assert!(!enlist(&mut taken, of(&[2, 3])), "2 is of the target");
    assert!(enlist(&mut taken, of(&[3, 4])), "3 was not taken by the one that did not join");
    assert!(!enlist(&mut taken, of(&[4])), "4 is of a partner");
    assert!(!enlist(&mut taken, of(&[])), "it has none");
    assert_eq!(taken, of(&[1, 2, 3, 4]));
}
