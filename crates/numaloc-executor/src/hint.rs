//! Clears NUMA-hint entries, which move_pages of kernels 6.1 to 6.4 takes for absent pages.
//!
//! With kernel.numa_balancing=1 the kernel marks page table entries as inaccessible to see who touches the pages. On these
//! kernels move_pages(2) answers -ENOENT or -EFAULT for such an entry (fixed in 6.5). Reading one byte of the page takes the hint
//! fault and clears the mark. The kernel may then move the page to the node of the reader, so the reader runs on a CPU of the
//! target node while it reads.

use crate::affinity;
use nix::{
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};
use numaloc_core::CpuSet;
use std::io::IoSliceMut;

/// Most remote pieces that one call takes (limits.h, IOV_MAX).
const PIECES: usize = 1024;

/// Takes the hint faults of the pages at `addresses` of a process, from CPUs among `cpus` if there are any. Needs the
/// right to ptrace the process. Pages that cannot be read are skipped.
pub fn take_faults(pid: i32, addresses: &[u64], cpus: &CpuSet) {
    let before = affinity::get();
    affinity::set(cpus);
    addresses.chunks(PIECES).for_each(|chunk| read_each(pid, chunk));
    before.iter().for_each(affinity::set);
}

fn read_each(pid: i32, mut addresses: &[u64]) {
    let mut bytes = [0; PIECES];
    while !addresses.is_empty() {
        let remote: Vec<RemoteIoVec> = addresses
            .iter()
            .map(|&address| RemoteIoVec { base: address as usize, len: 1 })
            .collect();
        let mut local = [IoSliceMut::new(&mut bytes[..addresses.len()])];
        // The call ends at the first page that cannot be read: go on after that page.
        let read = process_vm_readv(Pid::from_raw(pid), &mut local, &remote).unwrap_or(0);
        addresses = &addresses[(read + 1).min(addresses.len())..];
    }
}
