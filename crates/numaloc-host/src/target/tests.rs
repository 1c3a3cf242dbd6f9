use super::*;
use crate::{ErrorKind, fake::Fake};

fn pids(fake: &Fake, targets: &[Target]) -> Result<Vec<i32>, Error> {
    let processes = resolve(&fake.roots(), targets, &Topology::default())?;
    Ok(processes.iter().map(|process| process.identity.pid).collect())
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
    let error = |target| pids(&fake, &[Target::Pid(10), target]).unwrap_err();
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
