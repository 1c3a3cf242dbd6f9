//! One process: its identity, and where its threads may run.

use crate::{
    Error, Roots,
    files::read::{field, is_gone, kib, printed_at_once},
};
use numaloc_core::{CpuSet, Identity, NodeSet, Process, Topology};
use procfs::{
    FromRead, ProcError,
    process::{Process as Entry, Stat},
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    string::FromUtf8Error,
    sync::Arc,
};

mod guest;
mod threads;

/// Flags of field 9 of /proc/PID/stat (include/linux/sched.h).
const PF_IO_WORKER: u32 = 0x10;
pub(crate) const PF_KTHREAD: u32 = 0x20_0000;

/// Why there is nothing to move in a process. In a cgroup all but `Failed` are normal.
#[derive(Debug)]
pub(crate) enum Miss {
    /// It is not there, or hidden (hidepid).
    Gone,
    /// It has ended and its parent has not been told yet, or it is about to end.
    Ended {
        comm: String,
    },
    KernelThread {
        comm: String,
    },
    /// The caller may not look into it.
    NoRights {
        comm: String,
        what: &'static str,
    },
    /// Reading failed for another reason, which is an error in a cgroup, too.
    Failed(Error),
}

impl Miss {
    /// The kernel's error, if a file could not be read.
    pub(crate) fn read(&self) -> Option<&io::Error> {
        match self {
            Self::Failed(error) => error.read(),
            _ => None,
        }
    }

    pub(crate) fn into_error(self, pid: i32) -> Error {
        match self {
            Self::Gone => Error::NoProcess { pid },
            Self::Ended { comm } => Error::Ended { pid, comm },
            Self::KernelThread { comm } => Error::KernelThread { pid, comm },
            Self::NoRights { comm, what } => Error::NoRights { pid, comm, what: what.into() },
            Self::Failed(error) => error,
        }
    }
}

/// Reads a process by its pid or the id of one of its threads.
pub(crate) fn read(roots: &Roots, pid: i32, topology: &Topology) -> Result<Process, Miss> {
    roots.open_files.patiently(Miss::read, || read_once(roots, pid, topology))
}

fn read_once(roots: &Roots, pid: i32, topology: &Topology) -> Result<Process, Miss> {
    let tgid = tgid(roots, pid)?;
    let process = OpenProcess::new(roots, tgid)?;
    let stat = process.stat()?;
    let process = OpenProcess { comm: stat.comm, ..process };
    let comm = || process.comm.clone();
    if stat.flags & PF_KTHREAD != 0 {
        return Err(Miss::KernelThread { comm: comm() });
    }
    let Some(living) = living(&process)? else { return Err(Miss::Ended { comm: comm() }) };
    let maps = format!("task/{}/maps", living.first);
    process.entry.open_relative(maps).map_err(|error| process.miss(error, "maps"))?;
    let online = topology.nodes().fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus));
    let cpus = living.cpus.and(&online);
    // For other processes the CPU time of single threads would decide nothing.
    let differ_in_cpus = living.lists > 1 && topology.local_nodes(&cpus).len() > 1;
    let read = if differ_in_cpus || living.differ_in_mems {
        threads::read(&process, &online, &living)?
    } else {
        threads::ReadThreads::default()
    };
    Ok(Process {
        identity: Identity { pid: tgid, start_time: stat.starttime },
        comm: comm(),
        cpus,
        threads: read.groups,
        mems_allowed: living.mems_allowed.unwrap_or_else(|| topology.ids()),
        device_nodes: NodeSet::new(),
        swap_bytes: living.swap_bytes,
        page_table_bytes: living.page_table_bytes,
        guest: guest::read(&process, read.vcpus).map(Arc::new),
    })
}

/// The process that a thread belongs to.
pub(crate) fn tgid(roots: &Roots, tid: i32) -> Result<i32, Miss> {
    let thread = OpenProcess::new(roots, tid)?;
    let status = thread.text("status")?;
    let tgid = field(&status, "Tgid").and_then(|tgid| tgid.parse().ok());
    tgid.ok_or_else(|| thread.nonsense("status", "no Tgid".into()))
}

/// The pid of this process, as the procfs that is read shows it.
pub(crate) fn own_pid(roots: &Roots) -> Option<i32> {
    std::fs::read_link(roots.proc.join("self")).ok()?.to_str()?.parse().ok()
}

/// Properties of the threads of a process together.
struct Living {
    /// A thread that has memory; the process's first thread, if that lives.
    first: i32,
    /// CPUs that at least one of them may run on. Cpus_allowed_list is the affinity within the cpuset, under cgroup v2
    /// and v1 alike (kernel/cgroup/cpuset.c, cpuset_update_tasks_cpumask).
    cpus: CpuSet,
    /// Number of different lists of CPUs that they have.
    lists: usize,
    /// Nodes that the cpuset of at least one of them allows; `None` on a kernel without cpusets.
    mems_allowed: Option<NodeSet>,
    /// Whether their cpusets allow different nodes.
    differ_in_mems: bool,
    /// Bytes in swap of the memory that they share.
    swap_bytes: u64,
    /// Bytes of its page tables.
    page_table_bytes: u64,
    /// The different pairs of lists that their status files show: of CPUs, and of nodes.
    allowed: Vec<Allowed>,
    /// All of them, each with the index of what it is allowed.
    threads: Vec<(i32, usize)>,
}

/// What a thread is allowed, as its status file shows it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Allowed {
    /// Cpus_allowed_list.
    cpus: String,
    /// Mems_allowed_list; empty on a kernel without cpusets.
    mems: String,
}

/// Looks at all threads that have the memory of their process. The first thread may have ended before the others. It
/// then is a zombie without memory, and the others still have it. `None` if no thread has any.
fn living(process: &OpenProcess) -> Result<Option<Living>, Miss> {
    let (mut lists, mut mems_lists) = (BTreeSet::new(), BTreeSet::new());
    let mut living: Option<Living> = None;
    for tid in process.tids()? {
        let name = format!("task/{tid}/status");
        let status = match process.text(&name) {
            Err(Miss::Gone) => continue, // threads end all the time
            status => status?,
        };
        let fields = Fields::of(&status);
        if !fields.has_memory {
            continue;
        }
        let living = living.get_or_insert_with(|| Living {
            first: tid,
            cpus: CpuSet::new(),
            lists: 0,
            mems_allowed: None,
            differ_in_mems: false,
            swap_bytes: kib(&status, "VmSwap").unwrap_or(0),
            page_table_bytes: kib(&status, "VmPTE").unwrap_or(0),
            allowed: Vec::new(),
            threads: Vec::new(),
        });
        let (list, mems) = (fields.cpus.unwrap_or_default(), fields.mems.unwrap_or_default());
        // Most threads are allowed what the one before is.
        let same = living.threads.last().map(|&(_, last)| last);
        let is_same = |index: &usize| living.allowed[*index].is(list, mems);
        let known = same.filter(is_same).or_else(|| (0..living.allowed.len()).find(is_same));
        let known = known.unwrap_or_else(|| {
            living.allowed.push(Allowed { cpus: list.to_owned(), mems: mems.to_owned() });
            living.allowed.len() - 1
        });
        living.threads.push((tid, known));
        if fields.mems.is_some() && !mems_lists.contains(mems) {
            let nodes: NodeSet = process.parse(&name, mems)?;
            living.mems_allowed = Some(living.mems_allowed.take().unwrap_or_default().or(&nodes));
            living.differ_in_mems = !mems_lists.is_empty();
            mems_lists.insert(mems.to_owned());
        }
        // Most threads have the same list. So whether a thread is a worker of io_uring is checked only if its list is
        // new.
        if lists.contains(list) || process.is_io_worker(tid) {
            continue;
        }
        lists.insert(list.to_owned());
        living.cpus = living.cpus.or(&process.parse(&name, list)?);
    }
    if let Some(living) = &mut living {
        living.lists = lists.len();
    }
    Ok(living)
}

impl Allowed {
    fn is(&self, cpus: &str, mems: &str) -> bool {
        self.cpus == cpus && self.mems == mems
    }
}

/// The fields of a thread's status file that are needed.
struct Fields<'t> {
    /// Whether a thread has the memory of its process. A thread without VmSize has released it (fs/proc/array.c,
    /// proc_pid_status): it has ended or is about to.
    has_memory: bool,
    /// Cpus_allowed_list.
    cpus: Option<&'t str>,
    /// Mems_allowed_list.
    mems: Option<&'t str>,
}

impl<'t> Fields<'t> {
    fn of(status: &'t str) -> Self {
        let has_memory = status.contains("\nVmSize:");
        let (mut cpus, mut mems) = (None, None);
        // Both are among the last lines.
        let mut lines = status.lines().rev().filter_map(|line| line.split_once(':'));
        while (cpus.is_none() || mems.is_none())
            && let Some((name, value)) = lines.next()
        {
            match name {
                "Cpus_allowed_list" => cpus = Some(value.trim()),
                "Mems_allowed_list" => mems = Some(value.trim()),
                _ => {}
            }
        }
        Self { has_memory, cpus, mems }
    }
}

/// A process whose directory is held open, so that all reads are of the same one even if its pid is reused.
pub(crate) struct OpenProcess {
    entry: Entry,
    path: PathBuf,
    comm: String,
}

impl OpenProcess {
    pub(crate) fn new(roots: &Roots, pid: i32) -> Result<Self, Miss> {
        let path = roots.proc.join(pid.to_string());
        if pid <= 0 {
            return Err(Miss::Gone);
        }
        match Entry::new_with_root(path.clone()) {
            Ok(entry) => Ok(Self { entry, path, comm: "?".into() }),
            Err(error) => Err(miss(error, &path, "?", "the directory")),
        }
    }
    pub(crate) fn stat(&self) -> Result<Stat, Miss> {
        self.entry.stat().map_err(|error| self.miss(error, "stat"))
    }
    /// The ids of its threads. The files of another process that has its pid by now are not found by them.
    fn tids(&self) -> Result<Vec<i32>, Miss> {
        let directory = self.path.join("task");
        let entries = fs::read_dir(&directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|error| self.miss(error.into(), "task"))?;
        let tid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        Ok(entries.into_iter().filter_map(tid).collect())
    }

    /// The stat file of a thread.
    fn stat_of(&self, tid: i32) -> Option<Stat> {
        Stat::from_read(self.entry.open_relative(format!("task/{tid}/stat")).ok()?).ok()
    }

    /// Whether a thread is a worker of io_uring. The kernel gives these the CPUs of the whole cpuset, whatever affinity the
    /// application has set for itself (io_uring/io-wq.c).
    fn is_io_worker(&self, tid: i32) -> bool {
        self.stat_of(tid).is_some_and(|stat| stat.flags & PF_IO_WORKER != 0)
    }

    /// A file's text; bytes that are not UTF-8 (a command name may hold any) are replaced.
    pub(crate) fn text(&self, name: &str) -> Result<String, Miss> {
        let what = match name {
            "status" => "status",
            "cgroup" => "cgroup",
            _ => "task",
        };
        let read = self.entry.open_relative(name).and_then(|file| Ok(printed_at_once(file)?));
        let read = read.map_err(|error| miss(error, &self.path.join(name), &self.comm, what))?;
        let replaced =
            |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
        Ok(String::from_utf8(read).unwrap_or_else(replaced))
    }
    fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        name: &str,
        text: &str,
    ) -> Result<T, Miss> {
        text.parse().map_err(|error: T::Err| self.nonsense(name, error.to_string()))
    }
    fn miss(&self, error: ProcError, what: &'static str) -> Miss {
        miss(error, &self.path.join(what), &self.comm, what)
    }
    pub(crate) fn nonsense(&self, name: &str, reason: String) -> Miss {
        Miss::Failed(Error::Parse { path: self.path.join(name), reason })
    }
}

fn miss(error: ProcError, path: &Path, comm: &str, what: &'static str) -> Miss {
    match error {
        ProcError::NotFound(_) => Miss::Gone,
        ProcError::Io(error, _) if is_gone(&error) => Miss::Gone,
        ProcError::PermissionDenied(_) => Miss::NoRights { comm: comm.into(), what },
        ProcError::Io(source, _) => Miss::Failed(Error::Read { path: path.into(), source }),
        error => Miss::Failed(Error::Parse { path: path.into(), reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests;
