//! Duplicates a descriptor: fcntl(2) with F_DUPFD_CLOEXEC.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// A new descriptor of the open file that `fd` refers to. For a descriptor that the parent process has left open and told by its
/// number: the number itself is owned by no process, so it stays open until this process ends.
///
/// # Errors
/// EBADF if the descriptor is not open, EMFILE if too many are.
pub fn duplicate(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes integers, and returns a new descriptor, at least 3, or -1. It changes nothing about `fd`.
    let new = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if new < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Read, io::Write, os::fd::AsRawFd, os::unix::net::UnixStream};

    #[test]
    fn it_is_the_same_open_file() {
        let (mut one, other) = UnixStream::pair().expect("a pair");
        let mut copy = UnixStream::from(duplicate(other.as_raw_fd()).expect("it is open"));
        drop(other);
        one.write_all(b"x").expect("it is open");
        let mut byte = [0];
        copy.read_exact(&mut byte).expect("it is open");
        assert_eq!(byte, *b"x");
        assert_eq!(duplicate(-1).expect_err("no descriptor").raw_os_error(), Some(libc::EBADF));
    }
}
