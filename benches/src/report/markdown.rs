//! The report as Markdown, for people.

use super::{
    Row,
    boots::BootRatio,
    distinct,
    goals::{Bound, GoalResult},
    over_time::OVER_TIME,
    plot::Plot,
};
use crate::print::with_spread;
use std::fmt::Write;

const READING: &str = "\
Each value is the median of its rounds, with the first and the third quartile in parentheses; behind it the ratio to the
subject that is named above the table. The ratio of several boots is the median of those of each boot, with the lowest and the
highest in parentheses. Only ratios within a column say something: most of this comes from emulated
machines, whose times are not those of real ones.
";

pub fn report(machine: &str, rows: &[Row], goals: &[GoalResult], plots: &[Plot]) -> String {
    let machine = match machine {
        "" => String::new(),
        machine => format!("## Machine\n\n{machine}\n"),
    };
    let mut text = format!("# Benchmarks of numaloc\n\n{machine}{READING}\n## Goals\n\n");
    let (measured, others): (Vec<_>, Vec<_>) = goals.iter().partition(|goal| goal.met.is_some());
    text += &table_of_goals(&measured);
    if !others.is_empty() {
        text += "\n[The others](#goals-that-were-not-measured) were not measured.\n";
    }
    for bench in distinct(rows.iter().map(|row| &row.figure.bench)) {
        let rows: Vec<_> = rows.iter().filter(|row| row.figure.bench == bench).collect();
        let _ = writeln!(text, "\n## {bench}");
        for plot in plots.iter().filter(|plot| plot.bench == bench) {
            let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file);
        }
        for case in distinct(rows.iter().map(|row| &row.figure.case)) {
            let is_in = |row: &&&Row| row.figure.case == case && row.figure.metric != OVER_TIME;
            let rows: Vec<_> = rows.iter().filter(is_in).copied().collect();
            if !rows.is_empty() {
                text += &table_of_case(case, &rows);
            }
        }
    }
    if !others.is_empty() {
        text += "\n## Goals that were not measured\n\n";
        text += &table_of_goals(&others);
    }
    text
}

fn table_of_goals(goals: &[&GoalResult]) -> String {
    let mut text =
        "| benchmark | case | what | kernel | goal | measured | |\n|---|---|---|---|---|--:|---|\n"
            .to_owned();
    for goal in goals {
        let bound = match goal.bound {
            Bound::AtMost(most) => format!("at most {most}"),
            Bound::AtLeast(least) => format!("at least {least}"),
        };
        let result = match goal.met {
            Some(true) => "met",
            Some(false) => "**MISSED**",
            None => "not measured",
        };
        let GoalResult { bench, case, what, kernel, .. } = goal;
        let value = goal.value.map(with_range).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {bench} | {case} | {what} | {kernel} | {bound} | {value} | {result} |"
        );
    }
    text
}

/// One line for each metric of each subject, one column for each kernel.
fn table_of_case(case: &str, rows: &[&Row]) -> String {
    let kernels = distinct(rows.iter().map(|row| &row.figure.kernel));
    let base = rows.iter().find_map(|row| row.base);
    let against = base.map(|base| format!(" (ratios to {base})")).unwrap_or_default();
    let mut text = format!("\n### {case}{against}\n\n| metric | subject |");
    kernels.iter().for_each(|kernel| text += &format!(" {kernel} |"));
    let _ = writeln!(text, "\n|---|---|{}", "--:|".repeat(kernels.len()));
    for metric in distinct(rows.iter().map(|row| &row.figure.metric)) {
        let rows: Vec<_> = rows.iter().filter(|row| row.figure.metric == metric).collect();
        let unit = match rows[0].figure.unit.as_str() {
            "" => String::new(),
            unit => format!(", {unit}"),
        };
        for subject in distinct(rows.iter().map(|row| &row.figure.subject)) {
            let _ = write!(text, "| {metric}{unit} | {subject} |");
            for kernel in &kernels {
                let found = rows
                    .iter()
                    .find(|row| row.figure.kernel == *kernel && row.figure.subject == subject);
                let cell = found.map(|row| cell(row)).unwrap_or_default();
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
    }
    text
}

fn cell(row: &Row) -> String {
    if row.figure.values.is_empty() {
        return "x".into(); // the metric's name says why it is missing
    }
    let ratio = row.ratio.map(|ratio| format!(" **{}**", with_range(ratio))).unwrap_or_default();
    with_spread(&row.figure) + &ratio
}

fn with_range(BootRatio { median, range }: BootRatio) -> String {
    let range = range.map(|(low, high)| format!(" ({low:.2} to {high:.2})")).unwrap_or_default();
    format!("{median:.3}{range}")
}
