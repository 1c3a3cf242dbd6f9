//! Changes of a fake host, and of a process of this test.

use super::*;
use crate::{fake::Fake, killed};
use numaloc_core::advise::Pinned;
use std::{
    fs,
    process::{Child, Command},
};

const SETTING: &str = "proc/sys/kernel/numa_balancing";
const THP: &str = "sys/kernel/mm/transparent_hugepage/enabled";

fn host() -> Fake {
    let host = Fake::new();
    for (path, text) in [
        ("run/lock", ""),
        ("proc/sys/kernel/random/boot_id", "boot\n"),
        (SETTING, "1\n"),
        (THP, "always madvise [never]\n"),
        ("cgroup/a/cpuset.cpus", "\n"),
        ("cgroup/a/cpuset.mems", "0-1\n"),
    ] {
        host.write(path, text);
    }
    host
}

fn actions(host: &Fake) -> Vec<Action> {
    let cgroup = |name: &str, value: &str| Action::Write {
        path: host.path("cgroup/a").join(name).to_str().expect("text").into(),
        value: value.into(),
    };
    let file = |path: &str, value: &str| Action::Write { path: path.into(), value: value.into() };
    vec![
        cgroup("cpuset.cpus", "0-3"),
        cgroup("cpuset.mems", "1"),
        file("/proc/sys/kernel/numa_balancing", "0"),
        file("/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
    ]
}

fn apply(host: &Fake, actions: &[Action]) -> Result<Vec<usize>, Error> {
    let (roots, mut log) = (host.roots(), ChangeLog::take(&host.roots())?);
    let one = |action| {
        let change = replaced(&roots, action)?.expect("not a migration");
        log.make(&roots, change)
    };
    actions.iter().map(one).collect()
}

fn undo_last(host: &Fake) -> Result<Vec<Undone>, Error> {
    let mut log = ChangeLog::take(&host.roots())?;
    let last = log.last_run();
    last.into_iter().map(|(number, _)| log.undo(&host.roots(), number)).collect()
}

fn value(host: &Fake, path: &str) -> String {
    setting(&fs::read_to_string(host.path(path)).expect("a file"))
}

fn state(host: &Fake) -> Vec<String> {
    let files = ["cgroup/a/cpuset.cpus", "cgroup/a/cpuset.mems", SETTING, THP];
    files.into_iter().map(|path| value(host, path)).collect()
}

#[test]
fn what_was_applied_is_undone_backwards_and_once() {
    let host = host();
    let before = state(&host);
    assert_eq!(apply(&host, &actions(&host)).unwrap(), [0, 1, 2, 3]);
    assert_eq!(state(&host), ["0-3", "1", "0", "madvise"]);
    let peeked = ChangeLog::peek(&host.roots()).unwrap();
    assert!(matches!(&peeked[0], Change::File { path, .. } if *path == host.path(THP)));
    assert_eq!(undo_last(&host).unwrap(), vec![Undone::Done; 4]);
    assert_eq!(state(&host), before);
    assert_eq!(undo_last(&host).unwrap(), []);
    assert_eq!(ChangeLog::peek(&host.roots()).unwrap(), []);
}

#[test]
fn a_kill_between_any_two_writes_leaves_what_undo_needs() {
    let points = killed::leaves_nothing(
        host,
        state,
        |host| drop(apply(host, &actions(host)[..3])),
        |host| drop(undo_last(host)),
    );
    assert_eq!(points, 6, "a note and a write each");
}

#[test]
fn the_last_run_is_undone_first() {
    let host = host();
    apply(&host, &actions(&host)[..1]).unwrap();
    apply(&host, &actions(&host)[1..]).unwrap();
    assert_eq!(undo_last(&host).unwrap().len(), 3);
    assert_eq!(state(&host)[0], "0-3");
    assert_eq!(undo_last(&host).unwrap(), [Undone::Done]);
    assert_eq!(state(&host)[0], "");
}

#[test]
fn what_others_have_changed_or_removed_is_left() {
    let host = host();
    apply(&host, &actions(&host)).unwrap();
    host.write(SETTING, "2\n");
    host.write("cgroup/a/cpuset.mems", "0\n");
    // The kernel writes lists in its own way.
    host.write("cgroup/a/cpuset.cpus", "0-1,2-3\n");
    fs::remove_file(host.path(THP)).unwrap();
    let changed = |value: &str| Undone::Changed(value.into());
    let expected = [Undone::Gone, changed("2"), changed("0"), Undone::Done];
    assert_eq!(undo_last(&host).unwrap(), expected);
    assert_eq!(value(&host, SETTING), "2");
    assert_eq!(undo_last(&host).unwrap(), [], "it is reported once");
}

#[test]
fn two_at_a_time_are_refused() {
    let host = host();
    let _log = ChangeLog::take(&host.roots()).unwrap();
    let refused = ChangeLog::take(&host.roots()).unwrap_err();
    assert!(refused.to_string().contains("another advise --apply"), "{refused}");
}

/// A child that sleeps, and ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().expect("sleep"))
    }
    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
    fn cpus(&self) -> String {
        affinity::threads(&Roots::default(), &Whom::Process(self.pid()))[0].cpus.clone()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn threads_get_their_cpus_back_if_they_still_are_the_same() {
    let host = host();
    let roots = Roots { proc: "/proc".into(), ..host.roots() };
    let sleeper = Sleeper::new();
    let before = sleeper.cpus();
    let first: CpuSet = before.parse().expect("a list");
    let cpus: CpuSet = first.iter().take(1).collect();
    let pin = |whom| Action::Pin { whom, cpus: cpus.clone() };
    host.write("cgroup/a/cgroup.procs", &format!("{}\n", sleeper.pid()));
    let members = host.path("cgroup/a").to_str().expect("text").to_owned();
    for whom in
        [Pinned::Process(sleeper.pid()), Pinned::Thread(sleeper.pid()), Pinned::Members(members)]
    {
        let change = replaced(&roots, &pin(whom)).unwrap().expect("a change");
        make(&roots, &change).unwrap();
        assert_eq!(sleeper.cpus(), cpus.to_string());
        assert_eq!(undo(&roots, &change).unwrap(), Undone::Done);
        assert_eq!(sleeper.cpus(), before);
    }
    let Change::Affinity { whom, before: mut threads, after } =
        replaced(&roots, &pin(Pinned::Process(sleeper.pid()))).unwrap().expect("a change")
    else {
        panic!("not a pin")
    };
    // A later thread that has the same id.
    threads[0].start_time += 1;
    let other = Change::Affinity { whom, before: threads, after };
    make(&roots, &other).unwrap();
    assert_eq!(sleeper.cpus(), before, "not pinned");
    assert_eq!(undo(&roots, &other).unwrap(), Undone::Gone);
}
