//! The folios of a page run, also where the run begins or ends within one.
//!
//! Where a page belongs can depend on the folio that it is in ([`numaloc_core::Stripe`]). Page map entries do not show folios, so
//! their frames' flags are looked up: of base pages of anonymous memory only where the frame lies within its huge page as the address
//! does, and of files and shared memory once for each folio.

use crate::{
    Roots,
    files::kpage::{COMPOUND_HEAD, COMPOUND_TAIL, FrameFile},
    limits::probe,
    survey::scan::PageRun,
};
use numaloc_core::{Kind, number, page_size, pmd_pages, pmd_size};
use std::cell::OnceCell;

/// The part of a folio that a page run shows. All in bytes, and in addresses of the mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioPart {
    /// Virtual address of the part.
    pub address: u64,
    /// Length of the part in bytes.
    pub bytes: u64,
    /// Address of the folio's first page, whether that is mapped or not.
    pub head: u64,
    /// Length of the folio in bytes.
    pub folio_bytes: u64,
}

/// Finds the folios of page runs.
#[derive(Debug)]
pub struct Folios {
    roots: Roots,
    flags: FrameFile,
    /// [`probe::small_folios`], read when it is first needed: only stripes need it.
    small_folios: OnceCell<bool>,
}

impl Folios {
    /// Without the right to read the flags of frames, each page that is not mapped as a huge one counts as a folio.
    pub fn new(roots: &Roots) -> Self {
        let (flags, small_folios) = (FrameFile::flags(roots), OnceCell::new());
        Self { roots: roots.clone(), flags, small_folios }
    }

    /// Forgets the flags that were read before. Call it before each look at fresh page tables.
    pub fn refresh(&mut self) {
        self.flags.refresh();
    }

    /// Calls `emit` with the parts of folios in a page run that begins at `address`, of memory of this kind and hugetlb page size.
    pub fn parts(
        &mut self,
        run: &PageRun<'_>,
        address: u64,
        kind: Kind,
        hugetlb_bytes: Option<u64>,
        emit: &mut dyn FnMut(FolioPart),
    ) {
        let whole = hugetlb_bytes.or(run.huge.then_some(pmd_size()));
        if let Some(folio_bytes) = whole {
            let (mut address, end) = (address, address + run.bytes);
            while address < end {
                let head = address / folio_bytes * folio_bytes;
                let bytes = (head + folio_bytes).min(end) - address;
                emit(FolioPart { address, bytes, head, folio_bytes });
                address += bytes;
            }
            return;
        }
        let any_size = kind.is_file()
            || kind == Kind::Shmem
            || *self.small_folios.get_or_init(|| probe::small_folios(&self.roots));
        let frame = |index: u64| run.entries.get(number::index(index)).map(|entry| entry.pfn());
        let mut index = 0;
        while let Some(pfn) = frame(index) {
            let at = address + index * page_size();
            let (head, folio_bytes) = self.around(at, pfn, any_size).unwrap_or((at, page_size()));
            let most = (head + folio_bytes - at) / page_size();
            let follows = |&pages: &u64| frame(index + pages) == Some(pfn + pages);
            let pages = 1 + (1..most).take_while(follows).count() as u64;
            emit(FolioPart { address: at, bytes: pages * page_size(), head, folio_bytes });
            index += pages;
        }
    }

    /// Address and length of the folio of several pages that this frame belongs to, as it is mapped at `at`.
    fn around(&mut self, at: u64, pfn: u64, any_size: bool) -> Option<(u64, u64)> {
        let within = pfn % pmd_pages();
        if !any_size && at / page_size() % pmd_pages() != within {
            return None;
        }
        if !self.is_any(pfn, COMPOUND_HEAD | COMPOUND_TAIL) {
            return None;
        }
        if !any_size {
            return Some((at / pmd_size() * pmd_size(), pmd_size()));
        }
        // Folios are at most as large as a huge page here, and aligned to their size in frames.
        let head = (pfn - within..=pfn).rev().find(|&frame| !self.is_any(frame, COMPOUND_TAIL));
        let head = head.unwrap_or(pfn);
        let tails =
            (head + 1..head + pmd_pages()).take_while(|&pfn| self.is_any(pfn, COMPOUND_TAIL));
        let bytes = (1 + tails.count() as u64) * page_size();
        Some((at.saturating_sub((pfn - head) * page_size()), bytes))
    }

    /// Whether the frame's flags are known and have one of `kinds`.
    fn is_any(&mut self, pfn: u64, kinds: u64) -> bool {
        self.flags.get(pfn).is_some_and(|flags| flags & kinds != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, files::pagemap::Entries};

    /// Flags of frames: a folio for each size in pages, one after the other from frame 512 on.
    fn folios(sizes: &[u64]) -> (Fake, Folios) {
        let fake = Fake::new();
        let mut flags = vec![0u64; 512];
        for &pages in sizes {
            match pages {
                1 => flags.push(0),
                _ => {
                    flags.push(COMPOUND_HEAD);
                    flags.extend((1..pages).map(|_| COMPOUND_TAIL));
                }
            }
        }
        let bytes: Vec<u8> = flags.iter().flat_map(|flags| flags.to_ne_bytes()).collect();
        fake.write("proc/kpageflags", "");
        std::fs::write(fake.path("proc/kpageflags"), bytes).expect("a temporary directory");
        let folios = Folios::new(&fake.roots());
        (fake, folios)
    }

    /// The parts of a run of these frames at `address`: each as pages before it, its pages, and the folio's.
    fn parts(
        folios: &mut Folios,
        frames: std::ops::Range<u64>,
        address: u64,
        kind: Kind,
    ) -> Vec<(u64, u64, u64)> {
        let bytes: Vec<u8> = frames.clone().flat_map(|pfn| (pfn | 1 << 63).to_ne_bytes()).collect();
        let entries = Entries::of(&bytes);
        let run = PageRun {
            bytes: (frames.end - frames.start) * page_size(),
            entries,
            ..PageRun::default()
        };
        let mut found = Vec::new();
        folios.parts(&run, address, kind, None, &mut |part: FolioPart| {
            let before = part.address - part.head;
            found.push((
                before / page_size(),
                part.bytes / page_size(),
                part.folio_bytes / page_size(),
            ));
        });
        found
    }

    #[test]
    fn a_run_that_begins_and_ends_within_folios_shows_parts_of_them() {
        let (_fake, mut folios) = folios(&[4, 1, 1, 2, 8]);
        let all = parts(&mut folios, 512..528, pmd_size(), Kind::Shmem);
        assert_eq!(all, [(0, 4, 4), (0, 1, 1), (0, 1, 1), (0, 2, 2), (0, 8, 8)]);
        let cut = parts(&mut folios, 515..523, pmd_size() + 3 * page_size(), Kind::Shmem);
        assert_eq!(cut, [(3, 1, 4), (0, 1, 1), (0, 1, 1), (0, 2, 2), (0, 3, 8)]);
    }

    #[test]
    fn a_huge_page_is_known_by_any_of_its_pages() {
        let (_fake, mut folios) = folios(&[512]);
        assert_eq!(
            parts(&mut folios, 700..702, 7 * pmd_size() + 188 * page_size(), Kind::Heap),
            [(188, 2, 512)]
        );
        // Elsewhere in its huge page than the frame is: not the page that the flags are of.
        assert_eq!(parts(&mut folios, 700..701, 7 * pmd_size(), Kind::Heap), [(0, 1, 1)]);
    }

    #[test]
    fn hugetlb_pages_are_cut_at_their_bounds_and_nothing_is_looked_up() {
        let run = PageRun { bytes: 2 * pmd_size(), ..PageRun::default() };
        let mut found = Vec::new();
        let mut folios = Folios::new(&Fake::new().roots());
        let mut emit = |part: FolioPart| found.push((part.address, part.bytes, part.head));
        folios.parts(&run, 3 * pmd_size(), Kind::Shmem, Some(2 * pmd_size()), &mut emit);
        assert_eq!(
            found,
            [
                (3 * pmd_size(), pmd_size(), 2 * pmd_size()),
                (4 * pmd_size(), pmd_size(), 4 * pmd_size())
            ]
        );
    }
}
