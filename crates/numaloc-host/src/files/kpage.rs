//! /proc/kpagecount and /proc/kpageflags: what the kernel knows of a page frame, by frame number
//! (Documentation/admin-guide/mm/pagemap.rst).

use super::kernel_config::counts_whole_folios;
use crate::Roots;
use numaloc_core::number;
use std::{cell::OnceCell, fs::File, os::unix::fs::FileExt, path::PathBuf};

const WINDOW: usize = 512;
/// A gap of this many frames is cheaper to read over than to skip with a new read.
const NEAR: u64 = 8;

/// A file that is opened when it is first needed, because most looks need none of its values.
#[derive(Debug)]
struct LateFile {
    path: PathBuf,
    file: OnceCell<Option<File>>,
}

impl LateFile {
    /// `None` without CAP_SYS_ADMIN or where the kernel lacks the file.
    fn get(&self) -> Option<&File> {
        self.file.get_or_init(|| File::open(&self.path).ok()).as_ref()
    }
}

/// One of the two files, read in runs when the frames asked for are close together.
#[derive(Debug)]
pub struct FrameFile {
    file: LateFile,
    first: u64,
    values: Vec<u64>,
    last: u64,
    bytes: Vec<u8>,
}

impl FrameFile {
    /// Number of mappings of a frame. `None` without CAP_SYS_ADMIN, and where the kernel lacks the file or has no
    /// count of single pages ([`counts_whole_folios`]): then memory that several processes map is shared with
    /// strangers, as far as these are not ruled out.
    pub fn counts(roots: &Roots) -> Option<Self> {
        if counts_whole_folios(roots) {
            return None;
        }
        let counts = Self::new(roots, "kpagecount");
        counts.file.get().is_some().then_some(counts)
    }

    /// The same file, which is opened when it is first needed, and with nothing read ahead.
    pub(crate) fn again(&self) -> Self {
        Self::at(self.file.path.clone())
    }

    /// Kind of page that a frame holds. Where the file cannot be opened, no frame has a value.
    pub fn flags(roots: &Roots) -> Self {
        Self::new(roots, "kpageflags")
    }

    fn new(roots: &Roots, name: &str) -> Self {
        Self::at(roots.proc.join(name))
    }

    fn at(path: PathBuf) -> Self {
        let file = LateFile { path, file: OnceCell::new() };
        Self { file, first: 0, values: Vec::new(), last: u64::MAX - 1, bytes: Vec::new() }
    }

    /// Forgets what was read ahead. Call it before each look at fresh page tables.
    pub fn refresh(&mut self) {
        self.values.clear();
    }

    /// The value of a frame; `None` where it cannot be read, as for a frame that does not exist.
    pub fn get(&mut self, pfn: u64) -> Option<u64> {
        let known = pfn
            .checked_sub(self.first)
            .and_then(|index| self.values.get(number::index(index)).copied());
        let follows = pfn.wrapping_sub(self.last) <= NEAR;
        self.last = pfn;
        known.or_else(|| self.fetch(pfn, if follows { WINDOW } else { 1 }))
    }

    /// Whether a frame holds a page that the kernel or a driver has allocated for itself, by its flags. Such a page is on no LRU
    /// list, from which pages are taken to be moved (mm/migrate.c, `add_page_for_migration`), and will never be. Memory and page
    /// cache that is isolated at this moment is on none either, but is anonymous, swap-backed or up to date.
    pub fn is_kernel_page(&mut self, pfn: u64) -> bool {
        // Up to 6.9 a tail has few flags of its folio (fs/proc/page.c, `stable_page_flags`).
        for head in (pfn.saturating_sub(MAX_TAILS)..=pfn).rev() {
            match self.get(head) {
                Some(flags) if flags & COMPOUND_TAIL != 0 => {}
                Some(flags) => return flags & MMAP != 0 && flags & MOVABLE == 0,
                None => return false,
            }
        }
        false
    }

    /// The values of `frames` frames from `first` on, read in one go and never from what was read ahead. Fewer, or none, where they
    /// cannot be read. `buffer` is for the bytes.
    pub(crate) fn row(&self, first: u64, frames: usize, buffer: &mut Vec<u8>) -> Vec<u64> {
        buffer.resize(frames * 8, 0);
        let file = self.file.get();
        let read = file.and_then(|file| file.read_at(buffer, first * 8).ok()).unwrap_or(0);
        numbers(&buffer[..read]).collect()
    }

    fn fetch(&mut self, pfn: u64, frames: usize) -> Option<u64> {
        self.bytes.resize(frames * 8, 0);
        let file = self.file.get();
        let read = file.and_then(|file| file.read_at(&mut self.bytes, pfn * 8).ok()).unwrap_or(0);
        self.first = pfn;
        self.values.clear();
        self.values.extend(numbers(&self.bytes[..read]));
        self.values.first().copied()
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let eight = bytes.chunks_exact(8);
    eight.map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
}

/// The most tail pages of an allocation of the kernel: MAX_PAGE_ORDER is 10.
const MAX_TAILS: u64 = (1 << 10) - 1;
/// KPF_MMAP: a page that is mapped.
const MMAP: u64 = 1 << 11;
/// KPF_UPTODATE, KPF_LRU, KPF_SLAB, KPF_ANON, KPF_SWAPCACHE, KPF_SWAPBACKED, KPF_HUGE, KPF_NOPAGE, KPF_KSM, KPF_ZERO_PAGE: what pages of
/// the kernel have none of while they are mapped.
const MOVABLE: u64 =
    1 << 3 | 1 << 5 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 14 | HUGETLB | 1 << 20 | KSM | ZERO_PAGE;
/// KPF_COMPOUND_HEAD: the first page of a folio of more than one page.
pub const COMPOUND_HEAD: u64 = 1 << 15;
/// KPF_COMPOUND_TAIL: another page of it.
pub const COMPOUND_TAIL: u64 = 1 << 16;
/// KPF_HUGE: a page of the hugetlb pools.
pub(crate) const HUGETLB: u64 = 1 << 17;
/// KPF_KSM: a page that KSM has merged.
pub(crate) const KSM: u64 = 1 << 21;
/// KPF_ZERO_PAGE: the base page or the huge page of zeros.
pub(crate) const ZERO_PAGE: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn pages_of_the_kernel_are_known_by_their_flags() {
        let (lru, uptodate, anon) = (1 << 5, 1 << 3, 1 << 12);
        let flags: [u64; 8] = [
            MMAP,                  // a ring's page
            MMAP | lru | uptodate, // page cache
            MMAP | uptodate,       // the same, isolated
            MMAP | anon,           // memory, isolated
            0,                     // no longer mapped
            MMAP | COMPOUND_HEAD,  // a larger ring
            MMAP | COMPOUND_TAIL,
            MMAP | COMPOUND_TAIL,
        ];
        let fake = Fake::new();
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
        fake.write("proc/kpageflags", "");
        std::fs::write(fake.path("proc/kpageflags"), bytes).expect("a file");
        let mut file = FrameFile::flags(&fake.roots());
        let kernel: Vec<u64> = (0..10).filter(|&pfn| file.is_kernel_page(pfn)).collect();
        assert_eq!(kernel, [0, 5, 6, 7]);
    }
}
