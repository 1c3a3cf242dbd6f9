//! Memory of one's own to try something on.

use crate::{bind::bind_range, page_bytes, pmd_bytes, query_pages};
use std::{
    io,
    ptr::{self, NonNull},
    slice,
};

const WORD: usize = size_of::<u64>();

/// The pages that memory is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScratchPages {
    /// Base pages only (MADV_NOHUGEPAGE), whatever the host's setting of THP is.
    Base,
    /// Huge pages as far as the kernel has them (MADV_HUGEPAGE).
    Huge,
}

/// Private anonymous memory that begins at a multiple of [`pmd_bytes`]. No other code is given its address as a pointer.
#[derive(Debug)]
pub struct Scratch {
    mapped: NonNull<libc::c_void>,
    mapped_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Scratch owns its addresses, which belong to the process and not to a thread.
unsafe impl Send for Scratch {}
// SAFETY: through a shared Scratch memory is only read.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Maps and writes `bytes`.
    ///
    /// # Errors
    /// The errors of mmap(2) and madvise(2); EINVAL if the kernel has no transparent huge pages and they are asked for.
    pub fn new(bytes: usize, pages: ScratchPages) -> io::Result<Self> {
        let scratch = Self::map(bytes, pages)?;
        scratch.touch();
        Ok(scratch)
    }

    /// Maps `bytes` in base pages of which none is there yet: each comes where it is first written, and is zero until then. Nothing binds
    /// them.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub fn untouched(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, ScratchPages::Base)
    }

    /// As [`Scratch::new`], on a node. The kernel takes the pages from there or not at all: who asks for more than is free has processes killed
    /// (mm/oom_kill.c, CONSTRAINT_MEMORY_POLICY).
    ///
    /// # Errors
    /// As of [`Scratch::new`], and those of mbind(2): EINVAL for a node without memory or outside cpuset.mems.
    ///
    /// # Panics
    /// If the node's number is over 1023.
    pub fn on(node: u32, bytes: usize, pages: ScratchPages) -> io::Result<Self> {
        let scratch = Self::map(bytes, pages)?;
        bind_range(scratch.address()..scratch.address() + bytes as u64, node)?;
        scratch.touch();
        Ok(scratch)
    }

    /// Has each page be there.
    fn touch(&self) {
        for page in (0..self.bytes).step_by(page_bytes()) {
            // SAFETY: within the mapping, which is writable and which no other code knows. Volatile, so that the write is made.
            unsafe { self.start.add(page).write_volatile(1) };
        }
    }

    /// Maps a base page and reads it. Never written, it is the kernel's page of zeros.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub fn read() -> io::Result<Self> {
        let scratch = Self::map(page_bytes(), ScratchPages::Base)?;
        // SAFETY: within the mapping, which is readable. Volatile, so that the read is made.
        unsafe { scratch.start.read_volatile() };
        Ok(scratch)
    }

    fn map(bytes: usize, pages: ScratchPages) -> io::Result<Self> {
        let mapped_bytes = bytes + pmd_bytes();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel chooses: it overlaps nothing.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), mapped_bytes, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped = NonNull::new(mapped).expect("mmap without MAP_FIXED never gives address 0");
        let offset =
            (mapped.as_ptr() as usize).next_multiple_of(pmd_bytes()) - mapped.as_ptr() as usize;
        // SAFETY: `offset` is below pmd_bytes(), so `offset + bytes` is within the mapping.
        let start = unsafe { mapped.cast::<u8>().add(offset) };
        // From here on an early return unmaps.
        let scratch = Self { mapped, mapped_bytes, start, bytes };
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

    /// Its content; less than a word at its end is left out.
    pub fn words(&self) -> &[u64] {
        // SAFETY: the mapping has `self.bytes` bytes from `start` on, all of them initialized (the kernel has zeros
        // for what was not written) and aligned to [`pmd_bytes`], and lives as long as `self`, through which alone it is
        // written.
        unsafe { slice::from_raw_parts(self.start.cast().as_ptr(), self.bytes / WORD) }
    }

    /// The same, to be written.
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above; `self` is borrowed for the same time, so no other reference is alive.
        unsafe { slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.bytes / WORD) }
    }

    /// The node of each of its base pages, or what move_pages(2) says about one that has none, as a negative number.
    ///
    /// # Errors
    /// The errors of move_pages(2).
    pub fn nodes(&self) -> io::Result<Vec<i32>> {
        let pages: Vec<u64> = (0..self.bytes)
            .step_by(page_bytes())
            .map(|page| self.address() + page as u64)
            .collect();
        let mut nodes = vec![0; pages.len()];
        query_pages(0, &pages, &mut nodes).map(|()| nodes)
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

    #[test]
    fn it_is_there_and_aligned() {
        let scratch = Scratch::new(2 * pmd_bytes(), ScratchPages::Base).expect("4 MiB");
        assert_eq!(scratch.address() as usize % pmd_bytes(), 0);
        let nodes = scratch.nodes().expect("our own");
        assert_eq!(nodes.len(), 2 * pmd_bytes() / page_bytes());
        assert!(nodes.iter().all(|&node| node >= 0), "{nodes:?}");
    }

    #[test]
    fn its_words_are_all_there_is() {
        let mut scratch =
            Scratch::on(0, pmd_bytes() + 12, ScratchPages::Base).expect("node 0 has memory");
        assert!(scratch.nodes().expect("our own").iter().all(|&node| node == 0));
        assert_eq!(scratch.words().len(), (pmd_bytes() + 12) / WORD);
        *scratch.words_mut().last_mut().expect("not empty") = u64::MAX;
        assert_eq!(scratch.words().last(), Some(&u64::MAX));
    }

    #[test]
    fn untouched_pages_come_when_they_are_written() {
        let mut scratch = Scratch::untouched(pmd_bytes()).expect("2 MiB");
        let there = |scratch: &Scratch| {
            scratch.nodes().expect("our own").into_iter().filter(|&node| node >= 0).count()
        };
        assert_eq!(there(&scratch), 0);
        scratch.words_mut()[page_bytes() / WORD] = 7;
        assert_eq!((there(&scratch), scratch.words()[0]), (1, 0));
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        let refused =
            Scratch::on(1023, page_bytes(), ScratchPages::Base).expect_err("no such node");
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
}
