//! A file on persistent memory, mapped as applications of such memory map it.

use crate::page_bytes;
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    ptr::{self, NonNull},
    slice,
};

const WORD: usize = size_of::<u64>();

/// A shared mapping of a file that has no name, so that no other program can open it.
#[derive(Debug)]
pub struct StorageFile {
    start: NonNull<libc::c_void>,
    bytes: usize,
    is_synchronous: bool,
    /// The only descriptor of the file, which ends with this value.
    _file: File,
}

// SAFETY: a StorageFile owns its addresses, which belong to the process and not to a thread.
unsafe impl Send for StorageFile {}

impl StorageFile {
    /// Maps the first `bytes` bytes of a file, with MAP_SYNC where its file system has that: then what is written and flushed from the caches is
    /// persistent (Documentation/filesystems/dax.rst).
    ///
    /// # Errors
    /// EINVAL: the file has a name (a link), or is shorter. The errors of fstat(2) and mmap(2).
    pub fn map(file: File, bytes: usize) -> io::Result<Self> {
        let stat = file.metadata()?;
        if stat.nlink() != 0 || stat.len() < bytes as u64 || bytes == 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let map = |flags: i32| {
            let (descriptor, protection) = (file.as_raw_fd(), libc::PROT_READ | libc::PROT_WRITE);
            // SAFETY: a new mapping where the kernel chooses: it overlaps nothing.
            let start =
                unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
            if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
        };
        let (start, is_synchronous) = match map(libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                (map(libc::MAP_SHARED)?, false)
            }
            other => (other?, true),
        };
        let start = NonNull::new(start).expect("mmap without MAP_FIXED never gives address 0");
        Ok(Self { start, bytes, is_synchronous, _file: file })
    }

    /// Whether it is mapped with MAP_SYNC.
    pub fn is_synchronous(&self) -> bool {
        self.is_synchronous
    }

    /// Its content, to be read and written; less than a word at its end is left out.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: the mapping has `self.bytes` bytes, all of them within the file when it was mapped and aligned to a page, and lives as long as
        // `self`. The file has no name and its descriptor is in `self`, so nothing else shortens or writes it. `self` is borrowed for the same
        // time, so no other reference is alive.
        unsafe { slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.bytes / WORD) }
    }
}

impl Drop for StorageFile {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference into it exists.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// Copies words to the memory itself, past or through the caches of the CPU, and waits until all are on their way, as libpmem does for copies
/// from 256 bytes on (pmem_memcpy_persist(3)). In a mapping with MAP_SYNC they are persistent then.
///
/// # Panics
/// The slices differ in length.
pub fn store_through(to: &mut [u64], from: &[u64]) {
    assert_eq!(to.len(), from.len(), "a copy");
    store_to_memory(to, from);
}

/// By movnti, which passes the caches, and sfence, which waits for these stores.
#[cfg(target_arch = "x86_64")]
fn store_to_memory(to: &mut [u64], from: &[u64]) {
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};
    for (to, &from) in to.iter_mut().zip(from) {
        // SAFETY: SSE2 is part of x86-64, and `to` is a valid place for a word.
        unsafe { _mm_stream_si64(ptr::from_mut(to).cast(), from.cast_signed()) };
    }
    // SAFETY: SSE is part of x86-64. It orders the stores above before all later ones.
    unsafe { _mm_sfence() };
}

/// Stores as any others, then `dc cvac` for each cache line, and a barrier that waits for these (libpmem2, aarch64/flush.h).
#[cfg(target_arch = "aarch64")]
fn store_to_memory(to: &mut [u64], from: &[u64]) {
    use std::arch::asm;
    to.copy_from_slice(from);
    let type_of_cache: usize;
    // SAFETY: programs may read CTR_EL0; where a CPU has a different one than others, the kernel answers (arch/arm64/kernel/traps.c,
    // `ctr_read_handler`).
    unsafe {
        asm!("mrs {}, ctr_el0", out(reg) type_of_cache, options(nomem, nostack, preserves_flags))
    };
    // DminLine: the binary logarithm of the words of 4 bytes in the shortest line of all data caches.
    let line = 4 << ((type_of_cache >> 16) & 0xf);
    let place = to.as_mut_ptr_range();
    for start in ((place.start as usize & !(line - 1))..place.end as usize).step_by(line) {
        // SAFETY: the line holds words of `to`. Cleaning it changes no content.
        unsafe { asm!("dc cvac, {}", in(reg) start, options(nostack, preserves_flags)) };
    }
    // SAFETY: a barrier, which touches no memory itself.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Has the kernel write the pages that hold these words of a shared mapping back to their file (msync(2)): for mappings without MAP_SYNC.
///
/// # Errors
/// The errors of msync(2).
pub fn write_back(words: &[u64]) -> io::Result<()> {
    let address = words.as_ptr() as usize;
    let before = address % page_bytes();
    // SAFETY: the pages that hold the words are mapped, and msync changes no content.
    let result = unsafe {
        let start = words.as_ptr().byte_sub(before).cast_mut();
        libc::msync(start.cast(), before + size_of_val(words), libc::MS_SYNC)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Write, os::unix::fs::FileExt};

    /// A file of this many pages on a disk without DAX, and its path if it keeps it.
    fn file(name: &str, pages: usize, keeps_name: bool) -> File {
        let path = std::env::temp_dir().join(format!("numaloc-{name}-{}", std::process::id()));
        let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(&vec![7; pages * page_bytes()]).unwrap();
        if !keeps_name {
            fs::remove_file(path).unwrap();
        }
        file
    }

    #[test]
    fn what_is_stored_is_in_the_file() {
        let file = file("storage-file", 4, false);
        let other = file.try_clone().unwrap();
        let mut storage = StorageFile::map(file, 4 * page_bytes()).unwrap();
        assert!(!storage.is_synchronous(), "it has no DAX");
        let words = storage.words_mut();
        assert_eq!((words.len(), words[0]), (4 * page_bytes() / WORD, u64::from_ne_bytes([7; 8])));
        let block: Vec<u64> = (0..(page_bytes() / WORD) as u64).collect();
        let second = &mut words[page_bytes() / WORD..2 * page_bytes() / WORD];
        store_through(second, &block);
        write_back(&second[3..]).unwrap();
        let mut read = vec![0; page_bytes()];
        other.read_exact_at(&mut read, page_bytes() as u64).unwrap();
        let expected: Vec<u8> = block.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(read, expected);
        assert_eq!(words[0], u64::from_ne_bytes([7; 8]), "nothing else was written");
    }

    #[test]
    fn a_file_with_a_name_and_one_that_is_too_short_are_refused() {
        let refused = |file: File, bytes| StorageFile::map(file, bytes).unwrap_err().raw_os_error();
        assert_eq!(refused(file("named", 1, true), page_bytes()), Some(libc::EINVAL));
        fs::remove_file(std::env::temp_dir().join(format!("numaloc-named-{}", std::process::id())))
            .unwrap();
        assert_eq!(refused(file("short", 1, false), 2 * page_bytes()), Some(libc::EINVAL));
        assert_eq!(refused(file("empty", 1, false), 0), Some(libc::EINVAL));
    }

    #[test]
    #[should_panic(expected = "a copy")]
    fn a_copy_of_another_length_panics() {
        store_through(&mut [0], &[1, 2]);
    }
}
