//! Pages that KSM has merged (mm/ksm.c). One frame holds equal pages of many addresses, of one process or of several. Extents are
//! ranges of addresses, so a survey assigns each such frame to the first address that shows it.

use crate::{
    Roots,
    files::{
        kpage::{FrameFile, KSM},
        pagemap::Entry,
        read,
    },
};
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

/// A pid and an address.
pub(super) type Mapped = (i32, u64);

/// The address that each merged frame is assigned to. All scanners of a survey, and of the run that follows it, share
/// it. It takes about 40 bytes for each merged frame that the target maps.
#[derive(Debug, Default)]
pub(crate) struct Assigned(Mutex<HashMap<u64, Mapped>>);

impl Assigned {
    /// `None`: the host has no merged pages, so no frame needs to be compared.
    pub(crate) fn new(roots: &Roots) -> Option<Arc<Self>> {
        let frames = read::text(&roots.sys.join("kernel/mm/ksm/pages_shared")).ok()?;
        frames.trim().parse().is_ok_and(|frames: u64| frames > 0).then(Arc::default)
    }
}

/// Finds merged pages by the flags of their frames.
#[derive(Debug)]
pub(crate) struct Merged {
    assigned: Arc<Assigned>,
    flags: FrameFile,
}

impl Merged {
    /// `None`: the host has no merged pages.
    pub(crate) fn new(roots: &Roots, assigned: Option<&Arc<Assigned>>) -> Option<Self> {
        assigned.map(|assigned| Self { assigned: assigned.clone(), flags: FrameFile::flags(roots) })
    }

    /// Forgets what was read ahead. Call it before each look at fresh page tables.
    pub(crate) fn refresh(&mut self) {
        self.flags.refresh();
    }

    /// Whether a present page that several mappings show is a merged one.
    pub(crate) fn contain(&mut self, entry: Entry) -> bool {
        self.flags.get(entry.pfn()).is_some_and(|flags| flags & KSM != 0)
    }

    /// Whether a merged page is assigned to this address of a process. The first address that asks for a page gets it.
    pub(crate) fn assign(&self, entry: Entry, mapped: Mapped) -> bool {
        let mut assigned = self.assigned.0.lock();
        *assigned.entry(entry.pfn()).or_insert(mapped) == mapped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const PRESENT: u64 = 1 << 63;

    #[test]
    fn a_merged_frame_belongs_to_one_address() {
        let fake = Fake::new();
        assert!(Assigned::new(&fake.roots()).is_none(), "a kernel without KSM");
        fake.write("sys/kernel/mm/ksm/pages_shared", "0\n");
        assert!(Assigned::new(&fake.roots()).is_none(), "nothing is merged");
        fake.write("sys/kernel/mm/ksm/pages_shared", "1\n");
        let assigned = Assigned::new(&fake.roots());
        let merged = || Merged::new(&fake.roots(), assigned.as_ref()).expect("there are some");
        let entry = |frame: u64| Entry(PRESENT | frame);
        assert!(!merged().contain(entry(1)), "flags are hidden");
        let flags: Vec<u8> = [0, KSM, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
        fake.write("proc/kpageflags", "");
        std::fs::write(fake.path("proc/kpageflags"), flags).expect("a file");
        let [mut one, other] = [merged(), merged()];
        assert!(one.contain(entry(1)) && !one.contain(entry(2)));
        assert!(one.assign(entry(1), (7, 0x5000)));
        assert!(other.assign(entry(1), (7, 0x5000)), "looked at again");
        assert!(!other.assign(entry(1), (7, 0x6000)));
        assert!(!one.assign(entry(1), (8, 0x5000)));
    }
}
