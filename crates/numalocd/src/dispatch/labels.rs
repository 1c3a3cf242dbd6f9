//! Finds workloads by label selectors. A selector may have 64 conditions, there may be ten thousand workloads, and the
//! dispatcher asks for each schedule that is due: a condition is a set of workloads, and sets are intersected 64
//! workloads at a time.

use numaloc_api::value::{Condition, Selector, Workload, WorkloadId};
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher, RandomState},
    iter::successors,
    sync::Arc,
};

/// Index of workloads by namespace and labels.
#[derive(Debug, Default)]
pub struct Labels {
    /// Each workload has a slot, which keeps its number while the workload changes.
    slots: Vec<Option<Arc<Workload>>>,
    free: Vec<usize>,
    by_id: HashMap<WorkloadId, usize>,
    all: More,
    /// The workloads with each [`ConditionKey`]. Labels may be hundreds of thousands, and the records have their text
    /// already.
    having: HashMap<Hash, Set>,
    keys: [RandomState; 2],
}

/// Two hashes of a [`ConditionKey`], with secret random keys: no two parts have the same.
type Hash = [u64; 2];

/// Something that a condition may ask for.
#[derive(Clone, Copy, Debug, Hash)]
enum ConditionKey<'a> {
    Namespace(&'a str),
    /// A label, with any value.
    Key(&'a str),
    Label(&'a str, &'a str),
}

/// The workloads that a selector selects.
#[derive(Debug)]
pub struct Matches<'a> {
    labels: &'a Labels,
    bits: Vec<u64>,
}

impl Labels {
    /// Adds a workload, or replaces the one of its name.
    pub fn put(&mut self, workload: &Arc<Workload>) {
        self.remove(&workload.spec.id);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let of = self.slots.len();
        self.all.add(slot as u32, of);
        for part in parts(workload) {
            match self.having.entry(hash(&self.keys, part)) {
                Entry::Occupied(mut set) => set.get_mut().add(slot as u32, of),
                Entry::Vacant(none) => drop(none.insert(Set::One(slot as u32))),
            }
        }
        self.by_id.insert(workload.spec.id.clone(), slot);
        self.slots[slot] = Some(workload.clone());
    }

    pub fn remove(&mut self, id: &WorkloadId) {
        let Some(slot) = self.by_id.remove(id) else { return };
        let Some(workload) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        self.free.push(slot);
        self.all.remove(slot as u32);
        for part in parts(&workload) {
            if let Entry::Occupied(mut set) = self.having.entry(hash(&self.keys, part))
                && set.get_mut().remove(slot as u32)
            {
                set.remove();
            }
        }
    }

    /// The workloads that `selector` selects, as [`Selector::matches`] does.
    pub fn select(&self, selector: &Selector) -> Matches<'_> {
        let mut bits = vec![0; self.slots.len().div_ceil(64)];
        match &selector.namespace {
            Some(namespace) => self.having(ConditionKey::Namespace(namespace)).add_to(&mut bits),
            None => self.all.add_to(&mut bits),
        }
        let mut these = vec![0; bits.len()];
        for required in &selector.requirements {
            if bits.iter().all(|word| *word == 0) {
                break;
            }
            these.fill(0);
            let key = required.key.as_str();
            match &required.condition {
                Condition::In(values) | Condition::NotIn(values) => {
                    values.iter().for_each(|value| {
                        self.having(ConditionKey::Label(key, value)).add_to(&mut these)
                    })
                }
                Condition::Exists | Condition::DoesNotExist => {
                    self.having(ConditionKey::Key(key)).add_to(&mut these);
                }
            }
            let both = bits.iter_mut().zip(&these);
            match &required.condition {
                Condition::In(_) | Condition::Exists => both.for_each(|(word, it)| *word &= it),
                Condition::NotIn(_) | Condition::DoesNotExist => {
                    both.for_each(|(word, it)| *word &= !it);
                }
            }
        }
        Matches { labels: self, bits }
    }

    fn having(&self, part: ConditionKey<'_>) -> &Set {
        self.having.get(&hash(&self.keys, part)).unwrap_or(&Set::None)
    }
}

fn parts(workload: &Workload) -> impl Iterator<Item = ConditionKey<'_>> {
    let namespace = workload.spec.namespace.as_deref().map(ConditionKey::Namespace);
    let labels = workload.spec.labels.iter();
    namespace.into_iter().chain(
        labels.flat_map(|(key, value)| [ConditionKey::Key(key), ConditionKey::Label(key, value)]),
    )
}

fn hash(keys: &[RandomState; 2], part: ConditionKey<'_>) -> Hash {
    keys.each_ref().map(|keys| keys.hash_one(part))
}

impl<'a> Matches<'a> {
    /// Whether a workload is among them.
    pub fn has(&self, id: &WorkloadId) -> bool {
        let slot = self.labels.by_id.get(id);
        slot.is_some_and(|slot| self.bits[slot / 64] >> (slot % 64) & 1 == 1)
    }

    /// The workloads, in no order of meaning.
    pub fn iter(&self) -> impl Iterator<Item = &'a Arc<Workload>> {
        let slots = self.bits.iter().enumerate().flat_map(|(at, &word)| slots_in(at, word));
        slots.filter_map(|slot| self.labels.slots[slot].as_ref())
    }
}

/// The slots of a word of bits, of which `at` come before it.
fn slots_in(at: usize, word: u64) -> impl Iterator<Item = usize> {
    let some = |word: u64| Some(word).filter(|word| *word > 0);
    let words = successors(some(word), move |word| some(word & (word - 1)));
    words.map(move |word| at * 64 + word.trailing_zeros() as usize)
}

/// A set of slots. Many labels are those of one workload, and some are those of nearly all.
#[derive(Debug)]
enum Set {
    None,
    One(u32),
    More(Box<More>),
}

impl Set {
    fn add(&mut self, slot: u32, of: usize) {
        match self {
            Self::None => *self = Self::One(slot),
            Self::One(other) => *self = Self::More(Box::new(More::Few(vec![*other, slot]))),
            Self::More(more) => more.add(slot, of),
        }
    }

    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::None | Self::One(_) => true,
            Self::More(more) => more.remove(slot),
        }
    }

    fn add_to(&self, all: &mut [u64]) {
        match self {
            Self::None => {}
            Self::One(slot) => all[*slot as usize / 64] |= 1 << (slot % 64),
            Self::More(more) => more.add_to(all),
        }
    }
}

/// A set of slots, as numbers or as bits.
#[derive(Debug)]
enum More {
    Few(Vec<u32>),
    Many { bits: Vec<u64>, count: usize },
}

impl Default for More {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl More {
    /// Adds a slot that it does not have. `of`: how many slots there are.
    fn add(&mut self, slot: u32, of: usize) {
        self.reshape(of);
        match self {
            Self::Few(slots) => slots.push(slot),
            Self::Many { bits, count } => {
                set(bits, slot);
                *count += 1;
            }
        }
    }

    /// Bits take less room than numbers if it has one slot in 32. A set that has shrunk since is kept as numbers again.
    fn reshape(&mut self, of: usize) {
        match self {
            Self::Few(slots) if (slots.len() + 1) * 32 > of => {
                let (mut bits, count) = (Vec::new(), slots.len());
                slots.iter().for_each(|&slot| set(&mut bits, slot));
                *self = Self::Many { bits, count };
            }
            Self::Many { bits, count } if (*count + 1) * 128 < of => {
                let slots = bits.iter().enumerate().flat_map(|(at, &word)| slots_in(at, word));
                *self = Self::Few(slots.map(|slot| slot as u32).collect());
            }
            Self::Few(_) | Self::Many { .. } => {}
        }
    }

    /// Removes a slot that it has. Gives back whether it is empty then.
    fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::Few(slots) => {
                if let Some(at) = slots.iter().position(|&other| other == slot) {
                    slots.swap_remove(at);
                }
                slots.is_empty()
            }
            Self::Many { bits, count } => {
                bits[slot as usize / 64] &= !(1 << (slot % 64));
                *count -= 1;
                *count == 0
            }
        }
    }

    fn add_to(&self, all: &mut [u64]) {
        match self {
            Self::Few(slots) => {
                slots.iter().for_each(|slot| all[*slot as usize / 64] |= 1 << (slot % 64));
            }
            Self::Many { bits, .. } => {
                all.iter_mut().zip(bits).for_each(|(word, these)| *word |= these);
            }
        }
    }
}

fn set(bits: &mut Vec<u64>, slot: u32) {
    let at = slot as usize / 64;
    if bits.len() <= at {
        bits.resize(at + 1, 0);
    }
    bits[at] |= 1 << (slot % 64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::{Requirement, WorkloadSpec};
    use proptest::prelude::*;
    use std::{
        collections::{BTreeMap, BTreeSet},
        time::SystemTime,
    };

    /// A workload that has the labels `a` to `d` where its number has the bits; the value is the rest of its number.
    fn workload(id: u16, number: u32) -> Arc<Workload> {
        let has = |bit: &usize| number >> bit & 1 == 1;
        let label =
            |bit: usize| (["a", "b", "c", "d"][bit].to_owned(), (number >> 4 & 3).to_string());
        let spec = WorkloadSpec {
            namespace: Some((number >> 6 & 3).to_string()).filter(|_| number >> 8 & 1 == 1),
            labels: (0..4).filter(has).map(label).collect(),
            ..WorkloadSpec::new(WorkloadId::new(&format!("w{id}")).expect("an id"), "/a")
        };
        Arc::new(Workload::new(spec, "uid:7".to_owned(), SystemTime::UNIX_EPOCH))
    }

    fn selectors() -> impl Strategy<Value = Selector> {
        let values = || proptest::collection::btree_set("[0-4]", 1..4);
        let condition = prop_oneof![
            values().prop_map(Condition::In),
            values().prop_map(Condition::NotIn),
            Just(Condition::Exists),
            Just(Condition::DoesNotExist),
        ];
        let required =
            ("[a-e]", condition).prop_map(|(key, condition)| Requirement { key, condition });
        let requirements = proptest::collection::btree_set(required, 0..4);
        let namespace = proptest::option::of("[0-4]");
        (namespace, requirements)
            .prop_map(|(namespace, requirements)| Selector { namespace, requirements })
    }

    proptest! {
        #[test]
        fn what_is_selected_is_what_matches(
            changes in proptest::collection::vec((0..300_u16, proptest::option::of(0..512_u32)), 0..600),
            selectors in proptest::collection::vec(selectors(), 1..8),
        ) {
            let (mut labels, mut known) = (Labels::default(), BTreeMap::new());
            for (id, number) in changes {
                let id_of = workload(id, 0).spec.id.clone();
                match number {
                    Some(number) => {
                        labels.put(&workload(id, number));
                        known.insert(id_of, workload(id, number));
                    }
                    None => {
                        labels.remove(&id_of);
                        known.remove(&id_of);
                    }
                }
            }
            for selector in selectors {
                let matches = labels.select(&selector);
                let expected: BTreeSet<_> =
                    known.iter().filter(|(_, it)| it.spec.is_selected(&selector)).map(|(id, _)| id).collect();
                let found: BTreeSet<_> = matches.iter().map(|it| &it.spec.id).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert!(known.keys().all(|id| matches.has(id) == expected.contains(id)));
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_is_removed() {
        let mut labels = Labels::default();
        (0..1000).for_each(|id| labels.put(&workload(id, u32::from(id))));
        // The same again, under the same names.
        (0..1000).for_each(|id| labels.put(&workload(id, u32::from(id))));
        assert_eq!((labels.slots.len(), labels.by_id.len()), (1000, 1000));
        let Set::More(more) = labels.having(ConditionKey::Key("a")) else {
            panic!("there are 500")
        };
        assert!(matches!(**more, More::Many { count: 500, .. }));
        (0..1000).for_each(|id| labels.remove(&workload(id, 0).spec.id));
        assert!(labels.having.is_empty() && labels.by_id.is_empty());
        assert_eq!(labels.select(&Selector::default()).iter().count(), 0);
    }
}
