//! Crowded hosts: many processes with memory at the same addresses.

use crate::{
    app::{App, Layout},
    cli::{NOBODY, as_nobody, code},
    engine::{inspect, migrate},
    place::{away, both, home},
    settings::{Cgroup, Setting},
    truth::{Nodes, Truth},
};
use numaloc_core::{Options, Reason};
use numaloc_executor::Outcome;
use numaloc_host::Target;

const MIB: u64 = 1 << 20;

/// The heap of every Go program begins at this address.
const HEAP: &str = "heap=anon:32M:at=c000000000";

/// A process with a heap on `mem_node`, which runs on the CPUs of `cpu_nodes` (of all nodes, if that is empty).
fn start(cpu_nodes: impl ToString, mem_node: u32, place: impl FnOnce(Layout) -> Layout) -> App {
    let layout = Layout::remote(&[HEAP]).on(cpu_nodes).memory_on(mem_node).load("idle");
    place(layout).start("member")
}

fn heap(app: &App) -> Nodes {
    Truth::of(app.pid()).region(app.range("heap"))
}

fn targets(apps: &[&App]) -> Vec<Target> {
    apps.iter().map(|app| Target::Pid(app.pid())).collect()
}

fn moved(outcome: &Outcome, app: &App) -> u64 {
    let mut of = outcome.processes.iter().filter(|process| process.identity.pid == app.pid());
    of.next().expect("its account").account.moved_bytes()
}

#[test]
fn heaps_at_one_address_go_each_to_its_own_home() {
    let _balancing = Setting::numa_balancing(false);
    let cgroup = Cgroup::new("crowd");
    let within = |layout: Layout| layout.within(cgroup.path());
    let mut apps =
        [start(home(), away(), within), start(away(), home(), within), start("", away(), within)];
    let plan = inspect(&[cgroup.target()], &Options::default()).plan;
    for (index, home) in both().into_iter().enumerate() {
        let pid = apps[index].pid();
        let mut planned = plan.processes.iter().filter(|one| one.process.identity.pid == pid);
        let share = planned.next().expect("it is planned").locality.movable;
        assert!(share.remote_bytes >= 32 * MIB, "home is {home}: {share:?}");
    }
    assert!(plan.expected_bytes >= 64 * MIB, "{}", plan.expected_bytes);
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_eq!(heap(&apps[0]), [(home(), 32 * MIB)].into());
    assert_eq!(heap(&apps[1]), [(away(), 32 * MIB)].into());
    assert_eq!(heap(&apps[2]), [(away(), 32 * MIB)].into(), "it runs everywhere");
    for (app, bytes) in apps.iter().zip([32 * MIB, 32 * MIB, 0]) {
        assert!((bytes..=bytes + MIB).contains(&moved(&outcome, app)), "{outcome:?}");
    }
    apps.iter_mut().for_each(|app| assert_eq!(app.check(), 0));
    drop(apps);
}

#[test]
fn what_binds_one_process_does_not_hold_another_at_the_same_address() {
    let _balancing = Setting::numa_balancing(false);
    let cgroup = Cgroup::new("crowd-mems");
    cgroup.write("cpuset.mems", &away().to_string());
    let bound = format!("heap=bound:32M:bind={}:at=c000000000", away());
    let bound = Layout::remote(&[&bound]).load("idle").start("bound");
    let confined = start(home(), away(), |layout| layout.within(cgroup.path()));
    let free = start(home(), away(), |layout| layout);
    let outcome = migrate(&targets(&[&bound, &confined, &free]), &Options::default());
    assert_eq!(heap(&free), [(home(), 32 * MIB)].into());
    assert_eq!(heap(&bound), [(away(), 32 * MIB)].into());
    assert_eq!(heap(&confined), [(away(), 32 * MIB)].into());
    let account = outcome.account();
    for reason in [Reason::Bound, Reason::NotAllowed] {
        let left = account.left_for(reason);
        assert!((32 * MIB..34 * MIB).contains(&left), "{reason:?}: {outcome:?}");
    }
    drop((bound, confined, free, cgroup));
}

#[test]
fn copies_of_a_family_go_home_and_what_it_still_shares_stays_with_all_of_it() {
    let _balancing = Setting::numa_balancing(false);
    let layout = Layout::remote(&["cow:32M"]).load("idle").copies_on(away());
    let mut parent = layout.start("parent");
    let child: i32 = parent.ask("child").parse().expect("a pid");
    let range = parent.range("cow");
    // The child runs on all nodes. So its own pages are at home wherever they are, and so are the pages that it shares.
    let all = (0..4).fold(nix::sched::CpuSet::new(), |mut cpus, cpu| {
        cpus.set(cpu).expect("a CPU");
        cpus
    });
    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(child), &all).expect("our own child");
    assert_eq!(Truth::of(parent.pid()).region(range.clone()), [(away(), 32 * MIB)].into());
    let outcome = migrate(&[Target::Pid(parent.pid()), Target::Pid(child)], &Options::default());
    // The second half is the parent's own copy.
    let nodes = Truth::of(parent.pid()).region(range.clone());
    assert_eq!(nodes, [(home(), 16 * MIB), (away(), 16 * MIB)].into());
    assert_eq!(Truth::of(child).region(range), [(away(), 32 * MIB)].into());
    assert!((16 * MIB..18 * MIB).contains(&moved(&outcome, &parent)), "{outcome:?}");
    parent.check();
}

#[test]
fn what_strangers_share_is_found_once_beside_what_is_a_processs_own() {
    let _balancing = Setting::numa_balancing(false);
    let layout = Layout::remote(&["heap=cow:32M:at=c000000000"]).load("idle").copies_on(away());
    let parents = ["one", "other"].map(|name| layout.start(name));
    let outcome = migrate(&targets(&parents.each_ref()), &Options::default());
    for parent in &parents {
        // Half of it belongs to a child too, which is not part of the target.
        assert_eq!(heap(parent), [(home(), 16 * MIB), (away(), 16 * MIB)].into());
    }
    let account = outcome.account();
    let shared = account.left_for(Reason::Shared);
    assert!((32 * MIB..40 * MIB).contains(&shared), "{shared}: {outcome:?}");
    assert!((64 * MIB..74 * MIB).contains(&account.found_bytes()), "{outcome:?}");
}

#[test]
fn without_page_frames_heaps_at_one_address_are_seen_all_the_same() {
    let _balancing = Setting::numa_balancing(false);
    let apps = [(home(), away()), (away(), home())]
        .map(|(cpu_nodes, mem_node)| start(cpu_nodes, mem_node, |layout| layout.owned_by(NOBODY)));
    let pids = apps.each_ref().map(|app| app.pid().to_string());
    let output = as_nobody(&["migrate", "--pid", &pids[0], "--pid", &pids[1], "-o", "json"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(&output), Some(0), "{complaint}");
    assert_eq!(heap(&apps[0]), [(home(), 32 * MIB)].into(), "{complaint}");
    assert_eq!(heap(&apps[1]), [(away(), 32 * MIB)].into(), "{complaint}");
}
