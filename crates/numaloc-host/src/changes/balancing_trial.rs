//! kernel.numa_balancing switched on and off for measurements, and put back.
//!
//! The file `/run/numalocctl/balancing` has what it was before it is changed. A process that ends without putting it back leaves the note, and
//! [`put_back`] does it: a process that waits for the end of the measuring one, and the next measurement. A value
//! that another program has set meanwhile stays.

use crate::{
    Error, Roots,
    changes::numa_balancing,
    journal::{self, Journal},
};
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// The name of the daemon's journal of the same setting.
const DAEMONS: &str = "numa_balancing";

/// A change of the setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TrialNote {
    before: u32,
    /// The value that is written next. Before that write, the setting is `before` or the `after` of the note before
    /// this one.
    after: u32,
}

/// The right to switch balancing. Dropping it puts nothing back: that is [`put_back`].
#[derive(Debug)]
pub struct BalancingTrial {
    roots: Roots,
    journal: Journal<TrialNote>,
    before: u32,
}

fn path(roots: &Roots) -> PathBuf {
    roots.run.join("numalocctl").join("balancing")
}

fn take(roots: &Roots) -> Result<Journal<TrialNote>, Error> {
    Journal::take_at(roots, path(roots))?
        .ok_or(Error::BalancingTaken { by: "another numalocctl bench" })
}

impl BalancingTrial {
    /// Puts back what an earlier process has left, and takes the right. `None`: this kernel has no NUMA balancing.
    ///
    /// # Errors
    /// [`Error::BalancingTaken`]; [`Error::Setting`] if this process may not change it; the errors of [`put_back`].
    pub fn begin(roots: &Roots) -> Result<Option<Self>, Error> {
        if journal::is_taken(roots, DAEMONS) {
            return Err(Error::BalancingTaken { by: "numalocd" });
        }
        numa_balancing::check_writable(roots)?;
        let mut journal = take(roots)?;
        restore(roots, &mut journal)?;
        let before = numa_balancing::read(roots)?;
        Ok(before.map(|before| Self { roots: roots.clone(), journal, before }))
    }

    /// Value of kernel.numa_balancing before the trial.
    pub fn before(&self) -> u32 {
        self.before
    }

    /// Switches balancing, once that has been noted.
    ///
    /// # Errors
    /// [`Error::Write`], and then nothing has changed; [`Error::Setting`].
    pub fn set(&mut self, value: u32) -> Result<(), Error> {
        self.journal.note(&TrialNote { before: self.before, after: value })?;
        numa_balancing::write(&self.roots, value)
    }
}

/// Puts back what was noted, unless a measurement is under way. Returns the value that was put back.
///
/// # Errors
/// [`Error::BalancingTaken`]; [`Error::Read`], [`Error::Parse`] if the note cannot be read; [`Error::Setting`], [`Error::Write`].
pub fn put_back(roots: &Roots) -> Result<Option<u32>, Error> {
    restore(roots, &mut take(roots)?)
}

/// As [`put_back`], for the process that waits for the end of the measuring one. The kernel closes the files of a process that is killed in
/// no certain order (kernel/task_work.c, `task_work_run`): the lock can still be there when the pipe has ended. After
/// that it is held by another measurement, which puts back what it finds noted.
///
/// # Errors
/// As [`put_back`].
pub fn put_back_after_end(roots: &Roots) -> Result<Option<u32>, Error> {
    const CLOSING: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    loop {
        match put_back(roots) {
            Err(Error::BalancingTaken { .. }) if begin.elapsed() < CLOSING => {
                thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

fn restore(roots: &Roots, journal: &mut Journal<TrialNote>) -> Result<Option<u32>, Error> {
    let notes = journal.all()?;
    let Some(&TrialNote { before, .. }) = notes.last() else { return Ok(None) };
    let current = numa_balancing::read(roots)?;
    let is_ours = notes.iter().any(|note| current == Some(note.after));
    if is_ours && current != Some(before) {
        numa_balancing::write(roots, before)?;
    }
    journal.forget()?;
    Ok(is_ours.then_some(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, killed};

    const FILE: &str = "proc/sys/kernel/numa_balancing";

    fn host(value: &str) -> Fake {
        let host = Fake::new();
        host.write("run/lock", "");
        host.write("proc/self/status", "CapEff:\t0000000000200000\n");
        host.write("proc/sys/kernel/random/boot_id", "boot\n");
        host.write(FILE, value);
        host
    }

    fn value(host: &Fake) -> Option<u32> {
        numa_balancing::read(&host.roots()).expect("a number")
    }

    fn begin(host: &Fake) -> BalancingTrial {
        BalancingTrial::begin(&host.roots()).expect("it may").expect("it has balancing")
    }

    #[test]
    fn it_is_what_it_was_in_the_end() {
        for before in [0, 1, 2, 3] {
            let host = host(&format!("{before}\n"));
            let mut trial = begin(&host);
            for now in [1, 0, 1] {
                trial.set(now).expect("written");
                assert_eq!(value(&host), Some(now));
            }
            let taken = BalancingTrial::begin(&host.roots()).expect_err("it is taken");
            assert!(taken.to_string().contains("another numalocctl bench"), "{taken}");
            assert!(put_back(&host.roots()).is_err(), "it is under way");
            drop(trial);
            put_back(&host.roots()).expect("put back");
            assert_eq!(value(&host), Some(before));
            assert_eq!(put_back(&host.roots()).expect("nothing to do"), None);
        }
    }

    #[test]
    fn a_value_that_another_program_has_set_stays() {
        let host = host("1\n");
        begin(&host).set(0).expect("written");
        host.write(FILE, "2\n");
        assert_eq!(put_back(&host.roots()).expect("read"), None);
        assert_eq!(value(&host), Some(2));
    }

    #[test]
    fn a_lock_that_lasts_longer_than_the_pipe_is_waited_for() {
        let host = host("1\n");
        let mut trial = begin(&host);
        trial.set(0).expect("written");
        let roots = host.roots();
        let waiting = thread::spawn(move || put_back_after_end(&roots));
        thread::sleep(Duration::from_millis(50));
        drop(trial);
        let put_back = waiting.join().expect("it ends").expect("put back");
        assert_eq!((put_back, value(&host)), (Some(1), Some(1)));
    }

    #[test]
    fn it_is_not_taken_from_the_daemon_or_without_rights() {
        let fake = host("1\n");
        fake.write("run/numaloc/x", "");
        let paused = Journal::<u32>::take(&fake.roots(), DAEMONS).expect("written");
        let taken = BalancingTrial::begin(&fake.roots()).expect_err("it is taken");
        assert!(taken.to_string().contains("numalocd"), "{taken}");
        drop(paused);
        fake.write("proc/self/status", "CapEff:\t0000000000000000\n");
        assert!(matches!(BalancingTrial::begin(&fake.roots()), Err(Error::Setting { .. })));
        std::fs::remove_file(fake.path(FILE)).expect("a file");
        assert!(BalancingTrial::begin(&fake.roots()).expect("nothing to change").is_none());
    }

    #[test]
    fn a_process_that_is_killed_at_any_point_leaves_nothing() {
        let work = |host: &Fake| -> Result<(), Error> {
            let mut trial = BalancingTrial::begin(&host.roots())?.expect("it has balancing");
            trial.set(0)?;
            trial.set(1)?;
            drop(trial);
            put_back(&host.roots()).map(drop)
        };
        let state = |host: &Fake| {
            (value(host), std::fs::metadata(path(&host.roots())).map_or(0, |of| of.len()))
        };
        let points = killed::leaves_nothing(
            || host("3\n"),
            state,
            |host| drop(work(host)),
            |host| drop(put_back(&host.roots())),
        );
        assert_eq!(points, 6);
    }
}
