//! What this kernel and these rights allow, found out by trying.

use crate::{
    Roots,
    pagemap::{Entry, Pagemap},
};
use numaloc_core::{HUGE, PAGE};
use numaloc_sys::{Categories, PageRegion};
use std::fs::File;

/// Whether page frame numbers are shown to this process (fs/proc/task_mmu.c, `pagemap_open`: CAP_SYS_ADMIN).
pub fn pfns_readable(roots: &Roots) -> bool {
    own_page(roots).is_some_and(|(pagemap, address)| {
        let mut bytes = [0; 8];
        let entry =
            pagemap.read(address, &mut bytes).ok().and_then(|entries| entries.iter().next());
        entry.is_some_and(|entry: Entry| entry.pfn() != 0)
    })
}

/// Whether the kernel has the PAGEMAP_SCAN ioctl (6.7 and later).
pub fn pagemap_scan(roots: &Roots) -> bool {
    own_page(roots).is_some_and(|(pagemap, address)| {
        pagemap
            .scan(address, address + PAGE, Categories::PRESENT, &mut [PageRegion::default()])
            .is_ok()
    })
}

/// The own pagemap with the address of a page that is present for sure: one of the stack.
fn own_page(roots: &Roots) -> Option<(Pagemap, u64)> {
    let local = 1u8;
    let address = std::hint::black_box(&raw const local) as u64 / PAGE * PAGE;
    Some((Pagemap::new(File::open(roots.proc.join("self/pagemap")).ok()?), address))
}

/// Whether anonymous memory may come in folios between a base page and a PMD (multi-size THP, 6.8 and later): without
/// them a base-page entry of anonymous memory is a folio of its own, or part of a split-mapped huge page.
pub fn small_folios(roots: &Roots) -> bool {
    let dir = roots.sys.join("kernel/mm/transparent_hugepage");
    let global = std::fs::read_to_string(dir.join("enabled")).unwrap_or_default();
    let Ok(sizes) = std::fs::read_dir(&dir) else { return false };
    sizes.flatten().any(|size| {
        let name = size.file_name().to_string_lossy().into_owned();
        let kb = name
            .strip_prefix("hugepages-")
            .and_then(|rest| rest.strip_suffix("kB")?.parse::<u64>().ok());
        let enabled = std::fs::read_to_string(size.path().join("enabled")).unwrap_or_default();
        let on = |text: &str| !text.contains("[never]");
        kb.is_some_and(|kb| kb << 10 < HUGE)
            && on(&enabled)
            && (!enabled.contains("[inherit]") || on(&global))
    })
}
