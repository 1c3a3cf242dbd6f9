//! Memory that several processes map.

use crate::{
    app::{App, Layout, until},
    engine::{inspect, migrate},
    place::{away, home},
    scene::{SLACK, Scene, assert_complete},
    settings::{Cgroup, Setting},
    truth::Truth,
};
use numaloc_core::{Options, Reason, page_size};
use numaloc_host::Target;
use std::fs;

const MIB: u64 = 1 << 20;
const PROCESSES: usize = 8;
const SEGMENT: &str = "/dev/shm/segment";

/// A segment of 256 MiB that eight processes of a cgroup map. Each has its own share of the pages to write.
struct Family {
    apps: Vec<App>,
    stranger: Option<App>,
    control: App,
    control_before: Truth,
    cgroup: Cgroup,
    _balancing: Setting,
}

impl Family {
    fn start(name: &str, with_stranger: bool) -> Self {
        let balancing = Setting::numa_balancing(false);
        let cgroup = Cgroup::new(name);
        let member = |index| {
            let region = format!("segment=file:{SEGMENT}:256M:stripe={index}/{PROCESSES}");
            // Only one process writes all the time. Each page that moves interrupts every CPU that runs one of the writers, and
            // an emulated CPU may handle its interrupts late.
            let load = if index == 0 { "write" } else { "idle" };
            Layout::remote(&[&region]).load(load).within(cgroup.path()).spawn("member")
        };
        let mut apps: Vec<App> = (0..PROCESSES).map(member).collect();
        apps.iter_mut().for_each(App::ready);
        let stranger = with_stranger.then(|| {
            let region = format!("segment=file:{SEGMENT}:256M:touch");
            Layout::remote(&[&region]).load("idle").start("stranger")
        });
        let control = Layout::remote(&["shm:16M"]).control();
        let control_before = Truth::of(control.pid()).without_files();
        Self { apps, stranger, control, control_before, cgroup, _balancing: balancing }
    }

    /// Asserts that every process sees the whole segment on `node`.
    fn assert_on(&self, node: u32) {
        for app in &self.apps {
            let nodes = Truth::of(app.pid()).region(app.range("segment"));
            assert_eq!(nodes, [(node, 256 * MIB)].into(), "process {}", app.pid());
        }
    }

    fn finish(mut self) {
        assert!(self.apps[0].check() > 0);
        for app in &mut self.apps {
            app.check();
        }
        assert_eq!(Truth::of(self.control.pid()).without_files(), self.control_before);
        self.control.check();
        drop((self.apps, self.stranger));
        fs::remove_file(SEGMENT).expect("the members made it");
        drop(self.cgroup);
    }
}

#[test]
fn a_segment_of_eight_processes_comes_home_once() {
    let family = Family::start("segment", false);
    let outcome = migrate(&[family.cgroup.target()], &Options::default());
    family.assert_on(home());
    assert_complete(&outcome);
    // Each folio was passed once: the number of addresses depends on what moved, not on how many processes map it.
    let (moved, calls) = (outcome.account().moved_bytes(), outcome.calls);
    let private = PROCESSES as u64 * 4 * SLACK;
    assert!((256 * MIB..=256 * MIB + private).contains(&moved), "{outcome:?}");
    let first_tries = calls.addresses - calls.retried_addresses;
    assert!(
        first_tries <= (moved + outcome.account().vanished_bytes()) / page_size(),
        "{outcome:?}"
    );
    family.finish();
}

#[test]
fn a_segment_with_a_stranger_stays() {
    let family = Family::start("stranger", true);
    let outcome = migrate(&[family.cgroup.target()], &Options::default());
    family.assert_on(away());
    assert!(outcome.account().left_for(Reason::Shared) >= 256 * MIB, "{outcome:?}");
    assert!(outcome.account().left_for(Reason::Shared) < 300 * MIB, "counted once: {outcome:?}");
    family.finish();
}

#[test]
fn pages_shared_with_a_child_stay_when_the_parent_alone_is_the_target() {
    let mut scene = Scene::remote(&["cow:32M", "shm:16M"]);
    let child: i32 = scene.app.ask("child").parse().expect("a pid");
    let range = scene.app.range("cow");
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("shm", home(), 16 * MIB);
    // The second half is the parent's own: it has written there since the fork, and its copies came from the home node.
    assert_eq!(scene.nodes("cow"), [(home(), 16 * MIB), (away(), 16 * MIB)].into());
    assert_eq!(Truth::of(child).region(range), [(away(), 32 * MIB)].into());
    assert!(outcome.account().left_for(Reason::Shared) >= 16 * MIB, "{outcome:?}");
    scene.finish();
}

#[test]
fn pages_shared_with_a_child_come_home_when_both_are_the_target() {
    let cgroup = Cgroup::new("cow");
    let mut scene = Scene::of(Layout::remote(&["cow:32M", "shm:16M"]).within(cgroup.path()));
    let child: i32 = scene.app.ask("child").parse().expect("a pid");
    let range = scene.app.range("cow");
    let targets = [Target::Pid(scene.app.pid()), Target::Pid(child)];
    let by_pid = migrate(&targets, &Options::default());
    scene.assert_on("cow", home(), 32 * MIB);
    scene.assert_on("shm", home(), 16 * MIB);
    assert_eq!(Truth::of(child).region(range), [(home(), 32 * MIB)].into());
    assert_complete(&by_pid);
    // The cgroup contains the same two processes, so nothing is left to move in the regions. File pages that were mapped
    // meanwhile may be.
    let by_cgroup = inspect(&[cgroup.target()], &Options::default());
    let regions = [scene.app.range("cow"), scene.app.range("shm")];
    let of_regions = |start: u64| regions.iter().any(|region| region.contains(&start));
    let mut mapped = by_cgroup.plan.moves.iter().flat_map(|planned_move| &planned_move.mappings);
    assert!(!mapped.any(|mapping| of_regions(mapping.start)), "{:?}", by_cgroup.plan.moves);
    drop(scene.finish());
}

#[test]
fn pages_that_children_have_moved_to_other_addresses_come_home_once() {
    const SIZE: u64 = 16 * MIB;
    let cgroup = Cgroup::new("elsewhere");
    let layout = Layout::remote(&["anon:16M", "thp:16M"]).load("idle").within(cgroup.path());
    let mut scene = Scene::of(layout);
    // One of three processes with both regions has each of them at another address.
    let children = ["anon", "thp"].map(|name| {
        let answer = scene.app.ask(&format!("fork-elsewhere {name}"));
        let (pid, start) = answer.split_once(' ').expect("a pid and an address");
        let (pid, start): (i32, u64) = (pid.parse().expect("a pid"), start.parse().expect("bytes"));
        let nodes = move || Truth::of(pid).region(start..start + SIZE);
        until("the child has moved it", || nodes() == [(away(), SIZE)].into());
        (pid, nodes)
    });
    let assert_on = |scene: &Scene, node| {
        ["anon", "thp"].iter().for_each(|name| scene.assert_on(name, node, SIZE));
        let on_node = children.each_ref().map(|(_, nodes)| nodes());
        assert_eq!(on_node, [[(node, SIZE)].into(), [(node, SIZE)].into()]);
    };
    let without_one = [Target::Pid(scene.app.pid()), Target::Pid(children[0].0)];
    let outcome = migrate(&without_one, &Options::default());
    assert_on(&scene, away());
    assert!(outcome.account().left_for(Reason::Shared) >= 2 * SIZE, "{outcome:?}");
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_on(&scene, home());
    assert_complete(&outcome);
    let moved = outcome.account().moved_bytes();
    assert!((2 * SIZE..=2 * SIZE + 3 * SLACK).contains(&moved), "counted once: {outcome:?}");
    drop(scene.finish());
}
