//! The report: all figures that the benchmarks of a run have emitted, with ratios and goals.

mod boots;
mod goals;
mod markdown;
mod over_time;
mod plot;

use crate::{figure::Figure, subject::base};
use anyhow::{Context, Result, ensure};
use boots::{BootRatio, merged};
pub use over_time::OVER_TIME;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Input and output of the report.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory with the output of benchmarks (*.log) and a description of the machine (machine.md). report.md,
    /// report.json and the plots are written there.
    directory: PathBuf,
}

/// A figure, with what it is compared with.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    figure: Figure,
    median: f64,
    /// First and third quartile.
    spread: (f64, f64),
    /// The subject that `ratio` compares with.
    base: Option<&'static str>,
    /// Its median divided by the base's, on the same kernel in the same case.
    ratio: Option<BootRatio>,
}

#[derive(Serialize)]
struct Report<'a> {
    goals: Vec<goals::GoalResult>,
    figures: &'a [Row],
}

/// Reads the figures, compares them and writes the report.
pub fn run(args: &Args) -> Result<()> {
    let figures = read(&args.directory)?;
    ensure!(!figures.is_empty(), "no figures in {}/*.log", args.directory.display());
    let goals = goals::judge(&figures);
    let rows = compare(&figures);
    let mut plots = plot::all(&rows, &args.directory)?;
    plots.extend(over_time::all(&rows, &args.directory)?);
    let write = |name: &str, text: String| {
        let path = args.directory.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    // As benches/run has described it.
    let machine = fs::read_to_string(args.directory.join("machine.md")).unwrap_or_default();
    write("report.md", markdown::report(&machine, &rows, &goals, &plots))?;
    let report = Report { goals, figures: &rows };
    write("report.json", serde_json::to_string_pretty(&report)? + "\n")?;
    println!("{}", args.directory.join("report.md").display());
    Ok(())
}

fn read(directory: &Path) -> Result<Vec<Figure>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let mut logs: Vec<_> =
        paths.into_iter().filter(|path| path.extension().is_some_and(|of| of == "log")).collect();
    logs.sort();
    let mut figures = Vec::new();
    for log in logs {
        let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
        for line in text.lines() {
            figures.extend(Figure::in_line(line).with_context(|| log.display().to_string())?);
        }
    }
    Ok(figures)
}

fn compare(figures: &[Figure]) -> Vec<Row> {
    let all = merged(figures);
    let ratio = |(figure, boots): &(Figure, Vec<&Figure>)| {
        let base = base(figure)?;
        let is_base = |other: &Figure| figure.is_like(other) && other.subject == base;
        let (_, base) = all.iter().find(|(other, _)| is_base(other))?;
        BootRatio::between(boots, base)
    };
    let rows = all.iter().map(|row| (ratio(row), row.0.clone())).map(|(ratio, figure)| Row {
        median: figure.median(),
        spread: figure.spread(),
        base: base(&figure),
        ratio,
        figure,
    });
    rows.collect()
}

/// Each different value once, in the order of appearance.
fn distinct<'a>(values: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value.as_str()) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests;
