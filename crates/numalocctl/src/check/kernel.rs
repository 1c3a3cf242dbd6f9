//! The kernel and its settings.

use super::Findings;
use crate::{doc::Check, units::size};
use numaloc_engine::balancing::follows_cpus;

/// The oldest kernel on which numaloc is tested.
const OLDEST: (u32, u32) = (6, 1);
/// Bit of kernel.numa_balancing: hot pages are promoted from slower memory.
const TIERING: u32 = 2;

/// Advice if the kernel moves pages automatically.
pub const BALANCING_ADVICE: &str = "the kernel may move pages away again if threads run on other nodes: pin the CPUs of the target, or set kernel.numa_balancing=0";

/// Major and minor version of a release such as `6.1.0-31-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn known_version(found: &Findings) -> Option<(u32, u32)> {
    version(found.facts.kernel_release.as_deref()?)
}

const HIDDEN: &str = "unknown: /proc is mounted with subset=pid, which hides all but processes";
/// The advice where proc shows processes alone.
pub(super) const WHOLE_PROC: &str = "mount proc without it, or set ProcSubset=all in the unit";

/// The kernel version, and known problems of this version.
pub fn release(found: &Findings) -> Check {
    const NAME: &str = "kernel";
    let Some(release) = &found.facts.kernel_release else {
        return match found.facts.has_processes_alone {
            true => Check::problem(NAME, HIDDEN, WHOLE_PROC),
            false => Check::problem(NAME, "unknown", "mount /proc"),
        };
    };
    match version(release) {
        None => Check::warning(NAME, release, "cannot check the version for known problems"),
        Some(version) if version < OLDEST => Check::problem(
            NAME,
            format!("{release}, older than Linux 6.1, on which nothing was tested"),
            "boot Linux 6.1 or later",
        ),
        // In 6.1 to 6.4, move_pages(2) misses pages with NUMA hints (mm/migrate.c, `add_page_for_migration` lost
        // FOLL_NUMA).
        Some(version)
            if ((6, 1)..(6, 5)).contains(&version)
                && found.facts.numa_balancing.is_some_and(follows_cpus) =>
        {
            Check::warning(
                NAME,
                format!("{release}, which hides pages marked for NUMA hinting from move_pages"),
                "these pages are moved in a slower way; to avoid it run Linux 6.5 or later, or set kernel.numa_balancing=0 before the target starts",
            )
        }
        Some(version) if version < (6, 3) => {
            Check::ok(NAME, format!("{release}, moves page by page (in batches from 6.3 on)"))
        }
        Some(_) => Check::ok(NAME, release),
    }
}

/// The sizes of the kernel's pages, in bytes.
pub fn page_size(base: u64, huge: u64) -> Check {
    Check::ok("page_size", format!("{}, huge pages {}", size(base), size(huge)))
}

/// Whether the kernel moves pages automatically.
pub fn numa_balancing(found: &Findings) -> Check {
    const NAME: &str = "numa_balancing";
    match found.facts.numa_balancing {
        None => Check::ok(NAME, "not in this kernel"),
        Some(0) => Check::ok(NAME, "off"),
        Some(bits) if follows_cpus(bits) => Check::warning(NAME, "on", BALANCING_ADVICE),
        Some(TIERING) => Check::ok(NAME, "memory tiering only"),
        Some(bits) => Check::warning(NAME, bits.to_string(), BALANCING_ADVICE),
    }
}

/// Whether PAGEMAP_SCAN works, so that a scan can ask the kernel for certain pages only.
pub fn pagemap_scan(found: &Findings) -> Check {
    const NAME: &str = "pagemap_scan";
    match (found.pagemap_scan, known_version(found)) {
        (true, _) => Check::ok(NAME, "works"),
        (false, Some(version)) if version >= (6, 7) => Check::warning(
            NAME,
            "refused, although the kernel is new enough",
            "look for a seccomp filter or another /proc; scans read pagemap entry by entry meanwhile, which takes longer with huge pages",
        ),
        (false, _) => Check::ok(NAME, "not before Linux 6.7: scans read pagemap entry by entry"),
    }
}

/// Whether the kernel measures the pressure of cgroups, which the profiles `gentle` and `balanced` follow.
pub fn pressure(found: &Findings) -> Check {
    const NAME: &str = "pressure";
    match found.facts.pressure {
        true => Check::ok(NAME, "measured"),
        false if found.facts.has_processes_alone => Check::warning(NAME, HIDDEN, WHOLE_PROC),
        false => Check::warning(
            NAME,
            "not measured (PSI is off)",
            "boot with psi=1; meanwhile gentle and balanced watch for how long threads of the target wait for a CPU, and do not notice when they wait for IO",
        ),
    }
}

pub fn thp(found: &Findings) -> Check {
    let Some(enabled) = &found.facts.thp_enabled else {
        return Check::ok("thp", "not in this kernel");
    };
    let mut text = enabled.clone();
    if let Some(defrag) = &found.facts.thp_defrag {
        text += &format!(", defrag {defrag}");
    }
    let sizes = found.facts.mthp_enabled.iter().filter(|(_, word)| *word != "never");
    let sizes: Vec<_> = sizes.map(|(&bytes, word)| format!("{} {word}", size(bytes))).collect();
    if !sizes.is_empty() {
        text += &format!(", sizes {}", sizes.join(", "));
    }
    Check::ok("thp", text)
}

pub fn hugetlb(found: &Findings) -> Check {
    let pools = found.facts.huge_pools.iter().filter(|pool| pool.total_pages > 0);
    let pools = pools.map(|pool| {
        format!("{} of {} free with {}", pool.free_pages, pool.total_pages, size(pool.page_bytes))
    });
    let text = pools.collect::<Vec<_>>().join(", ");
    Check::ok("hugetlb", if text.is_empty() { "no pool".to_owned() } else { text })
}

/// Whether the kernel can let hardware copy pages.
pub fn offload(found: &Findings) -> Check {
    let knobs = &found.facts.offload;
    let devices: Vec<&str> = found.dsa.devices.iter().map(|device| &*device.name).collect();
    let devices = devices.join(", ");
    let settings: Vec<_> = knobs
        .iter()
        .map(|knob| {
            let name = knob.path.file_name().unwrap_or_default().to_string_lossy();
            format!("{name}={}", knob.value.as_deref().unwrap_or("?"))
        })
        .collect();
    let text = match (settings.is_empty(), devices.is_empty()) {
        (true, true) => "no engine copies, so CPUs do".to_owned(),
        (true, false) => format!("{devices}, but this kernel cannot migrate with it"),
        (false, true) => format!("no device; kernel: {}", settings.join(" ")),
        (false, false) => format!("{devices}; kernel: {}", settings.join(" ")),
    };
    Check::ok("offload", text)
}
