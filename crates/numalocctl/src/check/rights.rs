//! The rights of this process.

use super::Findings;
use crate::doc::Check;
use numaloc_host::Obstacle;

/// Whether the memory of other users' processes can be reached.
pub fn sys_ptrace(found: &Findings) -> Check {
    const NAME: &str = "cap_sys_ptrace";
    match found.facts.capabilities.sys_ptrace {
        true => Check::ok(NAME, "present"),
        false => Check::warning(
            NAME,
            "missing: only processes of the same user can be scanned and moved",
            "run as root or with CAP_SYS_PTRACE",
        ),
    }
}

/// Whether pages that several processes map can be moved.
pub fn sys_nice(found: &Findings) -> Check {
    const NAME: &str = "cap_sys_nice";
    match found.facts.capabilities.sys_nice {
        true => Check::ok(NAME, "present"),
        false => Check::warning(
            NAME,
            "missing: pages that several processes map stay where they are",
            "run as root or with CAP_SYS_NICE",
        ),
    }
}

/// Whether page frame numbers can be read.
pub fn pfns(found: &Findings) -> Check {
    const NAME: &str = "pagemap_pfns";
    match (found.pfns_readable, found.facts.capabilities.sys_admin) {
        (true, _) => Check::ok(NAME, "readable"),
        (false, true) => Check::warning(
            NAME,
            "hidden: CAP_SYS_ADMIN holds in this user namespace only",
            "run in the initial user namespace; until then pages are found by move_pages queries, and what several processes map counts as shared",
        ),
        (false, false) => Check::warning(
            NAME,
            "hidden: CAP_SYS_ADMIN is missing",
            "run as root or with CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH; until then pages are found by move_pages queries, and what several processes map counts as shared",
        ),
    }
}

/// Whether other users' processes are visible in /proc.
pub fn hidepid(found: &Findings) -> Check {
    const NAME: &str = "hidepid";
    match (&found.facts.hidepid, found.facts.capabilities.sys_ptrace) {
        (None, _) => Check::ok(NAME, "off"),
        (Some(value), true) => Check::ok(NAME, format!("{value}, overridden by CAP_SYS_PTRACE")),
        (Some(value), false) => Check::warning(
            NAME,
            format!("{value}: processes of other users are hidden"),
            Obstacle::Processes { hidepid: value.clone() }.remedy(),
        ),
    }
}
