//! The size of base pages, which is a property of the kernel that this process runs on.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The shift of the smallest pages that Linux has.
const SHIFT_LEAST: u32 = 12;
/// Base-two logarithm of the size of base pages; 0 until it has been asked for.
static SHIFT: AtomicU32 = AtomicU32::new(0);

/// Base-two logarithm of the size of base pages in bytes (the kernel's PAGE_SHIFT): 12 on x86-64; 12, 14 or 16 on
/// arm64, as the kernel was built.
#[inline]
pub fn page_shift() -> u32 {
    match SHIFT.load(Relaxed) {
        0 => read(),
        shift => shift,
    }
}

/// The size of base pages in bytes, as a length in memory.
#[inline]
pub fn page_bytes() -> usize {
    1 << page_shift()
}

/// Base-two logarithm of the size in bytes of a huge page that one entry of a page middle directory maps (the kernel's
/// HPAGE_PMD_SHIFT). It is as large as what the entries of one page map, which have 8 bytes each.
#[inline]
pub fn pmd_shift() -> u32 {
    2 * page_shift() - 3
}

/// The size of a huge page, as a length in memory.
#[inline]
pub fn pmd_bytes() -> usize {
    1 << pmd_shift()
}

#[cold]
fn read() -> u32 {
    // SAFETY: sysconf takes a number and gives one; it touches no memory of the caller.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    // The C library hands on AT_PAGESZ of the auxiliary vector, which is there in every process (getauxval(3)).
    let shift = bytes.trailing_zeros().max(SHIFT_LEAST);
    SHIFT.store(shift, Relaxed);
    shift
}

/// Has this process count in pages of another size than the kernel's, for tests of arithmetic in a program of their own.
#[cfg(feature = "fixture")]
pub fn assume_page_shift(shift: u32) {
    SHIFT.store(shift, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_kernels() {
        let status = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let line = status.lines().find(|line| line.starts_with("KernelPageSize:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(page_bytes(), kib << 10);
        assert_eq!(pmd_bytes(), page_bytes() * (page_bytes() / 8));
    }

    #[test]
    fn the_kernels_huge_page_is_what_one_page_of_entries_maps() {
        let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
        let Ok(text) = std::fs::read_to_string(path) else { return };
        assert_eq!(text.trim().parse(), Ok(pmd_bytes()));
    }
}
