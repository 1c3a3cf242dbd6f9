//! Where a file has cached pages, or data, without a look at each of its pages: cachestat(2) and lseek(2).

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Its number, the same on all architectures (include/uapi/asm-generic/unistd.h); libc has no constant for it.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` (include/uapi/linux/mman.h): a range in bytes; a length of 0 means up to the end.
#[repr(C)]
struct CachestatRange {
    off: u64,
    len: u64,
}

/// `struct cachestat` (include/uapi/linux/mman.h): numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    nr_cache: u64,
    nr_dirty: u64,
    nr_writeback: u64,
    nr_evicted: u64,
    nr_recently_evicted: u64,
}

/// Number of base pages of `len` bytes of a file from `offset` on that are in the page cache (cachestat(2), Linux 6.5). Its time
/// follows what is cached there, not the length (mm/filemap.c, `filemap_cachestat`).
///
/// # Errors
/// ENOSYS before Linux 6.5; EPERM where the caller neither owns the file nor may write it (`can_do_cachestat`), or where a filter of
/// system calls forbids it; EOPNOTSUPP for hugetlbfs; EINVAL for an empty range.
pub fn cached_pages(file: &File, offset: u64, len: u64) -> io::Result<u64> {
    if len == 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let range = CachestatRange { off: offset, len };
    let mut stat = Cachestat::default();
    // SAFETY: the kernel reads one range and fills one struct, which both live for the whole call and have the kernel's layout.
    let result = unsafe {
        let fd = file.as_fd().as_raw_fd();
        libc::syscall(CACHESTAT, fd, &raw const range, &raw mut stat, 0)
    };
    if result == 0 { Ok(stat.nr_cache) } else { Err(io::Error::last_os_error()) }
}

/// The first offset from `offset` on at which a file has data (lseek(2), SEEK_DATA); `None` if there is none up to
/// its end. On tmpfs this is data in memory or in swap; a file system on a disk also answers with data on the disk.
/// Moves the file's position.
///
/// # Errors
/// The errors of lseek(2) but ENXIO.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    seek(file, offset, libc::SEEK_DATA)
}

/// The first offset from `offset` on at which a file has a hole (lseek(2), SEEK_HOLE); its end counts as one. `None` beyond its end.
/// Moves the file's position.
///
/// # Errors
/// The errors of lseek(2) but ENXIO.
pub fn next_hole(file: &File, offset: u64) -> io::Result<Option<u64>> {
    seek(file, offset, libc::SEEK_HOLE)
}

fn seek(file: &File, offset: u64, whence: i32) -> io::Result<Option<u64>> {
    let offset = offset.try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes three integers, and changes nothing but the position of the descriptor.
    let found = unsafe { libc::lseek64(file.as_fd().as_raw_fd(), offset, whence) };
    match u64::try_from(found) {
        Ok(found) => Ok(Some(found)),
        Err(_) => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_bytes;
    use std::{io::ErrorKind, os::unix::fs::FileExt as _};

    /// A sparse file in memory with a page of data at 1 PiB.
    #[test]
    fn a_page_in_a_large_hole_is_found() {
        const AT: u64 = 1 << 50;
        let path = format!("/dev/shm/numaloc-holes-{}", std::process::id());
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(2 * AT).unwrap();
        file.write_all_at(&vec![7; page_bytes()], AT).unwrap();
        assert_eq!(next_data(&file, 0).unwrap(), Some(AT));
        assert_eq!(next_hole(&file, AT).unwrap(), Some(AT + page_bytes() as u64));
        assert_eq!(next_data(&file, AT + page_bytes() as u64).unwrap(), None);
        assert_eq!(next_hole(&file, 2 * AT).unwrap(), None);
        match cached_pages(&file, 0, 2 * AT) {
            Ok(pages) => {
                assert_eq!(pages, 1);
                assert_eq!(cached_pages(&file, 0, AT).unwrap(), 0);
            }
            // Before Linux 6.5.
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
        }
        assert_eq!(cached_pages(&file, 0, 0).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
