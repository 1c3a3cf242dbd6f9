//! The kernel's own NUMA balancing, switched by the sysctl kernel.numa_balancing, which the daemon changes for requests that ask
//! for it.
//!
//! 0 is off, bit 0 moves pages to where they are touched, bit 1 promotes hot pages from slower memory
//! (Documentation/admin-guide/sysctl/kernel.rst). A kernel without CONFIG_NUMA_BALANCING has no such file. A machine
//! without NUMA has no use for it.

use crate::{Error, Roots, files::read, journal, limits::capabilities};
use std::{fs::File, io, path::PathBuf};

/// The current value; `None` if the kernel has no such setting.
///
/// # Errors
/// [`Error::Read`], [`Error::Parse`].
pub fn read(roots: &Roots) -> Result<Option<u32>, Error> {
    let path = path(roots);
    match read::text(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => {
                Err(Error::Parse { path, reason: format!("'{}' is not a number", text.trim()) })
            }
        },
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets the value.
///
/// # Errors
/// [`Error::Setting`].
pub fn write(roots: &Roots, value: u32) -> Result<(), Error> {
    let path = path(roots);
    journal::write(&path, &value.to_string()).map_err(|source| Error::Setting { path, source })
}

/// Checks that this process may change the setting, without changing it. The mode bits count only for root's user id,
/// whatever the capabilities (fs/proc/proc_sysctl.c, `test_perm`). A sandbox may have mounted the file read-only. The
/// handler needs CAP_SYS_ADMIN in addition (kernel/sched/core.c, `sysctl_numa_balancing`). Succeeds if there is nothing
/// to change.
///
/// # Errors
/// [`Error::Setting`] if it may not.
pub fn check_writable(roots: &Roots) -> Result<(), Error> {
    let path = path(roots);
    let opened = match File::options().write(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map(drop),
    };
    let capable = || {
        if capabilities::read(roots).sys_admin {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, "no CAP_SYS_ADMIN"))
        }
    };
    opened.and_then(|()| capable()).map_err(|source| Error::Setting { path, source })
}

fn path(roots: &Roots) -> PathBuf {
    roots.proc.join("sys/kernel/numa_balancing")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, fake::Fake};
    use std::{fs, os::unix::fs::PermissionsExt};

    const FILE: &str = "proc/sys/kernel/numa_balancing";
    const CAPABLE: &str = "CapEff:\t0000000000200000\n";

    #[test]
    fn it_is_read_and_written() {
        let fake = Fake::new();
        fake.write(FILE, "3\n");
        assert_eq!(read(&fake.roots()).unwrap(), Some(3));
        write(&fake.roots(), 0).unwrap();
        assert_eq!(read(&fake.roots()).unwrap(), Some(0));
        fake.write(FILE, "x\n");
        assert!(matches!(read(&fake.roots()), Err(Error::Parse { .. })));
    }

    #[test]
    fn a_kernel_without_it_has_nothing_to_change() {
        let fake = Fake::new();
        assert_eq!(read(&fake.roots()).unwrap(), None);
        check_writable(&fake.roots()).unwrap();
    }

    #[test]
    fn rights_are_asked_without_a_change() {
        let fake = Fake::new();
        fake.write(FILE, "1\n");
        fake.write("proc/self/status", CAPABLE);
        check_writable(&fake.roots()).unwrap();
        assert_eq!(read(&fake.roots()).unwrap(), Some(1));
        fake.write("proc/self/status", "CapEff:\t0000000000000000\n");
        let error = check_writable(&fake.roots()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Permission);
        assert!(error.to_string().contains("no CAP_SYS_ADMIN"), "{error}");
        // Root may open a read-only file for writing.
        if !nix::unistd::getuid().is_root() {
            fake.write("proc/self/status", CAPABLE);
            fs::set_permissions(fake.path(FILE), fs::Permissions::from_mode(0o444)).unwrap();
            assert_eq!(check_writable(&fake.roots()).unwrap_err().kind(), ErrorKind::Permission);
        }
    }
}
