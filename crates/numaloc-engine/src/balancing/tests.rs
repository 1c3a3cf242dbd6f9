use super::*;
use numaloc_host::killed;
use std::{fs, os::unix::fs::symlink, path::PathBuf};
use tempfile::TempDir;

const THIS: &str = "boot-1";

/// A host in a directory, with this setting and boot id.
struct Host(TempDir);

impl Host {
    fn new(value: u32) -> Self {
        let host = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir_all(host.0.path().join("sys/kernel/random")).expect("directories");
        fs::create_dir(host.0.path().join("self")).expect("a directory");
        fs::create_dir_all(host.0.path().join("run/numaloc")).expect("directories");
        fs::write(host.0.path().join("self/status"), "CapEff:\t0000000000200000\n")
            .expect("a file");
        host.boot(THIS);
        host.set(value);
        host
    }
    fn boot(&self, id: &str) {
        fs::write(self.0.path().join("sys/kernel/random/boot_id"), format!("{id}\n"))
            .expect("a file");
    }
    fn sysctl(&self) -> PathBuf {
        self.0.path().join("sys/kernel/numa_balancing")
    }
    fn set(&self, value: u32) {
        fs::write(self.sysctl(), format!("{value}\n")).expect("a file");
    }
    fn value(&self) -> u32 {
        fs::read_to_string(self.sysctl()).expect("a file").trim().parse().expect("a number")
    }
    fn roots(&self) -> Roots {
        let (proc, run) = (self.0.path().to_owned(), self.0.path().join("run"));
        Roots { proc, run, ..Roots::default() }
    }
    /// A new instance, as after a start of the daemon.
    fn balancing(&self) -> Balancing {
        Balancing::new(self.roots())
    }
    fn file(&self) -> PathBuf {
        journal::path(&self.roots(), NAME)
    }
    fn is_noted(&self) -> bool {
        journal::is_noted(&self.roots(), NAME)
    }
    /// A daemon is killed while it has balancing paused.
    fn killed(&self) {
        assert!(killed::after(2, || drop(pause(&self.balancing()))));
        assert!(self.value() == 0 && self.is_noted());
    }
}

fn pause(balancing: &Balancing) -> Paused {
    balancing.begin(NumaBalancing::Pause).expect("it may").expect("it is asked for")
}

#[test]
fn it_is_off_while_any_job_moves_and_then_what_it_was() {
    for value in [1, 2, 3] {
        let host = Host::new(value);
        let balancing = host.balancing();
        let first = pause(&balancing);
        let second = pause(&balancing);
        assert_eq!((host.value(), host.is_noted()), (0, true));
        drop(first);
        assert_eq!(host.value(), 0);
        drop(second);
        assert_eq!((host.value(), host.is_noted()), (value, false));
        drop(pause(&balancing));
        assert_eq!(host.value(), value);
    }
}

#[test]
fn what_is_not_asked_for_or_off_already_changes_nothing() {
    let host = Host::new(1);
    for asked in [NumaBalancing::Ignore, NumaBalancing::Warn] {
        assert!(host.balancing().begin(asked).expect("nothing to do").is_none());
    }
    assert_eq!(host.value(), 1);
    host.set(0);
    let paused = pause(&host.balancing());
    assert!(!host.is_noted());
    drop(paused);
    assert_eq!(host.value(), 0);
    fs::remove_file(host.sysctl()).expect("a file");
    drop(pause(&host.balancing()));
    assert!(!host.sysctl().exists());
}

#[test]
fn a_warning_is_for_those_who_want_one_and_where_it_is_on() {
    let host = Host::new(1);
    let balancing = host.balancing();
    let warning = balancing.warning(NumaBalancing::Warn).expect("it is on");
    assert!(warning.starts_with("kernel.numa_balancing is 1"), "{warning}");
    assert_eq!(balancing.warning(NumaBalancing::Ignore), None);
    assert_eq!(balancing.warning(NumaBalancing::Pause), None);
    // Memory tiering alone brings no page away from a home node.
    for quiet in [0, 2] {
        host.set(quiet);
        assert_eq!(balancing.warning(NumaBalancing::Warn), None, "{quiet}");
    }
}

#[test]
fn a_daemon_that_is_killed_at_any_point_leaves_nothing() {
    for value in [1, 2, 3] {
        let points = killed::leaves_nothing(
            || Host::new(value),
            |host| (host.value(), host.is_noted()),
            |host| drop(host.balancing().begin(NumaBalancing::Pause)),
            |host| drop(host.balancing().put_back()),
        );
        // The note, off, on, and the note.
        assert_eq!(points, 4);
    }
}

#[test]
fn what_is_put_back_is_told_once() {
    let host = Host::new(3);
    host.killed();
    assert_eq!(host.balancing().put_back().expect("it may"), Some(3));
    assert_eq!(host.balancing().put_back().expect("it may"), None);
    // A daemon that has it paused puts it back itself.
    let paused = pause(&host.balancing());
    assert_eq!(host.balancing().put_back().expect("it may"), None);
    let error = host.balancing().begin(NumaBalancing::Pause).expect_err("it is taken");
    assert!(matches!(error, BalancingError::InUse), "{error}");
    drop(paused);
    assert_eq!((host.value(), host.is_noted()), (3, false));
}

#[test]
fn what_somebody_else_has_set_stays() {
    let host = Host::new(1);
    let balancing = host.balancing();
    let paused = pause(&balancing);
    host.set(2);
    drop(paused);
    assert_eq!((host.value(), host.is_noted()), (2, false));
}

#[test]
fn a_boot_has_set_it_anew() {
    let host = Host::new(1);
    host.killed();
    host.boot("boot-2");
    assert_eq!(host.balancing().put_back().expect("it may"), None);
    assert_eq!((host.value(), host.is_noted()), (0, false));
}

/// Balancing is off since a daemon died, and the next start cannot put it back. The next job does.
#[test]
fn a_job_takes_over_what_was_left() {
    let host = Host::new(3);
    host.killed();
    let paused = pause(&host.balancing());
    assert_eq!(host.value(), 0);
    drop(paused);
    assert_eq!((host.value(), host.is_noted()), (3, false));
}

#[test]
fn without_a_place_to_keep_it_nothing_is_changed() {
    let host = Host::new(1);
    // A directory cannot be opened for writing, not even by root.
    fs::create_dir(host.file()).expect("a directory");
    let error = host.balancing().begin(NumaBalancing::Pause).expect_err("it cannot be kept");
    assert!(matches!(error, BalancingError::Journal(_)), "{error:?}");
    assert_eq!(host.value(), 1);
}

#[test]
fn without_rights_it_is_refused_with_what_to_do() {
    let host = Host::new(1);
    fs::write(host.0.path().join("self/status"), "CapEff:\t0\n").expect("a file");
    let error = host.balancing().check(NumaBalancing::Pause).expect_err("no CAP_SYS_ADMIN");
    let BalancingError::Host(host_error) = &error else { panic!("{error:?}") };
    assert_eq!(host_error.kind(), numaloc_host::ErrorKind::Permission);
    for asked in [NumaBalancing::Ignore, NumaBalancing::Warn] {
        host.balancing().check(asked).expect("nothing is to be changed");
    }
}

#[test]
fn what_others_have_put_in_its_place_is_not_taken() {
    let host = Host::new(0);
    fs::write(host.0.path().join("elsewhere"), format!("{{\"boot\":\"{THIS}\",\"changed\":1}}\n"))
        .expect("a file");
    symlink("../../elsewhere", host.file()).expect("a link");
    assert!(host.balancing().put_back().is_err());
    for text in ["1\n", "1 boot-1\n", "{\"boot\":\"boot-1\",\"changed\":-1}\n"] {
        fs::remove_file(host.file()).expect("it is there");
        fs::write(host.file(), text).expect("a file");
        assert!(host.balancing().put_back().is_err(), "{text}");
    }
    assert_eq!(host.value(), 0);
}
