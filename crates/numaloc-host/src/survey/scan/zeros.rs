//! The pages of zeros. The kernel maps one base page, or one huge page, of zeros wherever private memory was read and never
//! written (mm/memory.c, `do_anonymous_page`; mm/huge_memory.c, `do_huge_pmd_anonymous_page`). They take no memory of the
//! process: numa_maps and RSS leave them out.

use crate::{
    Roots,
    files::{
        kpage::{FrameFile, ZERO_PAGE},
        pagemap::Entry,
    },
};
use numaloc_core::{page_size, pmd_pages};

/// Tells pages of zeros by their frames.
#[derive(Debug)]
pub(super) struct Zeros {
    /// The frame of the base page; `None` where frames are hidden.
    base: Option<u64>,
    /// Asked only if a page looks like the huge one.
    flags: FrameFile,
    /// The huge frame that was asked for last, and whether it is one of zeros. The kernel frees the huge page of
    /// zeros when no process maps it, so an answer does not outlast a look.
    asked: Option<(u64, bool)>,
}

impl Zeros {
    /// `base` is the frame of the base page of zeros.
    pub(super) fn new(roots: &Roots, base: Option<u64>) -> Self {
        Self { base, flags: FrameFile::flags(roots), asked: None }
    }

    /// Forgets what was asked. Call it before each look at fresh page tables.
    pub(super) fn refresh(&mut self) {
        self.asked = None;
        self.flags.refresh();
    }

    /// Whether the present page at `address`, which is not exclusively mapped, is one of zeros.
    #[inline]
    pub(super) fn contain(&mut self, address: u64, entry: Entry) -> bool {
        let (Some(base), pfn) = (self.base, entry.pfn()) else { return false };
        // Only a huge entry maps the huge page, so its frames lie within its size as the addresses do. From 6.10 on the kernel
        // calls it a page of a file (fs/proc/task_mmu.c, `pagemap_pmd_range`).
        let may_be_huge = (pfn ^ (address / page_size())).is_multiple_of(pmd_pages());
        pfn == base || may_be_huge && self.is_huge(pfn / pmd_pages())
    }

    /// Whether the huge frame with this number is the page of zeros.
    fn is_huge(&mut self, number: u64) -> bool {
        if let Some((asked, answer)) = self.asked
            && asked == number
        {
            return answer;
        }
        let flags = self.flags.get(number * pmd_pages());
        let answer = flags.is_some_and(|flags| flags & ZERO_PAGE != 0);
        self.asked = Some((number, answer));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use numaloc_core::pmd_size;

    const PRESENT: u64 = 1 << 63;
    const FILE: u64 = 1 << 61;

    #[test]
    fn frames_of_zeros_are_nobodys_and_all_others_are_somebodys() {
        let fake = Fake::new();
        let flags: Vec<u64> =
            (0..2048).map(|pfn| if pfn == 1024 { ZERO_PAGE } else { 0 }).collect();
        let bytes: Vec<u8> = flags.into_iter().flat_map(u64::to_ne_bytes).collect();
        fake.write("proc/kpageflags", "");
        std::fs::write(fake.path("proc/kpageflags"), bytes).expect("a file");
        let mut zeros = Zeros::new(&fake.roots(), Some(7));
        let mut contain = |address: u64, entry| zeros.contain(address, Entry(PRESENT | entry));
        assert!(contain(0x5000, 7));
        assert!(!contain(0x5000, 8));
        for page in [0, 1, 511] {
            assert!(contain(6 * pmd_size() + page * page_size(), 1024 + page));
            assert!(
                contain(6 * pmd_size() + page * page_size(), FILE | (1024 + page)),
                "from 6.10 on"
            );
            assert!(
                !contain(6 * pmd_size() + page * page_size(), 512 + page),
                "a huge page of a process"
            );
        }
        assert!(!contain(6 * pmd_size() + page_size(), 1024), "no huge entry");
        let mut hidden = Zeros::new(&fake.roots(), None);
        assert!(!hidden.contain(0, Entry(PRESENT)));
    }
}
