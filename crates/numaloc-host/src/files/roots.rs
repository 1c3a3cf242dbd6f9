//! Where the kernel's file systems are.

use crate::{Answering, OpenFiles};
use numaloc_core::NodeSet;
use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

/// Mount points that every reader gets passed, what the operator says of the host, and how many files a reader may keep open.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Where procfs is mounted, normally `/proc`.
    pub proc: PathBuf,
    /// Where sysfs is mounted, normally `/sys`.
    pub sys: PathBuf,
    /// Where cgroup hierarchies are mounted, normally `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
    /// Where programs keep files that need not outlive a boot, normally `/run`.
    pub run: PathBuf,
    /// Where container runtimes keep their lists, normally `/var`.
    pub var: PathBuf,
    /// Where programs are configured, normally `/etc`.
    pub etc: PathBuf,
    /// The home directory of the user whose containers without root are known by name, if any.
    pub home: Option<PathBuf>,
    /// Where the programs of this user keep their state (XDG base directory specification), if it is a user's.
    pub state: Option<PathBuf>,
    /// The memory tiers that the operator has set, the fastest first; empty: none.
    pub tiers: Vec<NodeSet>,
    /// The bound on open page maps. Clones share it.
    pub open_files: OpenFiles,
    /// Processes whose memory cannot be read now. All roots of this program share them.
    pub answering: Answering,
}

impl Roots {
    /// Where resctrl is mounted, normally `/sys/fs/resctrl`.
    pub fn resctrl(&self) -> PathBuf {
        self.sys.join("fs/resctrl")
    }

    /// The user of this process.
    pub(crate) fn own_uid(&self) -> Option<u32> {
        fs::metadata(self.proc.join("self")).ok().map(|process| process.uid())
    }
}

impl Default for Roots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
            run: "/run".into(),
            var: "/var".into(),
            etc: "/etc".into(),
            home: None,
            state: None,
            tiers: Vec::new(),
            open_files: OpenFiles::default(),
            answering: Answering::default(),
        }
    }
}
