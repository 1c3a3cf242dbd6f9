//! Page cache of a file in use that goes to the other node, where it stays warm, instead of being dropped.

use super::*;
use crate::{engine::inspect, truth::Truth};
use numaloc_core::{Flows, NodeId};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::Whose;
use std::thread;

/// Cache in each of these scenes, in MiB. It comes before the ballast, see [`full`].
const CACHE: u64 = 200;

fn options() -> Options {
    Options { make_room: MakeRoom::MoveCache, ..Options::default() }
}

/// A file whose cache is on node 0, which has little else free, and the process that has it open there.
fn in_use(command: &str) -> (OnDisk, App, Child) {
    let file = OnDisk::new("warm", CACHE);
    file.read(0);
    let ballast = ballast(LEFT);
    let nodes = file.cached();
    assert!(on(&nodes, 0) > CACHE * MIB * 9 / 10, "the scene: {nodes:?}");
    assert_little_free();
    let user = file.reader(0, command);
    let opened = |pid: u32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        let mut targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        targets.find(|target| *target == file.path())
    };
    crate::app::until("the file is open", || opened(user.id()).is_some());
    (file, ballast, user)
}

const ASLEEP: &str = "exec sleep 600 3<\"$0\"";

fn end(mut user: Child) {
    user.kill().expect("it runs");
    user.wait().expect("it ends");
}

fn to_the_other_node(flows: &Flows) -> u64 {
    assert!(flows.keys().all(|flow| *flow == (NodeId(0), NodeId(1))), "{flows:?}");
    flows.values().sum()
}

#[test]
fn cache_of_a_file_in_use_stays_warm() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast, user) = in_use("exec 3<\"$0\"; while cat \"$0\"; do :; done");
    let read = || [vmstat("workingset_refault_file"), vmstat("pgpgin")];
    let (before, reads) = (distress(), read());
    let outcome = scene.migrate(&options());
    scene.assert_on("anon", 0, SIZE);
    assert_complete(&outcome);
    assert_eq!((outcome.calls.cache_bytes, outcome.calls.cache_stop), (0, None), "{outcome:?}");
    let moved = to_the_other_node(&outcome.cache_flows);
    assert!(moved > SIZE * 3 / 4, "{outcome:?}");
    let nodes = file.cached();
    assert_eq!(on(&nodes, 0) + on(&nodes, 1), CACHE * MIB, "all of it is in memory");
    assert!(on(&nodes, 1) >= moved / 10 * 9, "{moved} moved, {nodes:?}");
    let after = read();
    assert!(after[0] - reads[0] < 256 && after[1] - reads[1] < 1024, "{reads:?}, then {after:?}");
    assert_eq!(distress(), before, "{DISTRESS:?}");
    end(user);
    ballast.check();
    drop((ballast, file));
    scene.finish();
}

#[test]
fn the_other_node_is_not_filled() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast, user) = in_use(ASLEEP);
    // Less than its reserve is left.
    let options = Options { reserve_bytes: Some(128 * MIB), ..options() };
    let mut other = scene::ballast(1, high_watermark_bytes(1) + 100 * MIB);
    let (before, nodes) = (distress(), file.cached());
    let outcome = scene.migrate(&options);
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert_eq!(outcome.cache_flows, Flows::new());
    assert_eq!(outcome.calls.cache_stop, Some(CacheStop::NoOtherRoom));
    assert_eq!(file.cached(), nodes);
    assert_eq!(distress(), before, "{DISTRESS:?}");
    end(user);
    other.check();
    ballast.check();
    drop((other, ballast, file));
    scene.finish();
}

#[test]
fn a_file_that_becomes_shorter_meanwhile_harms_no_process() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast, user) = in_use(ASLEEP);
    let (pid, range) = (scene.app.pid(), scene.app.range("anon"));
    let limits = RunLimits { rate_bytes_per_second: Some(64 << 20), ..RunLimits::default() };
    let target = scene.target();
    let outcome = thread::scope(|scope| {
        let run =
            scope.spawn(|| inspect(&target, &options()).carry_out(&limits, &Control::default()));
        let home = || on(&Truth::of(pid).region(range.clone()), 0);
        crate::app::until("it moves", || home() > SIZE / 8 || run.is_finished());
        let opened = File::options().write(true).open(file.path()).expect("it is there");
        opened.set_len(0).expect("root");
        run.join().expect("it does not panic")
    });
    // The part that is cut off is free.
    assert_complete(&outcome);
    scene.assert_on("anon", 0, SIZE);
    end(user);
    ballast.check();
    drop((ballast, file));
    scene.finish();
}

#[test]
fn files_of_others_are_left_alone() {
    let scene = Scene::remote(&[&format!("anon:{}M", SIZE / MIB)]);
    let (file, mut ballast, user) = in_use(ASLEEP);
    let cache_of = Whose::Of { uid: Some(4711), cgroups: Vec::new() };
    let limits = RunLimits { cache_of, ..RunLimits::default() };
    let nodes = file.cached();
    let outcome = inspect(&scene.target(), &options()).carry_out(&limits, &Control::default());
    assert!(outcome.account().left_for(Reason::NoMemory) > SIZE / 2, "{outcome:?}");
    assert_eq!(outcome.cache_flows, Flows::new());
    assert_eq!(outcome.calls.cache_stop, Some(CacheStop::NoFiles));
    assert_eq!(file.cached(), nodes);
    end(user);
    ballast.check();
    drop((ballast, file));
    scene.finish();
}
