//! The parts of a cell that are looked at, if it is too large to look at all of it.

use crate::{number, pmd_size};
use std::ops::Range;

/// Parts of a cell that are looked at, each of [`pmd_size`] bytes.
const WINDOWS: u64 = 32;
/// A cell with fewer addresses is looked at in full: the windows would be at least a quarter of it.
pub(super) fn whole_max() -> u64 {
    WINDOWS * 4 * pmd_size()
}

/// The windows of a range of addresses longer than [`whole_max`]: one in each of equal parts of the range, at a place
/// that differs from part to part. Windows at equal distances would see one node alone of memory whose huge pages take
/// turns. The same range has always the same windows, so that two looks can be compared.
pub(super) fn windows(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, bytes) = (range.start, u128::from(range.end - range.start));
    let bound =
        move |part: u64| start + number::amount(bytes * u128::from(part) / u128::from(WINDOWS));
    (0..WINDOWS).map(move |part| {
        let (first, end) =
            (bound(part).next_multiple_of(pmd_size()), bound(part + 1) / pmd_size() * pmd_size());
        let places = ((end - first) / pmd_size()).max(1);
        let at = first + mixed(first) % places * pmd_size();
        at..at + pmd_size()
    })
}

/// A number without any visible relation to `of` (the finalizer of splitmix64).
fn mixed(of: u64) -> u64 {
    let of = (of ^ (of >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let of = (of ^ (of >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    of ^ (of >> 31)
}
