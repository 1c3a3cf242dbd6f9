//! Huge pages: transparent ones stay whole, hugetlb pages come from their pool.

use crate::{
    app::until,
    engine::inspect,
    place::{away, home},
    scene::{SLACK, Scene, assert_complete, assert_left},
    settings::{HUGETLB_BYTES, Setting, hugetlb_pages},
    truth::{Nodes, free_bytes, high_watermark_bytes, huge_bytes, vmstat},
};
use numaloc_core::{HugetlbSource, Options, Reason, page_size, pmd_size};
use numaloc_sys::fixture::{Backing, Region};
use std::{mem, thread, time::Duration};

const MIB: u64 = 1 << 20;

/// At least as many bytes, in whole huge pages. They have 512 MiB each where base pages have 64 KiB.
fn whole(bytes: u64) -> u64 {
    bytes.next_multiple_of(pmd_size())
}

/// A region of huge pages.
fn thp(bytes: u64) -> String {
    format!("thp:{}M", bytes / MIB)
}

#[test]
fn thp_comes_home_whole_by_one_address_each() {
    let bytes = whole(64 * MIB);
    let scene = Scene::remote(&[&thp(bytes)]);
    let (pid, range) = (scene.app.pid(), scene.app.range("thp"));
    assert_eq!(huge_bytes(pid, range.clone()), bytes, "the test needs huge pages");
    let split_before = vmstat("thp_migration_split");
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("thp", home(), bytes);
    assert_eq!(huge_bytes(pid, range), bytes, "AnonHugePages");
    assert_eq!(vmstat("thp_migration_split"), split_before);
    assert_complete(&outcome);

    // All other moved bytes were in base pages, with one address each.
    let (account, calls) = (outcome.account(), outcome.calls);
    let folios = calls.addresses - calls.retried_addresses;
    let others = account.moved_bytes() - bytes;
    assert!(others <= 2 * SLACK.max(16 * page_size()), "{outcome:?}");
    let folios = folios.abs_diff(bytes / pmd_size() + others / page_size());
    assert!(folios <= 16, "{outcome:?}");
    scene.finish();
}

#[test]
fn nothing_but_huge_pages_takes_exactly_one_address_each() {
    let bytes = whole(64 * MIB);
    let scene = Scene::remote(&[&thp(bytes)]);
    // The first run brings everything home, heap and stacks included. The second run moves only the huge pages, back to where they were.
    scene.migrate(&Options::default());
    let to = Some(away().to_string().parse().expect("a list"));
    let mut huge_only = inspect(&scene.target(), &Options { to, ..Options::default() });
    let start = scene.app.range("thp").start;
    huge_only.plan.moves.retain(|planned_move| planned_move.mappings[0].start == start);
    huge_only.plan.skipped.clear();
    let outcome = huge_only.carry_out(&Default::default(), &Default::default());
    assert_eq!(outcome.calls.addresses - outcome.calls.retried_addresses, bytes / pmd_size());
    scene.assert_on("thp", away(), bytes);
    scene.finish();
}

#[test]
fn mixed_with_base_pages_comes_home() {
    let bytes = whole(32 * MIB);
    let scene = Scene::remote(&[&thp(bytes), "anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("thp", home(), bytes);
    scene.assert_on("anon", home(), 16 * MIB);
    assert_eq!(huge_bytes(scene.app.pid(), scene.app.range("thp")), bytes);
    assert_complete(&outcome);
    scene.finish();
}

#[test]
fn hugetlb_comes_home_into_the_pool() {
    let _pools = (Setting::huge_pool(home(), 16), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M"]);
    let outcome = scene.migrate(&Options::default());
    // First the account, which names the reason if a page stays.
    assert_complete(&outcome);
    scene.assert_on("hugetlb", home(), 32 * MIB);
    scene.finish();
}

#[test]
fn hugetlb_without_a_pool_stays_and_the_rest_comes_home() {
    let _pools = (Setting::huge_pool(home(), 0), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M", "anon:16M"]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("hugetlb", away(), 32 * MIB);
    scene.assert_on("anon", home(), 16 * MIB);
    assert_left(&outcome, Reason::NoMemory, 32 * MIB);
    scene.finish();
}

#[test]
fn hugetlb_without_a_pool_comes_home_fresh_if_asked() {
    let _pools = (Setting::huge_pool(home(), 0), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M", "anon:16M"]);
    let options = Options { hugetlb: HugetlbSource::Fresh, ..Options::default() };
    let plan = inspect(&scene.target(), &options).plan;
    assert_eq!((plan.beyond_pool_bytes, plan.no_room_bytes), (32 * MIB, 0), "said in the plan");
    let outcome = scene.migrate(&options);
    scene.assert_on("hugetlb", home(), 32 * MIB);
    scene.assert_on("anon", home(), 16 * MIB);
    assert_complete(&outcome);
    // The pages have changed pools. The control process still has the rest of the other node's pool.
    assert_eq!((pool(home()), pool(away())), ((16, 0), (16, 0)));
    scene.finish();
}

#[test]
fn fresh_hugetlb_pages_come_after_those_of_the_pool_and_leave_the_reserve() {
    let _pools = (Setting::huge_pool(home(), 4), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M"]);
    // Processes of earlier tests give their memory back a moment after their end.
    let mut free = free_bytes(home());
    until("free memory is steady", || {
        thread::sleep(Duration::from_millis(300));
        let before = mem::replace(&mut free, free_bytes(home()));
        free.abs_diff(before) < MIB
    });
    // Room for about four pages more than the pool has.
    let free = free - high_watermark_bytes(home());
    let reserve_bytes = Some(free - 9 * MIB);
    let options = Options { hugetlb: HugetlbSource::Fresh, reserve_bytes, ..Options::default() };
    let outcome = scene.migrate(&options);
    let ((at_home, home_free), (remote, _)) = (pool(home()), pool(away()));
    assert!(home_free == 0 && at_home + remote == 36, "{outcome:?}");
    let expected = [(home(), at_home * HUGETLB_BYTES), (away(), (16 - at_home) * HUGETLB_BYTES)];
    assert_eq!(
        scene.nodes("hugetlb"),
        expected.into_iter().filter(|(_, bytes)| *bytes > 0).collect::<Nodes>()
    );
    // Memory that earlier tests give back meanwhile may be used, so that all 16 pages may come home. The reserve must
    // be left, give or take two pages.
    let left = free_bytes(home()) - high_watermark_bytes(home());
    assert!(left + 2 * HUGETLB_BYTES >= free - 9 * MIB, "{left} bytes are left: {outcome:?}");
    assert!(at_home > 4, "fresh pages come after the pool's four: {at_home} at home: {outcome:?}");
    scene.finish();
}

#[test]
fn hugetlb_pages_that_others_have_reserved_do_not_count_as_room() {
    // All free pages are reserved. The kernel would take fresh ones, although the home node's pool has free pages.
    let _pools = (Setting::huge_pool(home(), 4), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M"]);
    let reserved =
        Region::map(4 * HUGETLB_BYTES as usize, Backing::Hugetlb(HUGETLB_BYTES as usize), None)
            .expect("reserved");
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("hugetlb", away(), 32 * MIB);
    assert_left(&outcome, Reason::NoMemory, 32 * MIB);
    assert_eq!((pool(home()), pool(away())), ((4, 4), (32, 0)), "the pools are as they were");
    drop(reserved);
    scene.finish();
}

/// Pages in a node's pool, and how many of them are free.
fn pool(node: u32) -> (u64, u64) {
    (hugetlb_pages(node, "nr_hugepages"), hugetlb_pages(node, "free_hugepages"))
}

#[test]
fn a_pool_keeps_its_reserve() {
    let _pools = (Setting::huge_pool(home(), 8), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M"]);
    let outcome = scene.migrate(&Options { pool_reserve_percent: 50, ..Options::default() });
    // Now and then the kernel takes a page from the buddy allocator although the pool has one: see below.
    let ((total, free), (remote, _)) = (pool(home()), pool(away()));
    assert!(free >= 4 && total <= 9 && total + remote == 40, "{free} of {total}: {outcome:?}");
    let at_home = total - free;
    assert!((4..=5).contains(&at_home), "{at_home} at home: {outcome:?}");
    let nodes =
        [(home(), at_home * HUGETLB_BYTES), (away(), (16 - at_home) * HUGETLB_BYTES)].into();
    assert_eq!(scene.nodes("hugetlb"), nodes, "{outcome:?}");
    assert_left(&outcome, Reason::NoMemory, (16 - at_home) * HUGETLB_BYTES);
    scene.finish();
}

#[test]
fn hugetlb_moves_what_the_pool_holds() {
    let _pools = (Setting::huge_pool(home(), 4), Setting::huge_pool(away(), 32));
    let scene = Scene::remote(&["hugetlb:32M"]);
    let outcome = scene.migrate(&Options::default());
    // Now and then the kernel takes a page from the buddy allocator although the pool has one (`nr_hugepages` of the target is
    // then 5, seen on 6.1). The page that was spared is used as well. No page is left free, and both pools together keep their
    // size.
    let ((at_home, home_free), (remote, _)) = (pool(home()), pool(away()));
    assert!(
        home_free == 0 && at_home >= 4 && at_home + remote == 36,
        "{at_home} at home: {outcome:?}"
    );
    let nodes = scene.nodes("hugetlb");
    assert_eq!(
        nodes,
        [(home(), at_home * HUGETLB_BYTES), (away(), (16 - at_home) * HUGETLB_BYTES)].into(),
        "{outcome:?}"
    );
    assert!(at_home <= 5, "more than the pool had: {outcome:?}");
    assert_left(&outcome, Reason::NoMemory, (16 - at_home) * HUGETLB_BYTES);
    println!("pool of {at_home}");
    scene.finish();
}
