//! How much one call may take on, so that it is over in time: learnt from the calls before. Pure.

use crate::folio::Class;
use std::{collections::BTreeMap, time::Duration};

/// What a call takes on at least, unless a single folio is larger. Below, calls hardly get shorter: what a call costs
/// besides its pages (mm/swap.c, `lru_cache_disable`) stays.
pub const LEAST: u64 = 256 << 10;

/// What is supposed of a machine before the first call, in bytes per second; those that were measured are ten times as
/// fast.
const FIRST_GUESS: u64 = 100 << 20;

/// By so much the fastest calls are held to be slower each time that calls are compared with them: of late, within some five
/// seconds, is meant, for what is slow for good has become the usual.
const FADING: f64 = 1.06;

/// By so much more at once it is tried whether calls of the least size are as long as larger ones.
const STRIDE: u64 = 4;
/// Calls of the least size between two such tries, at the most.
const LONGEST_GAP: u32 = 64;

/// How many bytes of each class of folios fit into a call of the longest time that is allowed.
#[derive(Clone, Debug)]
pub struct Stall {
    longest: Duration,
    most: u64,
    fitting: BTreeMap<Class, u64>,
    floors: BTreeMap<Class, Floor>,
    /// The fastest call of late by class and binary logarithm of its bytes, in seconds per byte.
    fastest: BTreeMap<(Class, u32), f64>,
    slowdown: f64,
}

/// Calls of the least size that are too long all the same. On a busy host each has a price, whatever it holds (every CPU has to
/// come to mm/swap.c, `lru_add_drain_all`): small ones would pay it over and over.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// What such a call takes, in seconds; 0 where it is not too long.
    price: f64,
    /// Calls to go before a larger one is tried, and how many there were the last time.
    wait: u32,
    gap: u32,
}

impl Floor {
    /// A call of the least size took so many seconds, too many. Says whether a larger one is to be tried.
    fn paid(&mut self, took: f64) -> bool {
        self.price = if self.price == 0.0 { took } else { (self.price + took) / 2.0 };
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0
    }

    /// Whether a larger call that took so many seconds was worth it: no more than twice the price. Else it is the bytes that
    /// take so long.
    fn is_worth(&mut self, took: f64) -> bool {
        let worth = took <= 2.0 * self.price;
        self.gap = if worth { 0 } else { (2 * self.gap + 1).min(LONGEST_GAP) };
        self.wait = self.gap;
        worth
    }
}

impl Stall {
    /// Calls are to be over within `longest` and never hold more than `most` bytes, unless a single folio does.
    pub fn new(longest: Duration, most: u64) -> Self {
        let (fitting, floors, fastest) = Default::default();
        Self { longest, most, fitting, floors, fastest, slowdown: 1.0 }
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

    /// How much longer the last calls took than the fastest ones of their size of late; 1: as long. To be asked four times a
    /// second.
    pub fn slowdown(&mut self) -> f64 {
        self.fastest.values_mut().for_each(|each| *each *= FADING);
        self.slowdown
    }

    /// Learns from a call: with a good margin the next one may hold half as much again, and when it was too long it is
    /// cut to what would have fitted at its speed, and a margin less. So whatever slowed one call down costs a few smaller
    /// ones after it, and no more. Where calls are too long however small, larger ones that take little longer are better.
    pub fn learn(&mut self, class: Class, bytes: u64, took: Duration) {
        self.compare(class, bytes, took);
        let now = self.bytes(class);
        let is_full = bytes.saturating_mul(2) > now;
        let floor = self.floors.entry(class).or_default();
        let seconds = took.as_secs_f64();
        let next = if took <= self.longest / 2 && is_full {
            *floor = Floor::default();
            now.saturating_add(now / 2)
        } else if took <= self.longest {
            now
        } else if now <= LEAST {
            if floor.paid(seconds) { LEAST * STRIDE } else { LEAST }
        } else if floor.price > 0.0 {
            match is_full {
                true if floor.is_worth(seconds) => now.saturating_add(now / 2),
                true => LEAST,
                false => now,
            }
        } else {
            let share = self.longest.as_secs_f64() / seconds;
            now.min((bytes as f64 * share * 0.75) as u64).max(LEAST)
        };
        self.fitting.insert(class, next.min(self.most));
    }

    fn compare(&mut self, class: Class, bytes: u64, took: Duration) {
        let each = took.as_secs_f64() / bytes.max(1) as f64;
        let fastest = self.fastest.entry((class, bytes.max(1).ilog2())).or_insert(each);
        *fastest = fastest.min(each);
        self.slowdown = (3.0 * self.slowdown + each / fastest.max(f64::MIN_POSITIVE)) / 4.0;
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
        }

        #[test]
        fn calls_that_are_too_long_for_their_bytes_stay_small(per_kib_us in 100u64..1_000) {
            let mut stall = Stall::new(MS * 10, MOST);
            let mut large = 0;
            for _ in 0..300 {
                let bytes = stall.bytes(Class::Base);
                large += u32::from(bytes > LEAST);
                stall.learn(Class::Base, bytes, took(0, per_kib_us * 1000, bytes));
            }
            prop_assert!(large < 20, "{large} large calls");
        }

        #[test]
        fn calls_that_are_too_long_however_small_are_large(price_ms in 12u32..3000, noise in vec(0.7f64..1.4, 7)) {
            let mut stall = Stall::new(MS * 10, MOST);
            let (mut sum, mut time) = (0, Duration::ZERO);
            for call in 0..200 {
                let bytes = stall.bytes(Class::Base);
                let took = (MS * price_ms + took(0, 1000, bytes)).mul_f64(noise[call % 7]);
                stall.learn(Class::Base, bytes, took);
                (sum, time) = (sum + bytes, time + took);
            }
            // A fixed price of 200 calls, and twice that, has moved a lot more than 200 of the least.
            prop_assert!(sum > 200 * 8 * LEAST, "{} MiB in {time:?}", sum >> 20);
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
    fn what_is_slow_for_good_is_the_usual_after_a_while() {
        let mut stall = Stall::new(MS * 10, MOST);
        stall.learn(Class::Base, 1 << 20, MS);
        let seconds = |stall: &mut Stall, count| {
            for _ in 0..count * 4 {
                (0..3).for_each(|_| stall.learn(Class::Base, 1 << 20, MS * 4));
                stall.slowdown();
            }
        };
        seconds(&mut stall, 1);
        assert!(stall.slowdown() > 2.0);
        seconds(&mut stall, 5);
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
