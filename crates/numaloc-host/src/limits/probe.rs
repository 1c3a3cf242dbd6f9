//! Finds out by trying what this kernel and the rights of this process allow.

pub use crate::files::kernel_config::kernel;

use crate::{
    Roots,
    files::{
        pagemap::{Entry, Pagemap},
        read,
    },
};
use numaloc_core::{page_size, pmd_size};
use numaloc_sys::{Categories, PageRegion, Scratch};
use std::fs::File;

/// This process's own page map, to try what the kernel shows of it.
#[derive(Debug)]
pub struct OwnPageMap(Option<Pagemap>);

impl OwnPageMap {
    /// Opens it. Where it cannot be opened, nothing is shown.
    pub fn open(roots: &Roots) -> Self {
        Self(File::open(roots.proc.join("self/pagemap")).ok().map(Pagemap::new))
    }

    /// Whether page frame numbers are shown to this process (fs/proc/task_mmu.c, `pagemap_open`: CAP_SYS_ADMIN).
    pub fn shows_frames(&self) -> bool {
        self.entry(present_page()).is_some_and(|entry| entry.pfn() != 0)
    }

    /// The frame of the base page of zeros: of a page of our own that was only read. `None` if frames are hidden.
    pub fn zero_frame(&self) -> Option<u64> {
        let read = Scratch::read().ok()?;
        let entry = self.entry(read.address())?;
        (entry.is_present() && !entry.is_exclusive() && entry.pfn() != 0).then_some(entry.pfn())
    }

    /// Whether the kernel has the PAGEMAP_SCAN ioctl (6.7 and later).
    pub fn can_scan(&self) -> bool {
        let (address, mut region) = (present_page(), [PageRegion::default()]);
        self.0.as_ref().is_some_and(|pagemap| {
            pagemap.scan(address, address + page_size(), Categories::PRESENT, &mut region).is_ok()
        })
    }

    fn entry(&self, address: u64) -> Option<Entry> {
        self.0.as_ref()?.read(address, &mut [0; 8]).ok()?.get(0)
    }
}

/// The address of a page that is certainly present: one of the stack.
fn present_page() -> u64 {
    let local = 1u8;
    std::hint::black_box(&raw const local) as u64 / page_size() * page_size()
}

/// Whether this kernel is of this version or a later one. For what cannot be found out by trying.
pub fn is_kernel_from(roots: &Roots, version: (u32, u32)) -> bool {
    kernel(roots) >= Some(version)
}

/// Whether anonymous memory may come in folios between a base page and a PMD (multi-size THP, 6.8 and later): without
/// them a base-page entry of anonymous memory is a folio of its own, or part of a split-mapped huge page.
pub fn small_folios(roots: &Roots) -> bool {
    let dir = roots.sys.join("kernel/mm/transparent_hugepage");
    let global = read::text(&dir.join("enabled")).unwrap_or_default();
    let Ok(sizes) = std::fs::read_dir(&dir) else { return false };
    sizes.flatten().any(|size| {
        let name = size.file_name().to_string_lossy().into_owned();
        let size_of = |rest: &str| rest.strip_suffix("kB")?.parse::<u64>().ok();
        let Some(kb) = name.strip_prefix("hugepages-").and_then(size_of) else { return false };
        // Sizes that only files and shared memory can have (8 KiB) have no such file (mm/huge_memory.c, hugepage_init_sysfs).
        let Ok(enabled) = read::text(&size.path().join("enabled")) else {
            return false;
        };
        let on = |text: &str| !text.contains("[never]");
        kb << 10 < pmd_size() && on(&enabled) && (!enabled.contains("[inherit]") || on(&global))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn versions_are_compared_by_number() {
        let fake = Fake::new();
        let is_from = |release: &str| {
            fake.write("proc/sys/kernel/osrelease", release);
            is_kernel_from(&fake.roots(), (6, 10))
        };
        assert!(
            ["6.10.0\n", "6.12.48+deb13-amd64\n", "7.2.0-rc1\n", "6.10-x\n"].map(is_from)
                == [true; 4]
        );
        assert!(
            ["6.9.12\n", "6.1.0-31-amd64\n", "5.14\n", "nonsense\n", ""].map(is_from) == [false; 5]
        );
    }

    #[test]
    fn only_sizes_that_anonymous_memory_may_have_count() {
        let fake = Fake::new();
        let thp = "sys/kernel/mm/transparent_hugepage";
        let set = |name: &str, text: &str| {
            fake.write(&format!("{thp}/{name}"), text);
            small_folios(&fake.roots())
        };
        assert!(!set("enabled", "[always] madvise never\n"));
        assert!(!set("hugepages-2048kB/enabled", "always [inherit] madvise never\n"));
        assert!(!set("hugepages-8kB/shmem_enabled", "always inherit within_size advise [never]\n"));
        assert!(!set("hugepages-64kB/enabled", "always inherit madvise [never]\n"));
        assert!(set("hugepages-64kB/enabled", "always [inherit] madvise never\n"));
        assert!(!set("enabled", "always madvise [never]\n"), "what is inherited is off");
        assert!(set("hugepages-64kB/enabled", "always inherit [madvise] never\n"));
    }
}
