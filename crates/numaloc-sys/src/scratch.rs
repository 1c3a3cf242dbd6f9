//! Memory of one's own to try something on.

use std::{
    io,
    ptr::{self, NonNull},
};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

/// Which pages memory is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScratchPages {
    /// Base pages only (MADV_NOHUGEPAGE), whatever the host's setting of THP is.
    Base,
    /// Huge pages as far as the kernel has them (MADV_HUGEPAGE).
    Huge,
}

/// Private anonymous memory, all of it present, that begins at a multiple of 2 MiB. No other code is given its address as a pointer.
#[derive(Debug)]
pub struct Scratch {
    mapped: NonNull<libc::c_void>,
    mapped_bytes: usize,
    start: NonNull<u8>,
}

// SAFETY: a Scratch owns its addresses, which belong to the process and not to a thread.
unsafe impl Send for Scratch {}

impl Scratch {
    /// Maps and writes `bytes`.
    ///
    /// # Errors
    /// Those of mmap(2) and madvise(2); EINVAL if the kernel has no transparent huge pages and they are asked for.
    pub fn new(bytes: usize, pages: ScratchPages) -> io::Result<Self> {
        let scratch = Self::map(bytes, pages)?;
        for page in (0..bytes).step_by(PAGE) {
            // SAFETY: within the mapping, which is writable and which no other code knows. Volatile, so that the write is made.
            unsafe { scratch.start.add(page).write_volatile(1) };
        }
        Ok(scratch)
    }

    /// Maps a base page and reads it. Never written, it is the kernel's page of zeros.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn read() -> io::Result<Self> {
        let scratch = Self::map(PAGE, ScratchPages::Base)?;
        // SAFETY: within the mapping, which is readable. Volatile, so that the read is made.
        unsafe { scratch.start.read_volatile() };
        Ok(scratch)
    }

    fn map(bytes: usize, pages: ScratchPages) -> io::Result<Self> {
        let mapped_bytes = bytes + HUGE;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel chooses: it overlaps nothing.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = NonNull::new(mapped).expect("mmap without MAP_FIXED never gives address 0");
        let offset = (mapped.as_ptr() as usize).next_multiple_of(HUGE) - mapped.as_ptr() as usize;
        // SAFETY: `offset` is below HUGE, so `offset + bytes` is within the mapping.
        let start = unsafe { mapped.cast::<u8>().add(offset) };
        // From here on an early return unmaps.
        let scratch = Self { mapped, mapped_bytes, start };
        let advice = match pages {
            ScratchPages::Base => libc::MADV_NOHUGEPAGE,
            ScratchPages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range is within the mapping, and this advice changes no content.
        let advised = unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) };
        // A kernel without huge pages knows neither advice, and has base pages in any case.
        if advised != 0 && pages == ScratchPages::Huge {
            return Err(io::Error::last_os_error());
        }
        Ok(scratch)
    }

    /// Address of its first byte.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and no reference into it exists.
        unsafe { libc::munmap(self.mapped.as_ptr(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query_pages;

    #[test]
    fn it_is_there_and_aligned() {
        let scratch = Scratch::new(2 * HUGE, ScratchPages::Base).expect("4 MiB");
        assert_eq!(scratch.address() as usize % HUGE, 0);
        let last = scratch.address() + (2 * HUGE - PAGE) as u64;
        let mut status = [0; 2];
        query_pages(0, &[scratch.address(), last], &mut status).expect("our own");
        assert!(status.iter().all(|&node| node >= 0), "{status:?}");
    }
}
