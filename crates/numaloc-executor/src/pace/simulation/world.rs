//! The simulated kernel and the other processes.

use proptest::{collection::vec, prelude::*};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Pressure that others cause, whatever the run does.
#[derive(Clone, Debug)]
pub enum Others {
    /// In percent, the same all the time.
    Steady(f64),
    /// By the second; the last value lasts forever.
    Steps(Vec<f64>),
    /// High and low in turns, each for this many milliseconds.
    Turns { high: f64, low: f64, high_ms: u64, low_ms: u64 },
    /// Rises slowly and falls at once, once in each period.
    Sawtooth { high: f64, period_ms: u64 },
}

impl Others {
    /// The same, `factor` times as high.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Steady(percent) => Self::Steady(percent * factor),
            Self::Steps(steps) => {
                Self::Steps(steps.into_iter().map(|step| step * factor).collect())
            }
            Self::Turns { high, low, high_ms, low_ms } => {
                Self::Turns { high: high * factor, low: low * factor, high_ms, low_ms }
            }
            Self::Sawtooth { high, period_ms } => Self::Sawtooth { high: high * factor, period_ms },
        }
    }

    fn percent(&self, at: Duration) -> f64 {
        let ms = at.as_millis() as u64;
        match self {
            Self::Steady(percent) => *percent,
            Self::Steps(steps) => {
                let step = (ms / 1000) as usize;
                steps.get(step).or(steps.last()).copied().unwrap_or(0.0)
            }
            Self::Turns { high, low, high_ms, low_ms } => {
                if ms % (high_ms + low_ms) < *high_ms {
                    *high
                } else {
                    *low
                }
            }
            Self::Sawtooth { high, period_ms } => {
                high * (ms % period_ms) as f64 / *period_ms as f64
            }
        }
    }
}

/// Pressure that the run causes at its full pace, in percent.
#[derive(Clone, Debug)]
pub struct Caused {
    pub percent: f64,
    pub from: Duration,
    pub to: Duration,
    /// Time constant with which it comes and goes: 1 - 1/e of a change shows after this time.
    pub lag: Duration,
}

#[derive(Clone, Debug)]
pub struct World {
    /// The fixed time of a call.
    pub fixed: Duration,
    pub per_mib: Duration,
    /// Factors by which calls take longer, used in turn.
    pub noise: Vec<u32>,
    pub others: Others,
    pub caused: Caused,
}

impl World {
    pub fn even(others: Others, caused: Caused) -> Self {
        Self { fixed: MS, per_mib: MS, noise: vec![1], others, caused }
    }

    pub fn took(&self, call: usize, bytes: u64) -> Duration {
        let noise = self.noise[call % self.noise.len()];
        (self.fixed + self.per_mib.mul_f64(bytes as f64 / (1 << 20) as f64)) * noise
    }
}

/// The kernel's count of the time in which any task waits.
pub struct Psi {
    duty: f64,
    at: Duration,
    total: Duration,
    /// The part of it that the run has caused.
    pub caused: Duration,
    /// The share of time for which the run moves, as it shows in the pressure, with the lag.
    share: f64,
}

impl Psi {
    /// `duty` is the share of its time for which a run at its full pace moves.
    pub fn new(duty: f64) -> Self {
        Self { duty, at: Duration::ZERO, total: Duration::ZERO, caused: Duration::ZERO, share: 0.0 }
    }

    pub fn total(&self) -> Duration {
        self.total
    }

    /// Lets time pass until `to`.
    pub fn pass(&mut self, world: &World, to: Duration, is_moving: bool) {
        let Caused { percent, from, to: end, lag } = &world.caused;
        while self.at < to {
            let step = MS.min(to - self.at);
            let now = if is_moving { 1.0 } else { 0.0 };
            self.share += (now - self.share) * (step.as_secs_f64() / lag.as_secs_f64()).min(1.0);
            let is_caused = (*from..*end).contains(&self.at);
            let caused = if is_caused { percent * self.share / self.duty } else { 0.0 };
            let others = world.others.percent(self.at);
            let all = (others + caused).min(100.0);
            self.total += step.mul_f64(all / 100.0);
            self.caused += step.mul_f64((all - others).max(0.0) / 100.0);
            self.at += step;
        }
    }
}

pub fn others() -> impl Strategy<Value = Others> {
    let level = 0f64..100.0;
    prop_oneof![
        level.clone().prop_map(Others::Steady),
        vec(level.clone(), 1..30).prop_map(Others::Steps),
        (level.clone(), level.clone(), 10u64..5000, 10u64..5000)
            .prop_map(|(high, low, high_ms, low_ms)| Others::Turns { high, low, high_ms, low_ms }),
        (level, 20u64..10_000).prop_map(|(high, period_ms)| Others::Sawtooth { high, period_ms }),
    ]
}

pub fn caused(percent: std::ops::Range<f64>) -> impl Strategy<Value = Caused> {
    (percent, 0u64..20_000, 1000u64..30_000, 1u64..30).prop_map(|(percent, from, ms, lag)| Caused {
        percent,
        from: MS * from as u32,
        to: MS * (from + ms) as u32,
        lag: MS * lag as u32,
    })
}

pub fn worlds() -> impl Strategy<Value = World> {
    let noise = vec(prop_oneof![9 => Just(1u32), 1 => 1u32..50], 1..50);
    (0u64..2_000, 20u64..2_000, noise, others(), caused(0.0..300.0)).prop_map(
        |(fixed, per_mib, noise, others, caused)| World {
            fixed: Duration::from_micros(fixed),
            per_mib: Duration::from_micros(per_mib),
            noise,
            others,
            caused,
        },
    )
}
