//! A factor that slows a run down. Pure.

/// The smallest factor: still enough to come to an end, whatever happens.
pub const LEAST: f64 = 1.0 / 32.0;

/// Something that is measured against a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct BrakeSignal {
    /// Its name, for people: `io.pressure of /system.slice/x.service`.
    pub what: String,
    /// The measured value, in percent.
    pub percent: f64,
    /// The percentage from which on the run slows down.
    pub limit: f64,
}

impl BrakeSignal {
    /// The measured value divided by the bound.
    pub fn load(&self) -> f64 {
        self.percent / self.limit
    }
}

/// The signal that is nearest to its bound, or farthest beyond.
pub fn worst<'s>(signals: impl IntoIterator<Item = &'s BrakeSignal>) -> Option<&'s BrakeSignal> {
    signals.into_iter().max_by(|a, b| a.load().total_cmp(&b.load()))
}

/// The factor by which a run is slower than its pace, and why.
#[derive(Debug)]
pub struct Brake {
    factor: f64,
    why: String,
}

impl Brake {
    pub fn new() -> Self {
        Self { factor: 1.0, why: String::new() }
    }

    /// Halves the pace, but not below [`LEAST`]. `why` is for people.
    pub fn tighten(&mut self, why: String) {
        self.factor = (self.factor / 2.0).max(LEAST);
        self.why = why;
    }

    /// Doubles the pace, up to the full pace.
    pub fn ease(&mut self) {
        self.factor = (self.factor * 2.0).min(1.0);
    }

    /// Returns to the full pace.
    pub fn release(&mut self) {
        self.factor = 1.0;
    }

    /// Tightens if a signal is over its bound, and eases if all are below half of theirs.
    pub fn take(&mut self, signals: &[BrakeSignal]) {
        match worst(signals) {
            Some(signal) if signal.load() > 1.0 => {
                let BrakeSignal { what, percent, limit } = signal;
                self.tighten(format!("{what} is {percent:.0}% (limit {limit:.0}%)"));
            }
            Some(signal) if signal.load() >= 0.5 => {}
            _ => self.ease(),
        }
    }

    /// The factor of the pace: from [`LEAST`] to 1.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Why the factor is less than 1, for people; empty when it is 1.
    pub fn reason(&self) -> String {
        if self.factor == 1.0 {
            return String::new();
        }
        format!("{}: moving at 1/{:.0} of the pace", self.why, 1.0 / self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn signal(percent: f64) -> BrakeSignal {
        BrakeSignal { what: "node 0's CPU time for others".into(), percent, limit: 20.0 }
    }

    proptest! {
        #[test]
        fn it_never_stops_and_is_eased_once_all_is_below_half(percents in vec(0f64..=100.0, 0..100)) {
            let mut brake = Brake::new();
            for percent in percents {
                let before = brake.factor();
                brake.take(&[signal(percent), signal(0.0)]);
                let after = brake.factor();
                prop_assert!((LEAST..=1.0).contains(&after));
                prop_assert!(percent <= 20.0 || after == (before / 2.0).max(LEAST));
                prop_assert!(!(10.0..=20.0).contains(&percent) || after == before);
                prop_assert_eq!(brake.reason().is_empty(), after == 1.0);
            }
            (0..5).for_each(|_| brake.take(&[signal(1.0)]));
            prop_assert_eq!(brake.reason(), "");
        }
    }

    #[test]
    fn the_worst_is_named() {
        let mut brake = Brake::new();
        let node = BrakeSignal { what: "node 1".into(), percent: 66.0, limit: 65.0 };
        brake.take(&[node, signal(34.0)]);
        brake.take(&[signal(34.2)]);
        let text = "node 0's CPU time for others is 34% (limit 20%): moving at 1/4 of the pace";
        assert_eq!(brake.reason(), text);
    }

    #[test]
    fn nothing_to_measure_is_below_any_bound() {
        let mut brake = Brake::new();
        brake.take(&[signal(100.0)]);
        brake.take(&[]);
        assert_eq!(brake.factor(), 1.0);
    }
}
