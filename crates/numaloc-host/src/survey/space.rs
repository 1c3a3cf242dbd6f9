//! Address spaces under survey. Each is reached through a thread that has it, so that nothing is ever done to a later
//! program or process.

mod distinct;
mod thread_for;

pub(crate) use distinct::distinct;
use thread_for::ThreadsFor;

use crate::{
    Error, Roots,
    files::{answering::AT_ONCE, open_files::KeptMap, pagemap::Pagemap, read::is_gone},
    processes::{owner::process_owner, thread},
};
use nix::{
    libc::ESRCH,
    sys::resource::{Resource, getrlimit, setrlimit},
};
use numaloc_core::{Identity, Process};
use numaloc_sys::kcmp_vm;
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    thread::sleep,
    time::Duration,
};

/// The memory of a process, which others may share. A clone is another handle to the same memory.
#[derive(Clone, Debug)]
pub struct AddressSpace {
    /// The process; if several share the memory, the one that was there first.
    pub process: Process,
    /// Bound to the memory it was opened on.
    pagemap: Arc<KeptMap>,
    roots: Arc<Roots>,
    layout: thread::Layout,
    /// Whether the layout was chosen at random, so that no other program has the same.
    is_random: bool,
    /// The processes that have the memory, `process` first. The memory lives for as long as one of them has it.
    holders: Vec<SpaceOwner>,
    /// The thread through which the memory was reached last.
    tid: Arc<AtomicI32>,
    /// Where the threads are in different cpusets: the thread found last that may have memory on a node.
    threads_for: Arc<ThreadsFor>,
}

/// Number of attempts to open the memory of an existing process, and the pause between two attempts. An exec takes
/// about a millisecond.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// Opens memory, again if it is gone although its process `is_there`: an exec gives a process its new memory before that has its layout
/// (fs/exec.c, `begin_new_exec`; fs/binfmt_elf.c, `load_elf_binary`).
fn settled<T>(is_there: impl Fn() -> bool, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match open() {
            Err(error) if is_gone(&error) && is_there() => sleep(PAUSE),
            result => return result,
        }
    }
    open()
}

/// The processes that do not answer, in order: the numbers that they came with.
pub(crate) fn silent<N>(roots: &Roots, processes: Vec<(N, Identity, Arc<Pagemap>)>) -> Vec<N> {
    roots.answering.silent(&|identity| process_owner(roots, identity), processes)
}

/// Checks that the memory of all of these can be read now.
///
/// # Errors
/// [`Error::Silent`], about the first one that does not answer.
pub(crate) fn check_answering(roots: &Roots, spaces: &[AddressSpace]) -> Result<(), Error> {
    for some in spaces.chunks(AT_ONCE) {
        // One whose page map cannot be opened has no lock to wait for.
        let open = some.iter().filter_map(|space| {
            Some((&space.process, space.process.identity, space.pagemap().ok()?))
        });
        if let Some(Process { identity, comm, .. }) = silent(roots, open.collect()).first() {
            return Err(Error::Silent { pid: identity.pid, comm: comm.clone() });
        }
    }
    Ok(())
}

/// Opens the memory of several processes. Leaves out processes that have ended, are not readable, or whose memory
/// cannot be read now.
pub(crate) fn open_answering(
    roots: &Arc<Roots>,
    processes: impl IntoIterator<Item = Process>,
) -> Vec<AddressSpace> {
    let opened = processes.into_iter().map(|process| AddressSpace::open(roots, process));
    let mut spaces: Vec<AddressSpace> = opened.filter_map(Result::ok).flatten().collect();
    let mut left_out = BTreeSet::new();
    for some in spaces.chunks(AT_ONCE) {
        let open = some.iter().filter_map(|space| {
            let identity = space.process.identity;
            Some((identity, identity, space.pagemap().ok()?))
        });
        left_out.extend(silent(roots, open.collect()));
    }
    spaces.retain(|space| !left_out.contains(&space.process.identity));
    spaces
}

/// A process that has an address space.
#[derive(Clone, Copy, Debug)]
struct SpaceOwner {
    identity: Identity,
    parent: i32,
}

impl AddressSpace {
    /// Opens the memory of a process. `None` if the process has ended, or another one has its pid by now. A process that is about to
    /// run another program is opened with that one.
    ///
    /// # Errors
    /// [`Error::NoRights`] if its pagemap may not be read.
    pub(crate) fn open(roots: &Arc<Roots>, process: Process) -> Result<Option<Self>, Error> {
        let identity = process.identity;
        let is_there = || thread::with_memory(roots, identity, None).is_some();
        let opened = settled(is_there, || {
            let Some(found) = thread::with_memory(roots, identity, None) else { return Ok(None) };
            let space = Self {
                process: process.clone(),
                pagemap: Arc::default(),
                roots: roots.clone(),
                layout: found.layout,
                is_random: thread::is_random(roots, found.tid),
                holders: vec![SpaceOwner { identity, parent: found.parent }],
                tid: Arc::new(found.tid.into()),
                threads_for: Arc::default(),
            };
            space.pagemap.get(&roots.open_files, || space.open_pagemap())?;
            Ok(Some(space))
        });
        match opened {
            Ok(space) => Ok(space),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let pid = identity.pid;
                Err(Error::NoRights { pid, comm: process.comm, what: "pagemap".into() })
            }
            Err(source) => {
                let path = roots.proc.join(identity.pid.to_string()).join("pagemap");
                Err(Error::Read { path, source })
            }
        }
    }

    /// As [`Self::open`], if its memory can be read now.
    ///
    /// # Errors
    /// As [`Self::open`]; [`Error::Silent`].
    pub(crate) fn answering(roots: &Arc<Roots>, process: Process) -> Result<Option<Self>, Error> {
        let space = Self::open(roots, process)?;
        check_answering(roots, space.as_slice())?;
        Ok(space)
    }

    /// Its pagemap: opened again if it was closed to make room for others ([`Roots::open_files`]).
    ///
    /// # Errors
    /// ESRCH once the memory is gone or cannot be proved to be the same; those of open(2).
    pub(crate) fn pagemap(&self) -> io::Result<Arc<Pagemap>> {
        self.pagemap.get(&self.roots.open_files, || {
            if self.is_random {
                self.open_pagemap()
            } else {
                Err(io::Error::from_raw_os_error(ESRCH))
            }
        })
    }

    fn open_pagemap(&self) -> io::Result<Pagemap> {
        loop {
            let tid = self.tid();
            let file = File::open(self.path("pagemap"));
            // The file is bound to the memory that the thread had when it was opened. The thread has this memory now,
            // so it had it then, too.
            match self.is_alive() {
                false => return Err(io::Error::from_raw_os_error(ESRCH)),
                true if self.tid() == tid => return file.map(Pagemap::new),
                true => {}
            }
        }
    }

    /// Where the kernel's file systems are.
    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The pid of the process, for messages. That process may have ended while the memory lives on.
    pub fn pid(&self) -> i32 {
        self.process.identity.pid
    }

    /// Where the parts of its program lie: what is forked from it has the same.
    pub(crate) fn layout(&self) -> thread::Layout {
        self.layout
    }

    /// The pids of all processes that had this memory at the survey.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        self.holders.iter().map(|holder| holder.identity.pid)
    }

    /// Whether this may be the memory of `other`, too: it is, or that cannot be found out although both exist. Only equal
    /// layouts can be the same memory.
    pub(crate) fn may_be_same(&self, other: &Self) -> bool {
        let same = || match kcmp_vm(self.tid(), other.tid()) {
            Ok(order) => order.is_eq(),
            Err(_) => self.is_alive() && other.is_alive(),
        };
        self.layout == other.layout && same()
    }

    /// The id of a thread that has this memory, for calls to the kernel: the thread that [`Self::is_alive`] has found
    /// last. Calls such as move_pages(2) take the id of any thread. The pid does not serve if the process's first
    /// thread has ended, because that thread has released its memory (mm/migrate.c, `find_mm_struct`).
    pub fn tid(&self) -> i32 {
        self.tid.load(Relaxed)
    }

    /// Whether the memory still exists: one of the processes that had it at the survey has neither ended nor replaced
    /// its memory by an exec.
    pub fn is_alive(&self) -> bool {
        let find = |holder: &SpaceOwner| {
            thread::with_memory(&self.roots, holder.identity, Some(self.layout))
        };
        // The pagemap of an address space that has ended reads as empty (fs/proc/task_mmu.c, `pagemap_read`).
        let is_empty =
            |map: Arc<Pagemap>| map.read(0, &mut [0; 8]).is_ok_and(|read| read.is_empty());
        if self.pagemap.if_open().is_some_and(is_empty) {
            return false;
        }
        let found = self.holders.iter().find_map(find);
        found.inspect(|found| self.tid.store(found.tid, Relaxed)).is_some()
    }

    /// A file of [`Self::tid`] in /proc, which has a directory for each thread, though it lists those of processes only
    /// (proc(5)).
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.roots.proc.join(self.tid().to_string()).join(name)
    }

    /// The value that `reader` makes of a file of the process; `None` if it has ended.
    pub(crate) fn read<T>(
        &self,
        name: &str,
        mut reader: impl FnMut(&Path) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match self.roots.open_files.patiently(Error::read, || reader(&self.path(name))) {
            Ok(read) => Ok(Some(read)),
            Err(Error::Read { source, .. }) if is_gone(&source) => Ok(None),
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                let (pid, comm) = (self.pid(), self.process.comm.clone());
                Err(Error::NoRights { pid, comm, what: name.into() })
            }
            Err(error) => Err(error),
        }
    }
}

/// Raises this process's own limit of open files as far as it may. Each process of a target needs an open file; those
/// beyond half of the limit are opened again each time ([`crate::OpenFiles`]).
pub fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

#[cfg(test)]
mod tests;
