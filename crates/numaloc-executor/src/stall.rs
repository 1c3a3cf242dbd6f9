//! How much one call may take on, so that it is over in time: learnt from the calls before. Pure.

use crate::folio::Class;
use std::{collections::BTreeMap, time::Duration};

/// What a call takes on at least, unless a single folio is larger. Below, calls hardly get shorter: what a call costs
/// besides its pages (mm/swap.c, `lru_cache_disable`) stays.
pub const LEAST: u64 = 256 << 10;

/// What is supposed of a machine before the first call, in bytes per second; those that were measured are ten times as
/// fast.
const FIRST_GUESS: u64 = 100 << 20;

/// How many bytes of each class of folios fit into a call of the longest time that is allowed.
#[derive(Clone, Debug)]
pub struct Stall {
    longest: Duration,
    most: u64,
    fitting: BTreeMap<Class, u64>,
    /// The fastest call by class and binary logarithm of its bytes, in seconds per byte.
    fastest: BTreeMap<(Class, u32), f64>,
    slowdown: f64,
}

impl Stall {
    /// Calls are to be over within `longest` and never hold more than `most` bytes, unless a single folio does.
    pub fn new(longest: Duration, most: u64) -> Self {
        Self { longest, most, fitting: BTreeMap::new(), fastest: BTreeMap::new(), slowdown: 1.0 }
    }

    /// The longest time that a call is to take.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// How much the next call may hold of a class.
    pub fn bytes(&self, class: Class) -> u64 {
        let first = || {
            let bytes = u128::from(FIRST_GUESS) * self.longest.as_nanos() / 1_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST)
        };
        self.fitting.get(&class).copied().unwrap_or_else(first).min(self.most)
    }

    /// How much longer the last calls took than the fastest ones of their size; 1: as long.
    pub fn slowdown(&self) -> f64 {
        self.slowdown
    }

    /// Learns from a call: with a good margin the next one may hold half as much again, and when it was too long it is
    /// cut to what would have fitted at its speed, and a margin less. So whatever slowed one call down costs a few smaller
    /// ones after it, and no more.
    pub fn learn(&mut self, class: Class, bytes: u64, took: Duration) {
        let each = took.as_secs_f64() / bytes.max(1) as f64;
        let fastest = self.fastest.entry((class, bytes.max(1).ilog2())).or_insert(each);
        *fastest = fastest.min(each);
        self.slowdown = (3.0 * self.slowdown + each / fastest.max(f64::MIN_POSITIVE)) / 4.0;
        let now = self.bytes(class);
        let next = if took > self.longest {
            let share = self.longest.as_secs_f64() / took.as_secs_f64();
            now.min((bytes as f64 * share * 0.75) as u64).max(LEAST)
        } else if took <= self.longest / 2 && bytes.saturating_mul(2) > now {
            now.saturating_add(now / 2)
        } else {
            now
        };
        self.fitting.insert(class, next.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    const MS: Duration = Duration::from_millis(1);
    const MOST: u64 = 64 << 20;

    /// A kernel that takes a fixed time a call and a time a KiB.
    fn took(fixed_ns: u64, per_kib_ns: u64, bytes: u64) -> Duration {
        Duration::from_nanos(fixed_ns + per_kib_ns * (bytes >> 10))
    }

    proptest! {
        #[test]
        fn calls_come_to_use_most_of_the_time_and_not_more(
            longest in 1u64..300,
            per_kib_ns in 10u64..3_000,
            fixed_ns in 0u64..200_000,
        ) {
            let longest = MS * longest as u32;
            let mut stall = Stall::new(longest, MOST);
            let call = |stall: &mut Stall| {
                let bytes = stall.bytes(Class::Base);
                let took = took(fixed_ns, per_kib_ns, bytes);
                stall.learn(Class::Base, bytes, took);
                (bytes, took)
            };
            (0..30).for_each(|_| {
                call(&mut stall);
            });
            for _ in 0..30 {
                let (bytes, took) = call(&mut stall);
                prop_assert!(took <= longest || bytes == LEAST, "{took:?} for {bytes}");
                prop_assert!(took >= longest / 3 || bytes == MOST, "{took:?} for {bytes}");
            }
        }

        #[test]
        fn one_slow_call_is_soon_forgotten_and_many_are_not(slow in 2u32..1000) {
            let longest = MS * 10;
            let mut stall = Stall::new(longest, 16 << 20);
            (0..30).for_each(|_| stall.learn(Class::Base, stall.bytes(Class::Base), MS));
            prop_assert_eq!(stall.bytes(Class::Base), 16 << 20);
            stall.learn(Class::Base, 16 << 20, longest * slow);
            prop_assert!(stall.bytes(Class::Base) <= ((16 << 20) / u64::from(slow)).max(LEAST));
            (0..12).for_each(|_| stall.learn(Class::Base, stall.bytes(Class::Base), MS));
            prop_assert_eq!(stall.bytes(Class::Base), 16 << 20);
            (0..12).for_each(|_| stall.learn(Class::Base, stall.bytes(Class::Base), longest * slow));
            prop_assert_eq!(stall.bytes(Class::Base), LEAST);
        }

        #[test]
        fn whatever_calls_take_the_next_holds_something(
            calls in vec((0u64..1 << 31, 0u64..1 << 40), 1..50),
            most in 4096u64..1 << 30,
        ) {
            let mut stall = Stall::new(MS * 5, most);
            for (bytes, nanos) in calls {
                stall.learn(Class::Huge, bytes, Duration::from_nanos(nanos));
                let next = stall.bytes(Class::Huge);
                prop_assert!(next >= LEAST.min(most) && next <= most);
            }
        }
    }

    #[test]
    fn a_call_that_was_not_full_says_little() {
        let mut stall = Stall::new(MS * 10, MOST);
        let before = stall.bytes(Class::Base);
        stall.learn(Class::Base, 4096, MS / 10);
        assert_eq!(stall.bytes(Class::Base), before);
    }

    #[test]
    fn calls_are_compared_with_the_fastest_of_their_size() {
        let mut stall = Stall::new(MS * 10, MOST);
        (0..9).for_each(|_| stall.learn(Class::Base, 1 << 20, MS));
        assert_eq!(stall.slowdown(), 1.0);
        // What a call costs besides its pages weighs more in a small one: no sign of anything.
        stall.learn(Class::Base, 1 << 14, MS);
        assert_eq!(stall.slowdown(), 1.0);
        (0..9).for_each(|_| stall.learn(Class::Base, 1 << 20, MS * 4));
        assert!(stall.slowdown() > 3.0);
        (0..9).for_each(|_| stall.learn(Class::Base, 1 << 20, MS));
        assert!(stall.slowdown() < 1.5);
    }

    #[test]
    fn classes_are_learnt_apart() {
        let mut stall = Stall::new(MS * 10, MOST);
        let before = stall.bytes(Class::Huge);
        stall.learn(Class::Base, stall.bytes(Class::Base), MS * 100);
        assert_eq!(stall.bytes(Class::Huge), before);
        assert!(stall.bytes(Class::Base) < before);
    }
}
