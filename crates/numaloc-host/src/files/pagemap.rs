//! /proc/PID/pagemap: one 64-bit entry per virtual page (Documentation/admin-guide/mm/pagemap.rst).

use numaloc_core::{number, page_size, pmd_pages};
use numaloc_sys::{Categories, PageRegion, pagemap_scan};
use std::{fs::File, io, os::unix::fs::FileExt};

/// The entry of one base page: 64 bits (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry(pub u64);

impl Entry {
    const PFN: u64 = (1 << 55) - 1;

    /// Bit 63: a page is mapped here.
    pub fn is_present(self) -> bool {
        self.0 >> 63 != 0
    }
    /// Bit 56: no other process maps the page.
    pub fn is_exclusive(self) -> bool {
        self.0 >> 56 & 1 != 0
    }
    /// Bit 61: a page of a file or of shared memory.
    pub fn is_file(self) -> bool {
        self.0 >> 61 & 1 != 0
    }
    /// The entry of the base page that is this number of pages further on in the same huge page.
    pub fn tail(self, pages: u64) -> Self {
        if self.pfn() == 0 { self } else { Self(self.0 + pages) }
    }
    /// Page frame number; 0 for readers whose opener had no CAP_SYS_ADMIN.
    pub fn pfn(self) -> u64 {
        self.0 & Self::PFN
    }
}

/// An open pagemap. It stays bound to the address space that the process had when it was opened, so it never shows
/// pages of a later program or process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
}

/// Entries of 32 KiB: larger reads gain nothing.
const CHUNK_LEAST: usize = 4096;

/// Entries for the pages of one page table, which are those of a huge page: 512, 2048 or 8192 with base pages of 4, 16 or
/// 64 KiB. The kernel holds mmap_lock for as many (fs/proc/task_mmu.c, PAGEMAP_WALK_SIZE).
pub fn table_pages() -> usize {
    number::index(pmd_pages())
}

/// Entries to read at a time: [`CHUNK_LEAST`], and at least two page tables, so that huge pages are in a read as a whole.
pub fn chunk_pages() -> usize {
    (2 * table_pages()).max(CHUNK_LEAST)
}

impl Pagemap {
    /// Takes an open /proc/PID/pagemap, which stays with that process even if its pid is reused.
    pub fn new(file: File) -> Self {
        Self { file }
    }

    /// Reads the entries of the pages from `address` on into the buffer `bytes`, and returns them. If there are fewer
    /// than the buffer has room for, the address space has ended.
    pub fn read<'a>(&self, address: u64, bytes: &'a mut [u8]) -> io::Result<Entries<'a>> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], address / page_size() * 8 + filled as u64)
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Entries(&bytes[..filled / 8 * 8]))
    }

    /// Runs of pages of the wanted categories; see [`pagemap_scan`].
    pub fn scan(
        &self,
        start: u64,
        end: u64,
        wanted: Categories,
        regions: &mut [PageRegion],
    ) -> io::Result<(usize, u64)> {
        pagemap_scan(&self.file, start, end, wanted, 0, regions)
    }

    /// The first address in `start..end` at which a page may be present; `end`: there is none. The kernel passes over page tables that do
    /// not exist.
    pub fn first_present(&self, start: u64, end: u64) -> io::Result<u64> {
        let mut region = [PageRegion::default()];
        let wanted = Categories::PRESENT;
        let (found, walked) = pagemap_scan(&self.file, start, end, wanted, 1, &mut region)?;
        Ok(if found > 0 { region[0].start.max(start) } else { walked.max(start) })
    }
}

/// Entries in a byte buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// Entries as the kernel writes them, eight bytes each.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    /// Number of base pages that these entries are about.
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }
    /// Whether these are the entries of no page.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// In order of their addresses.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry> + use<'a> {
        self.0
            .chunks_exact(8)
            .map(|bytes| Entry(u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))))
    }
    /// The entry of a base page, counted from the first; `None` past the end.
    pub fn get(&self, index: usize) -> Option<Entry> {
        let bytes = self.0.get(index * 8..index * 8 + 8)?;
        Some(Entry(u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))))
    }
    /// `count` of them from `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Entries<'a> {
        Entries(&self.0[first * 8..(first + count) * 8])
    }
}
