//! The page cache of a piece of a file: which pages are in memory, and addresses for them.

use crate::{Userfault, page_bytes};
use std::{
    fs::File,
    io, mem,
    ops::Range,
    os::fd::AsRawFd,
    ptr::{self, NonNull},
};

/// A piece of a file, mapped shared and for reading only. Nothing is ever read through the addresses: they are there to be passed
/// to move_pages(2). So it does not matter that the file may become shorter meanwhile.
///
/// The mapping has MADV_RANDOM: a fault then starts no readahead (mm/filemap.c, `do_async_mmap_readahead`), and from Linux 6.3 on
/// the pages do not count as used because they were mapped here (include/linux/mm_inline.h, `vma_has_recency`). And it has
/// MADV_NOHUGEPAGE: khugepaged otherwise copies what is mapped here to huge pages, on a node that it chooses (mm/khugepaged.c,
/// `hpage_collapse_scan_file`), and takes pages away in the middle of a move. From Linux 6.7 on, MAP_STACK means the same
/// (include/linux/mman.h, `calc_vm_flag_bits`), so khugepaged has no moment before the advice.
#[derive(Debug)]
pub struct FilePages {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: it owns its addresses, which belong to the process and not to a thread.
unsafe impl Send for FilePages {}

impl FilePages {
    /// Maps `bytes` bytes of a file from `offset` on, a multiple of the page size. The file's time of access stays as it is if it was
    /// opened with O_NOATIME.
    ///
    /// # Errors
    /// The errors of mmap(2) and madvise(2), most often ENODEV: this kind of file cannot be mapped.
    pub fn map(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(page_bytes());
        let pages = Self::with(file, offset, bytes, libc::MAP_SHARED | libc::MAP_STACK)?;
        pages.advise(0..bytes, libc::MADV_RANDOM)?;
        match pages.advise(0..bytes, libc::MADV_NOHUGEPAGE) {
            // A kernel without huge pages.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => other?,
        }
        Ok(pages)
    }

    /// Maps `bytes` bytes of a file on hugetlbfs, both multiples of its page size. mincore(2) says nothing of such a file, and a read of
    /// a hole gives the file a page of the pool (mm/hugetlb.c, `hugetlb_no_page`). With `holes` it fails instead, and takes none: where
    /// [`FilePages::populate`] succeeds, there was a page. The mapping is private, because registering a shared one takes the right to
    /// write the file (fs/userfaultfd.c), and reserves nothing.
    ///
    /// # Errors
    /// The errors of mmap(2) and ioctl_userfaultfd(2).
    pub fn map_huge(file: &File, offset: u64, bytes: usize, holes: &Userfault) -> io::Result<Self> {
        let pages = Self::with(file, offset, bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE)?;
        holes.register(pages.address()..pages.address() + bytes as u64)?;
        Ok(pages)
    }

    fn with(file: &File, offset: u64, bytes: usize, flags: i32) -> io::Result<Self> {
        let offset = offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping overlaps nothing, because the kernel chooses its address. No reference into it is ever made.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ, flags, file.as_raw_fd(), offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).expect("mmap without MAP_FIXED never gives address 0");
        Ok(Self { start, bytes })
    }

    /// The address of the first byte.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Number of its pages.
    pub fn len(&self) -> usize {
        self.bytes / page_bytes()
    }

    /// Whether it has no pages.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// For each page, whether it is in the page cache (mincore(2)).
    ///
    /// The kernel answers truly only to processes that own the file, may act as its owner (CAP_FOWNER) or may write it. To others it
    /// reports that every page is in memory (mm/mincore.c, `can_do_mincore`). The right to open the file with O_NOATIME depends on the
    /// same condition (fs/namei.c, `may_open`).
    ///
    /// # Errors
    /// The errors of mincore(2): EAGAIN and ENOMEM.
    pub fn resident(&self) -> io::Result<Vec<bool>> {
        self.resident_of(0..self.len())
    }

    /// The same for these pages.
    ///
    /// # Errors
    /// As [`FilePages::resident`].
    ///
    /// # Panics
    /// If the range goes beyond the pages.
    pub fn resident_of(&self, range: Range<usize>) -> io::Result<Vec<bool>> {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {}", self.len());
        let mut pages = vec![0u8; range.len()];
        // SAFETY: the range lies in this mapping, as checked above, and the kernel writes one byte for each of its pages into a Vec of
        // that length.
        let result = unsafe {
            let start = self.start.as_ptr().byte_add(range.start * page_bytes());
            libc::mincore(start, range.len() * page_bytes(), pages.as_mut_ptr().cast())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pages.into_iter().map(|page| page & 1 != 0).collect())
    }

    /// Maps these pages, as a read of each would (MADV_POPULATE_READ, Linux 5.14). Where the file has become shorter meanwhile, a
    /// read would raise SIGBUS, which ends the process. This fails instead.
    ///
    /// # Errors
    /// EFAULT: the file has no such pages any more. EIO and others of madvise(2).
    ///
    /// # Panics
    /// If the range goes beyond the pages.
    pub fn populate(&self, pages: Range<usize>) -> io::Result<()> {
        self.advise(pages.start * page_bytes()..pages.end * page_bytes(), libc::MADV_POPULATE_READ)
    }

    fn advise(&self, range: Range<usize>, advice: i32) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {}", self.bytes);
        // SAFETY: the range lies in this mapping, as checked above. No advice changes what the memory holds.
        let result = unsafe {
            libc::madvise(self.start.as_ptr().byte_add(range.start), range.len(), advice)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for FilePages {
    fn drop(&mut self) {
        // SAFETY: the addresses are this mapping's own, and no reference into it is alive.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Whether a file's memory is the storage itself (DAX): then it has no page cache.
///
/// # Errors
/// The errors of statx(2).
pub fn is_dax(file: &File) -> io::Result<bool> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut stat: libc::statx = unsafe { mem::zeroed() };
    // SAFETY: the path is an empty string that ends in NUL, and the kernel fills one struct, which lives for the whole call.
    let result = unsafe {
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, 0, &raw mut stat)
    };
    match result {
        0 => Ok(stat.stx_attributes & DAX != 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// STATX_ATTR_DAX (include/uapi/linux/stat.h): the file's pages are those of a device and cannot be moved.
const DAX: u64 = 0x0020_0000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(name: &str, bytes: usize) -> File {
        let path = std::env::temp_dir().join(format!("numaloc-{name}-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(&vec![7; bytes]).unwrap();
        file
    }

    #[test]
    fn what_was_written_is_in_memory_and_can_be_mapped() {
        let file = file("file-pages", 8 * page_bytes());
        let pages = FilePages::map(&file, 2 * page_bytes() as u64, 4 * page_bytes()).unwrap();
        assert_eq!((pages.len(), pages.is_empty()), (4, false));
        assert_eq!(pages.resident().unwrap(), [true; 4]);
        pages.populate(1..3).unwrap();
        let mut status = [0];
        crate::query_pages(0, &[pages.address() + page_bytes() as u64], &mut status).unwrap();
        assert!(status[0] >= 0, "{status:?}");
        assert!(!is_dax(&file).unwrap());
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error_and_no_signal() {
        let file = file("file-pages-cut", 8 * page_bytes());
        let pages = FilePages::map(&file, 0, 8 * page_bytes()).unwrap();
        file.set_len(2 * page_bytes() as u64).unwrap();
        // The result of mincore for the rest depends on the kernel: a large folio may stay beyond the end of the file.
        assert_eq!(pages.populate(4..8).unwrap_err().raw_os_error(), Some(libc::EFAULT));
        pages.populate(0..2).unwrap();
    }
}
