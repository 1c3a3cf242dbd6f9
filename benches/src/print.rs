//! Prints figures for people while a benchmark runs.

use crate::{figure::Figure, subject::base};
use anyhow::Result;

/// Prints figures as tables, one line each with the ratio that the report will give, and emits them. Figures without values are
/// left out: their subject does not have that metric.
pub fn figures(figures: &[Figure]) -> Result<()> {
    let figures = figures.iter().filter(|figure| !figure.values.is_empty());
    let mut case = None;
    for figure in figures.clone() {
        if case.replace(&figure.case) != Some(&figure.case) {
            println!("\n{}, {}, kernel {}", figure.bench, figure.case, figure.kernel);
        }
        let of_base =
            |base| figures.clone().find(|other| figure.is_like(other) && other.subject == base);
        let ratio = match base(figure).and_then(of_base) {
            Some(other) if other.median() > 0.0 => {
                format!("{:8.3}", figure.median() / other.median())
            }
            _ => String::new(),
        };
        println!(
            "{:<34} {:<24} {} {}{ratio}",
            figure.subject,
            figure.metric,
            with_spread(figure),
            figure.unit
        );
    }
    figures.clone().try_for_each(Figure::emit)
}

/// The median; if there are several values, the quartiles too.
pub fn with_spread(figure: &Figure) -> String {
    let ((low, high), median) = (figure.spread(), short(figure.median()));
    if figure.values.len() < 2 {
        return median;
    }
    format!("{median} ({} to {})", short(low), short(high))
}

/// With three digits, or with all digits before the point.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        1e7.. => format!("{value:.2e}"),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}
