//! Memory on two tiers by its use: what is used is on the node of the CPUs, what is not on the slow one.

use crate::{
    app::{App, Layout, spinners, until},
    cli::{command, json, numalocctl},
    engine::{inspect, try_inspect},
    heat::{free_damon, has_damon, kdamonds, skip_without_damon},
    scene::{Scene, ballast},
    settings::{Cgroup, Setting},
    truth::{Truth, on, release},
};
use numaloc_core::{Options, Outcome, Pacing, Profile, Reason};
use numaloc_executor::{Control, RunLimits};
use numaloc_host::{Error, Roots, Target, heat};
use std::{
    env, fs,
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

const MIB: u64 = 1 << 20;
const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
/// The node of the CPUs, and the slow one.
const FAST: u32 = 0;
const SLOW: u32 = 2;

/// A number that an environment variable gives, or this one.
fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// MiB of the scenes in which roles change, the processes of a scene together: 128, or as NUMALOC_TIERED_MIB says. A quarter is used.
fn scene_mib() -> u64 {
    number("NUMALOC_TIERED_MIB", 128)
}

/// Regions of which one is used, with their shares of a scene in quarters. `next` takes the role of `busy` where roles change.
const ROLES: [(&str, u64, &str); 3] =
    [("busy", 1, "every=512"), ("next", 1, "every=512:cold"), ("idle", 2, "every=512:cold")];

/// Such regions of this kind, together of this size.
fn roles(kind: &str, mib: u64) -> [String; 3] {
    ROLES.map(|(name, quarters, used)| format!("{name}={kind}:{}M:{used}", mib * quarters / 4))
}

/// Asserts that one of the regions is on the fast node, and the others on the slow one.
fn assert_placed(app: &App, used: &str) {
    for (name, ..) in ROLES {
        match name == used {
            true => assert!(share_of(app, name, FAST) >= 98, "{name} is used"),
            false => assert!(share_of(app, name, SLOW) >= 95, "{name} is not used"),
        }
    }
}

fn by_use(keys: &str) -> Options {
    // `fast`, because the other profiles hold back under pressure, which is not tested here.
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let placement = format!("tiers:fast=0,slow=2,cold_after=10s{keys}").parse().expect("valid");
    Options { placement, pacing, ..Options::default() }
}

/// Watches, plans and moves once.
fn pass(scene: &Scene, options: &Options) -> Outcome {
    pass_of(&scene.target(), options)
}

fn pass_of(targets: &[Target], options: &Options) -> Outcome {
    // An emulated CPU keeps its address translations until it changes to another process, and accesses through them are not seen
    // until then. So other processes take turns with the target.
    let _others = spinners(3, |layout| layout);
    let begin = Instant::now();
    let inspected = inspect(targets, options);
    println!("{:?}", inspected.plan.tiers);
    let outcome = inspected.carry_out(&RunLimits::default(), &Control::default());
    println!("watched and moved in {:.1} s", begin.elapsed().as_secs_f64());
    outcome
}

/// The share of a region's bytes on a node, in percent.
fn share_on(scene: &Scene, region: &str, node: u32) -> u64 {
    share_of(&scene.app, region, node)
}

fn share_of(app: &App, region: &str, node: u32) -> u64 {
    let nodes = Truth::of(app.pid()).region(app.range(region));
    let share = on(&nodes, node) * 100 / nodes.values().sum::<u64>();
    println!("{region}: {share} % on node {node}: {nodes:?}");
    share
}

fn roles_change(kind: &str) {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let [busy, next, idle] = &roles(kind, scene_mib());
    let regions = [busy, next, idle, "bound:8M:bind=0:cold"];
    let mut scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST));
    let outcome = pass(&scene, &by_use(""));
    assert_placed(&scene.app, "busy");
    scene.assert_on("bound", FAST, 8 * MIB);
    // What is beside used memory may count as seldom used, and is not to move then.
    let bound = outcome.account().left_for(Reason::Bound);
    assert!(bound >= 4 * MIB, "{bound} bytes");
    scene.app.ask("use busy cold");
    scene.app.ask("use next read");
    let outcome = pass(&scene, &by_use(""));
    assert_placed(&scene.app, "next");
    assert!(outcome.account().closes(), "{outcome:?}");
    assert_eq!(kdamonds(), "0");
    scene.finish();
}

#[test]
fn what_is_used_is_on_the_fast_node_and_what_is_not_on_the_slow_one() {
    roles_change("anon");
}

#[test]
fn huge_pages_change_tiers_whole() {
    roles_change("thp");
}

/// Two processes of a cgroup that map the same segments, of which one is used by one of them alone.
#[test]
fn what_one_of_a_family_uses_is_on_the_fast_node() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let _still = Setting::still_host();
    let cgroup = Cgroup::new("tiered");
    let path = |name| format!("/dev/shm/tiered-{name}");
    let member = |other: Option<&str>| {
        let regions = ROLES.map(|(name, quarters, used)| {
            let (mib, used) = (scene_mib() * quarters / 4, other.unwrap_or(used));
            format!("{name}=file:{}:{mib}M:{used}", path(name))
        });
        let regions = regions.each_ref().map(String::as_str);
        let layout = Layout::remote(&regions).on(FAST).memory_on(FAST).within(cgroup.path());
        layout.start("member")
    };
    let (mut user, mut other) = (member(None), member(Some("touch")));
    let pass = || pass_of(&[cgroup.target()], &by_use(""));
    pass();
    [&user, &other].into_iter().for_each(|app| assert_placed(app, "busy"));
    user.ask("use busy cold");
    user.ask("use next read");
    let outcome = pass();
    [&user, &other].into_iter().for_each(|app| assert_placed(app, "next"));
    assert!(outcome.account().closes(), "{outcome:?}");
    assert_eq!(kdamonds(), "0");
    user.check();
    other.check();
    drop((user, other));
    for (name, ..) in ROLES {
        fs::remove_file(path(name)).expect("the members made it");
    }
}

#[test]
fn what_is_to_stay_on_the_fast_node_stays() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let regions = ["busy=anon:16M:every=512", "idle=anon:48M:every=512:cold"];
    let scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST));
    pass(&scene, &by_use(",keep_fast=40M"));
    let nodes = scene.truth().all();
    assert!(on(&nodes, FAST) >= 40 * MIB, "{nodes:?}");
    assert!(on(&scene.nodes("idle"), SLOW) >= 20 * MIB, "{:?}", scene.nodes("idle"));
    scene.assert_on("busy", FAST, 16 * MIB);
    scene.finish();
}

#[test]
fn a_slow_node_that_is_full_takes_no_more_and_gives_what_is_used() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let regions = ["busy=anon:16M:every=512", "idle=anon:64M:every=512:cold"];
    let mut scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(SLOW));
    // Most of the idle memory is on the fast node, and finds no room on the slow one.
    let only_up = Options { from: Some("2".parse().expect("a node")), ..Options::default() };
    let up = crate::engine::migrate(&scene.target(), &only_up);
    assert!(up.account().moved_bytes() >= 80 * MIB, "{up:?}");
    scene.app.ask("use idle cold");
    let reserve_bytes = Some(0);
    let ballast = ballast(SLOW, 48 * MIB);
    let outcome = pass(&scene, &Options { reserve_bytes, ..by_use("") });
    assert!(share_on(&scene, "busy", FAST) >= 98);
    assert!(on(&scene.nodes("idle"), FAST) >= 8 * MIB, "{:?}", scene.nodes("idle"));
    assert!(outcome.account().left_for(Reason::NoMemory) > 0, "{outcome:?}");
    drop(ballast);
    scene.finish();
}

/// What is used finds no room before what is not has left.
#[test]
fn a_fast_node_that_is_full_takes_what_is_used_in_the_same_run() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let regions = ["busy=anon:64M:every=512:cold", "idle=anon:96M:every=512"];
    let mut scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST));
    pass(&scene, &by_use(""));
    assert!(share_on(&scene, "busy", SLOW) >= 95, "it is not used yet");
    scene.app.ask("use busy read");
    scene.app.ask("use idle cold");
    let reserve_bytes = Some(0);
    let ballast = ballast(FAST, 56 * MIB);
    let outcome = pass(&scene, &Options { reserve_bytes, ..by_use("") });
    assert!(share_on(&scene, "idle", SLOW) >= 95);
    let account = outcome.account();
    assert!(share_on(&scene, "busy", FAST) >= 98, "{account:?}");
    assert!(outcome.account().closes(), "{outcome:?}");
    drop(ballast);
    scene.finish();
}

/// Kernel threads of DAMON that watch now.
fn watching() -> usize {
    let kdamonds = fs::read_dir("/sys/kernel/mm/damon/admin/kdamonds").expect("DAMON").flatten();
    let is_on = |path: PathBuf| {
        fs::read_to_string(path.join("state")).is_ok_and(|state| state.trim() == "on")
    };
    kdamonds.filter(|entry| is_on(entry.path())).count()
}

#[test]
fn two_targets_are_watched_at_the_same_time() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let regions = roles("anon", scene_mib() / 2);
    let regions = regions.each_ref().map(String::as_str);
    let scenes = [(); 2].map(|()| Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST)));
    let _others = spinners(3, |layout| layout);
    let outcomes = thread::scope(|scope| {
        let runs = scenes.each_ref().map(Scene::target).map(|target| {
            scope.spawn(move || {
                let inspected = inspect(&target, &by_use(""));
                inspected.carry_out(&RunLimits::default(), &Control::default())
            })
        });
        let ended = || runs.iter().any(thread::ScopedJoinHandle::is_finished);
        until("both are watched", || watching() == 2 || ended());
        assert!(!ended(), "one was not watched while the other one was");
        runs.map(|run| run.join().expect("it ends"))
    });
    assert_eq!(kdamonds(), "0");
    for (mut scene, outcome) in scenes.into_iter().zip(outcomes) {
        assert_placed(&scene.app, "busy");
        assert!(outcome.account().closes(), "{outcome:?}");
        scene.app.check();
        scene.finish();
    }
}

/// By whole mappings: the Referenced bits are the only measure of kernels without DAMON.
#[test]
fn referenced_mappings_are_told_apart_on_every_kernel() {
    let regions = ["busy=anon:16M:every=512", "shm:32M:every=512:cold"];
    let scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST));
    pass(&scene, &by_use(",watch=referenced"));
    assert!(share_on(&scene, "shm", SLOW) >= 95);
    assert!(share_on(&scene, "busy", FAST) >= 98);
    scene.finish();
}

#[test]
fn what_the_kernel_moves_itself_is_left_to_it() {
    let _damon = free_damon();
    let scene = Scene::of(Layout::remote(&["anon:4M"]).on(FAST).memory_on(FAST));
    let _demotes = Setting::set(DEMOTION, "true");
    let refused = try_inspect(&scene.target(), &by_use("")).expect_err("the kernel demotes");
    assert!(matches!(&refused, Error::KernelTiers { .. }), "{refused}");
    if !has_damon() {
        assert!(release().starts_with("6.1."), "DAMON was expected");
        let refused = try_inspect(&scene.target(), &by_use(",beside_kernel=warn"));
        let refused = refused.expect_err("the kernel has no DAMON");
        assert!(matches!(&refused, Error::NoDamon { .. }), "{refused}");
    }
    scene.finish();
}

#[test]
fn the_command_says_what_is_used_on_each_tier() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let regions = ["busy=anon:16M:every=512", "idle=anon:16M:every=512:cold"];
    let scene = Scene::of(Layout::remote(&regions).on(FAST).memory_on(FAST));
    let _others = spinners(3, |layout| layout);
    let pid = scene.app.pid().to_string();
    let tiers = "--tiers=cold_after=5s";
    let planned = json(&numalocctl(&["plan", "--pid", &pid, tiers, "-o", "json"]));
    let cold = planned["plan"]["tier_use"]["fast"]["cold_bytes"].as_u64();
    assert!(cold.is_some_and(|cold| cold >= 15 * MIB), "{planned}");
    let moved = numalocctl(&["migrate", "--pid", &pid, tiers, "--profile", "fast"]);
    println!("{}", String::from_utf8_lossy(&moved.stdout));
    assert!(share_on(&scene, "idle", SLOW) >= 95);
    assert_eq!(kdamonds(), "0");
    scene.finish();
}

/// What a killed run leaves set up is taken down as the daemon does it when it starts. There are 100 kills, or as many as NUMALOC_KILLS
/// says.
#[test]
fn a_kill_at_any_time_leaves_no_damon_behind() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let scene = Scene::of(Layout::remote(&["anon:8M:every=512"]).on(FAST).memory_on(FAST));
    let pid = scene.app.pid().to_string();
    let (mut were_up, kills) = (0, number("NUMALOC_KILLS", 100));
    for round in 0..kills {
        let mut run = command();
        run.args(["migrate", "--pid", &pid, "--tiers=cold_after=30s"]);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a run");
        if round % 2 == 0 {
            until("it watches", || kdamonds() != "0");
        }
        thread::sleep(Duration::from_millis(37 * (round % 25)));
        run.kill().and_then(|()| run.wait()).expect("a child");
        were_up += u64::from(kdamonds() != "0");
        heat::recover(&Roots::default()).expect("taken down");
        assert_eq!(kdamonds(), "0", "round {round}");
    }
    println!("DAMON was up after {were_up} of {kills} kills");
    assert!(were_up >= kills / 2);
    scene.finish();
}

/// Two targets at once: each has its own busy memory, and a process that no target names keeps its pages.
#[test]
fn targets_of_one_run_are_placed_each_by_its_own_use() {
    let _damon = free_damon();
    if skip_without_damon() {
        return;
    }
    let layout = |busy: &str, idle: &str| Layout::remote(&[busy, idle]).on(FAST).memory_on(FAST);
    let one = Scene::of(layout("busy=anon:16M:every=512", "idle=anon:16M:every=512:cold"));
    let other = Scene::of(layout("idle=anon:16M:every=512:cold", "busy=thp:16M:every=512"));
    let neighbour = layout("busy=anon:8M:every=512", "idle=anon:8M:every=512:cold").start("other");
    let before = Truth::of(neighbour.pid()).without_files();
    let _others = spinners(3, |layout| layout);
    let targets = [Target::Pid(one.app.pid()), Target::Pid(other.app.pid())];
    let outcome =
        inspect(&targets, &by_use("")).carry_out(&RunLimits::default(), &Control::default());
    for scene in [&one, &other] {
        assert!(share_on(scene, "idle", SLOW) >= 95);
        assert!(share_on(scene, "busy", FAST) >= 98);
    }
    assert_eq!(Truth::of(neighbour.pid()).without_files(), before, "it was not named");
    assert!(outcome.account().closes(), "{outcome:?}");
    one.finish();
    other.finish();
}
