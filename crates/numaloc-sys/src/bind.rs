//! mbind(2) to one node.

use std::{io, ops::Range};

/// Room for node numbers up to 1023, the kernel's limit.
pub(crate) const MASK_WORDS: usize = 16;
pub(crate) const WORD_BITS: usize = u64::BITS as usize;

/// The mask of some nodes.
///
/// # Panics
/// If a node's number is over 1023.
pub(crate) fn mask(nodes: &[u32]) -> [u64; MASK_WORDS] {
    let mut mask = [0; MASK_WORDS];
    for &node in nodes {
        mask[node as usize / WORD_BITS] |= 1 << (node as usize % WORD_BITS);
    }
    mask
}

/// Binds a range of this process's memory to a node; does not move what is there.
///
/// # Errors
/// Those of mbind(2): EINVAL for a node without memory or outside cpuset.mems.
pub(crate) fn bind_range(range: Range<u64>, node: u32) -> io::Result<()> {
    let mask = mask(&[node]);
    let (length, mode, flags) = (range.end - range.start, libc::MPOL_BIND, 0);
    let bits = MASK_WORDS * WORD_BITS;
    // SAFETY: the kernel reads `bits` bits from `mask`, which has as many; a policy changes neither content nor validity of the range.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, range.start, length, mode, mask.as_ptr(), bits, flags)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
