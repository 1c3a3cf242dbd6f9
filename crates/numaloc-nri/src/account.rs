//! Changes from root to an unprivileged account.

use anyhow::{Context, ensure};
use nix::unistd::{Uid, User, geteuid, getuid, initgroups, setgid, setuid};
use std::ffi::CString;

/// If this process is root, as it is when the runtime launches it, it becomes the account `user` with the groups of
/// that account, and drops all capabilities. `root` stays root.
///
/// # Errors
/// There is no such account, or it cannot be changed to.
pub fn leave_root(user: &str) -> anyhow::Result<()> {
    if !geteuid().is_root() || user == "root" {
        return Ok(());
    }
    let account =
        User::from_name(user).with_context(|| format!("cannot look up the account {user}"))?;
    let account = account.with_context(|| {
        format!("account {user} does not exist: create it (systemd-sysusers with numaloc-nri.sysusers.conf), or name another one by 'user' in /etc/numaloc/nri.toml")
    })?;
    let name = CString::new(user).context("the account's name has a zero byte")?;
    let denied = || format!("cannot change to the account {user}");
    initgroups(&name, account.gid).with_context(denied)?;
    setgid(account.gid).with_context(denied)?;
    // From root to another id the kernel clears all capabilities (capabilities(7)).
    setuid(account.uid).with_context(denied)?;
    ensure!(getuid() == account.uid && setuid(Uid::from_raw(0)).is_err(), "still root");
    Ok(())
}
