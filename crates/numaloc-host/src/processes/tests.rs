use super::*;
use crate::{ErrorKind, fake::Fake};
use nix::unistd::{Uid, setfsuid};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    thread,
};

fn pids(fake: &Fake, targets: &[Target]) -> Result<Vec<i32>, Error> {
    let found = resolve(&fake.roots(), targets, &Topology::default())?;
    Ok(found.processes.iter().map(|process| process.identity.pid).collect())
}

fn host() -> Fake {
    let fake = Fake::new();
    for pid in [10, 20, 30] {
        fake.process(pid, "x", &["0", "0"]);
    }
    fake.process(40, "zombie", &["0"]);
    fake.end(40, 40);
    fake.write("cgroup/cgroup.procs", "");
    fake.write("cgroup/a/cgroup.procs", "20\n10\n40\n99\n");
    fake.write("cgroup/dead/cgroup.procs", "40\n");
    fake.write("proc/sys/kernel/random/boot_id", "b-1\n");
    fake
}

#[test]
fn each_process_once_in_order() {
    let fake = host();
    let targets = [Target::Pid(30), Target::Cgroup("a".into()), Target::Pid(11), Target::Pid(30)];
    assert_eq!(pids(&fake, &targets).unwrap(), [10, 20, 30]);
}

#[test]
fn the_own_process_is_left_out_of_cgroups() {
    let fake = host();
    std::os::unix::fs::symlink("10", fake.path("proc/self")).unwrap();
    assert_eq!(pids(&fake, &[Target::Cgroup("a".into())]).unwrap(), [20]);
}

#[test]
fn errors_name_the_target() {
    let fake = host();
    let error = |target| pids(&fake, &[target]).unwrap_err();
    let empty = error(Target::Cgroup("/dead".into()));
    assert_eq!(empty.to_string(), "cgroup /dead has no processes");
    for (target, kind) in [
        (Target::Pid(99), ErrorKind::NotFound),
        (Target::Pid(40), ErrorKind::NotFound),
        (Target::Cgroup("nowhere".into()), ErrorKind::NotFound),
        (Target::Cgroup("../a".into()), ErrorKind::Usage),
        (Target::Unit("a b".into()), ErrorKind::NotFound),
    ] {
        assert_eq!(error(target.clone()).kind(), kind, "{target}");
    }
}

#[test]
fn members_that_are_gone_are_named_and_the_rest_is_found() {
    let fake = host();
    let cgroup = |path: &str| Target::Cgroup(path.to_owned());
    let targets = [
        cgroup("gone"),
        cgroup("a"),
        cgroup("dead"),
        Target::Pid(99),
        Target::Pid(40),
        Target::Pid(30),
    ];
    let found = resolve(&fake.roots(), &targets, &Topology::default()).expect("some are there");
    let pids: Vec<i32> = found.processes.iter().map(|process| process.identity.pid).collect();
    assert_eq!(pids, [10, 20, 30]);
    let missing: Vec<_> = found.missing.iter().map(|left| (left.target, left.why.kind())).collect();
    assert_eq!(missing, [0, 2, 3, 4].map(|index| (index, ErrorKind::NotFound)));
    let words: Vec<String> = found.missing.iter().map(|left| left.why.to_string()).collect();
    assert!(words[0].contains("gone") && words[2].contains("99"), "{words:?}");
    // If no target exists, the error is that of the first one.
    let error = pids_of_none(&fake, &targets[2..5]);
    assert_eq!(error.to_string(), "cgroup dead has no processes");
    // A target that can never be one is refused, even if others exist.
    assert!(pids_of_none(&fake, &[cgroup("a"), cgroup("../a")]).to_string().contains("outside"));
}

fn pids_of_none(fake: &Fake, targets: &[Target]) -> Error {
    pids(fake, targets).expect_err("none is there")
}

#[test]
fn a_process_is_never_taken_for_a_later_one() {
    let fake = host();
    let process = |pid, start_time, boot: &str| Target::Process {
        identity: Identity { pid, start_time },
        boot_id: boot.to_owned(),
    };
    assert_eq!(pids(&fake, &[process(10, 1010, "b-1")]).expect("it is there"), [10]);
    for target in [process(10, 1009, "b-1"), process(10, 1010, "b-0"), process(10, 1010, "")] {
        let error = pids_of_none(&fake, std::slice::from_ref(&target));
        assert!(matches!(error, Error::OtherProcess { pid: 10 }), "{target:?}: {error}");
        assert_eq!(pids(&fake, &[target, Target::Pid(20)]).expect("one is there"), [20]);
    }
    assert!(matches!(pids_of_none(&fake, &[process(99, 1, "b-1")]), Error::NoProcess { pid: 99 }));
}

#[test]
fn pids_and_threads_are_identified() {
    let fake = host();
    let known = identify(&fake.roots(), [10, 11, 99, 30]).expect("readable");
    let identity = |pid| Identity { pid, start_time: 1000 + u64::try_from(pid).expect("positive") };
    assert_eq!(known, [(10, identity(10)), (11, identity(10)), (30, identity(30))].into());
}

/// Process 20 belongs to another user. A file without any mode bits is not readable for its own owner either; root
/// has to set its rights to files aside, which a thread does alone.
#[test]
fn what_may_not_be_read_is_counted() {
    let fake = host();
    for thread in ["20", "21"] {
        let maps = fake.path(&format!("proc/20/task/{thread}/maps"));
        fs::set_permissions(maps, Permissions::from_mode(0o0)).expect("ours");
    }
    for folder in ["", "proc", "cgroup"] {
        fs::set_permissions(fake.path(folder), Permissions::from_mode(0o755)).expect("ours");
    }
    let resolved = |targets: &[Target]| resolve(&fake.roots(), targets, &Topology::default());
    let other = Uid::from_raw(65_534);
    let is_root = Uid::effective().is_root();
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            if is_root {
                setfsuid(other);
            }
            let cgroup = Target::Cgroup("a".into());
            // The other processes of a cgroup take part.
            let found = resolved(std::slice::from_ref(&cgroup)).expect("10 may be read");
            assert_eq!(found.processes.len(), 1, "{found:?}");
            let [left] = &found.missing[..] else { panic!("{found:?}") };
            assert_eq!(
                (left.target, left.processes, left.why.kind()),
                (0, 1, ErrorKind::Permission)
            );
            assert!(left.why.to_string().contains("process 20"), "{}", left.why);
            // One that is named by itself is left out as a whole.
            let found = resolved(&[Target::Pid(20), Target::Pid(30), Target::Pid(99)]).expect("30");
            let left = found.missing.iter().map(|left| (left.target, left.processes));
            assert_eq!(left.collect::<Vec<_>>(), [(0, 0), (2, 0)]);
            // If nothing takes part, the error is that of the one that is there.
            let error = resolved(&[Target::Pid(99), Target::Pid(20)]).expect_err("none");
            assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        });
        looks.join().expect("no panic");
    });
}
