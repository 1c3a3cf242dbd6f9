//! Neighbouring mappings of a process: small ones that lie so close together that their page maps are read in one go.

use crate::survey::extents::Part;
use numaloc_core::{HUGE, PAGE, Pages};
use std::ops::Range;

/// Largest hole between two of them. To read an entry of a hole takes a few nanoseconds, so this one takes less than another system call.
const HOLE: u64 = 128 * PAGE;
/// Bytes from the first to the end of the last one: two page tables, after which a look that can wait leaves a gap (`scan::gaps`).
const SPAN: u64 = 2 * HUGE;

/// Divides parts into neighbours; a part without neighbours is alone. The parts that `is_known` need no look, and have none.
pub(super) fn groups(
    parts: &[Part],
    is_known: impl Fn(usize) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let is_small = move |index: usize| is_small(&parts[index]) && !is_known(index);
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = at;
        let is_alone = first < parts.len() && !is_small(first);
        at += usize::from(first < parts.len());
        while !is_alone && 0 < at && at < parts.len() && is_small(at) {
            let (begin, before, next) =
                (addresses(&parts[first]), addresses(&parts[at - 1]), addresses(&parts[at]));
            let is_near = process(&parts[at]) == process(&parts[first])
                && (before.end..=before.end + HOLE).contains(&next.start)
                && next.end - begin.start <= SPAN;
            if !is_near {
                break;
            }
            at += 1;
        }
        (first < at).then_some(first..at)
    })
}

/// The addresses from the first to the end of the last of some neighbours.
pub(super) fn span(parts: &[Part]) -> Range<u64> {
    match parts {
        [] => 0..0,
        [first, .., last] => addresses(first).start..addresses(last).end,
        [only] => addresses(only),
    }
}

/// Whether a part is too small for a huge page, and needs no more than the page map of one process.
fn is_small(Part { extent, .. }: &Part) -> bool {
    extent.mappings.len() == 1
        && matches!(extent.pages, Pages::All | Pages::Own)
        && extent.hugetlb_bytes.is_none()
        && extent.bytes < HUGE
}

fn process(part: &Part) -> usize {
    part.extent.mappings[0].process
}

fn addresses(Part { extent, .. }: &Part) -> Range<u64> {
    let start = extent.mappings[0].start;
    start..start + extent.bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::anonymous, files::maps::Object};
    use numaloc_core::Origin;

    fn part(start: u64, pages: u64) -> Part {
        let extent = anonymous(start * PAGE, pages * PAGE);
        let origin = Origin::default();
        Part { extent, object: Object::Anonymous, offset: start * PAGE, origin }
    }

    fn groups_of(parts: &[Part]) -> Vec<Range<usize>> {
        groups(parts, |_| false).collect()
    }

    #[test]
    fn parts_are_neighbours_if_they_are_small_and_near_and_together_not_too_long() {
        let near = [part(8, 1), part(10, 1), part(11, 200), part(211 + 128, 1)];
        assert_eq!(groups_of(&near), Vec::from_iter(std::iter::once(0..4)));
        assert_eq!(span(&near), 8 * PAGE..340 * PAGE);
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
        assert_eq!(groups(&three, |index| index == 1).collect::<Vec<_>>(), [0..1, 1..2, 2..3]);
    }
}
