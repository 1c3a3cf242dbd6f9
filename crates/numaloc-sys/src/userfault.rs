//! Ranges whose missing pages stay missing (userfaultfd(2)).

use std::{
    io,
    mem::size_of,
    ops::Range,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

const UFFD_API: u64 = 0xaa;
/// A handler gets faults of user space alone. With it the call needs no capability (Linux 5.11, fs/userfaultfd.c,
/// `userfaultfd_syscall_allowed`).
const UFFD_USER_MODE_ONLY: i32 = 1;
/// A fault for a page that is not there is an error, and waits for no handler.
const UFFD_FEATURE_SIGBUS: u64 = 1 << 7;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1;
/// Numbers of the requests UFFDIO_*, as `_UFFDIO_*` in include/uapi/linux/userfaultfd.h.
const UFFDIO_REGISTER: libc::c_ulong = 0x00;
const UFFDIO_API: libc::c_ulong = 0x3f;

/// The arguments of the requests, as in include/uapi/linux/userfaultfd.h.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// The number of a request that the kernel reads and writes the argument of (`_IOWR`).
const fn request<T>(number: libc::c_ulong) -> libc::c_ulong {
    (3 << 30) | ((size_of::<T>() as libc::c_ulong) << 16) | (UFFD_API << 8) | number
}

/// Keeps pages of registered ranges missing. They can be registered as long as it lives.
#[derive(Debug)]
pub struct Userfault {
    fd: OwnedFd,
}

impl Userfault {
    /// A thread that touches a missing page waits until this is dropped.
    ///
    /// # Errors
    /// The errors of userfaultfd(2) and ioctl_userfaultfd(2); EPERM where only root may.
    #[cfg(feature = "fixture")]
    pub fn waiting() -> io::Result<Self> {
        Self::new(0, 0)
    }

    /// A fault for a missing page fails: SIGBUS in user space, EFAULT in a system call.
    ///
    /// # Errors
    /// The errors of userfaultfd(2) and ioctl_userfaultfd(2): ENOSYS for a kernel without it, EPERM by a filter of
    /// system calls.
    pub fn failing() -> io::Result<Self> {
        Self::new(UFFD_USER_MODE_ONLY, UFFD_FEATURE_SIGBUS)
    }

    fn new(flags: i32, features: u64) -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, which has no other owner.
        let userfault = Self { fd: unsafe { OwnedFd::from_raw_fd(fd as i32) } };
        userfault.ask(UFFDIO_API, &mut Api { api: UFFD_API, features, ioctls: 0 })?;
        Ok(userfault)
    }

    /// Registers a range of this process's addresses, which ends with their mapping.
    ///
    /// # Errors
    /// The errors of ioctl_userfaultfd(2): EINVAL if memory there is of a kind that has no such faults.
    pub fn register(&self, Range { start, end }: Range<u64>) -> io::Result<()> {
        let (len, mode) = (end - start, UFFDIO_REGISTER_MODE_MISSING);
        self.ask(UFFDIO_REGISTER, &mut Register { start, len, mode, ioctls: 0 })
    }

    /// `argument` has to be the one that the request of this number takes.
    fn ask<T>(&self, number: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        let request = request::<T>(number);
        // SAFETY: the kernel reads and writes one `T`, whose size is in the request: it refuses another one. Neither request
        // changes memory.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, &raw mut *argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
