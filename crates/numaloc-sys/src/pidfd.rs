//! File descriptors that refer to processes: pidfd_open(2).

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// A descriptor that always refers to this one process. It becomes readable when the process ends, and never refers to
/// a later process with the same pid.
///
/// # Errors
/// ESRCH if the process does not exist, EINVAL for a thread that is not the leader of its thread group.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two integers, returns a new descriptor (close-on-exec) or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
