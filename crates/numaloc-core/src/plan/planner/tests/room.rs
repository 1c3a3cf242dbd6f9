//! Room on the target nodes: free memory, page cache and pools of hugetlb pages.

use super::*;

#[test]
fn no_more_is_planned_than_there_is_room_for() {
    let machine = machine(&[0, 1], &[]);
    let extents = (0..40).map(|index| extent(index << 30, &[(1, 1 << 30)])).collect();
    let plan = plan_of(&machine, process("0", "0-1"), extents, &Options::default());
    let reserve = Options::default().reserve(64 << 30).free_bytes;
    let room = (32u64 << 30) - 64 * MIB - reserve;
    assert!(plan.expected_bytes <= room && plan.expected_bytes > room - 4096);
    assert_eq!(plan.expected_bytes + plan.no_room_bytes, 40 << 30);
}

#[test]
fn cache_that_cgroups_protect_does_not_count_as_room_and_is_named() {
    let plan_with = |protected_bytes, bytes| {
        let mut nodes: Vec<Node> = machine(&[0, 1], &[]).nodes().cloned().collect();
        nodes[0].memory.free_bytes = Options::default().reserve(64 << 30).free_bytes + 65 * MIB;
        (nodes[0].memory.cache_bytes, nodes[0].memory.protected_bytes) =
            (10 * MIB, protected_bytes);
        let extents = vec![extent(0, &[(1, bytes)])];
        let machine = Topology::new(nodes, []);
        plan_of(&machine, process("0", "0-1"), extents, &Options::default())
    };
    let rooms = |protected, bytes| {
        let rooms = plan_with(protected, bytes * MIB);
        let rooms = rooms.rooms().map(|(node, taken, protected_bytes)| {
            let mib = [taken.free_bytes, taken.cache_bytes, protected_bytes].map(|all| all / MIB);
            (node.0, mib)
        });
        rooms.collect::<Vec<_>>()
    };
    assert_eq!(rooms(0, 20), [(0, [1, 10, 0])]);
    assert_eq!(rooms(4 * MIB, 20), [(0, [1, 6, 4])]);
    assert_eq!(rooms(11 * MIB, 20), [(0, [1, 0, 11])]);
    assert_eq!(rooms(4 * MIB, 7), [(0, [1, 6, 0])], "there is enough besides");
    let plan = plan_with(4 * MIB, 20 * MIB);
    assert_eq!((plan.expected_bytes, plan.no_room_bytes), (7 * MIB, 13 * MIB));
}

#[test]
fn what_page_cache_will_move_is_not_planned() {
    let mut nodes: Vec<Node> = machine(&[0, 1], &[]).nodes().cloned().collect();
    nodes[0].memory.free_bytes = Options::default().reserve(64 << 30).free_bytes + 65 * MIB;
    nodes[0].memory.cache_bytes = 1 << 30;
    let options = Options { make_room: MakeRoom::MoveCache, ..Options::default() };
    let extents = vec![extent(0, &[(1, 20 * MIB)])];
    let plan = plan_of(&Topology::new(nodes, []), process("0", "0-1"), extents, &options);
    assert_eq!((plan.expected_bytes, plan.no_room_bytes), (MIB, 19 * MIB));
    assert_eq!(plan.expected_room[&NodeId(0)].cache_bytes, 0);
}

#[test]
fn room_by_cache_takes_the_time_that_the_profile_allows_for_it() {
    let plan_with = |profile, free_bytes| {
        let mut nodes: Vec<Node> = machine(&[0, 1], &[]).nodes().cloned().collect();
        nodes[0].memory.free_bytes =
            Options::default().reserve(64 << 30).free_bytes + 64 * MIB + free_bytes;
        nodes[0].memory.cache_bytes = 8 << 30;
        let pacing = Pacing { profile, ..Pacing::default() };
        let options = Options { pacing, ..Options::default() };
        let extents = vec![extent(0, &[(1, 4 << 30)])];
        plan_of(&Topology::new(nodes, []), process("0", "0-1"), extents, &options)
    };
    for (profile, cache_mib, seconds) in [
        (Profile::Gentle, 4096, 128.0f64),
        (Profile::Gentle, 1024, 32.0),
        (Profile::Balanced, 4096, 16.0),
        (Profile::Balanced, 2048, 8.0),
    ] {
        let plan = plan_with(profile, (4096 - cache_mib) * MIB);
        assert_eq!(plan.expected_room[&NodeId(0)].cache_bytes, cache_mib * MIB);
        // Free room is filled before; all else comes as fast as cache is dropped.
        let before = plan.expected_seconds * (4096 - cache_mib) as f64 / 4096.0;
        let share = f64::from(plan.options.pacing.pace().duty_percent) / 100.0;
        let paced = before / share + seconds.max((plan.expected_seconds - before) / share);
        assert!((plan.paced_seconds() - paced).abs() < 0.001, "{profile:?}: {paced}");
    }
    for (profile, free_bytes) in [(Profile::Fast, 0), (Profile::Gentle, 4096 * MIB)] {
        let plan = plan_with(profile, free_bytes);
        let share = f64::from(plan.options.pacing.pace().duty_percent) / 100.0;
        assert_eq!(plan.paced_seconds(), plan.expected_seconds / share, "{profile:?}");
    }
}

#[test]
fn hugetlb_takes_its_room_from_the_pool() {
    let mut node = machine(&[0, 1], &[]).node(NodeId(0)).unwrap().clone();
    node.memory.huge_pools =
        vec![HugePool { page_bytes: 2 * MIB, total_pages: 9, free_pages: 3, unreserved_pages: 3 }];
    let machine = Topology::new([node, machine(&[0, 1], &[]).node(NodeId(1)).unwrap().clone()], []);
    let pool = |bytes| Extent { hugetlb_bytes: Some(bytes), ..extent(0, &[(1, 10 * MIB)]) };
    let plan = |include_gigantic| {
        let extents = vec![pool(2 * MIB), pool(1 << 30)];
        let options = Options { include_gigantic, ..Options::default() };
        plan_of(&machine, process("0", "0-1"), extents, &options)
    };
    let all = plan(true);
    assert_eq!((all.expected_bytes, all.no_room_bytes), (6 * MIB, 14 * MIB));
    // One page of the second pool takes longer to move than a call may take.
    let bounded = plan(false);
    assert_eq!((bounded.expected_bytes, bounded.no_room_bytes), (6 * MIB, 4 * MIB));
    assert_eq!(bounded.skipped_bytes(), [(Reason::StallBound, 10 * MIB)].into());
    assert_eq!((all.beyond_pool_bytes, bounded.beyond_pool_bytes), (4 * MIB, 4 * MIB));
}

#[test]
fn a_pool_keeps_what_is_asked_for_and_who_uses_it_up_is_known() {
    let mut nodes: Vec<Node> = machine(&[0, 1], &[]).nodes().cloned().collect();
    nodes[0].memory.huge_pools =
        vec![HugePool { page_bytes: 2 * MIB, total_pages: 10, free_pages: 5, unreserved_pages: 4 }];
    let machine = Topology::new(nodes, []);
    let plan = |pages: u64, pool_reserve_percent| {
        let extents =
            vec![Extent { hugetlb_bytes: Some(2 * MIB), ..extent(0, &[(1, pages * 2 * MIB)]) }];
        let options = Options { pool_reserve_percent, ..Options::default() };
        let plan = plan_of(&machine, process("0", "0-1"), extents, &options);
        (plan.expected_bytes / (2 * MIB), plan.no_room_bytes / (2 * MIB), plan.used_up_pools.len())
    };
    assert_eq!(plan(3, 0), (3, 0, 0));
    assert_eq!(plan(4, 0), (4, 0, 1));
    assert_eq!(plan(9, 0), (4, 5, 1));
    assert_eq!(plan(4, 10), (3, 1, 0));
    assert_eq!(plan(4, 11), (2, 2, 0), "a part of a page is a page");
    assert_eq!(plan(4, 100), (0, 4, 0));
}

#[test]
fn fresh_hugetlb_pages_come_from_free_memory_after_the_pool() {
    let mut node = machine(&[0, 1], &[]).node(NodeId(0)).unwrap().clone();
    let reserve = Options::default().reserve(64 << 30).free_bytes;
    node.memory.free_bytes = 64 * MIB + reserve + 5 * MIB;
    // One of the free pages is reserved.
    node.memory.huge_pools =
        vec![HugePool { page_bytes: 2 * MIB, total_pages: 9, free_pages: 2, unreserved_pages: 1 }];
    let machine = Topology::new([node, machine(&[0, 1], &[]).node(NodeId(1)).unwrap().clone()], []);
    let hugetlb =
        |bytes, remote| Extent { hugetlb_bytes: Some(bytes), ..extent(0, &[(1, remote)]) };
    let plan = |hugetlb_bytes, remote, source| {
        // Free memory that the huge pages do not take is left for base pages.
        let extents = vec![hugetlb(hugetlb_bytes, remote), extent(1 << 40, &[(1, 8 * MIB)])];
        let options = Options { include_gigantic: true, hugetlb: source, ..Options::default() };
        let plan = plan_of(&machine, process("0", "0-1"), extents, &options);
        (plan.expected_bytes, plan.no_room_bytes, plan.beyond_pool_bytes)
    };
    use HugetlbSource::{Fresh, Pool};
    assert_eq!(plan(2 * MIB, 4 * MIB, Pool), ((2 + 5) * MIB, (2 + 3) * MIB, 2 * MIB));
    assert_eq!(plan(2 * MIB, 4 * MIB, Fresh), ((2 + 2 + 3) * MIB, 5 * MIB, 2 * MIB));
    assert_eq!(plan(2 * MIB, 10 * MIB, Fresh), ((2 + 4 + 1) * MIB, (4 + 7) * MIB, 4 * MIB));
    // The kernel takes no gigantic page from free memory.
    assert_eq!(plan(1 << 30, 1 << 30, Fresh), (5 * MIB, (1 << 30) + 3 * MIB, 0));
}

#[test]
fn a_page_that_takes_longer_than_a_call_may_stays_unless_it_is_allowed() {
    let gigantic = || vec![Extent { hugetlb_bytes: Some(1 << 30), ..extent(0, &[(1, 1 << 30)]) }];
    let left = |include_gigantic, ms| {
        let max_stall = Some(Duration::from_millis(ms));
        let pacing = Pacing { max_stall, ..Pacing::default() };
        let options = Options { include_gigantic, pacing, ..Options::default() };
        plan_of(&machine(&[0, 1], &[]), process("0", "0-1"), gigantic(), &options).skipped_bytes()
    };
    // 1 GiB takes about 100 ms by HUGE_RATE.
    assert_eq!(left(false, 10), [(Reason::StallBound, 1 << 30)].into());
    assert_eq!(left(true, 10), [].into());
    assert_eq!(left(false, 250), [].into());
}
