//! Pressure stall information: for how long tasks have waited (Documentation/accounting/psi.rst).

use crate::{Roots, cgroup, read};
use std::{
    collections::HashSet,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    time::Duration,
};

/// Whose pressure a file shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All processes of a cgroup and of those below it; its path from the root of cgroup v2.
    Cgroup(String),
    /// All processes there are.
    Host,
}

/// What processes wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Block IO, and pages under migration (mm/migrate.c, `migration_entry_wait`).
    Io,
    /// A CPU.
    Cpu,
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::Cpu => "cpu",
        }
    }
}

/// What a file says of `some`: the time in which at least one task waited.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalled {
    /// Since the cgroup was made, or since boot.
    pub total: Duration,
    /// Share of the last ten seconds, in percent.
    pub avg10_percent: f64,
}

/// One such file, kept open.
#[derive(Debug)]
pub struct Pressure {
    /// Of whom.
    pub scope: Scope,
    /// For what.
    pub resource: Resource,
    path: PathBuf,
    file: File,
}

impl Pressure {
    /// The files that tell of `pids`: those of their cgroups, of at most `most` of these; of the whole host where the kernel
    /// does not account for their cgroups (cgroup v1, cgroup.pressure off, the root cgroup); none, where it accounts for
    /// nothing.
    pub fn of(roots: &Roots, pids: &[i32], resource: Resource, most: usize) -> Vec<Self> {
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
        let mut pressure = Self { scope, resource, file: File::open(&path).ok()?, path };
        // Where it is switched off, the file may be there and not be readable.
        pressure.read().map(|_| pressure)
    }

    /// What it says now; `None` when its cgroup is no more.
    pub fn read(&mut self) -> Option<Stalled> {
        parse(&read::kept(&self.file))
    }

    /// Asks the kernel to say when tasks have waited for `stalled` within `window`. Windows other than multiples of two
    /// seconds are for those with CAP_SYS_RESOURCE (kernel/sched/psi.c, `psi_trigger_create`).
    ///
    /// # Errors
    /// EACCES and EPERM without the rights, EINVAL for a window outside of 0.5 to 10 seconds or a window that needs more
    /// rights, EOPNOTSUPP where the kernel does not account for it.
    pub fn trigger(&self, stalled: Duration, window: Duration) -> io::Result<Trigger> {
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        // The kernel takes the last byte for the terminator (kernel/sched/psi.c, `psi_write`).
        file.write_all(trigger_text(stalled, window).as_bytes())?;
        Ok(Trigger { file })
    }
}

fn trigger_text(stalled: Duration, window: Duration) -> String {
    format!("some {} {}\0", stalled.as_micros(), window.as_micros())
}

/// Becomes ready (POLLPRI) when tasks have waited for longer than was asked, at most once a window; is in error (POLLERR)
/// once its cgroup is no more. It ends with this value.
#[derive(Debug)]
pub struct Trigger {
    file: File,
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn parse(text: &str) -> Option<Stalled> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value =
        |key: &str| line.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    Some(Stalled {
        total: Duration::from_micros(value("total")?.parse().ok()?),
        avg10_percent: value("avg10")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const TEXT: &str = "some avg10=12.50 avg60=1.00 avg300=0.10 total=2500000
full avg10=1.00 avg60=0.50 avg300=0.00 total=7\n";

    fn stalled(micros: u64, avg10_percent: f64) -> Stalled {
        Stalled { total: Duration::from_micros(micros), avg10_percent }
    }

    #[test]
    fn some_is_what_counts() {
        assert_eq!(parse(TEXT), Some(stalled(2_500_000, 12.5)));
        assert_eq!(parse("full avg10=1 total=7"), None);
        assert_eq!(parse("some avg10=x total=7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn cgroups_come_before_the_host_and_each_once() {
        let fake = Fake::new();
        for (pid, cgroup) in [(1, "/a.slice/x"), (2, "/a.slice/x"), (3, "/b"), (4, "/../c")] {
            fake.write(&format!("proc/{pid}/cgroup"), &format!("4:memory:/other\n0::{cgroup}\n"));
        }
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
    fn a_file_is_read_anew() {
        let fake = Fake::new();
        fake.write("proc/pressure/cpu", TEXT);
        let mut files = Pressure::of(&fake.roots(), &[1], Resource::Cpu, 16);
        assert_eq!(files[0].read(), Some(stalled(2_500_000, 12.5)));
        fake.write("proc/pressure/cpu", &TEXT.replace("2500000", "2500001"));
        assert_eq!(files[0].read(), Some(stalled(2_500_001, 12.5)));
    }

    #[test]
    fn triggers_are_asked_for_in_microseconds() {
        let ms = Duration::from_millis;
        assert_eq!(trigger_text(ms(50), ms(500)), "some 50000 500000\0");
    }
}
