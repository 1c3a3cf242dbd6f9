//! How far a run holds back under pressure. Pure.

use std::time::Duration;

/// What is left of the pace at least: enough to come to an end, whatever happens.
pub const LEAST: f64 = 1.0 / 32.0;

/// Something that is measured against a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// What, for people: `io.pressure of /system.slice/x.service`.
    pub what: String,
    /// As it was measured, in percent.
    pub percent: f64,
    /// Its bound, in percent.
    pub limit: f64,
}

impl Signal {
    /// 1 at the bound.
    fn load(&self) -> f64 {
        self.percent / self.limit
    }
}

/// Turns measurements into the factor by which a run is slower than its pace: halved by each that is over its bound, raised
/// by half once all are below half of their bounds, and kept between the two.
#[derive(Debug)]
pub struct Guard {
    factor: f64,
    worst: Option<Signal>,
}

impl Guard {
    /// Begins at full pace.
    pub fn new() -> Self {
        Self { factor: 1.0, worst: None }
    }

    /// Takes what was measured at one time.
    pub fn take(&mut self, signals: impl IntoIterator<Item = Signal>) {
        let worst = signals.into_iter().max_by(|a, b| a.load().total_cmp(&b.load()));
        let load = worst.as_ref().map_or(0.0, Signal::load);
        if load > 1.0 {
            self.factor = (self.factor / 2.0).max(LEAST);
            self.worst = worst;
        } else if load < 0.5 {
            self.factor = (self.factor * 1.5).min(1.0);
        }
    }

    /// From [`LEAST`] to 1.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Why the factor is less than 1, for people; empty when it is not.
    pub fn reason(&self) -> String {
        let Some(Signal { what, percent, limit }) =
            self.worst.as_ref().filter(|_| self.factor < 1.0)
        else {
            return String::new();
        };
        let slower = 1.0 / self.factor;
        format!("{what} is {percent:.0}% (limit {limit:.0}%): moving at 1/{slower:.0} of the pace")
    }
}

/// Share of the `wall` time that `stalled` is, in percent, beyond what there was `before` the run.
pub fn beyond(stalled: Duration, wall: Duration, before: f64) -> f64 {
    if wall.is_zero() {
        return 0.0;
    }
    (stalled.as_secs_f64() / wall.as_secs_f64() * 100.0 - before).clamp(0.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn signal(percent: f64) -> Signal {
        Signal { what: "io.pressure of /x".into(), percent, limit: 20.0 }
    }

    proptest! {
        #[test]
        fn it_never_stops_and_recovers_once_pressure_ends(pressure in vec(0f64..=100.0, 0..100)) {
            let mut guard = Guard::new();
            for percent in pressure {
                let before = guard.factor();
                guard.take([signal(percent), signal(0.0)]);
                let after = guard.factor();
                prop_assert!((LEAST..=1.0).contains(&after));
                prop_assert!(percent <= 20.0 || after == (before / 2.0).max(LEAST));
                prop_assert!(!(10.0..=20.0).contains(&percent) || after == before);
                prop_assert_eq!(guard.reason().is_empty(), after == 1.0);
            }
            (0..9).for_each(|_| guard.take([signal(1.0)]));
            prop_assert_eq!(guard.factor(), 1.0);
            prop_assert!(guard.reason().is_empty());
        }
    }

    #[test]
    fn the_worst_is_named() {
        let mut guard = Guard::new();
        let node = Signal { what: "node 0".into(), percent: 66.0, limit: 65.0 };
        guard.take([node, signal(34.0)]);
        guard.take([signal(34.2)]);
        let text = "io.pressure of /x is 34% (limit 20%): moving at 1/4 of the pace";
        assert_eq!(guard.reason(), text);
    }

    #[test]
    fn nothing_to_measure_is_no_pressure() {
        let mut guard = Guard::new();
        guard.take([signal(100.0)]);
        (0..2).for_each(|_| guard.take([]));
        assert_eq!(guard.factor(), 1.0);
    }

    #[test]
    fn what_was_there_before_does_not_count() {
        let ms = Duration::from_millis;
        assert_eq!(beyond(ms(50), ms(100), 20.0), 30.0);
        assert_eq!(beyond(ms(10), ms(100), 20.0), 0.0);
        assert_eq!(beyond(ms(10), ms(0), 0.0), 0.0);
    }
}
