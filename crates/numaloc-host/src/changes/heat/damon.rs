//! Measures with DAMON through its sysfs interface (Documentation/admin-guide/mm/damon/usage.rst). One kernel thread
//! watches the regions: it looks at one page of each at a time, at the Accessed bits of page tables. It changes no page
//! and causes no fault.
//!
//! The interface has one set of kernel threads for the whole machine. If another program has set some up, this module
//! leaves it alone. The same holds if one of the kernel's own users of DAMON is enabled, because the kernel then lets
//! no other user start (mm/damon/core.c, `damon_start`).

use super::{
    intervals::Intervals,
    watched::{REGIONS, WatchedMemory},
};
use crate::{
    Error, Roots,
    files::{read, wait::wait},
    journal,
};
use numaloc_core::{Sights, number::small};
use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The name of the journal. Only one run at a time may set up DAMON.
const NAME: &str = "damon";

/// Notes the pids of the processes that a run watches.
type DamonJournal = journal::Journal<Vec<i32>>;

/// The largest number of regions. With the shortest intervals they need 200,000 looks a second, which take a few percent of a CPU.
const REGIONS_MAX: u64 = 2 * REGIONS;
/// Time between two attempts to become the one that uses DAMON.
const BETWEEN: Duration = Duration::from_millis(100);
/// The largest value of a kernel field of type `unsigned int`.
const ANY: u64 = u32::MAX as u64;
/// Longest wait until another run has finished with DAMON, beyond the time that this one watches.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kernel's own users of DAMON: no other program can use it while one of them is enabled.
const MODULES: [&str; 3] = ["damon_stat", "damon_reclaim", "damon_lru_sort"];

fn no_damon(reason: impl Into<String>) -> Error {
    Error::NoDamon { reason: reason.into() }
}

fn kdamonds(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/mm/damon/admin/kdamonds")
}

/// Checks that DAMON exists, that this process may use it, and that no other program uses it. Another run of this program,
/// or what such a run left behind, does not count as another program.
pub fn check(roots: &Roots) -> Result<(), Error> {
    check_usable(roots)?;
    if is_free(roots)? || journal::is_taken(roots, NAME) || is_leftover(roots)? {
        Ok(())
    } else {
        Err(in_use())
    }
}

/// Whether another run of this program uses it now.
pub fn is_taken(roots: &Roots) -> bool {
    journal::is_taken(roots, NAME)
}

fn in_use() -> Error {
    no_damon("another program has set it up (nr_kdamonds is not 0)")
}

fn check_usable(roots: &Roots) -> Result<(), Error> {
    let path = kdamonds(roots).join("nr_kdamonds");
    // Opened for writing, nothing written.
    match OpenOptions::new().write(true).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(no_damon("this kernel has none (CONFIG_DAMON_SYSFS)"));
        }
        Err(error) => {
            let path = path.display();
            return Err(no_damon(format!(
                "{path} belongs to root, and /sys may be read-only: {error}"
            )));
        }
    }
    for module in MODULES {
        let enabled = roots.sys.join("module").join(module).join("parameters/enabled");
        if fs::read_to_string(&enabled).is_ok_and(|text| text.trim() == "Y") {
            let enabled = enabled.display();
            return Err(no_damon(format!("{module} uses it; to stop that, write N to {enabled}")));
        }
    }
    Ok(())
}

pub fn recover(roots: &Roots) -> Result<bool, Error> {
    if !journal::is_noted(roots, NAME) {
        return Ok(false);
    }
    let Some(mut journal) = DamonJournal::take(roots, NAME)? else { return Ok(false) };
    let left = is_leftover(roots)?;
    if left {
        take_down(roots)?;
    }
    journal.forget()?;
    Ok(left)
}

/// Adds what DAMON sees to `seen`. Ends early if `stop` returns true.
pub fn sample(
    roots: &Roots,
    watched: &[WatchedMemory],
    intervals: Intervals,
    stop: &dyn Fn() -> bool,
    seen: &mut Sights,
) -> Result<(), Error> {
    let Some(journal) = wait_for_journal(roots, intervals, stop)? else { return Ok(()) };
    let session = DamonSession::begin(roots, journal, watched, intervals)?;
    wait(intervals.warm_up, stop);
    for _ in 0..intervals.results {
        // DAMON's thread ends on its own when all watched processes have ended.
        if stop() || !session.snapshot(watched, seen)? {
            break;
        }
    }
    session.end()
}

fn wait_for_journal(
    roots: &Roots,
    intervals: Intervals,
    stop: &dyn Fn() -> bool,
) -> Result<Option<DamonJournal>, Error> {
    let begin = Instant::now();
    while !stop() {
        if let Some(journal) = DamonJournal::take(roots, NAME)? {
            return Ok(Some(journal));
        }
        if begin.elapsed() > PATIENCE + intervals.sum() {
            return Err(no_damon("another run keeps it busy"));
        }
        wait(BETWEEN, stop);
    }
    Ok(None)
}

fn is_free(roots: &Roots) -> Result<bool, Error> {
    Ok(read::text(&kdamonds(roots).join("nr_kdamonds"))?.trim() == "0")
}

/// Whether the present setup was left by a run of ours that was killed: it watches processes that the run had noted, and no others;
/// or it names no process yet and is off, as the run had left it before it named one.
fn is_leftover(roots: &Roots) -> Result<bool, Error> {
    let Some(noted) = DamonJournal::peek(roots, NAME) else { return Ok(false) };
    let all = kdamonds(roots);
    if read::text(&all.join("nr_kdamonds"))?.trim() != "1" {
        return Ok(false);
    }
    let targets = fs::read_dir(all.join("0/contexts/0/targets")).into_iter().flatten().flatten();
    let pids = targets.filter_map(|target| {
        let text = read::text(&target.path().join("pid_target")).ok()?;
        text.trim().parse().ok()
    });
    // The pid is 0 until it is written.
    let watched: Vec<i32> = pids.filter(|&pid| pid != 0).collect();
    let is = |file: &str, value| {
        fs::read_to_string(all.join(file)).is_ok_and(|text| text.trim() == value)
    };
    // Physical memory has no processes.
    let is_begun = || is("0/state", "off") && !is("0/contexts/0/operations", "paddr");
    Ok(watched.iter().all(|pid| noted.contains(pid)) && (!watched.is_empty() || is_begun()))
}

fn take_down(roots: &Roots) -> Result<(), Error> {
    let all = kdamonds(roots);
    // Refused if it is off already, which does not matter. If it stays on, the next write is refused.
    let _ = write(&all.join("0/state"), "off");
    write(&all.join("nr_kdamonds"), 0)
}

fn write(path: &Path, value: impl ToString) -> Result<(), Error> {
    let written = journal::may_write().and_then(|()| fs::write(path, value.to_string()));
    written.map_err(|source| Error::Write { path: path.into(), source })
}

/// DAMON as set up by this run. Dropping this value takes it down.
#[derive(Debug)]
struct DamonSession<'a> {
    roots: &'a Roots,
    journal: DamonJournal,
    intervals: Intervals,
    is_up: bool,
}

impl<'a> DamonSession<'a> {
    fn begin(
        roots: &'a Roots,
        journal: DamonJournal,
        watched: &[WatchedMemory],
        intervals: Intervals,
    ) -> Result<Self, Error> {
        check_usable(roots)?;
        if is_leftover(roots)? {
            take_down(roots)?;
        }
        if !is_free(roots)? {
            return Err(in_use());
        }
        let mut session = Self { roots, journal, intervals, is_up: true };
        session.journal.note(&watched.iter().map(|watched| watched.pid).collect())?;
        session.set_up(watched)?;
        Ok(session)
    }

    fn set_up(&self, watched: &[WatchedMemory]) -> Result<(), Error> {
        let all = kdamonds(self.roots);
        write(&all.join("nr_kdamonds"), 1)?;
        write(&all.join("0/contexts/nr_contexts"), 1)?;
        let context = self.context();
        // Fixed ranges of virtual addresses: only what is to be moved is watched.
        write(&context.join("operations"), "fvaddr")?;
        let attributes = context.join("monitoring_attrs");
        write(&attributes.join("intervals/sample_us"), self.intervals.sample.as_micros())?;
        write(&attributes.join("intervals/aggr_us"), self.intervals.aggregate.as_micros())?;
        write(&attributes.join("nr_regions/max"), REGIONS_MAX)?;
        write(&attributes.join("nr_regions/min"), REGIONS)?;
        write(&context.join("targets/nr_targets"), watched.len())?;
        for (index, watched) in watched.iter().enumerate() {
            let target = context.join(format!("targets/{index}"));
            write(&target.join("pid_target"), watched.pid)?;
            write(&target.join("regions/nr_regions"), watched.regions.len())?;
            for (index, region) in watched.regions.iter().enumerate() {
                let directory = target.join(format!("regions/{index}"));
                write(&directory.join("start"), region.start)?;
                write(&directory.join("end"), region.end)?;
            }
        }
        // Results show as the regions that a scheme was tried on. So each process gets a scheme that does nothing and
        // applies to all regions.
        write(&context.join("schemes/nr_schemes"), watched.len())?;
        for index in 0..watched.len() {
            let scheme = self.scheme(index);
            write(&scheme.join("action"), "stat")?;
            for (name, most) in [("sz", u64::MAX), ("nr_accesses", ANY), ("age", ANY)] {
                write(&scheme.join("access_pattern").join(name).join("max"), most)?;
            }
            write(&scheme.join("filters/nr_filters"), 1)?;
            let filter = scheme.join("filters/0");
            write(&filter.join("type"), "target")?;
            write(&filter.join("damon_target_idx"), index)?;
            // N: regions that do not match the target are left out.
            write(&filter.join("matching"), "N")?;
        }
        write(&all.join("0/state"), "on")
    }

    /// Adds one result to `seen`; `false` if DAMON no longer runs.
    fn snapshot(&self, watched: &[WatchedMemory], seen: &mut Sights) -> Result<bool, Error> {
        let state = kdamonds(self.roots).join("0/state");
        // This write waits for the end of the present aggregation.
        if let Err(error) = write(&state, "update_schemes_tried_regions") {
            return if read::text(&state)?.trim() == "on" { Err(error) } else { Ok(false) };
        }
        seen.begin(self.intervals.looks());
        for (index, watched) in watched.iter().enumerate() {
            let tried = self.scheme(index).join("tried_regions");
            let failed = |source| Error::Read { path: tried.clone(), source };
            for entry in fs::read_dir(&tried).map_err(failed)? {
                let directory = entry.map_err(failed)?.path();
                if directory.is_dir() {
                    let start = number(&directory.join("start"))?;
                    let end = number(&directory.join("end"))?;
                    let accesses = number(&directory.join("nr_accesses"))?;
                    seen.add(watched.process, start..end, small(accesses));
                }
            }
        }
        Ok(true)
    }

    fn end(mut self) -> Result<(), Error> {
        self.is_up = false;
        take_down(self.roots)?;
        self.journal.forget()
    }

    fn context(&self) -> PathBuf {
        kdamonds(self.roots).join("0/contexts/0")
    }

    fn scheme(&self, index: usize) -> PathBuf {
        self.context().join(format!("schemes/{index}"))
    }
}

impl Drop for DamonSession<'_> {
    fn drop(&mut self) {
        // If it cannot be taken down now, it stays noted, and the next run or start of the daemon takes it down.
        if self.is_up && take_down(self.roots).is_ok() {
            let _ = self.journal.forget();
        }
    }
}

fn number(path: &Path) -> Result<u64, Error> {
    let text = read::text(path)?;
    text.trim()
        .parse()
        .map_err(|error| Error::Parse { path: path.into(), reason: format!("{error}") })
}

#[cfg(test)]
mod tests;
