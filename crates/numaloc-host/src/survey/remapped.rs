//! Anonymous pages that processes of a target share at different addresses, because one of them has called mremap(2) since the fork.
//!
//! Extents join the mappings of private memory by their addresses, so each of these addresses belongs to an extent of its own, and
//! none of them alone shows all mappings that the kernel counts. A survey of several processes notes all frames that
//! are short of mappings. If all mappings of a frame have been seen at its end, the frame is assigned to the lowest
//! of these addresses and the survey looks again. The home and the memory policy of such a page are those of this
//! address alone.

use super::merged::Mapped;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::OnceLock};

/// Most frames that are noted: 1 GiB of base pages, which take about 16 MiB. Pages beyond that count as shared with strangers.
const FRAMES_MAX: usize = 1 << 18;

/// At which of the target's addresses a frame counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedAt {
    /// At this address: all of its mappings are the target's.
    Here,
    /// At another address of the target.
    Elsewhere,
    /// At each address: not all of its mappings have been seen, so strangers may map it.
    Everywhere,
}

/// The observations of a frame.
#[derive(Clone, Copy, Debug)]
struct SeenFrame {
    first: Mapped,
    mappings: u64,
    /// The number of mappings that the kernel counted last.
    counted: u64,
}

/// Mappings of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct MappingCount {
    /// All that the kernel counts.
    pub all: u64,
    /// Those that the extent shows.
    pub ours: u64,
}

/// The frames that are mapped at different addresses. All scanners of a survey, and of the run that follows it, share it.
#[derive(Debug, Default)]
pub(crate) struct Remapped {
    noted: Mutex<HashMap<u64, SeenFrame>>,
    assigned: OnceLock<HashMap<u64, SeenFrame>>,
}

impl Remapped {
    /// Where an anonymous frame counts that the extent with this address shows. Notes the frame until [`Self::assign`].
    pub(super) fn see(&self, frame: u64, count: MappingCount, mapped: Mapped) -> CountedAt {
        let Some(assigned) = self.assigned.get() else {
            self.note(frame, count, mapped);
            return CountedAt::Everywhere;
        };
        match assigned.get(&frame) {
            Some(seen) if count.all <= seen.mappings => {
                if seen.first == mapped {
                    CountedAt::Here
                } else {
                    CountedAt::Elsewhere
                }
            }
            _ => CountedAt::Everywhere,
        }
    }

    fn note(&self, frame: u64, count: MappingCount, mapped: Mapped) {
        let mut noted = self.noted.lock();
        if noted.len() >= FRAMES_MAX && !noted.contains_key(&frame) {
            return;
        }
        let MappingCount { all: counted, ours } = count;
        let seen = noted.entry(frame).or_insert(SeenFrame { first: mapped, mappings: 0, counted });
        *seen =
            SeenFrame { first: seen.first.min(mapped), mappings: seen.mappings + ours, counted };
    }

    /// Assigns the frames of which all mappings have been seen. Returns whether there are any, so that a second look has another
    /// result. Nothing is noted any more.
    pub(crate) fn assign(&self) -> bool {
        let mut noted = std::mem::take(&mut *self.noted.lock());
        noted.retain(|_, seen| seen.mappings >= seen.counted);
        noted.shrink_to_fit();
        !self.assigned.get_or_init(|| noted).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(all: u64, ours: u64) -> MappingCount {
        MappingCount { all, ours }
    }

    const PARENT: Mapped = (7, 0x5000);
    const CHILD: Mapped = (8, 0x9000);

    #[test]
    fn a_frame_all_of_whose_mappings_were_seen_belongs_to_the_first_address() {
        let remapped = Remapped::default();
        for (frame, counted, mapped) in
            [(1, 2, CHILD), (2, 3, CHILD), (1, 2, PARENT), (2, 3, PARENT)]
        {
            let seen = remapped.see(frame, count(counted, 1), mapped);
            assert_eq!(seen, CountedAt::Everywhere, "as long as not all have been seen");
        }
        assert!(remapped.assign());
        assert_eq!(remapped.see(1, count(2, 1), PARENT), CountedAt::Here);
        assert_eq!(remapped.see(1, count(2, 1), CHILD), CountedAt::Elsewhere);
        assert_eq!(remapped.see(1, count(3, 1), PARENT), CountedAt::Everywhere, "a new mapping");
        assert_eq!(remapped.see(2, count(3, 1), PARENT), CountedAt::Everywhere);
        assert_eq!(remapped.see(3, count(2, 1), PARENT), CountedAt::Everywhere, "a new frame");
    }

    #[test]
    fn frames_of_strangers_are_not_looked_at_again() {
        let remapped = Remapped::default();
        remapped.see(1, count(3, 2), PARENT);
        assert!(!remapped.assign());
        remapped.see(1, count(3, 1), CHILD);
        assert!(!remapped.assign(), "nothing is noted any more");
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let remapped = Remapped::default();
        (0..=FRAMES_MAX as u64).for_each(|frame| remapped.note(frame, count(2, 1), PARENT));
        (0..=FRAMES_MAX as u64).for_each(|frame| remapped.note(frame, count(2, 1), CHILD));
        assert!(remapped.assign());
        assert_eq!(remapped.assigned.get().expect("assigned").len(), FRAMES_MAX);
    }
}
