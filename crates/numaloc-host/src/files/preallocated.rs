//! Pages of files in memory that fallocate(2) has allocated and that have not been used since.
//!
//! tmpfs clears such a page at its first use, and until then the page is not up to date (mm/shmem.c, `shmem_fallocate`). mincore(2) and
//! SEEK_DATA report it as a hole (mm/mincore.c, `mincore_page`; mm/filemap.c, `folio_seek_hole_data`), although it takes memory of a node.
//! A read of it changes nothing that a process can see: the kernel clears it.

use nix::sys::sysinfo::sysinfo;
use numaloc_core::{number, page_size};
use numaloc_sys::cached_pages;
use std::{fs::File, io, ops::Range, os::unix::fs::MetadataExt as _};

/// Marks the preallocated pages of a piece of a file on tmpfs, which begins at `offset` bytes. `resident` has the pages that mincore(2)
/// reports.
///
/// From Linux 6.5 on, cachestat(2) finds each of them. Before that they are found where the file has neither holes nor pages in swap.
pub(super) fn mark_preallocated(file: &File, offset: u64, resident: &mut [bool]) {
    let count = |pages: Range<usize>| {
        cached_pages(
            file,
            offset + pages.start as u64 * page_size(),
            pages.len() as u64 * page_size(),
        )
    };
    if by_counts(resident, 0, &count).is_err() && is_whole(file) {
        resident.fill(true);
    }
}

/// Halves the range until each part is known: its number of cached pages is that of mincore(2), or that of its pages.
fn by_counts(
    resident: &mut [bool],
    first: usize,
    count: &impl Fn(Range<usize>) -> io::Result<u64>,
) -> io::Result<()> {
    let seen = resident.iter().filter(|page| **page).count();
    if seen == resident.len() {
        return Ok(());
    }
    let cached = number::index(count(first..first + resident.len())?);
    if cached <= seen {
        return Ok(());
    }
    if cached >= resident.len() {
        resident.fill(true);
        return Ok(());
    }
    let middle = resident.len() / 2;
    let (low, high) = resident.split_at_mut(middle);
    by_counts(low, first, count)?;
    by_counts(high, first + middle, count)
}

/// Whether each page of a file on tmpfs is in memory: as much is allocated as it is long, and nothing on this host is in swap, which
/// counts as allocated (mm/shmem.c, `shmem_recalc_inode`).
pub(super) fn is_whole(file: &File) -> bool {
    let has_no_holes = file
        .metadata()
        .is_ok_and(|file| file.blocks() * 512 >= file.len().next_multiple_of(page_size()).max(1));
    has_no_holes && !has_swapped()
}

/// Whether anything on this host is in swap, as far as is known.
pub(crate) fn has_swapped() -> bool {
    sysinfo().map_or(true, |now| now.swap_free() < now.swap_total())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::posix_fallocate;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn pages_that_are_allocated_and_unused_are_marked() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        file.write_all_at(&[7], 300 * page_size()).expect("a page");
        let [start, bytes] = [100, 57].map(|pages| pages * page_size() as i64);
        posix_fallocate(&file, start, bytes).expect("tmpfs allocates");
        let mut resident = vec![false; 512];
        resident[300] = true;
        if cached_pages(&file, 0, page_size()).is_ok() {
            mark_preallocated(&file, 0, &mut resident);
            let expected: Vec<_> =
                (0..512).map(|page| (100..157).contains(&page) || page == 300).collect();
            assert_eq!(resident, expected);
        }
        assert!(!is_whole(&file), "it has holes");
    }

    #[test]
    fn without_counts_a_file_without_holes_is_whole() {
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        assert!(!is_whole(&file), "it is empty");
        posix_fallocate(&file, 0, 5 * page_size() as i64).expect("tmpfs allocates");
        let swap = sysinfo().expect("every kernel has it");
        assert_eq!(is_whole(&file), swap.swap_free() == swap.swap_total());
    }

    #[test]
    fn a_count_that_fails_marks_nothing() {
        let mut resident = [true, false];
        let failing = |_: Range<usize>| Err(io::ErrorKind::Unsupported.into());
        assert!(by_counts(&mut resident, 0, &failing).is_err());
        assert_eq!(resident, [true, false]);
    }
}
