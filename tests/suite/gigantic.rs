//! hugetlb pages of 1 GiB: they come from the target's pool alone. Needs a machine that was booted with such pools:
//! one page on node 0 and three on node 1.

use crate::scene::{Scene, assert_complete, assert_left};
use numaloc_core::{Options, Reason};
use std::fs;

const GIB: u64 = 1 << 30;

fn free_pages(node: u32) -> String {
    let pool = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB");
    fs::read_to_string(format!("{pool}/free_hugepages")).expect("a pool").trim().to_owned()
}

#[test]
fn a_page_comes_home_and_then_the_pool_is_empty() {
    assert_eq!((free_pages(0).as_str(), free_pages(1).as_str()), ("1", "3"), "the test's machine");
    let scene = Scene::of(crate::app::Layout::remote(&["gigantic:1G"]).load("idle"));
    // One page alone takes longer than a call may.
    let refused = scene.migrate(&Options::default());
    scene.assert_on("gigantic", 1, GIB);
    assert_left(&refused, Reason::StallBound, GIB);
    let options = Options { include_gigantic: true, ..Options::default() };
    let outcome = scene.migrate(&options);
    scene.assert_on("gigantic", 0, GIB);
    assert_complete(&outcome);
    // The control process has one page, and the page that the target left is free again.
    assert_eq!((free_pages(0).as_str(), free_pages(1).as_str()), ("0", "2"));

    // No page is left at home for a second process.
    let second = Scene::of(crate::app::Layout::remote(&["gigantic:1G"]).load("idle"));
    let outcome = second.migrate(&options);
    second.assert_on("gigantic", 1, GIB);
    assert_left(&outcome, Reason::NoMemory, GIB);
    second.finish();
    scene.finish();
}
