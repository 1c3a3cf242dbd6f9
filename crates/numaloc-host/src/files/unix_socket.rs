//! Whether a process listens at a UNIX socket, found out without connecting.

use crate::{Roots, files::read::text};
use std::{fs, os::unix::fs::FileTypeExt};

/// Flag of a socket that listens (`__SO_ACCEPTCON` in include/uapi/linux/net.h).
const LISTENS: u32 = 1 << 16;

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnixSocket {
    /// No socket that can be seen.
    Absent,
    /// A socket at which no process of this network namespace listens.
    Dead,
    /// A process of this network namespace listens at it.
    Listens,
}

/// The kind of file at a path below /run, such as `nri/nri.sock`. A socket counts by the path that it was bound to,
/// which may have been `/var/run`, so that it is found in folders, too, that this process may not search
/// (/proc/net/unix, `unix_seq_show` in net/unix/af_unix.c).
pub fn unix_socket(roots: &Roots, path: &str) -> UnixSocket {
    let sockets = text(&roots.proc.join("self/net/unix")).unwrap_or_default();
    let end = format!("/run/{path}");
    // Num RefCount Protocol Flags Type St Inode Path
    let listens = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let flags = fields.nth(3).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        flags.is_some_and(|flags| flags & LISTENS != 0)
            && fields.nth(3).is_some_and(|bound| bound.ends_with(&end))
    };
    if sockets.lines().any(listens) {
        return UnixSocket::Listens;
    }
    match fs::metadata(roots.run.join(path)) {
        Ok(file) if file.file_type().is_socket() => UnixSocket::Dead,
        _ => UnixSocket::Absent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::net::UnixListener;

    #[test]
    fn listeners_are_found_in_the_kernels_list() {
        let fake = Fake::new();
        let mut roots = fake.roots();
        let run = tempfile::tempdir().expect("a directory");
        roots.run = run.path().to_owned();
        let shown = || unix_socket(&roots, "nri/nri.sock");
        assert_eq!(shown(), UnixSocket::Absent);
        let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
        let line = |flags, path| {
            format!("{head}0000000000000000: 00000002 00000000 {flags} 0001 01 18392 {path}\n")
        };
        for (flags, path, expected) in [
            ("00010000", "/var/run/nri/nri.sock", UnixSocket::Listens),
            ("00010000", "/run/nri/nri.sock", UnixSocket::Listens),
            // A connection of a listener, another socket, and one without a name.
            ("00000000", "/run/nri/nri.sock", UnixSocket::Absent),
            ("00010000", "/run/nri/nri.sock.old", UnixSocket::Absent),
            ("00010000", "", UnixSocket::Absent),
        ] {
            fake.write("proc/self/net/unix", &line(flags, path));
            assert_eq!(shown(), expected, "{flags} {path}");
        }
        fs::create_dir(run.path().join("nri")).expect("room");
        drop(UnixListener::bind(run.path().join("nri/nri.sock")).expect("room"));
        assert_eq!(shown(), UnixSocket::Dead);
    }
}
