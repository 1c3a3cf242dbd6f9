//! kcmp(2): whether two processes share a kernel resource.

use std::{cmp::Ordering, io};

/// Compares the address spaces (include/uapi/linux/kcmp.h).
const KCMP_VM: i32 = 1;

/// Compares the address spaces of two processes: equal if they share one, else in an order that stays the same as
/// long as both live, so that processes can be sorted by it.
///
/// # Errors
/// ESRCH; EPERM without the right to read both; ENOSYS where the kernel is built without it.
pub fn kcmp_vm(a: i32, b: i32) -> io::Result<Ordering> {
    // SAFETY: takes integers alone.
    match unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) } {
        0 => Ok(Ordering::Equal),
        1 => Ok(Ordering::Less),
        2 => Ok(Ordering::Greater),
        -1 => Err(io::Error::last_os_error()),
        other => Err(io::Error::other(format!("kcmp returned {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn only_the_own_address_space_is_the_same() {
        let own = std::process::id() as i32;
        assert_eq!(kcmp_vm(own, own).unwrap(), Ordering::Equal);
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let other = child.id() as i32;
        let (forth, back) = (kcmp_vm(own, other).unwrap(), kcmp_vm(other, own).unwrap());
        assert!(forth == back.reverse() && forth != Ordering::Equal);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
