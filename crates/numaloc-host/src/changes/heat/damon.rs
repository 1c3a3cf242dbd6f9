//! Measures with DAMON through its sysfs interface (Documentation/admin-guide/mm/damon/usage.rst). One kernel thread
//! watches the regions: it looks at one page of each at a time, at the Accessed bits of page tables. It changes no page
//! and causes no fault.
//!
//! The interface has one set of kernel threads for the whole machine, which the runs of this program share ([`slots`]). If another
//! program has set some up, this module leaves it alone. The same holds if one of the kernel's own users of DAMON is enabled,
//! because the kernel then lets no other user start (mm/damon/core.c, `damon_start`).

mod slots;

use super::{
    intervals::Intervals,
    watched::{REGIONS, WatchedMemory},
};
use crate::{
    Error, Roots,
    files::{
        read::{self, write_below},
        wait::wait,
    },
    journal,
};
use numaloc_core::{Sights, number::small};
use slots::{Lock, SLOTS, Setup};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Notes the pids of the processes that a run watches.
type DamonJournal = journal::Journal<Vec<i32>>;

/// The largest number of regions. With the shortest intervals they need 200,000 looks a second, which take a few percent of a CPU.
const REGIONS_MAX: u64 = 2 * REGIONS;
/// The smallest number of regions that DAMON takes (mm/damon/core.c, `damon_set_attrs`).
const REGIONS_MIN: u64 = 3;
/// Time between two attempts to get a kernel thread, or to write a file that the kernel keeps locked.
const BETWEEN: Duration = Duration::from_millis(100);
/// Longest wait for a file that the kernel keeps locked.
const LOCKED_MOST: Duration = Duration::from_secs(60);
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

/// Checks that DAMON exists, that this process may use it, and that no other program uses it. Other runs of this program,
/// or what such runs left behind, do not count as another program.
pub fn check(roots: &Roots) -> Result<(), Error> {
    check_usable(roots)?;
    match slots::setup(roots)? {
        Setup::None | Setup::Ours => Ok(()),
        Setup::Foreign => Err(in_use()),
    }
}

/// Whether a run could begin to watch at once.
pub fn has_slot(roots: &Roots) -> bool {
    slots::has_free(roots)
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
    if !slots::is_any_noted(roots) {
        return Ok(false);
    }
    // A run that has the lock takes it down itself.
    Lock::take(roots)?.map_or(Ok(false), |lock| lock.clean())
}

/// Adds what DAMON sees to `seen`. Ends early and adds nothing if `stop` returns true.
///
/// To read a result costs more than the looks that it sums up, so there is one. DAMON adapts its regions each time that it has a result, and
/// notes for how many results (`age`) the number of accesses of a region has been about the same. It does not measure unused memory:
/// "about" is a tenth of the largest number, and regions that are merged get a mean, of which a few accesses vanish (mm/damon/core.c,
/// `damon_merge_regions_of`). Here the counts of the first result are read just before it is complete: regions are as they were set
/// up, and the count of each is of all looks.
pub fn sample(
    roots: &Roots,
    watched: &[WatchedMemory],
    intervals: Intervals,
    stop: &dyn Fn() -> bool,
    seen: &mut Sights,
) -> Result<(), Error> {
    let Some(session) = begin(roots, watched, intervals, stop)? else { return Ok(()) };
    wait(intervals.watch, stop);
    if !stop() {
        session.result(watched, seen)?;
    }
    session.end()
}

/// Waits for a kernel thread of DAMON; `None`: `stop` has returned true.
fn begin<'a>(
    roots: &'a Roots,
    watched: &[WatchedMemory],
    intervals: Intervals,
    stop: &dyn Fn() -> bool,
) -> Result<Option<DamonSession<'a>>, Error> {
    let (begin, most) = (Instant::now(), PATIENCE + intervals.aggregate());
    while !stop() && begin.elapsed() < most {
        if let Some(lock) = Lock::wait(roots, most, stop)?
            && let Some(session) = DamonSession::begin(&lock, watched, intervals)?
        {
            return Ok(Some(session));
        }
        wait(BETWEEN, stop);
    }
    if stop() { Ok(None) } else { Err(no_damon(format!("{SLOTS} other runs use it"))) }
}

/// The number of regions if all were as long as the longest one. Given as the least number, it keeps the kernel from splitting a region
/// before the first look (7.2), and from merging any to a longer one before the result (before 6.9).
fn regions_min(watched: &[WatchedMemory]) -> u64 {
    let lengths = watched.iter().flat_map(|watched| &watched.regions);
    let lengths: Vec<u64> = lengths.map(|region| region.end - region.start).collect();
    let longest = lengths.iter().max().copied().unwrap_or(1);
    (lengths.iter().sum::<u64>() / longest).clamp(REGIONS_MIN, REGIONS_MAX)
}

/// Writes a value.
fn write(path: &Path, value: impl ToString) -> Result<(), Error> {
    let value = value.to_string();
    let written = patiently(|| fs::write(path, &value));
    written.map_err(|source| Error::Write { path: path.into(), source })
}

/// Writes a file again while it is locked: while a run waits for a result, the kernel refuses all changes (mm/damon/sysfs.c,
/// `damon_sysfs_lock`).
fn patiently(write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match journal::may_write().and_then(|()| write()) {
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < LOCKED_MOST =>
            {
                thread::sleep(BETWEEN);
            }
            written => return written,
        }
    }
}

/// A kernel thread of DAMON as set up by this run. Dropping this value takes it down.
#[derive(Debug)]
struct DamonSession<'a> {
    roots: &'a Roots,
    slot: usize,
    journal: DamonJournal,
    intervals: Intervals,
    is_up: bool,
}

impl<'a> DamonSession<'a> {
    /// `None`: other runs have all kernel threads.
    fn begin(
        lock: &Lock<'a>,
        watched: &[WatchedMemory],
        intervals: Intervals,
    ) -> Result<Option<Self>, Error> {
        let roots = lock.roots;
        check_usable(roots)?;
        lock.clean()?;
        let pids = watched.iter().map(|watched| watched.pid).collect();
        let Some((slot, journal)) = lock.assign(&pids)? else { return Ok(None) };
        let mut session = Self { roots, slot, journal, intervals, is_up: true };
        if let Err(error) = session.set_up(watched) {
            // What cannot be taken down now stays noted.
            let _ = session.take_down(lock);
            session.is_up = false;
            return Err(error);
        }
        Ok(Some(session))
    }

    fn set_up(&self, watched: &[WatchedMemory]) -> Result<(), Error> {
        write(&self.kdamond().join("contexts/nr_contexts"), 1)?;
        let context = self.context();
        // Fixed ranges of virtual addresses: only what is to be moved is watched.
        write(&context.join("operations"), "fvaddr")?;
        let attributes = context.join("monitoring_attrs");
        write(&attributes.join("intervals/sample_us"), self.intervals.sample.as_micros())?;
        write(&attributes.join("intervals/aggr_us"), self.intervals.aggregate().as_micros())?;
        write(&attributes.join("nr_regions/max"), REGIONS_MAX)?;
        write(&attributes.join("nr_regions/min"), regions_min(watched))?;
        write(&context.join("targets/nr_targets"), watched.len())?;
        for (index, watched) in watched.iter().enumerate() {
            let target = context.join(format!("targets/{index}"));
            write(&target.join("pid_target"), watched.pid)?;
            write(&target.join("regions/nr_regions"), watched.regions.len())?;
            let regions = target.join("regions");
            let below = File::open(&regions)
                .map_err(|source| Error::Read { path: regions.clone(), source })?;
            for (index, region) in watched.regions.iter().enumerate() {
                for (name, address) in [("start", region.start), ("end", region.end)] {
                    let name = format!("{index}/{name}");
                    let written = patiently(|| write_below(&below, &name, &address.to_string()));
                    written.map_err(|source| Error::Write { path: regions.join(&name), source })?;
                }
            }
        }
        // Results show as the regions that a scheme was tried on. So each process gets a scheme that does nothing and
        // applies to all regions that were used: to list and read a region is expensive, and the others have no accesses.
        write(&context.join("schemes/nr_schemes"), watched.len())?;
        for index in 0..watched.len() {
            let scheme = self.scheme(index);
            write(&scheme.join("action"), "stat")?;
            for (name, most) in [("sz", u64::MAX), ("nr_accesses", ANY), ("age", ANY)] {
                write(&scheme.join("access_pattern").join(name).join("max"), most)?;
            }
            write(&scheme.join("access_pattern/nr_accesses/min"), 1)?;
            // Kernels before 6.7 have results only at the end of an aggregation.
            let ready = scheme.join("apply_interval_us");
            if ready.exists() {
                write(&ready, self.intervals.ready().as_micros())?;
            }
            write(&scheme.join("filters/nr_filters"), 1)?;
            let filter = scheme.join("filters/0");
            write(&filter.join("type"), "target")?;
            write(&filter.join("damon_target_idx"), index)?;
            // N: regions that do not match the target are left out.
            write(&filter.join("matching"), "N")?;
        }
        write(&self.kdamond().join("state"), "on")
    }

    /// Adds the result to `seen`, unless DAMON no longer runs: its thread ends when all watched processes have ended.
    fn result(&self, watched: &[WatchedMemory], seen: &mut Sights) -> Result<(), Error> {
        let state = self.kdamond().join("state");
        // This write waits until the schemes are tried the next time.
        if let Err(error) = write(&state, "update_schemes_tried_regions") {
            return if read::text(&state)?.trim() == "on" { Err(error) } else { Ok(()) };
        }
        seen.begin(self.intervals.looks());
        for (index, watched) in watched.iter().enumerate() {
            watched.regions.iter().for_each(|region| seen.add(watched.process, region.clone(), 0));
            let tried = self.scheme(index).join("tried_regions");
            let failed = |source| Error::Read { path: tried.clone(), source };
            let directory = File::open(&tried).map_err(failed)?;
            for entry in fs::read_dir(&tried).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                if entry.file_type().map_err(failed)?.is_dir() {
                    let region = entry.file_name();
                    let number = |name| {
                        let name = format!("{}/{name}", region.display());
                        let failed = |source| Error::Read { path: tried.join(&name), source };
                        read::number_below(&directory, &name).map_err(failed)
                    };
                    let range = number("start")?..number("end")?;
                    seen.add_use(watched.process, range, small(number("nr_accesses")?));
                }
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), Error> {
        self.close()
    }

    /// What cannot be taken down now stays noted, and the next run or start of the daemon takes it down.
    fn close(&mut self) -> Result<(), Error> {
        self.is_up = false;
        match Lock::wait(self.roots, LOCKED_MOST, &|| false)? {
            Some(lock) => self.take_down(&lock),
            None => Err(no_damon("another run keeps its setup locked")),
        }
    }

    fn take_down(&mut self, lock: &Lock<'_>) -> Result<(), Error> {
        lock.take_down(self.slot)?;
        self.journal.forget()
    }

    fn kdamond(&self) -> PathBuf {
        kdamonds(self.roots).join(self.slot.to_string())
    }

    fn context(&self) -> PathBuf {
        self.kdamond().join("contexts/0")
    }

    fn scheme(&self, index: usize) -> PathBuf {
        self.context().join(format!("schemes/{index}"))
    }
}

impl Drop for DamonSession<'_> {
    fn drop(&mut self) {
        if self.is_up {
            let _ = self.close();
        }
    }
}

#[cfg(test)]
mod tests;
