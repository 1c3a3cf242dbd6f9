//! The order of looks if not everything can be looked at all the time: large, busy and not recently seen things come
//! first, as far as a budget of CPU time allows.

use std::time::Duration;

/// Something that can be looked at again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate<K> {
    /// The caller's identifier, such as a pid.
    pub key: K,
    /// Its memory in bytes; urgency grows with the logarithm of this.
    pub bytes: u64,
    /// CPU time in percent of one CPU.
    pub cpu_percent: f64,
    /// Time since it was looked at; `None` if never.
    pub age: Option<Duration>,
}

/// A thing that has never been looked at counts as if it had not been for this long. It is not forever: on a host where
/// programs start all the time, long-lived programs have their turns, too.
const NEVER: Duration = Duration::from_secs(3600);

impl<K> Candidate<K> {
    /// Age, size and use multiplied. Size and use count by their logarithms. So the largest process of a large host is looked at
    /// some hundred times more often than a small idle one, and not a million times.
    fn urgency(&self) -> f64 {
        let steps = |amount: f64| 1.0 + (1.0 + amount.max(0.0)).log2();
        let age = self.age.unwrap_or(NEVER).as_secs_f64();
        age * steps(self.bytes as f64 / f64::from(1 << 20)) * steps(self.cpu_percent)
    }
}

/// The keys of the candidates, most urgent first. Candidates that were looked at less than `pause` ago are left out.
pub fn order<K: Ord>(
    candidates: impl IntoIterator<Item = Candidate<K>>,
    pause: Duration,
) -> Vec<K> {
    let is_due = |candidate: &Candidate<K>| candidate.age.is_none_or(|age| age >= pause);
    let due = candidates.into_iter().filter(is_due);
    let mut due: Vec<(f64, K)> = due.map(|each| (each.urgency(), each.key)).collect();
    due.sort_by(|(left, first), (right, second)| {
        right.total_cmp(left).then_with(|| first.cmp(second))
    });
    due.into_iter().map(|(_, key)| key).collect()
}

/// CPU time that may be used: a share of the time that goes by. Unused time is kept for a second at most. Time used
/// beyond that is earned before anything else is done.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    share: f64,
    /// Seconds that are left; below 0: owed.
    credit: f64,
    at: Duration,
}

/// Initial budget, so that the first look at a host of ten thousand processes does not take minutes.
pub const FIRST: Duration = Duration::from_millis(100);

impl Budget {
    /// A budget in percent of one CPU. Times are counted from any one moment.
    pub fn new(percent: f64, now: Duration) -> Self {
        Self { share: percent / 100.0, credit: FIRST.as_secs_f64(), at: now }
    }

    /// Adds the share of the time that has passed since the last call.
    pub fn earn(&mut self, now: Duration) {
        let earned = now.saturating_sub(self.at).as_secs_f64() * self.share;
        self.at = now.max(self.at);
        // The first credit may be larger than what is kept of later ones.
        self.credit = (self.credit + earned).min(self.share.max(self.credit));
    }

    /// Takes off CPU time that a look has used; the credit may become negative.
    pub fn spend(&mut self, used: Duration) {
        self.credit -= used.as_secs_f64();
    }

    /// Whether more may be used.
    pub fn is_left(&self) -> bool {
        self.credit > 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn candidate(key: u32, bytes: u64, cpu_percent: f64, age: Option<u64>) -> Candidate<u32> {
        Candidate { key, bytes, cpu_percent, age: age.map(Duration::from_secs) }
    }

    #[test]
    fn large_busy_and_stale_come_first_and_the_fresh_not_at_all() {
        let candidates = [
            candidate(1, 1 << 20, 0.0, Some(10)),
            candidate(2, 1 << 30, 0.0, Some(10)),
            candidate(3, 1 << 20, 50.0, Some(10)),
            candidate(4, 1 << 20, 0.0, Some(200)),
            candidate(5, 1 << 20, 0.0, None),
            candidate(6, 1 << 40, 900.0, Some(1)),
        ];
        assert_eq!(order(candidates, 2 * SECOND), [5, 4, 3, 2, 1]);
        assert_eq!(order([candidate(8, 0, 0.0, None), candidate(7, 0, 0.0, None)], SECOND), [7, 8]);
    }

    #[test]
    fn each_has_a_turn() {
        // One look a second, at a thousand processes of 4 KiB and one of 1 TiB that is busy.
        let mut looked: Vec<Option<u64>> = vec![None; 1001];
        let mut turns = vec![0; 1001];
        for now in 0..20_000 {
            let candidates = looked.iter().enumerate().map(|(index, at)| {
                let (bytes, cpu) = if index == 0 { (1 << 40, 800.0) } else { (4096, 0.0) };
                candidate(index as u32, bytes, cpu, at.map(|at| now - at))
            });
            let first = order(candidates, SECOND)[0] as usize;
            looked[first] = Some(now);
            turns[first] += 1;
        }
        assert!(turns[1..].iter().all(|&turns| turns >= 5), "{:?}", turns.iter().min());
        let most = turns[1..].iter().max().unwrap();
        assert!(turns[0] > 50 * most, "{} against {most}", turns[0]);
    }

    #[test]
    fn what_was_used_beyond_is_earned_first() {
        let mut budget = Budget::new(2.0, Duration::ZERO);
        assert!(budget.is_left());
        budget.spend(FIRST + 3 * SECOND / 50);
        budget.earn(2 * SECOND);
        assert!(!budget.is_left());
        budget.earn(4 * SECOND);
        assert!(budget.is_left());
        // A second's worth is kept of an hour.
        budget.earn(3600 * SECOND);
        budget.spend(Duration::from_millis(21));
        assert!(!budget.is_left());
    }

    proptest! {
        #[test]
        fn no_more_is_used_than_was_earned(percent in 0.1f64..100.0, steps in prop::collection::vec((0u64..3000, 1u64..50), 1..200)) {
            let mut budget = Budget::new(percent, Duration::ZERO);
            let (mut now, mut used, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
            for (pause, work) in steps {
                now += Duration::from_millis(pause);
                budget.earn(now);
                if budget.is_left() {
                    last = Duration::from_millis(work);
                    used += last;
                    budget.spend(last);
                }
            }
            let earned = FIRST.as_secs_f64() + now.as_secs_f64() * percent / 100.0;
            prop_assert!(used.as_secs_f64() <= earned + last.as_secs_f64() + 1e-9);
        }
    }
}
