//! mbind(2).

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
/// The errors of mbind(2): EINVAL for a node without memory or outside cpuset.mems.
pub(crate) fn bind_range(range: Range<u64>, node: u32) -> io::Result<()> {
    set_range_policy(range, libc::MPOL_BIND, &[node], 0)
}

/// Sets the memory policy of a range of this process's memory, with these flags (MPOL_MF_MOVE and others).
///
/// # Errors
/// The errors of mbind(2).
pub(crate) fn set_range_policy(
    range: Range<u64>,
    mode: i32,
    nodes: &[u32],
    flags: i32,
) -> io::Result<()> {
    let mask = mask(nodes);
    let length = range.end - range.start;
    let bits = MASK_WORDS * WORD_BITS;
    // SAFETY: the kernel reads `bits` bits from `mask`, which has at least `bits` of them; neither a policy nor the
    // node of its pages changes content or validity of the range.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, range.start, length, mode, mask.as_ptr(), bits, flags)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
