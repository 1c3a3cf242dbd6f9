//! Where the kernel's file systems are.

use std::path::PathBuf;

/// Mount points that every reader gets passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// procfs, normally `/proc`.
    pub proc: PathBuf,
    /// sysfs, normally `/sys`.
    pub sys: PathBuf,
    /// Where cgroup hierarchies are mounted, normally `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// Where programs keep what need not outlive a boot, normally `/run`.
    pub run: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
            run: "/run".into(),
        }
    }
}
