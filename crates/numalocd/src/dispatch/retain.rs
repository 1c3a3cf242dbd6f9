//! Chooses what to remove when there are too many records: the oldest records of the creator who has most. So nobody can
//! push out the records of others by having many. No IO.

use std::collections::{BTreeMap, VecDeque};

/// A record that may be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Forgettable<'a, K> {
    pub key: K,
    pub creator: &'a str,
    /// About how many bytes it takes.
    pub bytes: usize,
}

/// How much is kept at most.
#[derive(Clone, Copy, Debug)]
pub struct RetentionBound {
    pub records: usize,
    pub bytes: usize,
}

/// What one creator has, or all creators together.
#[derive(Clone, Copy, Debug, Default)]
struct Retained {
    records: usize,
    bytes: usize,
}

impl Retained {
    fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
    fn take(&mut self, bytes: usize) {
        self.records -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
    }
    fn fits(&self, room: &RetentionBound) -> bool {
        self.records <= room.records && self.bytes <= room.bytes
    }
    /// The part of the room that it takes, by records or by bytes, whichever is more.
    fn part(&self, room: &RetentionBound) -> f64 {
        let part = |has: usize, of: usize| has as f64 / of.max(1) as f64;
        part(self.records, room.records).max(part(self.bytes, room.bytes))
    }
}

/// The keys of at most `most` records to remove so that the rest fits into `room`. `records` come oldest first.
pub fn surplus<'a, K>(
    records: impl IntoIterator<Item = Forgettable<'a, K>>,
    room: RetentionBound,
    most: usize,
) -> Vec<K> {
    let mut all = Retained::default();
    let mut creators: BTreeMap<&str, (Retained, VecDeque<Forgettable<'a, K>>)> = BTreeMap::new();
    for record in records {
        let (own, kept) = creators.entry(record.creator).or_default();
        own.add(record.bytes);
        all.add(record.bytes);
        kept.push_back(record);
    }
    let mut surplus = Vec::new();
    while surplus.len() < most && !all.fits(&room) {
        let by_part = |one: &&mut (Retained, _), other: &&mut (Retained, _)| {
            one.0.part(&room).total_cmp(&other.0.part(&room))
        };
        let Some((own, kept)) = creators.values_mut().max_by(by_part) else { break };
        let Some(record) = kept.pop_front() else { break };
        own.take(record.bytes);
        all.take(record.bytes);
        surplus.push(record.key);
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn records(of: &[(&'static str, usize)]) -> Vec<Forgettable<'static, usize>> {
        let record = |(key, &(creator, bytes))| Forgettable { key, creator, bytes };
        of.iter().enumerate().map(record).collect()
    }

    #[test]
    fn who_has_most_loses_the_oldest() {
        let room = |records, bytes| RetentionBound { records, bytes };
        let few = [("a", 1), ("b", 1), ("b", 1), ("b", 1), ("b", 1)];
        assert_eq!(surplus(records(&few), room(5, 5), 9), [0_usize; 0]);
        assert_eq!(surplus(records(&few), room(3, 5), 9), [1, 2]);
        assert_eq!(surplus(records(&few), room(3, 5), 1), [1], "some at a time");
        // A creator with one large record may be the one who has most.
        assert_eq!(surplus(records(&[("a", 100), ("b", 1), ("b", 1)]), room(3, 50), 9), [0]);
        assert_eq!(surplus(records(&[("a", 1)]), room(0, 0), 9), [0]);
    }

    proptest! {
        #[test]
        fn what_is_left_fits_and_who_has_little_keeps_it(
            creators in vec((prop::sample::select(vec!["a", "b", "c"]), 1..50_usize), 0..60),
            most in 1..40_usize,
            bytes in 1..1000_usize,
        ) {
            let (all, room) = (records(&creators), RetentionBound { records: most, bytes });
            let gone = surplus(all.iter().copied(), room, usize::MAX);
            let left: Vec<_> = all.iter().filter(|record| !gone.contains(&record.key)).collect();
            prop_assert!(left.len() <= most);
            prop_assert!(left.iter().map(|record| record.bytes).sum::<usize>() <= bytes);
            for creator in ["a", "b", "c"] {
                let own: Vec<_> = all.iter().filter(|record| record.creator == creator).collect();
                let kept = own.iter().filter(|record| !gone.contains(&record.key)).count();
                // The oldest went first.
                let newest = own.iter().rev().take(kept);
                prop_assert!(newest.into_iter().all(|record| !gone.contains(&record.key)));
                let has: usize = own.iter().map(|record| record.bytes).sum();
                if own.len() <= most / 3 && has <= bytes / 3 {
                    prop_assert_eq!(kept, own.len(), "{} has little", creator);
                }
            }
        }
    }
}
