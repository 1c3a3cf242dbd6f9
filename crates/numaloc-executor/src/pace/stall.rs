//! Bytes that one call may hold so that it ends in time, learnt from the calls before. Pure.

use crate::pages::folio::Class;
use numaloc_core::{Pace, number};
use std::{collections::BTreeMap, time::Duration};

/// The least that a call holds; a single folio may be larger. Smaller calls are hardly shorter, because of the fixed price of
/// each call (mm/swap.c, `lru_cache_disable`).
pub const LEAST: u64 = 256 << 10;

/// The speed that is assumed before the first call, in bytes per second. The machines that were measured are ten times as fast.
const FIRST_GUESS: u64 = 100 << 20;

/// Where even calls of the least size are too long, one this many times as large is tried, to see whether it takes little longer.
const STRIDE: u64 = 4;
/// Most calls of the least size between two such tries.
const LONGEST_GAP: u32 = 64;

/// Bytes of each class of folios that fit into a call of the longest time that is allowed.
#[derive(Clone, Debug)]
pub struct Stall {
    longest: Duration,
    most: u64,
    /// Bytes that the first call with folios of a class may hold.
    first: u64,
    fitting: BTreeMap<Class, u64>,
    floors: BTreeMap<Class, Floor>,
}

/// Tells of a class whose calls are too long even at the least size. On a busy host each call has a price, whatever it holds
/// (mm/swap.c, `lru_cache_disable`: a grace period, and CPUs whose lists of pages are not empty have to empty them; before Linux 5.18 each
/// CPU had to take part): small calls would pay it over and over.
#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    /// Time that a call of the least size takes, in seconds; 0 if it is not too long.
    price: f64,
    /// Calls to go before a larger one is tried. `gap` is how many there were the last time.
    wait: u32,
    gap: u32,
}

impl Floor {
    /// Counts a call of the least size that took too long: `took` seconds. Returns whether to try a larger one.
    fn paid(&mut self, took: f64) -> bool {
        self.price = if self.price == 0.0 { took } else { (self.price + took) / 2.0 };
        self.wait = self.wait.saturating_sub(1);
        self.wait == 0
    }

    /// Whether a larger call of `took` seconds was worth it: it took no more than twice the price. If it was not, the bytes take
    /// the time and not the call as such.
    fn is_worth(&mut self, took: f64) -> bool {
        let worth = took <= 2.0 * self.price;
        self.gap = if worth { 0 } else { (2 * self.gap + 1).min(LONGEST_GAP) };
        self.wait = self.gap;
        worth
    }
}

impl Stall {
    /// Calls are to end within `longest` and to hold at most `most` bytes; a single folio may be larger.
    pub fn new(longest: Duration, most: u64) -> Self {
        let first = u128::from(FIRST_GUESS) * longest.as_nanos() / 1_000_000_000;
        let first = u64::try_from(first).unwrap_or(u64::MAX).max(LEAST).min(most);
        let (fitting, floors) = Default::default();
        Self { longest, most, first, fitting, floors }
    }

    /// As a pace asks. Calls hold at most `most` bytes.
    pub fn paced(pace: &Pace, most: u64) -> Self {
        let stall = Self::new(pace.max_stall, most);
        if pace.starts_full { Self { first: most, ..stall } } else { stall }
    }

    /// The longest time that a call is to take.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Bytes of a class that the next call may hold.
    pub fn bytes(&self, class: Class) -> u64 {
        self.fitting.get(&class).copied().unwrap_or(self.first)
    }

    /// Learns from a call. If a full call took at most half of the longest time, the next one may hold half as much again. If a
    /// call took too long, the next one is cut to 3/4 of the bytes that would have fitted at its speed. So one slow
    /// call costs only a few smaller calls after it. Where even calls of the least size are too long, larger calls
    /// that take little longer are used.
    pub fn learn(&mut self, class: Class, bytes: u64, took: Duration) {
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
            if !is_full {
                now
            } else if floor.is_worth(seconds) {
                now.saturating_add(now / 2)
            } else {
                LEAST
            }
        } else {
            let share = self.longest.as_secs_f64() / seconds;
            now.min(number::whole(bytes as f64 * share * 0.75)).max(LEAST)
        };
        self.fitting.insert(class, next.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Pacing, Profile};
    use proptest::{collection::vec, option, prelude::*};

    const MS: Duration = Duration::from_millis(1);
    const MOST: u64 = 64 << 20;

    /// A kernel that takes a fixed time for each call, and a time for each KiB.
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
        fn only_a_pace_without_a_bound_of_its_own_starts_full(max_stall in option::of(1u32..5000)) {
            let max_stall = max_stall.map(|ms| MS * ms);
            for profile in Profile::ALL {
                let pace = Pacing { profile, max_stall, ..Pacing::default() }.pace();
                let first = Stall::paced(&pace, MOST).bytes(Class::Base);
                let guess = Stall::new(pace.max_stall, MOST).bytes(Class::Base);
                let is_full = profile == Profile::Fast && max_stall.is_none();
                prop_assert_eq!(first, if is_full { MOST } else { guess });
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
            // At a fixed price of 200 calls, or twice that, much more moves than 200 calls of the least size hold.
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
    fn classes_are_learnt_apart() {
        let mut stall = Stall::new(MS * 10, MOST);
        let before = stall.bytes(Class::Huge);
        stall.learn(Class::Base, stall.bytes(Class::Base), MS * 100);
        assert_eq!(stall.bytes(Class::Huge), before);
        assert!(stall.bytes(Class::Base) < before);
    }
}
