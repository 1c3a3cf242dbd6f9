//! Cgroups as targets.

use crate::{
    app::{Layout, until},
    cpus::cpus_of,
    engine::migrate,
    place::{away, home},
    scene::{Scene, assert_complete},
    settings::Cgroup,
};
use nix::{sched::sched_setaffinity, unistd::Pid};
use numaloc_core::{CpuSet, Options};
use numaloc_host::Target;
use std::{
    fs,
    path::{Path, PathBuf},
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
    scene.assert_on("anon", home(), 16 * MIB);
    let nodes = crate::truth::Truth::of(second.pid()).region(second.range("anon"));
    assert_eq!(nodes, [(home(), 16 * MIB)].into());
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
    scene.assert_on("anon", home(), 16 * MIB);
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
    scene.assert_on("anon", home(), 16 * MIB);
    drop(scene.finish());
    until("the child cgroup is empty", || fs::remove_dir(&child).is_ok());
}

/// A cpuset below a cgroup that single threads can enter: a threaded cgroup of v2, or any of v1.
fn thread_cpuset(parent: &Path, name: &str, mems: &str) -> PathBuf {
    let path = parent.join(name);
    fs::create_dir(&path).expect("a child");
    let write = |file: PathBuf, text: &str| {
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    };
    if path.join("cgroup.type").exists() {
        write(path.join("cgroup.type"), "threaded");
        write(parent.join("cgroup.subtree_control"), "+cpuset");
    } else {
        let cpus = fs::read_to_string(parent.join("cpuset.cpus")).expect("a cpuset");
        write(path.join("cpuset.cpus"), cpus.trim());
    }
    write(path.join("cpuset.mems"), mems);
    path
}

/// An application whose first thread and writer are each in a cpuset with the memory of one node, and pinned to the CPUs of another.
fn threads_in_cpusets(threads: [[u32; 2]; 2]) -> (Scene, Cgroup, [PathBuf; 2]) {
    let cgroup = Cgroup::new("thread-mems");
    let mut children = ["first", "writer"].into_iter().zip(threads);
    let children = std::array::from_fn(|_| {
        let (name, [mems, _]) = children.next().expect("two");
        thread_cpuset(&cgroup.path(), name, &mems.to_string())
    });
    let scene = Scene::of(Layout::remote(&["anon:16M"]).within(cgroup.path()));
    let pid = scene.app.pid();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    for tid in tasks.map(|task| task.unwrap().file_name().into_string().unwrap()) {
        let which = usize::from(tid != pid.to_string());
        let child: &PathBuf = &children[which];
        let file = ["cgroup.threads", "tasks"].map(|name| child.join(name));
        let file = file.iter().find(|file| file.exists()).expect("a list of threads");
        fs::write(file, &tid).expect("it enters");
        // Up to 6.1 a thread that enters a cpuset forgets its affinity (kernel/cgroup/cpuset.c, `cpuset_attach`).
        let cpus: CpuSet = cpus_of(threads[which][1]).parse().expect("a list");
        let mut mask = nix::sched::CpuSet::new();
        cpus.iter().for_each(|cpu| mask.set(cpu.0 as usize).expect("a CPU"));
        let tid = Pid::from_raw(tid.parse().expect("an id"));
        sched_setaffinity(tid, &mask).expect("it can be pinned");
    }
    (scene, cgroup, children)
}

/// As vCPUs and other threads of QEMU can be in cpusets of their own.
#[test]
fn a_thread_that_may_have_memory_at_home_is_named() {
    let (scene, cgroup, children) = threads_in_cpusets([[away(), home()], [home(), home()]]);
    let outcome = scene.migrate(&Options::default());
    scene.assert_on("anon", home(), 16 * MIB);
    assert_complete(&outcome);
    drop(scene.finish());
    emptied(children);
    drop(cgroup);
}

/// Waits until these cgroups have no threads, and removes them.
fn emptied(children: [PathBuf; 2]) {
    for child in children {
        until("the child cgroup is empty", || fs::remove_dir(&child).is_ok());
    }
}
