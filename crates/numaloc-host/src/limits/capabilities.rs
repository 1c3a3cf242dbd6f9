//! The rights of this process on the host.

use crate::{
    Roots,
    files::read::{field, text},
};

/// Effective capabilities of this process that matter here (capabilities(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// CAP_SYS_PTRACE: look into processes of others and move their pages.
    pub sys_ptrace: bool,
    /// CAP_SYS_NICE: move pages that several processes map (MPOL_MF_MOVE_ALL).
    pub sys_nice: bool,
    /// CAP_SYS_ADMIN: page frame numbers in /proc/PID/pagemap.
    pub sys_admin: bool,
    /// CAP_SYS_RESOURCE: more processes than RLIMIT_NPROC.
    pub sys_resource: bool,
    /// CAP_DAC_READ_SEARCH: open /proc/kpage* as a user other than root.
    pub dac_read_search: bool,
    /// CAP_FOWNER: see which pages of others' files are in memory (mm/mincore.c, `can_do_mincore`), and so move their page cache.
    pub fowner: bool,
}

/// Reads them (CapEff in /proc/self/status). Unreadable ones count as missing.
pub(crate) fn read(roots: &Roots) -> Capabilities {
    let status = text(&roots.proc.join("self/status")).unwrap_or_default();
    let mask = field(&status, "CapEff");
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    // Numbers of include/uapi/linux/capability.h.
    let has = |capability: u32| mask >> capability & 1 == 1;
    Capabilities {
        dac_read_search: has(2),
        fowner: has(3),
        sys_ptrace: has(19),
        sys_admin: has(21),
        sys_nice: has(23),
        sys_resource: has(24),
    }
}
