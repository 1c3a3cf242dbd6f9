//! Output of a benchmark for the report: one line of JSON for each figure, among the lines for people.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, io::Write};

/// The beginning of such a line.
const MARKER: &str = "@figure ";

/// The values of one subject for one metric in one case: one value for each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// "throughput", "stall", "reader", "pressure", "reread", "looked", "many", "neighbour", "half_way", "scan", "scale", "spread", "soonest", "tiers", "watched", "families",
    /// "writing" or "api".
    pub bench: String,
    /// "6.12", or [`NATIVE`] if there was no virtual machine.
    pub kernel: String,
    /// "512 MiB of 4 KiB pages".
    pub case: String,
    /// The program or method that was measured: "migratepages", "numalocctl fast", "idle".
    pub subject: String,
    /// "wall", "cpu", "map p99.9", "writer operations".
    pub metric: String,
    /// "ms", "1/s", "ratio", "bytes per CPU second".
    pub unit: String,
    /// The values of the rounds that count, in order.
    pub values: Vec<f64>,
}

/// The results of one subject in one case, round by round. Figures are made of it.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a, T> {
    pub bench: &'a str,
    pub kernel: &'a str,
    pub case: &'a str,
    pub subject: &'a str,
    /// The result of each round, in order.
    pub rounds: &'a [T],
}

impl<T> Series<'_, T> {
    /// The figure for one metric, which `value` takes from each round.
    pub fn figure(&self, metric: &str, unit: &str, value: impl Fn(&T) -> f64) -> Figure {
        Figure {
            bench: self.bench.into(),
            kernel: self.kernel.into(),
            case: self.case.into(),
            subject: self.subject.into(),
            metric: metric.into(),
            unit: unit.into(),
            values: self.rounds.iter().map(value).collect(),
        }
    }
}

/// The kernel of a figure that was measured on this machine, not in a virtual one.
pub const NATIVE: &str = "native";

impl Figure {
    /// Prints it as one line.
    ///
    /// # Errors
    /// The line cannot be written, or a value is not a finite number.
    pub fn emit(&self) -> Result<()> {
        let json = serde_json::to_string(self)?;
        anyhow::ensure!(
            self.values.iter().all(|value| value.is_finite()),
            "a value of this figure is not a number: {json}"
        );
        let mut output = std::io::stdout().lock();
        writeln!(output, "{MARKER}{json}")?;
        Ok(output.flush()?)
    }

    /// The figure in a line; `None` if the line holds none.
    ///
    /// # Errors
    /// The line has the marker, but no figure behind it.
    pub fn in_line(line: &str) -> Result<Option<Self>> {
        let Some(json) = line.strip_prefix(MARKER) else { return Ok(None) };
        Ok(Some(serde_json::from_str(json).with_context(|| format!("no figure: {line}"))?))
    }

    /// Whether another figure is of the same thing, perhaps of another subject.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.bench, &self.kernel, &self.case, &self.metric)
            == (&other.bench, &other.kernel, &other.case, &other.metric)
    }

    /// The median of its values.
    pub fn median(&self) -> f64 {
        quantile(&self.values, 0.5)
    }

    /// The first and the third quartile.
    pub fn spread(&self) -> (f64, f64) {
        (quantile(&self.values, 0.25), quantile(&self.values, 0.75))
    }
}

/// The running kernel as figures name it: "6.12" for 6.12.48+deb13-amd64.
///
/// # Errors
/// /proc cannot be read.
pub fn kernel() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    Ok(release.trim().splitn(3, '.').take(2).collect::<Vec<_>>().join("."))
}

/// Interpolates between the two nearest values. 0 without values.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = last as f64 * share;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_back_the_figure() {
        let figure = Figure {
            bench: "stall".into(),
            kernel: "6.1".into(),
            case: "4 KiB pages".into(),
            subject: "idle".into(),
            metric: "map p99.9".into(),
            unit: "ms".into(),
            values: vec![4.0, 1.0, 2.5],
        };
        let line = format!("{MARKER}{}", serde_json::to_string(&figure).unwrap());
        assert_eq!(Figure::in_line(&line).unwrap(), Some(figure));
        assert_eq!(Figure::in_line("for people").unwrap(), None);
        assert!(Figure::in_line("@figure {").is_err());
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile(&[4.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25), 2.0);
        assert_eq!(quantile(&[7.0], 0.75), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
