//! Changes from root to an unprivileged account.

use anyhow::{Context, ensure};
use nix::unistd::{Gid, Uid, User, geteuid, getuid, initgroups, setgid, setgroups, setuid};
use std::ffi::CString;

/// Whether [`leave_root`] with this account changes the user.
pub fn is_to_leave_root(user: &str) -> bool {
    geteuid().is_root() && user != "root"
}

/// If this process is root, as it is when the runtime launches it, it becomes the account `user` with the groups of
/// that account, or the user and group of this number without further groups, and drops all capabilities. `root` stays
/// root.
///
/// # Errors
/// There is no such account, or it cannot be changed to.
pub fn leave_root(user: &str) -> anyhow::Result<()> {
    if !is_to_leave_root(user) {
        return Ok(());
    }
    let account =
        User::from_name(user).with_context(|| format!("cannot look up the account {user}"))?;
    let denied = || format!("cannot change to the account {user}");
    let (uid, gid) = match (account, user.parse()) {
        (Some(account), _) => {
            let name = CString::new(user).context("the account's name has a zero byte")?;
            initgroups(&name, account.gid).with_context(denied)?;
            (account.uid, account.gid)
        }
        // In a container, where no account has a name.
        (None, Ok(number)) => {
            setgroups(&[]).with_context(denied)?;
            (Uid::from_raw(number), Gid::from_raw(number))
        }
        (None, Err(_)) => anyhow::bail!(
            "account {user} does not exist: create it (systemd-sysusers with numaloc-nri.sysusers.conf), or name another one, or its number, by 'user' in /etc/numaloc/nri.toml"
        ),
    };
    setgid(gid).with_context(denied)?;
    // From root to another id the kernel clears all capabilities (capabilities(7)).
    setuid(uid).with_context(denied)?;
    ensure!(getuid() == uid && setuid(Uid::from_raw(0)).is_err(), "still root");
    Ok(())
}
