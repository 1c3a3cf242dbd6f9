//! Pressure stall information: for how long tasks have waited (Documentation/accounting/psi.rst).

use crate::{Roots, files::read, processes::cgroup};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    collections::HashSet,
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    path::PathBuf,
    time::Duration,
};

/// The tasks whose pressure a file shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All processes of a cgroup and of those below it; its path from the root of cgroup v2.
    Cgroup(String),
    /// All processes of the host (/proc/pressure).
    Host,
}

/// The resource that the processes of a pressure file wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Block IO, and pages under migration (mm/migrate.c, `migration_entry_wait`).
    Io,
    /// A CPU to run on.
    Cpu,
    /// Memory: reclaim, compaction, and pages that were reclaimed too early.
    Memory,
}

impl Resource {
    /// Its name, as in `cpu.pressure` and `/proc/pressure/cpu`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// What is asked for, the best first: 100 ms within one second, and the only window that the kernel gives a user without CAP_SYS_RESOURCE
/// (kernel/sched/psi.c, `psi_trigger_create`; Linux 6.5, and 6.1.176).
const TRIGGERS: [&[u8]; 2] = [b"some 100000 1000000\0", b"some 200000 2000000\0"];

/// Reports that tasks of the host have waited for memory for a tenth of one or two seconds, at most once in this time
/// (Documentation/accounting/psi.rst, "Monitoring for pressure thresholds").
#[derive(Debug)]
pub struct MemoryTrigger(File);

impl MemoryTrigger {
    /// Asks the kernel for it. Older kernels want CAP_SYS_RESOURCE.
    ///
    /// # Errors
    /// The kernel has no PSI or refuses the trigger.
    pub fn new(roots: &Roots) -> io::Result<Self> {
        let path = roots.proc.join("pressure/memory");
        let mut file = File::options().read(true).write(true).open(path)?;
        let [first, second] = TRIGGERS;
        match file.write_all(first) {
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {
                file.write_all(second)?;
            }
            written => written?,
        }
        Ok(Self(file))
    }

    /// Waits until that happens, at most for this long. Returns whether it did.
    ///
    /// # Errors
    /// The kernel has withdrawn the trigger.
    pub fn wait(&self, most: Duration) -> io::Result<bool> {
        let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
        let mut files = [PollFd::new(self.0.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut files, most) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let events = files[0].revents().unwrap_or_else(PollFlags::empty);
        match events.contains(PollFlags::POLLERR) {
            true => Err(io::Error::other("the kernel has withdrawn the trigger")),
            false => Ok(events.contains(PollFlags::POLLPRI)),
        }
    }
}

/// A pressure file, kept open.
#[derive(Debug)]
pub struct Pressure {
    /// The tasks whose pressure the file shows.
    pub scope: Scope,
    /// The resource that they wait for.
    pub resource: Resource,
    file: File,
}

impl Pressure {
    /// The pressure files for `pids`: those of their cgroups, at most `most` files. The file of the whole host stands
    /// for cgroups that the kernel does not account for (cgroup v1, cgroup.pressure off, the root cgroup), and where there are no
    /// `pids`. Empty if the kernel accounts for nothing.
    pub fn of(roots: &Roots, pids: &[i32], resource: Resource, most: usize) -> Vec<Self> {
        if pids.is_empty() {
            return Self::open(roots, None, resource).into_iter().collect();
        }
        let mut files: Vec<Self> = Vec::new();
        let mut known = HashSet::new();
        for &pid in pids {
            let cgroup = cgroup::of(roots, pid);
            if !known.insert(cgroup.clone()) {
                continue;
            }
            let Some(file) = Self::open(roots, cgroup, resource) else { continue };
            if files.iter().all(|known| known.scope != file.scope) {
                files.push(file);
            }
            if files.len() >= most {
                break;
            }
        }
        files
    }

    /// The pressure file of a cgroup, by its path from the root of cgroup v2, and that of the whole host if it has none or none is
    /// named. `None` if the kernel accounts for nothing.
    pub fn of_cgroup(roots: &Roots, path: Option<&str>, resource: Resource) -> Option<Self> {
        Self::open(roots, path.map(str::to_owned), resource)
    }

    fn open(roots: &Roots, cgroup: Option<String>, resource: Resource) -> Option<Self> {
        let name = format!("{}.pressure", resource.name());
        let own = cgroup.filter(|path| path != "/").and_then(|path| {
            let open = |file: PathBuf| Self::open_file(file, Scope::Cgroup(path.clone()), resource);
            cgroup::unified(roots, &path)
                .into_iter()
                .find_map(|directory| open(directory.join(&name)))
        });
        own.or_else(|| {
            let path = roots.proc.join("pressure").join(resource.name());
            Self::open_file(path, Scope::Host, resource)
        })
    }

    fn open_file(path: PathBuf, scope: Scope, resource: Resource) -> Option<Self> {
        let mut pressure = Self { scope, resource, file: File::open(path).ok()? };
        // If pressure accounting is switched off, the file may exist but not be readable.
        pressure.read().map(|_| pressure)
    }

    /// Time in which at least one task waited (`some`) since the cgroup was made, or since boot. `None` if the cgroup
    /// no longer exists.
    ///
    /// CPUs that were busy for less than a tick since the last read of any process count for nothing
    /// (kernel/sched/psi.c, `collect_percpu_times`). So a reader that reads every few milliseconds sees nothing, and
    /// makes other readers see too little.
    pub fn read(&mut self) -> Option<Duration> {
        parse(&read::kept(&self.file))
    }
}

fn parse(text: &str) -> Option<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = line.split(' ').find_map(|pair| pair.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const TEXT: &str = "some avg10=12.50 avg60=1.00 avg300=0.10 total=2500000
full avg10=1.00 avg60=0.50 avg300=0.00 total=7\n";

    #[test]
    fn some_is_what_counts() {
        assert_eq!(parse(TEXT), Some(Duration::from_millis(2500)));
        assert_eq!(parse("full avg10=1 total=7"), None);
        assert_eq!(parse("some avg10=1 total=x"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn cgroups_come_before_the_host_and_each_once() {
        let fake = Fake::new();
        for (pid, cgroup) in [(1, "/a.slice/x"), (2, "/a.slice/x"), (3, "/b"), (4, "/../c")] {
            fake.write(&format!("proc/{pid}/cgroup"), &format!("4:memory:/other\n0::{cgroup}\n"));
        }
        fake.write("cgroup/unified/cgroup.procs", "");
        fake.write("cgroup/unified/a.slice/x/io.pressure", TEXT);
        fake.write("proc/pressure/io", TEXT);
        let scopes = |pids: &[i32], most| -> Vec<Scope> {
            let files = Pressure::of(&fake.roots(), pids, Resource::Io, most);
            files.into_iter().map(|file| file.scope).collect()
        };
        let own = Scope::Cgroup("/a.slice/x".into());
        assert_eq!(scopes(&[1, 2], 16), std::slice::from_ref(&own));
        // Neither the cgroup without a file, nor one of another namespace, nor a process that is gone.
        assert_eq!(scopes(&[3, 4, 5, 1], 16), [Scope::Host, own]);
        assert_eq!(scopes(&[1, 3], 1).len(), 1);
        assert!(Pressure::of(&fake.roots(), &[1], Resource::Cpu, 16).is_empty());
    }

    #[test]
    fn a_file_is_read_again() {
        let fake = Fake::new();
        fake.write("proc/pressure/cpu", TEXT);
        let mut files = Pressure::of(&fake.roots(), &[1], Resource::Cpu, 16);
        assert_eq!(files[0].read(), Some(Duration::from_micros(2_500_000)));
        fake.write("proc/pressure/cpu", &TEXT.replace("2500000", "2500001"));
        assert_eq!(files[0].read(), Some(Duration::from_micros(2_500_001)));
    }
}
