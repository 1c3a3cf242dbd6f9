use super::*;
use std::{fs, os::unix::fs::symlink};
use tempfile::TempDir;

const THIS: &str = "boot-1";

/// A host in a directory, with this setting and boot id.
struct Host(TempDir);

impl Host {
    fn new(value: u32) -> Self {
        let host = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir_all(host.0.path().join("sys/kernel/random")).expect("directories");
        fs::create_dir(host.0.path().join("self")).expect("a directory");
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
    /// A new instance, as after a start of the daemon.
    fn balancing(&self) -> Balancing {
        let roots = Roots { proc: self.0.path().into(), ..Roots::default() };
        Balancing::new(roots, self.0.path())
    }
    fn saved(&self) -> PathBuf {
        self.0.path().join("numa_balancing.saved")
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
        assert_eq!((host.value(), host.saved().exists()), (0, true));
        drop(first);
        assert_eq!(host.value(), 0);
        drop(second);
        assert_eq!((host.value(), host.saved().exists()), (value, false));
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
    assert!(!host.saved().exists());
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
    host.set(0);
    assert_eq!(balancing.warning(NumaBalancing::Warn), None);
}

/// The daemon is killed before the first step, after any step, and after the last: of pausing, and of putting back.
#[test]
fn whatever_a_death_leaves_is_repaired() {
    for value in [1, 2, 3] {
        let pausing = to_pause(Some(value), THIS);
        let saved = Saved { value, of: THIS.to_owned() };
        let steps = [pausing, to_put_back(Some(&saved), Some(0), THIS)].concat();
        assert_eq!(steps.len(), 4);
        for done in 0..=steps.len() {
            let host = Host::new(value);
            host.balancing().0.carry_out(&steps[..done]).expect("it may");
            // It may die during the repair, too.
            for again in 0..2 {
                let left = host.balancing();
                let saved = left.0.saved.read().expect("it is whole");
                let repair = to_put_back(saved.as_ref(), Some(host.value()), THIS);
                left.0.carry_out(&repair[..again.min(repair.len())]).expect("it may");
            }
            let put_back = host.balancing().put_back().expect("it may");
            assert!(put_back.is_none_or(|back| back == value));
            assert_eq!((host.value(), host.saved().exists()), (value, false), "after {done} steps");
            assert_eq!(host.balancing().put_back().expect("it may"), None);
        }
    }
}

#[test]
fn half_a_file_is_none() {
    let host = Host::new(1);
    fs::write(host.saved().with_extension("new"), "1 bo").expect("a file");
    assert_eq!(host.balancing().put_back().expect("it may"), None);
    drop(pause(&host.balancing()));
    assert_eq!((host.value(), host.saved().exists()), (1, false));
}

#[test]
fn what_somebody_else_has_set_stays() {
    let host = Host::new(1);
    let balancing = host.balancing();
    let paused = pause(&balancing);
    host.set(2);
    drop(paused);
    assert_eq!((host.value(), host.saved().exists()), (2, false));
}

#[test]
fn a_boot_has_set_it_anew() {
    let host = Host::new(1);
    std::mem::forget(pause(&host.balancing()));
    host.boot("boot-2");
    assert_eq!(host.balancing().put_back().expect("it may"), None);
    assert_eq!((host.value(), host.saved().exists()), (0, false));
}

/// Balancing is off since a daemon died, and the next start cannot put it back. The next job does.
#[test]
fn a_job_takes_over_what_was_left() {
    let host = Host::new(3);
    std::mem::forget(pause(&host.balancing()));
    let paused = pause(&host.balancing());
    assert_eq!(host.value(), 0);
    drop(paused);
    assert_eq!((host.value(), host.saved().exists()), (3, false));
}

#[test]
fn without_a_place_to_keep_it_nothing_is_changed() {
    let host = Host::new(1);
    // A directory cannot be opened for writing, not even by root.
    fs::create_dir(host.saved().with_extension("new")).expect("a directory");
    let error = host.balancing().begin(NumaBalancing::Pause).expect_err("it cannot be kept");
    assert!(matches!(Refusal::from(error), Refusal::Unavailable { .. }));
    assert_eq!((host.value(), host.saved().exists()), (1, false));
}

#[test]
fn without_rights_it_is_refused_with_what_to_do() {
    let host = Host::new(1);
    fs::write(host.0.path().join("self/status"), "CapEff:\t0\n").expect("a file");
    let error = host.balancing().check(NumaBalancing::Pause).expect_err("no CAP_SYS_ADMIN");
    let refusal = Refusal::from(error);
    assert!(matches!(refusal, Refusal::DaemonLacksRights { .. }), "{refusal:?}");
    assert!(refusal.to_string().contains("docs/daemon.md"), "{refusal}");
    for asked in [NumaBalancing::Ignore, NumaBalancing::Warn] {
        host.balancing().check(asked).expect("nothing is to be changed");
    }
}

#[test]
fn what_others_have_put_in_its_place_is_not_taken() {
    let host = Host::new(0);
    fs::write(host.0.path().join("elsewhere"), format!("1 {THIS}\n")).expect("a file");
    symlink("elsewhere", host.saved()).expect("a link");
    assert!(host.balancing().put_back().is_err());
    for text in ["", "1", "0 boot-1\n", "-1 boot-1\n", "x boot-1\n"] {
        fs::remove_file(host.saved()).expect("it is there");
        fs::write(host.saved(), text).expect("a file");
        assert!(host.balancing().put_back().is_err(), "{text}");
    }
    assert_eq!(host.value(), 0);
}
