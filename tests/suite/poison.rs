//! Broken memory: the kernel has taken a page away, in the middle of others that move.

use crate::{
    app::Layout,
    engine::migrate,
    place::{away, home},
    scene::Scene,
    settings::Setting,
    truth::on,
};
use numaloc_core::{Options, page_size};

const MIB: u64 = 1 << 20;

/// Moves a region one of whose pages is broken. Returns the bytes at home afterwards, and the bytes that stayed.
fn without_one(region: &str, name: &str) -> (u64, u64) {
    let mut scene = Scene::of(Layout::remote(&[region]));
    assert_eq!(scene.app.ask(&format!("poison {name} 519")), format!("poisoned {name}"));
    let outcome = migrate(&scene.target(), &Options::default());
    assert!(outcome.processes.iter().all(|process| process.error.is_none()), "{outcome:?}");
    let account = outcome.account();
    assert!(account.closes(), "{outcome:?}");
    let nodes = scene.nodes(name);
    let (here, there) = (on(&nodes, home()), on(&nodes, away()));
    assert!(account.moved_bytes() >= here, "{here} for {outcome:?}");
    assert_eq!(account.shortfall_bytes(), there, "what stays is named: {outcome:?}");
    // It checks all pages but the broken one, and would end at an access to that.
    scene.finish();
    (here, there)
}

#[test]
fn the_base_pages_around_a_broken_one_come_home() {
    assert_eq!(without_one("anon:8M", "anon"), (8 * MIB - page_size(), 0));
}

#[test]
fn the_rest_of_a_broken_huge_page_comes_home() {
    assert_eq!(without_one("thp:8M", "thp"), (8 * MIB - page_size(), 0));
}

#[test]
fn the_other_pages_of_a_pool_come_home() {
    let _pools = [Setting::huge_pool(home(), 8), Setting::huge_pool(away(), 8)];
    assert_eq!(without_one("hugetlb:8M", "hugetlb"), (6 * MIB, 0));
}
