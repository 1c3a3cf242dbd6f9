//! Rows: folios that follow each other in memory and are alike in everything else. Most of a process's memory is in long rows, so
//! work that is done once per row costs next to nothing.

use crate::pages::folio::Folio;
use std::collections::VecDeque;

/// Folios that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub first: Folio,
    /// Number of folios; at least one.
    pub count: u64,
}

impl Row {
    pub fn bytes(&self) -> u64 {
        self.count * self.first.bytes
    }

    pub fn folios(self) -> impl Iterator<Item = Folio> {
        let Folio { address, bytes, .. } = self.first;
        (0..self.count).map(move |index| Folio { address: address + index * bytes, ..self.first })
    }

    /// Removes the first `count` folios and returns them. The row must have more than `count`.
    pub fn split_off(&mut self, count: u64) -> Row {
        let taken = Row { count, ..*self };
        self.first.address += taken.bytes();
        self.count -= count;
        taken
    }
}

impl From<Folio> for Row {
    fn from(folio: Folio) -> Self {
        Self { first: folio, count: 1 }
    }
}

/// Appends a folio to `rows`: extends the last row if the folio continues it, else begins a new row.
pub fn push(rows: &mut Vec<Row>, folio: Folio) {
    append(rows, folio.into());
}

/// As [`push`], for folios that follow each other.
pub fn append(rows: &mut Vec<Row>, row: Row) {
    let next = |last: &Row| Folio { address: last.first.address + last.bytes(), ..last.first };
    match rows.last_mut() {
        Some(last) if next(last) == row.first => last.count += row.count,
        _ => rows.push(row),
    }
}

/// The largest part of the first `bytes` that consists of whole folios, all of one class. In bytes.
pub fn fitting<'r>(rows: impl IntoIterator<Item = &'r Row>, bytes: u64) -> u64 {
    let (mut sum, mut class) = (0, None);
    for row in rows {
        let fit = row.count.min((bytes - sum) / row.first.bytes);
        if *class.get_or_insert(row.first.class()) != row.first.class() {
            break;
        }
        sum += fit * row.first.bytes;
        if fit < row.count {
            break;
        }
    }
    sum
}

/// Size of the next call in bytes, so that the first folios of one class go in as few calls as `most` bytes a call
/// allow, all of about the same size: each call has a fixed price (mm/swap.c, `lru_cache_disable`), which is too much
/// for a small rest.
pub fn share<'r>(rows: impl IntoIterator<Item = &'r Row> + Clone, most: u64) -> u64 {
    let all = fitting(rows.clone(), u64::MAX);
    let folio = rows.into_iter().next().map_or(1, |row| row.first.bytes);
    let calls = all.div_ceil(most.max(1)).max(1);
    all.div_ceil(calls).next_multiple_of(folio).min(most)
}

/// Removes folios of `bytes` bytes from the front. `bytes` must be a sum of whole folios.
pub fn take(rows: &mut VecDeque<Row>, mut bytes: u64) -> Vec<Row> {
    let mut taken = Vec::new();
    while let Some(row) = rows.front_mut().filter(|_| bytes > 0) {
        let count = bytes / row.first.bytes;
        let some = if count < row.count { Some(row.split_off(count)) } else { rows.pop_front() };
        let some = some.expect("there is a first row");
        debug_assert!(some.count > 0, "{bytes} bytes are not whole folios");
        bytes -= some.bytes();
        taken.push(some);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{page_size, pmd_size};
    use proptest::{collection::vec, prelude::*, sample::select};

    /// Folios one after the other, some with a gap before them.
    fn folios() -> impl Strategy<Value = Vec<Folio>> {
        vec(
            (
                select(vec![page_size(), page_size(), page_size(), 16 * page_size(), pmd_size()]),
                any::<bool>(),
            ),
            0..60,
        )
        .prop_map(|sizes| {
            let mut address = 0;
            let place = |(bytes, gap)| {
                address += if gap { 3 * page_size() } else { 0 };
                let folio = Folio::sample(address, bytes);
                address += bytes;
                folio
            };
            sizes.into_iter().map(place).collect()
        })
    }

    proptest! {
        #[test]
        fn rows_hold_the_folios_that_were_pushed(folios in folios()) {
            let mut rows = Vec::new();
            folios.iter().for_each(|&folio| push(&mut rows, folio));
            prop_assert_eq!(rows.iter().flat_map(|row| row.folios()).collect::<Vec<_>>(), folios);
            let continues = |pair: &[Row]| {
                let [one, next] = pair else { unreachable!() };
                next.first.address == one.first.address + one.bytes() && next.first.bytes == one.first.bytes
            };
            prop_assert!(!rows.windows(2).any(continues), "{rows:?}");
        }

        #[test]
        fn shares_are_as_few_as_possible_and_alike(pages in 1..5000u64, most in 1..600u64) {
            let mut rows = VecDeque::from([Row { first: Folio::sample(0, page_size()), count: pages }]);
            let mut calls = Vec::new();
            while !rows.is_empty() {
                let bytes = fitting(&rows, share(&rows, most * page_size()));
                take(&mut rows, bytes);
                calls.push(bytes / page_size());
            }
            prop_assert!(calls.iter().all(|&call| call <= most), "{calls:?}");
            prop_assert_eq!(calls.len() as u64, pages.div_ceil(most), "{:?}", calls);
            let ends = [calls.iter().min(), calls.iter().max()].map(|end| end.copied().unwrap());
            prop_assert!(ends[1] - ends[0] <= 1, "{calls:?}");
        }

        #[test]
        fn what_fits_is_taken_and_the_rest_stays(folios in folios(), pages in 0..2000u64) {
            let mut rows = Vec::new();
            folios.iter().for_each(|&folio| push(&mut rows, folio));
            let mut rows = VecDeque::from(rows);
            let bytes = fitting(&rows, pages * page_size());
            prop_assert!(bytes <= pages * page_size());
            let taken: Vec<Folio> = take(&mut rows, bytes).into_iter().flat_map(Row::folios).collect();
            prop_assert_eq!(taken.iter().map(|folio| folio.bytes).sum::<u64>(), bytes);
            prop_assert!(taken.windows(2).all(|pair| pair[0].class() == pair[1].class()));
            let next = folios.get(taken.len());
            let would_fit = |next: &Folio| {
                bytes + next.bytes <= pages * page_size()
                    && taken.first().is_none_or(|first| first.class() == next.class())
            };
            prop_assert!(!next.is_some_and(would_fit), "{:?} would fit, too", next);
            let rest = rows.into_iter().flat_map(Row::folios);
            prop_assert_eq!(taken.into_iter().chain(rest).collect::<Vec<_>>(), folios);
        }
    }
}
