//! move_pages(2), as a mover and as a query.

use std::{io, ptr};

/// Value of a status that the kernel has not written: no errno and no node has this value.
pub const UNWRITTEN: i32 = i32::MIN;

/// include/uapi/linux/mempolicy.h; libc has these for Android only.
pub(crate) const MPOL_MF_MOVE: i32 = 1 << 1;
const MPOL_MF_MOVE_ALL: i32 = 1 << 2;

/// The pages that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveFlag {
    /// MPOL_MF_MOVE: only pages that this process alone maps.
    Own,
    /// MPOL_MF_MOVE_ALL: shared ones too; needs CAP_SYS_NICE.
    All,
}

impl MoveFlag {
    pub(crate) fn bits(self) -> i32 {
        match self {
            Self::Own => MPOL_MF_MOVE,
            Self::All => MPOL_MF_MOVE_ALL,
        }
    }
}

/// Moves the pages at `addresses` of process `pid` to `node`, one node for all, and fills `status` with one value per
/// address: a node, a negative errno, or [`UNWRITTEN`] where the kernel stopped before it.
///
/// Returns what the kernel returns: 0, or the number of pages that failed or were never tried
/// (mm/migrate.c, `do_pages_move`).
///
/// # Errors
/// The call's own errno: ESRCH, EPERM, EACCES, ENODEV, EINVAL, ENOMEM, EINTR, E2BIG. `status` may be partly written.
///
/// # Panics
/// If the slices differ in length.
pub fn move_pages(
    pid: i32,
    addresses: &[u64],
    node: u32,
    status: &mut [i32],
    flag: MoveFlag,
) -> io::Result<u64> {
    let nodes = vec![node as i32; addresses.len()];
    call(pid, addresses, nodes.as_ptr(), status, flag.bits())
}

/// Asks for the node of each page: `status` gets a node or a negative errno. Moves nothing.
///
/// # Errors
/// ESRCH and EPERM as for [`move_pages()`].
///
/// # Panics
/// If the slices differ in length.
pub fn query_pages(pid: i32, addresses: &[u64], status: &mut [i32]) -> io::Result<()> {
    call(pid, addresses, ptr::null(), status, 0).map(drop)
}

fn call(
    pid: i32,
    addresses: &[u64],
    nodes: *const i32,
    status: &mut [i32],
    flags: i32,
) -> io::Result<u64> {
    assert_eq!(addresses.len(), status.len(), "one status per address");
    const { assert!(size_of::<u64>() == size_of::<*const libc::c_void>()) };
    status.fill(UNWRITTEN);
    // SAFETY: the kernel reads `addresses.len()` pointers and nodes (no nodes for null) and writes the same number of
    // i32 statuses; all three live in slices or a Vec of that length for the whole call. The addresses belong to
    // another process and are never dereferenced here.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len(),
            addresses.as_ptr(),
            nodes,
            status.as_mut_ptr(),
            flags,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;

    #[test]
    fn own_pages_are_found_and_holes_are_not() {
        let page = vec![1u8; 2 * page_bytes()];
        let address = (page.as_ptr() as u64).next_multiple_of(page_bytes() as u64);
        let mut status = [0; 2];
        query_pages(std::process::id() as i32, &[address, 4096], &mut status).unwrap();
        assert!(status[0] >= 0, "{status:?}");
        assert!(status[1] == -libc::EFAULT || status[1] == -libc::ENOENT, "{status:?}");
    }

    #[test]
    fn unknown_process_is_an_error() {
        let error = query_pages(i32::MAX, &[4096], &mut [0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
