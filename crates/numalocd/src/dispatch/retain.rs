//! Chooses what to remove when there are too many records: the oldest records of the creator who has most. Members of
//! the group of one grant have two parts together ([`crate::accounts`]). So no client can push out the records of
//! others by having many. No IO.

use crate::accounts::Cohort;
use std::collections::{BTreeMap, VecDeque};

/// Parts that the members of a cohort have together.
const COHORT: f64 = 2.0;

/// A record that may be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Forgettable<'a, K> {
    pub key: K,
    pub creator: &'a str,
    /// The cohort that the creator is one of.
    pub cohort: Option<Cohort>,
    /// About how many bytes it takes.
    pub bytes: usize,
}

/// Most records and bytes that are kept.
#[derive(Clone, Copy, Debug)]
pub struct RetentionBound {
    pub records: usize,
    pub bytes: usize,
}

/// Records of one creator, or of all creators together.
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

/// A creator alone, or all members of a cohort.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RecordOwner<'a> {
    Cohort(Cohort),
    Creator(&'a str),
}

/// Records of creators that count together, and of each of them.
struct Held<'a, K> {
    together: Retained,
    creators: BTreeMap<&'a str, (Retained, VecDeque<Forgettable<'a, K>>)>,
}

impl<K> Default for Held<'_, K> {
    fn default() -> Self {
        Self { together: Retained::default(), creators: BTreeMap::new() }
    }
}

impl<'a, K> Held<'a, K> {
    /// Takes the oldest record of the creator who has most.
    fn pop(&mut self, room: &RetentionBound) -> Option<Forgettable<'a, K>> {
        let by_part = |one: &&mut (Retained, _), other: &&mut (Retained, _)| {
            one.0.part(room).total_cmp(&other.0.part(room))
        };
        let (own, kept) = self.creators.values_mut().max_by(by_part)?;
        let record = kept.pop_front()?;
        own.take(record.bytes);
        self.together.take(record.bytes);
        Some(record)
    }
}

/// The keys of at most `most` records to remove so that the rest fits into `room`. `records` come oldest first.
pub fn surplus<'a, K>(
    records: impl IntoIterator<Item = Forgettable<'a, K>>,
    room: RetentionBound,
    most: usize,
) -> Vec<K> {
    let mut all = Retained::default();
    let mut holders: BTreeMap<RecordOwner<'a>, Held<'a, K>> = BTreeMap::new();
    for record in records {
        let holder =
            record.cohort.map_or(RecordOwner::Creator(record.creator), RecordOwner::Cohort);
        let held = holders.entry(holder).or_default();
        let (own, kept) = held.creators.entry(record.creator).or_default();
        own.add(record.bytes);
        held.together.add(record.bytes);
        all.add(record.bytes);
        kept.push_back(record);
    }
    let part = |(holder, held): &(&RecordOwner<'a>, &mut Held<'a, K>)| match holder {
        RecordOwner::Cohort(_) => held.together.part(&room) / COHORT,
        RecordOwner::Creator(_) => held.together.part(&room),
    };
    let mut surplus = Vec::new();
    while surplus.len() < most && !all.fits(&room) {
        let largest = holders.iter_mut().max_by(|one, other| part(one).total_cmp(&part(other)));
        let Some(record) = largest.and_then(|(_, held)| held.pop(&room)) else { break };
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
        let record = |(key, &(creator, bytes))| Forgettable { key, creator, cohort: None, bytes };
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

    /// A hundred user ids of one group push out no more than two clients could.
    #[test]
    fn members_of_one_group_have_two_parts() {
        let names: Vec<String> = (0..100).map(|uid| format!("uid:{uid}")).collect();
        let of = |creator, cohort, key| Forgettable { key, creator, cohort, bytes: 1 };
        let own = (0..30).map(|key| of("own", None, key));
        let other = (30..60).map(|key| of("other", None, key));
        let group = Some(Cohort::Group(7));
        let members = names.iter().enumerate();
        let members =
            members.flat_map(|(at, name)| [100 + at, 200 + at].map(|key| of(name, group, key)));
        let room = RetentionBound { records: 100, bytes: 100 };
        let gone = surplus(own.chain(other).chain(members), room, usize::MAX);
        let kept = |from: usize, until: usize| {
            until - from - gone.iter().filter(|key| (from..until).contains(*key)).count()
        };
        let (own, other) = (kept(0, 30), kept(30, 60));
        assert!((24..=26).contains(&own) && (24..=26).contains(&other), "{own} and {other} of 100");
        assert_eq!(gone.len(), 160);
        assert!(gone.iter().filter(|key| **key >= 200).count() <= 50, "the newer ones first");
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
