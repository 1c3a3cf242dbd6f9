//! What a benchmark hands to the report: among the lines that people read, one of JSON for each figure.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::{fs, io::Write};

/// What such a line begins with.
const MARKER: &str = "@figure ";

/// What one subject showed of one metric in one case: a value for each round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// "throughput", "stall", "looked", "neighbour", "half_way", "scan", "scale" or "soonest".
    pub bench: String,
    /// "6.12", or [`NATIVE`] where there is no virtual machine.
    pub kernel: String,
    /// "512 MiB of 4 KiB pages".
    pub case: String,
    /// "migratepages", "numalocctl fast", "idle".
    pub subject: String,
    /// "wall", "cpu", "map p99.9", "writer operations".
    pub metric: String,
    /// "ms", "1/s", "ratio", "bytes per CPU second".
    pub unit: String,
    /// Of the rounds that count, in order.
    pub values: Vec<f64>,
}

/// The kernel of a figure that was measured on this machine itself.
pub const NATIVE: &str = "native";

impl Figure {
    /// Prints it as one line.
    ///
    /// # Errors
    /// Writing's own; a value that is no number.
    pub fn emit(&self) -> Result<()> {
        let json = serde_json::to_string(self)?;
        anyhow::ensure!(
            self.values.iter().all(|value| value.is_finite()),
            "a value of this figure is no number: {json}"
        );
        let mut output = std::io::stdout().lock();
        writeln!(output, "{MARKER}{json}")?;
        Ok(output.flush()?)
    }

    /// The figure in a line, if it holds one.
    ///
    /// # Errors
    /// A line with the marker and without a figure behind it.
    pub fn in_line(line: &str) -> Result<Option<Self>> {
        let Some(json) = line.strip_prefix(MARKER) else { return Ok(None) };
        Ok(Some(serde_json::from_str(json).with_context(|| format!("no figure: {line}"))?))
    }

    /// Whether another one is of the same thing, maybe of another subject.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.bench, &self.kernel, &self.case, &self.metric)
            == (&other.bench, &other.kernel, &other.case, &other.metric)
    }

    /// The middle of its values.
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

/// Between the two values that are nearest, in proportion. 0 for no values.
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
