//! Clears NUMA-hint entries, which move_pages of kernels 6.1 to 6.4 takes for absent pages.
//!
//! With kernel.numa_balancing=1 the kernel marks page table entries as inaccessible to see who touches the pages. On these
//! kernels move_pages(2) answers -ENOENT or -EFAULT for such an entry (fixed in 6.5). Reading one byte of the page takes the hint
//! fault and clears the mark. The kernel may then move the page to the node of the reader, so the reader runs on a CPU of the
//! target node while it reads.

use crate::threads::affinity;
use nix::{
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};
use numaloc_core::{CpuSet, number};
use numaloc_host::{Roots, probe};
use std::{
    io::IoSliceMut,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// Most remote pieces that one call takes (limits.h, IOV_MAX).
const PIECES: usize = 1024;
/// Time to wait for the faults of a call. A page may have gone since the call, and its fault is then answered by the
/// application (userfaultfd(2)) or by a file system, which may never do so.
const PATIENCE: Duration = Duration::from_secs(5);
/// The thread calls process_vm_readv and nothing else.
const STACK: usize = 64 << 10;

/// Takes hint faults, where the kernel needs it.
#[derive(Debug)]
pub struct Hints {
    /// Whether move_pages of this kernel takes marked entries for absent pages. Not any more once a fault has not returned.
    are_taken: bool,
}

impl Hints {
    /// By the kernel's version: an entry that is marked cannot be told from one whose page came back a moment ago.
    pub fn new(roots: &Roots) -> Self {
        Self { are_taken: !probe::is_kernel_from(roots, (6, 5)) }
    }

    /// Whether hint faults are taken.
    pub fn are_taken(&self) -> bool {
        self.are_taken
    }

    /// Takes the hint faults of the pages at `addresses` of a process, from CPUs among `cpus` if there are any. Needs the
    /// right to ptrace the process. Pages that cannot be read are skipped.
    pub fn take(&mut self, pid: i32, addresses: Vec<u64>, cpus: CpuSet) {
        self.take_by(PATIENCE, move || {
            affinity::set(&cpus);
            addresses.chunks(PIECES).for_each(|chunk| read_each(pid, chunk));
        });
    }

    /// Runs `read` in a thread of its own, which is given up if it does not return. It then ends with the application at the latest.
    fn take_by(&mut self, patience: Duration, read: impl FnOnce() + Send + 'static) {
        let (done, ended) = mpsc::channel::<()>();
        let body = move || {
            read();
            drop(done);
        };
        let thread = thread::Builder::new().name("hint-faults".to_owned()).stack_size(STACK);
        let begun = thread.spawn(body).is_ok();
        if begun && ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("a hint fault does not return: no more are taken");
            self.are_taken = false;
        }
    }
}

fn read_each(pid: i32, mut addresses: &[u64]) {
    let mut bytes = [0; PIECES];
    while !addresses.is_empty() {
        let remote: Vec<RemoteIoVec> = addresses
            .iter()
            .map(|&address| RemoteIoVec { base: number::index(address), len: 1 })
            .collect();
        let mut local = [IoSliceMut::new(&mut bytes[..addresses.len()])];
        // The call ends at the first page that cannot be read: continue after that page.
        let read = process_vm_readv(Pid::from_raw(pid), &mut local, &remote).unwrap_or(0);
        addresses = &addresses[(read + 1).min(addresses.len())..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_that_does_not_return_is_given_up_and_is_the_last_one() {
        let mut hints = Hints { are_taken: true };
        let (taken, was_taken) = mpsc::channel();
        hints.take_by(PATIENCE, move || taken.send(()).expect("the test waits"));
        assert!(hints.are_taken() && was_taken.recv().is_ok());
        let (release, held) = mpsc::channel::<()>();
        hints.take_by(Duration::ZERO, move || assert!(held.recv().is_err()));
        assert!(!hints.are_taken());
        drop(release);
    }
}
