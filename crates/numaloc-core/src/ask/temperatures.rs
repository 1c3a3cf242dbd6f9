//! Which memory has been used and which has not, as measured over a while.

use crate::{
    ask::{
        directions::{self, Resting},
        heat::{Heat, Sightings},
    },
    machine::process::Identity,
};
use std::{collections::BTreeMap, ops::Range};

/// Share of the looks at a range that have to find it used, for it to be hot: a twentieth.
const HOT: f64 = 0.05;
/// Share of a range that has to have been looked at. Addresses of regions are multiples of pages, and means are rounded.
const SEEN: f64 = 0.999;

/// The use of a range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Temperature {
    /// Not looked at, in full or all the time.
    Unseen,
    /// Never used while it was watched.
    Cold,
    /// Used, but seldom, or only a small part of it.
    Warm,
    /// Used in a twentieth of the looks at it, or more often.
    Hot,
}

/// What was seen while the memory of processes was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sights {
    /// How often each range was found used.
    used: Sightings,
    /// How often each range was looked at.
    looked: Sightings,
    /// The number of looks that each result stands for, summed up.
    looks: u32,
    /// Number of results.
    results: u32,
}

impl Sights {
    /// Nothing seen yet, of this number of processes.
    pub fn new(processes: usize) -> Self {
        let none = || Sightings::new(processes);
        Self { used: none(), looked: none(), looks: 0, results: 0 }
    }

    /// Begins a result in which each range has been looked at this many times.
    pub fn begin(&mut self, looks: u32) {
        self.results += 1;
        self.looks += looks;
    }

    /// Adds a range to the present result, which was found used this many times.
    pub fn add(&mut self, process: usize, range: Range<u64>, used: u32) {
        self.looked.add(process, range.clone(), 1);
        self.add_use(process, range, used);
    }

    /// Adds to the times that a range of the present result was found used.
    pub fn add_use(&mut self, process: usize, range: Range<u64>, used: u32) {
        self.used.add(process, range, used);
    }

    /// The scores alone: how often each range was found used.
    pub fn into_heat(self) -> Heat {
        self.used.into()
    }
}

/// The use of the memory of processes over a while, by range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Temperatures {
    places: BTreeMap<Identity, usize>,
    used: Heat,
    looked: Heat,
    looks: u32,
    results: u32,
    resting: Resting,
}

impl Temperatures {
    /// What `sights` have of these processes, in the order of their indexes there.
    pub fn new(processes: impl IntoIterator<Item = Identity>, sights: Sights) -> Self {
        let Sights { used, looked, looks, results } = sights;
        let places = processes.into_iter().zip(0..).collect();
        Self {
            places,
            used: used.into(),
            looked: looked.into(),
            looks,
            results,
            resting: Resting::new(),
        }
    }

    /// The same, with what rests.
    #[must_use]
    pub fn with_resting(self, resting: Resting) -> Self {
        Self { resting, ..self }
    }

    /// Whether a range of a process is not to be moved in this direction now.
    pub fn rests(&self, identity: Identity, range: Range<u64>, is_up: bool) -> bool {
        directions::rests(&self.resting, identity, &range, is_up)
    }

    /// The use of a range that these processes map, each at an address of its own.
    pub fn of(&self, mappings: impl IntoIterator<Item = (Identity, Range<u64>)>) -> Temperature {
        let each = mappings.into_iter().map(|(identity, range)| self.of_one(identity, range));
        let (mut any_hot, mut any_unseen, mut any_warm, mut is_mapped) =
            (false, false, false, false);
        for temperature in each {
            is_mapped = true;
            any_hot |= temperature == Temperature::Hot;
            any_warm |= temperature == Temperature::Warm;
            any_unseen |= temperature == Temperature::Unseen;
        }
        match (any_hot, any_unseen || !is_mapped, any_warm) {
            (true, _, _) => Temperature::Hot,
            (false, true, _) => Temperature::Unseen,
            (false, false, true) => Temperature::Warm,
            (false, false, false) => Temperature::Cold,
        }
    }

    fn of_one(&self, identity: Identity, range: Range<u64>) -> Temperature {
        let Some(&place) = self.places.get(&identity).filter(|_| self.results > 0) else {
            return Temperature::Unseen;
        };
        let used = self.used.mean(place, range.clone()) / f64::from(self.looks.max(1));
        let looked = self.looked.mean(place, range) / f64::from(self.results);
        if used >= HOT {
            Temperature::Hot
        } else if looked < SEEN {
            Temperature::Unseen
        } else if used > 0.0 {
            Temperature::Warm
        } else {
            Temperature::Cold
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Identity = Identity { pid: 1, start_time: 7 };
    const OTHER: Identity = Identity { pid: 2, start_time: 7 };

    fn temperatures(results: &[&[(usize, Range<u64>, u32)]]) -> Temperatures {
        let mut sights = Sights::new(2);
        for result in results {
            sights.begin(20);
            result
                .iter()
                .for_each(|(process, range, used)| sights.add(*process, range.clone(), *used));
        }
        Temperatures::new([ONE, OTHER], sights)
    }

    #[test]
    fn cold_is_what_was_seen_all_the_time_and_never_used() {
        let seen = temperatures(&[
            &[(0, 0..10, 0), (0, 10..20, 20), (0, 20..30, 0), (0, 30..40, 1)],
            &[(0, 0..10, 0), (0, 10..20, 19), (0, 30..40, 0)],
        ]);
        let of = |range| seen.of([(ONE, range)]);
        assert_eq!(of(0..10), Temperature::Cold);
        assert_eq!(of(10..20), Temperature::Hot);
        assert_eq!(of(20..30), Temperature::Unseen, "it was looked at once");
        assert_eq!(of(30..40), Temperature::Warm);
        assert_eq!(of(0..20), Temperature::Hot, "part of it is used");
        assert_eq!(of(40..50), Temperature::Unseen);
        assert_eq!(seen.of([(OTHER, 0..10)]), Temperature::Unseen);
        let stranger = Identity { pid: 1, start_time: 8 };
        assert_eq!(
            seen.of([(stranger, 0..10)]),
            Temperature::Unseen,
            "the pid has another process"
        );
        assert_eq!(Temperatures::default().of([(ONE, 0..10)]), Temperature::Unseen);
    }

    #[test]
    fn memory_of_several_is_used_if_one_uses_it() {
        let seen = temperatures(&[&[(0, 0..10, 0), (1, 50..60, 20), (1, 60..70, 0)]]);
        assert_eq!(seen.of([(ONE, 0..10), (OTHER, 50..60)]), Temperature::Hot);
        assert_eq!(seen.of([(ONE, 0..10), (OTHER, 60..70)]), Temperature::Cold);
        assert_eq!(seen.of([(ONE, 0..10), (OTHER, 90..99)]), Temperature::Unseen);
        assert_eq!(seen.of([]), Temperature::Unseen);
    }
}
