//! Placements on two tiers by use: what is used goes up, what is not goes down, within bounds.

use super::{portions::in_a_row, *};
use crate::{
    ask::{
        directions::Directions,
        placement::{Placement, tiers::Tiers},
        temperatures::{Sights, Temperatures},
    },
    plan::tier_use::{TierMove, UseAmounts},
    pmd_size,
};
use std::{ops::Range, sync::Arc};

const MINE: Identity = Identity { pid: 100, start_time: 1 };

/// What was seen of the process: ranges in MiB, and how many of 20 looks found them used.
fn seen(ranges: &[(Range<u64>, u32)]) -> Temperatures {
    let mut sights = Sights::new(1);
    sights.begin(20);
    for (range, used) in ranges {
        sights.add(0, range.start * MIB..range.end * MIB, *used);
    }
    Temperatures::new([MINE], sights)
}

fn by_use(text: &str, seen: Temperatures) -> Options {
    let tiers = Tiers { seen: Some(Arc::new(seen)), ..text.parse().expect(text) };
    Options { placement: Placement::Tiers(tiers), ..Options::default() }
}

/// Memory of a process on node 0; node 2 has no CPUs.
fn plan_on(machine: &Topology, extents: Vec<Extent>, options: &Options) -> Plan {
    let options = options.on(machine).expect("no bandwidths");
    plan_of(machine, process("0-1", "0-2"), extents, &options)
}

fn plan_for(extents: Vec<Extent>, options: &Options) -> Plan {
    plan_on(&machine(&[0, 1, 2], &[2]), extents, options)
}

fn ways(plan: &Plan) -> Vec<(u64, u64, bool)> {
    let mib = |bytes: u64| bytes / MIB;
    let way = |TierMove { range, is_up, .. }| (mib(range.start), mib(range.end), is_up);
    plan.tier_moves().map(way).collect()
}

#[test]
fn what_is_used_goes_up_and_what_is_not_goes_down() {
    let used = seen(&[(0..16, 20), (16..32, 0), (32..48, 0), (48..64, 20)]);
    let plan = plan_for(vec![in_a_row(0, &[(0, 32), (2, 32)])], &by_use("slow=2", used));
    assert_eq!(ways(&plan), [(48, 64, true), (16, 32, false)], "up before down");
    let flow = |from, to| ((NodeId(from), NodeId(to)), 16 * MIB);
    assert_eq!(plan.expected_flows, [flow(0, 2), flow(2, 0)].into());
    let share = Share { local_bytes: 32 * MIB, remote_bytes: 32 * MIB, ..Share::default() };
    assert_eq!(plan.locality.movable, share);
    let half = UseAmounts { hot_bytes: 16 * MIB, cold_bytes: 16 * MIB, ..UseAmounts::default() };
    let tiers = plan.tiers.expect("by use");
    assert_eq!((tiers.fast, tiers.slow, tiers.kept_bytes), (half, half, 0));
}

#[test]
fn nothing_moves_that_was_not_watched() {
    let plan = plan_for(vec![in_a_row(0, &[(0, 32), (2, 32)])], &by_use("slow=2", seen(&[])));
    assert_eq!((plan.moves.len(), plan.skipped.len()), (0, 0));
    assert_eq!(plan.tiers.expect("by use").fast.unseen_bytes, 32 * MIB);
    let options = Options { placement: "tiers:slow=2".parse().unwrap(), ..Options::default() };
    let plan = plan_for(vec![in_a_row(0, &[(0, 32), (2, 32)])], &options);
    assert_eq!(plan.moves.len(), 0, "nothing has been measured");
    assert_eq!(plan.locality.movable.remote_bytes, 0);
}

#[test]
fn what_is_kept_stays_and_no_more_goes_than_has_to_be_free() {
    let extent = || vec![in_a_row(0, &[(0, 64)])];
    let cold = || seen(&[(0..64, 0)]);
    let down = |text: &str, machine: &Topology| {
        let plan = plan_on(machine, extent(), &by_use(text, cold()));
        let kept = plan.tiers.expect("by use").kept_bytes;
        assert_eq!(plan.expected_bytes + kept, 64 * MIB);
        plan.expected_bytes / MIB
    };
    let roomy = machine(&[0, 1, 2], &[2]);
    assert_eq!(down("slow=2", &roomy), 64);
    assert_eq!(down("slow=2,keep_fast=20M", &roomy), 44);
    assert_eq!(down("slow=2,keep_fast=25%", &roomy), 48);
    assert_eq!(down("slow=2,keep_fast=100%", &roomy), 0);
    // 32 GiB of node 0 are free.
    assert_eq!(down("fast=0,slow=2,free_fast=32G", &roomy), 0);
    let wanted = format!("fast=0,slow=2,free_fast={}", (32 << 30) + 10 * MIB);
    assert_eq!(down(&wanted, &roomy), 10);
}

#[test]
fn room_for_what_goes_up_comes_first() {
    let mut machine = machine(&[0, 1, 2], &[2]);
    let free_bytes = 64 * MIB;
    let memory = NodeMemory { total_bytes: 1 << 30, free_bytes, ..NodeMemory::default() };
    machine.set_memory(NodeId(0), memory);
    let used = || seen(&[(0..48, 0), (48..64, 20)]);
    let options = Options { reserve_bytes: Some(56 * MIB), ..by_use("slow=2", used()) };
    let plan = plan_on(&machine, vec![in_a_row(0, &[(0, 48), (2, 16)])], &options);
    assert_eq!(ways(&plan), [(0, 8, false), (48, 64, true), (8, 48, false)]);
    assert_eq!((plan.expected_bytes, plan.no_room_bytes), (64 * MIB, 0));
    // A fast node with less than its reserve needs room for that, too.
    let options = Options { reserve_bytes: Some(80 * MIB), ..by_use("slow=2", used()) };
    let plan = plan_on(&machine, vec![in_a_row(0, &[(0, 48), (2, 16)])], &options);
    assert_eq!(ways(&plan), [(0, 32, false), (48, 64, true), (32, 48, false)]);
    assert_eq!((plan.expected_bytes, plan.no_room_bytes), (64 * MIB, 0));
    // A slow node without room: down stops, and up continues.
    let full = NodeMemory { total_bytes: 1 << 30, free_bytes: 0, ..NodeMemory::default() };
    machine.set_memory(NodeId(2), full);
    let options = Options { reserve_bytes: Some(0), ..by_use("slow=2", used()) };
    let plan = plan_on(&machine, vec![in_a_row(0, &[(0, 48), (2, 16)])], &options);
    assert_eq!(plan.expected_flows.get(&(NodeId(2), NodeId(0))), Some(&(16 * MIB)));
    assert_eq!(plan.expected_flows.get(&(NodeId(0), NodeId(2))), Some(&(16 * MIB)));
    assert_eq!(plan.no_room_bytes, 32 * MIB);
}

#[test]
fn what_may_not_move_stays_and_is_named() {
    let bound = Extent { policy: Mempolicy::Bind(nodes("0")), ..in_a_row(0, &[(0, 32)]) };
    let plan = plan_for(vec![bound], &by_use("slow=2", seen(&[(0..32, 0)])));
    assert_eq!(plan.skipped_bytes(), [(Reason::Bound, 32 * MIB)].into());
    let narrow = process("0-1", "0-1");
    let options = by_use("slow=2", seen(&[(0..32, 0)]));
    let machine = machine(&[0, 1, 2], &[2]);
    let plan = plan_of(&machine, narrow, vec![in_a_row(0, &[(0, 32)])], &options);
    assert_eq!(plan.processes[0].skip, Some(Skip::OneNode), "its cpuset has no slow node");
    assert_eq!(plan.moves.len(), 0);
}

#[test]
fn what_went_up_and_down_rests() {
    let (mut ways, range) = (Directions::default(), 0..8 * pmd_size());
    let seconds = Duration::from_secs;
    ways.note(MINE, &range, false, seconds(1));
    ways.note(MINE, &range, true, seconds(2));
    let rests = |now| ways.resting(seconds(now), seconds(10));
    let plan = |now| {
        let used = seen(&[(0..32, 0)]).with_resting(rests(now));
        plan_for(vec![in_a_row(0, &[(0, 32)])], &by_use("slow=2", used))
    };
    let early = plan(50);
    assert_eq!(early.tiers.expect("by use").resting_bytes, 16 * MIB);
    assert_eq!(early.expected_bytes, 16 * MIB);
    assert_eq!(plan(103).expected_bytes, 32 * MIB);
}

#[test]
fn chunks_are_cut_where_huge_pages_begin() {
    let start = pmd_size() - 8 * 4096;
    let plan = plan_for(
        vec![in_a_row(start, &[(0, 6)])],
        &by_use("slow=2", {
            let mut sights = Sights::new(1);
            sights.begin(20);
            sights.add(0, start..pmd_size(), 20);
            sights.add(0, pmd_size()..start + 6 * MIB, 0);
            Temperatures::new([MINE], sights)
        }),
    );
    let moves: Vec<Range<u64>> = plan.tier_moves().map(|one| one.range).collect();
    assert_eq!(moves, [Range { start: pmd_size(), end: start + 6 * MIB }]);
}
