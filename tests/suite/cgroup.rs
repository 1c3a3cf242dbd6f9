//! Cgroups as targets.

use crate::{
    app::{Layout, until},
    engine::migrate,
    scene::Scene,
    settings::Cgroup,
};
use numaloc_core::Options;
use numaloc_host::Target;
use std::{
    fs,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
};

const MIB: u64 = 1 << 20;
const BRIEF: usize = 200;

#[test]
fn all_members_come_home() {
    let cgroup = Cgroup::new("members");
    let layout = Layout::remote(&["anon:16M"]).within(cgroup.path());
    let scene = Scene::of(layout.clone());
    let mut second = layout.start("second");
    let outcome = migrate(&[cgroup.target()], &Options::default());
    assert_eq!(outcome.processes.len(), 2);
    scene.assert_on("anon", 0, 16 * MIB);
    let nodes = crate::truth::Truth::of(second.pid()).region(second.range("anon"));
    assert_eq!(nodes, [(0, 16 * MIB)].into());
    second.check();
    drop((scene.finish(), second));
}

#[test]
fn short_lived_processes_do_no_harm() {
    let cgroup = Cgroup::new("brief");
    let scene = Scene::of(Layout::remote(&["anon:16M"]).within(cgroup.path()));
    let ended = AtomicUsize::new(0);
    let brief = Layout::remote(&["anon:256K"]).load("idle").within(cgroup.path());
    let mut rounds = 0;
    thread::scope(|scope| {
        // Two at a time, so that at any moment some start and some end.
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..BRIEF / 2 {
                    let mut command = brief.command("brief");
                    let status = command.arg("--brief").stdin(Stdio::null()).status();
                    assert!(status.expect("it starts").success());
                    ended.fetch_add(1, Relaxed);
                }
            });
        }
        while ended.load(Relaxed) < BRIEF {
            // `migrate` checks the account of each process.
            migrate(&[cgroup.target()], &Options::default());
            rounds += 1;
        }
    });
    println!("{rounds} migrations while {BRIEF} processes came and went");
    scene.assert_on("anon", 0, 16 * MIB);
    drop(scene.finish());
}

#[test]
fn threads_in_a_threaded_cgroup_stand_for_their_process() {
    let cgroup = Cgroup::new("threaded");
    let child = cgroup.path().join("threads");
    fs::create_dir(&child).expect("a child cgroup");
    fs::write(child.join("cgroup.type"), "threaded").expect("cgroup v2");
    let scene = Scene::of(Layout::remote(&["anon:16M"]).within(cgroup.path()));
    // The writer thread moves to the child cgroup. The process itself stays a member of the parent cgroup.
    let (pid, tasks) = (scene.app.pid().to_string(), format!("/proc/{}/task", scene.app.pid()));
    let threads =
        fs::read_dir(tasks).expect("its threads").map(|thread| thread.unwrap().file_name());
    let writer = threads.map(|tid| tid.into_string().unwrap()).find(|tid| *tid != pid);
    fs::write(child.join("cgroup.threads"), writer.expect("a writer")).expect("it enters");
    fs::read_to_string(child.join("cgroup.procs")).expect_err("a list for domains only");
    let target = Target::Cgroup("/numaloc-threaded/threads".into());
    let outcome = migrate(&[target], &Options::default());
    assert_eq!(outcome.processes.len(), 1);
    scene.assert_on("anon", 0, 16 * MIB);
    drop(scene.finish());
    until("the child cgroup is empty", || fs::remove_dir(&child).is_ok());
}
