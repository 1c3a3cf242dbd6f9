//! The resources that this process itself uses.

use crate::{Error, Roots, files::read};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use numaloc_core::page_size;
use procfs::{FromRead, process::Stat};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// The resources that this process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProcess {
    /// Time on CPUs, in its own code and in the kernel for it, its companions' included.
    pub cpu: Duration,
    /// Resident memory (`rss` in /proc/self/stat), in bytes.
    pub resident_bytes: u64,
    /// Address space (`vsize` in /proc/self/stat), in bytes.
    pub virtual_bytes: u64,
    /// Number of its threads now.
    pub threads: u64,
    /// Number of open descriptors (/proc/self/fd).
    pub open_files: u64,
    /// The limit of open descriptors; `None`: no limit.
    pub most_open_files: Option<u64>,
    /// When it started, reckoned from btime in /proc/stat.
    pub start_time: SystemTime,
}

impl OwnProcess {
    /// Reads the present values.
    ///
    /// # Errors
    /// If /proc/self or /proc/stat cannot be read.
    pub fn read(roots: &Roots) -> Result<Self, Error> {
        let path = roots.proc.join("self/stat");
        let parse = |reason: String| Error::Parse { path: path.clone(), reason };
        let text = read::text(&path)?;
        let stat = Stat::from_read(text.as_bytes()).map_err(|error| parse(error.to_string()))?;
        let limit = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
        Ok(Self {
            cpu: ticks(stat.utime + stat.stime) + numaloc_sys::companions_cpu_time(),
            resident_bytes: stat.rss * page_size(),
            virtual_bytes: stat.vsize,
            threads: stat.num_threads.try_into().unwrap_or_default(),
            open_files: open_files(&roots.proc.join("self/fd"))?,
            most_open_files: limit.filter(|limit| *limit != RLIM_INFINITY),
            start_time: boot_time(roots.proc.join("stat"))? + ticks(stat.starttime),
        })
    }
}

fn ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// The number of open descriptors, without the one with which they are counted.
fn open_files(directory: &Path) -> Result<u64, Error> {
    let failed = |source| Error::Read { path: directory.into(), source };
    let entries = fs::read_dir(directory).map_err(failed)?.count() as u64;
    Ok(entries.saturating_sub(1))
}

fn boot_time(path: PathBuf) -> Result<SystemTime, Error> {
    let text = read::text(&path)?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    let seconds = seconds.ok_or_else(|| Error::Parse { path, reason: "no btime".into() })?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn it_is_this_process() {
        let now = SystemTime::now();
        let own = OwnProcess::read(&Roots::default()).expect("/proc is there");
        assert!(own.resident_bytes > 0 && own.virtual_bytes >= own.resident_bytes, "{own:?}");
        assert!(own.threads >= 1 && own.open_files >= 1, "{own:?}");
        assert!(own.most_open_files.is_none_or(|most| most >= own.open_files), "{own:?}");
        // The boot time is given in whole seconds.
        assert!(own.start_time <= now + Duration::from_secs(2), "{own:?}");
    }

    #[test]
    fn the_error_names_what_cannot_be_read() {
        let fake = Fake::new();
        assert!(matches!(OwnProcess::read(&fake.roots()), Err(Error::Read { .. })));
        fake.write("proc/self/stat", "1 (x) nonsense");
        assert!(matches!(OwnProcess::read(&fake.roots()), Err(Error::Parse { .. })));
    }
}
