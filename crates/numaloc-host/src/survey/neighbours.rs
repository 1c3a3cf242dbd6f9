//! Neighbouring mappings of a process: small ones that lie so close together that their page maps are read in one go.

use crate::survey::extents::Part;
use numaloc_core::{Mapping, Pages, page_size, pmd_size};
use std::ops::Range;

/// Pages of the largest hole between two of them. To read an entry of a hole takes a few nanoseconds, so this one takes less than
/// another system call.
const HOLE_PAGES: u64 = 128;
/// Page tables from the first to the end of the last one, after which a look that can wait leaves a gap (`scan::gaps`).
const SPAN_TABLES: u64 = 2;

/// Neighbours, in the order of their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Index of their process.
    pub process: usize,
    /// The addresses from the first to the end of the last one.
    pub addresses: Range<u64>,
}

impl Neighbours {
    /// A mapping alone. `None` if it is large enough for a huge page, or if its pages take more than the page map of one process.
    pub fn first(
        mappings: &[Mapping],
        pages: &Pages,
        hugetlb_bytes: Option<u64>,
        bytes: u64,
    ) -> Option<Self> {
        let [Mapping { process, start }] = *mappings else { return None };
        let is_small = matches!(pages, Pages::All | Pages::Own)
            && hugetlb_bytes.is_none()
            && bytes < pmd_size();
        is_small.then(|| Self { process, addresses: start..start + bytes })
    }

    /// Adds the next mapping. Returns whether it is a neighbour.
    pub fn add(&mut self, next: &Self) -> bool {
        let Range { start, end } = self.addresses;
        let is_near = self.process == next.process
            && (end..=end + HOLE_PAGES * page_size()).contains(&next.addresses.start)
            && next.addresses.end - start <= SPAN_TABLES * pmd_size();
        if is_near {
            self.addresses.end = next.addresses.end;
        }
        is_near
    }

    fn of(Part { extent, .. }: &Part) -> Option<Self> {
        Self::first(&extent.mappings, &extent.pages, extent.hugetlb_bytes, extent.bytes)
    }
}

/// Divides parts into neighbours; a part without neighbours is alone. The parts that `is_known` need no look, and have none.
pub(super) fn groups(
    parts: &[Part],
    is_known: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (Range<usize>, Option<Neighbours>)> {
    let alone =
        move |index: usize| parts.get(index).filter(|_| !is_known(index)).and_then(Neighbours::of);
    let mut end = 0;
    std::iter::from_fn(move || {
        let first = end;
        let mut group = alone(first);
        end += usize::from(first < parts.len());
        while let Some(group) = &mut group
            && alone(end).is_some_and(|next| group.add(&next))
        {
            end += 1;
        }
        (first < end).then_some((first..end, group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::anonymous, files::maps::Object};
    use numaloc_core::Origin;

    fn part(start: u64, pages: u64) -> Part {
        let extent = anonymous(start * page_size(), pages * page_size());
        let origin = Origin::default();
        Part { extent, object: Object::Anonymous, offset: start * page_size(), origin }
    }

    fn groups_of(parts: &[Part]) -> Vec<Range<usize>> {
        groups(parts, |_| false).map(|(group, _)| group).collect()
    }

    #[test]
    fn parts_are_neighbours_if_they_are_small_and_near_and_together_not_too_long() {
        let near = [part(8, 1), part(10, 1), part(11, 200), part(211 + 128, 1)];
        assert_eq!(groups_of(&near), Vec::from_iter(std::iter::once(0..4)));
        let addresses = groups(&near, |_| false).find_map(|(_, all)| Some(all?.addresses));
        assert_eq!(addresses, Some(8 * page_size()..340 * page_size()));
        assert_eq!(groups_of(&[part(8, 1), part(9 + 129, 1)]), [0..1, 1..2], "a large hole");
        assert_eq!(groups_of(&[part(8, 1), part(8, 1)]), [0..1, 1..2], "not one behind the other");
        let long = [part(0, 1), part(1, 511), part(512, 511), part(1023, 1), part(1024, 1)];
        assert_eq!(groups_of(&long), [0..4, 4..5]);
        let with_large = [part(0, 1), part(1, 512), part(513, 1), part(514, 1)];
        assert_eq!(groups_of(&with_large), [0..1, 1..2, 2..4]);
        assert_eq!(groups_of(&[]), Vec::<Range<usize>>::new());
    }

    #[test]
    fn parts_of_other_processes_mappings_and_pages_are_not_neighbours() {
        let mut other = part(1, 1);
        other.extent.mappings[0].process = 1;
        assert_eq!(groups_of(&[part(0, 1), other]), [0..1, 1..2]);
        let mut twice = part(1, 1);
        twice.extent.mappings.push(numaloc_core::Mapping { process: 0, start: 1 << 40 });
        assert_eq!(groups_of(&[part(0, 1), twice, part(2, 1)]), [0..1, 1..2, 2..3]);
        let mut common = part(1, 1);
        common.extent.pages = Pages::Common(Default::default());
        assert_eq!(groups_of(&[part(0, 1), common]), [0..1, 1..2]);
        let three = [part(0, 1), part(1, 1), part(2, 1)];
        let known = groups(&three, |index| index == 1).map(|(group, _)| group);
        assert_eq!(known.collect::<Vec<_>>(), [0..1, 1..2, 2..3]);
    }
}
