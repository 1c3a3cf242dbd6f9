//! A small sample of the pages that were moved, spread evenly over the bytes. A later run looks where these pages are then.

use numaloc_core::{Moved, page_size};

/// Most pages in a sample. With 256 pages, the share that has gone is known to three percentage points (one standard deviation,
/// at 25%).
pub const MOST: usize = 256;

/// One page of each `stride` bytes, in the order in which they were moved. When there are too many pages, every other one is
/// dropped and the stride is doubled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    stride: u64,
    /// Bytes moved so far; at most the stride times the number of pages taken.
    moved_bytes: u64,
    taken: Vec<Moved>,
}

impl Default for Sample {
    fn default() -> Self {
        Self { stride: page_size(), moved_bytes: 0, taken: Vec::new() }
    }
}

impl Sample {
    /// Counts `bytes` that were moved, one after the other in memory; `first` is their first page.
    pub fn add(&mut self, first: Moved, bytes: u64) {
        let end = self.moved_bytes + bytes;
        loop {
            let next = self.taken.len() as u64 * self.stride;
            if next >= end {
                break;
            }
            let offset = (next - self.moved_bytes) / page_size() * page_size();
            self.taken.push(Moved { address: first.address + offset, ..first });
            self.thin();
        }
        self.moved_bytes = end;
    }

    /// Adds another worker's sample. Each page still stands for the same number of bytes.
    pub fn join(&mut self, mut other: Sample) {
        while self.stride != other.stride {
            if self.stride < other.stride { self.halve() } else { other.halve() }
        }
        self.moved_bytes += other.moved_bytes;
        self.taken.append(&mut other.taken);
        self.thin();
    }

    pub fn into_pages(self) -> Vec<Moved> {
        self.taken
    }

    fn thin(&mut self) {
        while self.taken.len() > MOST {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut index = 0;
        self.taken.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Identity, NodeId, pmd_size};
    use proptest::{collection::vec, prelude::*};

    fn page(address: u64) -> Moved {
        Moved { process: Identity { pid: 7, start_time: 1 }, address, to: NodeId(0) }
    }

    fn of(folios: &[u64], start: u64) -> (Sample, u64) {
        let mut sample = Sample::default();
        let end = folios.iter().fold(start, |address, bytes| {
            sample.add(page(address), *bytes);
            address + bytes
        });
        (sample, end)
    }

    fn folios() -> impl Strategy<Value = Vec<u64>> {
        vec(
            prop_oneof![8 => Just(page_size()), 1 => Just(16 * page_size()), 1 => Just(pmd_size())],
            0..2000,
        )
    }

    #[test]
    fn what_is_little_is_taken_whole() {
        let (sample, _) = of(&[page_size(); 100], pmd_size());
        let addresses: Vec<u64> = sample.into_pages().iter().map(|page| page.address).collect();
        assert_eq!(
            addresses,
            (0..100).map(|index| pmd_size() + index * page_size()).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_page_of_a_gib_is_sampled_within() {
        let (sample, _) = of(&[1 << 30], 0);
        let pages = sample.into_pages();
        assert!(pages.len() > MOST / 2 && pages.len() <= MOST, "{}", pages.len());
        assert!(pages.iter().all(|page| page.address < 1 << 30));
    }

    proptest! {
        /// Whatever the sizes are: half of the bytes have half of the pages, give or take one page.
        #[test]
        fn it_is_spread_over_the_bytes(folios in folios()) {
            let (sample, bytes) = of(&folios, 0);
            let (stride, pages) = (sample.stride, sample.into_pages());
            prop_assert!(pages.len() <= MOST && (bytes == 0 || pages.len() > MOST / 2 || stride == page_size()));
            let first = pages.iter().filter(|page| page.address < bytes / 2).count() as u64;
            prop_assert!((first * stride).abs_diff(bytes / 2) <= stride, "{first} of {}", pages.len());
            prop_assert!(pages.is_sorted_by_key(|page| page.address));
        }

        #[test]
        fn joined_ones_weigh_what_they_stand_for(one in folios(), other in folios()) {
            let (mut joined, middle) = of(&one, 0);
            let (second, end) = of(&other, middle);
            joined.join(second);
            prop_assert_eq!(joined.moved_bytes, end);
            let (stride, pages) = (joined.stride, joined.into_pages());
            prop_assert!(pages.len() <= MOST);
            let first = pages.iter().filter(|page| page.address < middle).count() as u64;
            prop_assert!((first * stride).abs_diff(middle) <= 2 * stride, "{first} of {}", pages.len());
        }
    }
}
