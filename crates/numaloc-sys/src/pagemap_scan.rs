//! The PAGEMAP_SCAN ioctl (Linux 6.7; include/uapi/linux/fs.h, fs/proc/task_mmu.c `do_pagemap_scan`).

use std::{fs::File, io, os::fd::AsRawFd};

/// Page categories as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Categories(pub u64);

impl Categories {
    /// PAGE_IS_PRESENT: the page is resident.
    pub const PRESENT: Self = Self(1 << 3);
    /// PAGE_IS_HUGE: mapped by a PMD or larger, or hugetlb.
    pub const HUGE: Self = Self(1 << 6);

    /// The union: pages that have all of these categories.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Whether all of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A run of pages of the same categories (`struct page_region`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRegion {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    categories: u64,
}

impl PageRegion {
    /// The categories of its pages.
    pub fn categories(&self) -> Categories {
        Categories(self.categories)
    }
}

/// The argument of the ioctl, `struct pm_scan_arg` (include/uapi/linux/fs.h).
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The ioctl's number: _IOWR('f', 16, struct pm_scan_arg).
const PAGEMAP_SCAN: libc::c_ulong =
    (3 << 30) | ((size_of::<ScanArg>() as libc::c_ulong) << 16) | (0x66 << 8) | 16;

/// Fills `regions` with the runs of pages in `start..end` that have all categories of `wanted`, and returns how many
/// there are and the address where the walk ended (`end`, or earlier when `regions` was full, or had `most_pages` pages; 0: no bound).
///
/// # Errors
/// ENOTTY where the kernel does not have it; EINVAL for addresses that are not page-aligned; ESRCH for a dead mm.
pub fn pagemap_scan(
    pagemap: &File,
    start: u64,
    end: u64,
    wanted: Categories,
    most_pages: u64,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        vec: regions.as_mut_ptr() as u64,
        vec_len: regions.len() as u64,
        max_pages: most_pages,
        category_inverted: 0,
        category_mask: wanted.0,
        category_anyof_mask: 0,
        return_mask: Categories::PRESENT.and(Categories::HUGE).0,
    };
    // SAFETY: `arg` is the struct that the ioctl expects, with its size in it; `vec` and `vec_len` describe the
    // caller's slice of `#[repr(C)]` regions, which the kernel fills from the front and never past `vec_len`.
    let result = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut arg) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let walked = if arg.walk_end == 0 { end } else { arg.walk_end };
    Ok((result as usize, walked))
}
