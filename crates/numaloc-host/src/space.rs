//! Address spaces under survey: held by descriptors, so that nothing is ever done to a later process.

use crate::{Error, Roots, pagemap::Pagemap};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use numaloc_core::Process;
use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
};

/// A process with the descriptors that pin down who it is.
#[derive(Debug)]
pub struct AddressSpace {
    /// The process.
    pub process: Process,
    /// Its pagemap, bound to the address space it had when opened.
    pub pagemap: Pagemap,
    pidfd: OwnedFd,
}

impl AddressSpace {
    /// Opens a process. `None` if it has ended, or another one has its pid by now.
    ///
    /// # Errors
    /// [`Error::NoRights`] if its pagemap may not be read.
    pub fn open(roots: &Roots, process: Process) -> Result<Option<Self>, Error> {
        let pid = process.identity.pid;
        let path = roots.proc.join(pid.to_string()).join("pagemap");
        let pidfd = match numaloc_sys::pidfd_open(pid) {
            Ok(pidfd) => pidfd,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Error::NoRights { pid, comm: process.comm, what: "pagemap".into() });
            }
            Err(error) if is_gone(&error) => return Ok(None),
            Err(source) => return Err(Error::Read { path, source }),
        };
        let stat = procfs::process::Process::new_with_root(roots.proc.join(pid.to_string()))
            .and_then(|p| p.stat());
        if stat.is_ok_and(|stat| stat.starttime == process.identity.start_time) {
            Ok(Some(Self { process, pagemap: Pagemap::new(file), pidfd }))
        } else {
            Ok(None)
        }
    }

    /// The pid; it names this process for as long as [`Self::is_alive`] holds.
    pub fn pid(&self) -> i32 {
        self.process.identity.pid
    }

    /// Whether the process has neither ended nor replaced its memory by an exec. While it has not ended, its pid
    /// cannot be given to another.
    pub fn is_alive(&self) -> bool {
        // The pagemap of an address space that is no more reads as empty (fs/proc/task_mmu.c, `pagemap_read`).
        let has_memory = self.pagemap.read(0, &mut [0; 8]).is_ok_and(|entries| !entries.is_empty());
        let mut fds = [PollFd::new(self.pidfd.as_fd(), PollFlags::POLLIN)];
        has_memory && matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
    }
}

/// Raises this process's own limit of open files as far as it may: each process of a target is held by two. Where that
/// fails, opening one too many will say so.
pub fn allow_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// One of each address space: a process that shares its memory with another (vfork, CLONE_VM without CLONE_THREAD)
/// lends it its CPUs and is left out. In ascending order of pid.
pub(crate) fn distinct(mut spaces: Vec<AddressSpace>) -> Vec<AddressSpace> {
    // Where kcmp cannot tell, they count as different. One that has ended meanwhile shows no pages anyway.
    let order = |a: &AddressSpace, b: &AddressSpace| {
        numaloc_sys::kcmp_vm(a.pid(), b.pid()).unwrap_or_else(|_| a.pid().cmp(&b.pid()))
    };
    // Not `sort_by`: a process that ends in between breaks the order, and that may panic.
    let mut same: Vec<Vec<AddressSpace>> = Vec::new();
    for space in spaces.drain(..) {
        match same.binary_search_by(|known| order(&known[0], &space)) {
            Ok(at) => same[at].push(space),
            Err(at) => same.insert(at, vec![space]),
        }
    }
    spaces.extend(same.into_iter().filter_map(|sharing| {
        let mut sharing = sharing.into_iter();
        let mut first = sharing.next()?;
        sharing.for_each(|other| first.process.cpus = first.process.cpus.or(&other.process.cpus));
        Some(first)
    }));
    spaces.sort_by_key(AddressSpace::pid);
    spaces
}

/// Whether an error means that the process has ended meanwhile.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH)
}
