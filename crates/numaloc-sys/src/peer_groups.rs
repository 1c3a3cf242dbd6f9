//! The groups of a Unix socket's peer: getsockopt(2) with SO_PEERGROUPS.

use std::{
    io,
    mem::size_of,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The supplementary groups that the process at the other end of a Unix socket had when it connected, by their ids as this
/// process's user namespace has them. Its effective group is not among them unless it is a supplementary one, too
/// (net/core/sock.c, `sk_getsockopt`).
///
/// # Errors
/// ENODATA for a socket whose peer the kernel does not know, such as one that is not connected; ENOTSOCK.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // Enough for most processes. If there are more, the kernel returns the size that is needed.
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let room = groups.len() * size_of::<libc::gid_t>();
        let mut bytes = room as libc::socklen_t; // at most NGROUPS_MAX (65536) entries: it fits
        // SAFETY: `groups` has `bytes` bytes that may be written, and the kernel writes no more than that; `bytes` is valid
        // for the call. Any bits are a gid_t.
        let done = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let entries = bytes as usize / size_of::<libc::gid_t>();
        if done == 0 {
            groups.truncate(entries);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || entries <= groups.len() {
            return Err(error);
        }
        groups.resize(entries, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::{fd::AsFd, unix::net::UnixStream};

    /// Groups of this process, as it connects to itself.
    fn own_groups() -> Vec<u32> {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).expect("a line");
        line.split_whitespace().map(|group| group.parse().expect("a number")).collect()
    }

    #[test]
    fn the_groups_of_the_other_end_are_read() {
        let (here, _there) = UnixStream::pair().expect("a pair");
        let mut groups = peer_groups(here.as_fd()).expect("they are known");
        groups.sort_unstable();
        let mut own = own_groups();
        own.sort_unstable();
        assert_eq!(groups, own);
    }

    #[test]
    fn a_file_that_is_not_a_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let error = peer_groups(file.as_fd()).expect_err("no socket");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
