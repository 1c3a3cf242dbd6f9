//! Candidates that run in turn, so that whatever else happens on the machine affects all of them alike.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

pub struct Candidate<'a> {
    /// Its name in the output.
    pub name: String,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
    times: Vec<Duration>,
}

impl<'a> Candidate<'a> {
    /// A candidate that has not run.
    pub fn new(name: impl Into<String>, run: impl FnMut() -> Result<()> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run), times: Vec::new() }
    }

    /// The times of the rounds that count.
    pub fn times(&self) -> &[Duration] {
        &self.times
    }
}

/// Runs all candidates one after the other, `rounds` times. A first round before these does not count.
pub fn measure(candidates: &mut [Candidate<'_>], rounds: usize) -> Result<()> {
    for round in 0..=rounds {
        for candidate in candidates.iter_mut() {
            let begin = Instant::now();
            (candidate.run)().with_context(|| candidate.name.clone())?;
            let time = begin.elapsed();
            if round > 0 {
                candidate.times.push(time);
            }
        }
    }
    Ok(())
}

/// `met` or `MISSED`, for a value that must not be above its goal.
pub fn met_or_missed(value: f64, goal: f64) -> &'static str {
    if value <= goal { "met" } else { "MISSED" }
}
