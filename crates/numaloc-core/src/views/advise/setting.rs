//! Settings of the whole host.

use super::{
    capacity::WORKING_CPUS,
    finding::{Finding, FindingKind},
    look::{HostLook, Subject},
    step::AdviceStep,
};

/// The kernel's balancing between nodes: bit 0 of kernel.numa_balancing (Documentation/admin-guide/sysctl/kernel.rst).
pub const NORMAL: u32 = 1;
/// Memory of this size gains from huge pages.
const LARGE: u64 = 1 << 30;
const LARGE_CPUS: f64 = 0.5;

/// Findings about settings. Empty if not every process was looked at.
pub fn judge(look: &HostLook) -> Vec<Finding> {
    if !look.is_whole || look.topology.with_memory().len() < 2 {
        return Vec::new();
    }
    balancing(look).into_iter().chain(thp(look)).collect()
}

/// The kernel's balancing makes processes fault to find out which page each of them uses. If all busy processes are
/// pinned, there is nothing to find out. If one of them is not pinned, it may gain from it, and the setting is left
/// alone.
fn balancing(look: &HostLook) -> Option<Finding> {
    let value = look.numa_balancing.filter(|value| value & NORMAL != 0)?;
    let working = |subject: &&Subject| subject.used_cpus() >= WORKING_CPUS;
    let mut working = look.subjects.iter().filter(working).peekable();
    working.peek()?;
    let with_memory = look.topology.with_memory();
    // Where one node alone is allowed, the kernel has nowhere to move pages to.
    let pinned = |subject: &Subject| {
        subject.is_pinned(&look.topology) || subject.mems.and(&with_memory).len() == 1
    };
    let path = "/proc/sys/kernel/numa_balancing";
    let step = AdviceStep::Write { path, value: (value & !NORMAL).to_string() };
    working.all(pinned).then(|| Finding::of_host(FindingKind::Balancing, vec![step]))
}

/// `never` also refuses processes that ask for huge pages (madvise(2), MADV_HUGEPAGE).
fn thp(look: &HostLook) -> Option<Finding> {
    let large =
        |subject: &Subject| subject.resident_bytes() >= LARGE && subject.used_cpus() >= LARGE_CPUS;
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let is_off = look.thp_enabled.as_deref() == Some("never");
    let step = AdviceStep::Write { path, value: "madvise".into() };
    (is_off && look.subjects.iter().any(large))
        .then(|| Finding::of_host(FindingKind::Thp, vec![step]))
}
