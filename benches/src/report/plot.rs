//! One picture for each metric: a panel for each case, a line for each subject, and for each kernel a dot with its spread.

use super::{Row, distinct};
use crate::print::short;
use anyhow::{Result, anyhow};
use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};
use std::path::Path;

#[derive(Debug)]
pub struct Plot {
    pub bench: String,
    pub title: String,
    /// Its name in the directory of the report.
    pub file: String,
}

/// The colours of Okabe and Ito (jfly.uni-koeln.de/color) that are dark enough on white: they can be told apart by the colour-blind.
pub(super) const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];

/// The colour of a kernel or subject by its number.
pub(super) fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

/// Which figures are the good ones.
#[derive(Clone, Copy, Debug)]
enum Better {
    Less,
    More,
}

/// The benchmarks and metrics that get a picture.
const PLOTTED: &[(&str, &str, Better)] = &[
    ("throughput", "wall", Better::Less),
    ("throughput", "cpu", Better::Less),
    ("throughput", "moved per CPU second", Better::More),
    ("stall", "writer operations", Better::More),
    ("stall", "map p99.9", Better::Less),
    ("reader", "read during", Better::More),
    ("looked", "map p99.9", Better::Less),
    ("stall", "requests during", Better::More),
    ("stall", "p99.99 during", Better::Less),
    ("neighbour", "p90", Better::Less),
    ("neighbour", "p99", Better::Less),
    ("half_way", "local accesses after 50% of the bytes", Better::More),
    ("soonest", "wall", Better::Less),
    ("spread", "wall", Better::Less),
    ("scan", "scan", Better::Less),
];

/// Layout of a plot, in pixels.
pub(super) const WIDTH: u32 = 960;
const LABELS: u32 = 230;
const LINE: u32 = 26;
/// Room of a kernel within the line of a subject, for the number beside its dot.
const KERNEL: u32 = 14;
const FRAME: u32 = 70;

/// Draws all pictures for which there are figures.
pub fn all(rows: &[Row], directory: &Path) -> Result<Vec<Plot>> {
    let mut plots = Vec::new();
    for &(bench, metric, better) in PLOTTED {
        let rows = rows.iter().filter(|row| {
            row.figure.bench == bench && row.figure.metric == metric && shown(row).1 > 0.0
        });
        let rows: Vec<_> = rows.collect();
        let Some(first) = rows.first() else { continue };
        let file = format!("{bench} {metric}.svg").replace([' ', '%'], "-");
        let unit = match first.ratio {
            Some(_) => format!("ratio to {}", first.base.unwrap_or_default()),
            None => first.figure.unit.clone(),
        };
        let better = match better {
            Better::Less => "left is better",
            Better::More => "right is better",
        };
        let title = format!("{bench}: {metric}, {unit}; {better}");
        draw(&rows, &title, &directory.join(&file))
            .map_err(|error| anyhow!("drawing {file}: {error}"))?;
        plots.push(Plot { bench: bench.into(), title, file });
    }
    Ok(plots)
}

/// First quartile, median and third quartile of the drawn value: the ratio, if there is one.
fn shown(row: &Row) -> (f64, f64, f64) {
    let base = row.ratio.map_or(1.0, |ratio| row.median / ratio.median);
    (row.spread.0 / base, row.median / base, row.spread.1 / base)
}

fn draw(rows: &[&Row], title: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let cases = distinct(rows.iter().map(|row| &row.figure.case));
    let panels: Vec<Vec<&Row>> = cases
        .iter()
        .map(|case| rows.iter().filter(|row| row.figure.case == *case).copied().collect())
        .collect();
    let kernels = distinct(rows.iter().map(|row| &row.figure.kernel));
    let heights = panels.iter().map(|rows| {
        FRAME + line(&kernels) * distinct(rows.iter().map(|row| &row.figure.subject)).len() as u32
    });
    let heights: Vec<u32> = heights.collect();
    let root = SVGBackend::new(path, (WIDTH, FRAME + heights.iter().sum::<u32>()));
    let root = root.into_drawing_area();
    root.fill(&WHITE)?;
    let mut rest = root.titled(title, ("sans-serif", 20))?;
    legend(&rest, &kernels)?;
    (_, rest) = rest.split_vertically(LINE);
    for ((rows, case), height) in panels.iter().zip(&cases).zip(&heights) {
        let (area, below) = rest.split_vertically(*height);
        panel(&area, rows, case, &kernels)?;
        rest = below;
    }
    Ok(root.present()?)
}

/// The height of the line of a subject.
fn line(kernels: &[&str]) -> u32 {
    LINE - KERNEL + KERNEL * kernels.len().max(1) as u32
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn legend(area: &Area<'_>, kernels: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    for (index, kernel) in kernels.iter().enumerate() {
        let x = (LABELS + 110 * index as u32) as i32;
        area.draw(&Circle::new((x, 12), 5, colour(index).filled()))?;
        area.draw(&Text::new(format!("kernel {kernel}"), (x + 12, 6), ("sans-serif", 14)))?;
    }
    Ok(())
}

/// The axes are logarithmic: twice as much and half as much are equally far from 1.
fn panel(
    area: &Area<'_>,
    rows: &[&Row],
    case: &str,
    kernels: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let subjects = distinct(rows.iter().map(|row| &row.figure.subject));
    let values = rows.iter().map(|row| shown(row));
    let positive =
        values.flat_map(|(low, middle, high)| [low, middle, high]).filter(|&of| of > 0.0);
    let (low, high) =
        positive.fold((1.0f64, 1.0f64), |(low, high), of| (low.min(of), high.max(of)));
    // With room for the number beside the last dot.
    let (low, high) = (low.log10(), high.log10());
    let (low, high) = (low - 0.05, high + 0.05 + 0.08 * (high - low));
    let last = subjects.len() as f64 - 0.5;
    let mut chart = ChartBuilder::on(area)
        .caption(case, ("sans-serif", 16))
        .margin_right(20)
        .x_label_area_size(LINE)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(low..high, last..-0.5)?;
    // We draw the axes ourselves, because the crate chooses itself where to put their labels.
    let text = ("sans-serif", 13).into_text_style(area);
    let inside = chart.plotting_area();
    for tick in ticks(low, high) {
        let label = text.pos(Pos::new(HPos::Center, VPos::Top));
        let ends = vec![(tick, -0.5), (tick, last)];
        inside.draw(&PathElement::new(ends, BLACK.mix(if tick == 0.0 { 0.7 } else { 0.2 })))?;
        inside.draw(&Text::new(short(10f64.powf(tick)), (tick, last), label))?;
    }
    for (line, subject) in subjects.iter().enumerate() {
        let label = text.pos(Pos::new(HPos::Right, VPos::Center));
        inside.draw(&Text::new(format!("{subject}  "), (low, line as f64), label))?;
    }
    for row in rows {
        let line = subjects.iter().position(|of| *of == row.figure.subject).unwrap_or(0) as f64;
        let color = kernels.iter().position(|of| *of == row.figure.kernel).unwrap_or(0);
        let y = line
            + (color as f64 - (kernels.len() as f64 - 1.0) / 2.0) * f64::from(KERNEL)
                / f64::from(self::line(kernels));
        let color = colour(color);
        let at = |value: f64| (value.log10().max(low), y);
        let (first, middle, third) = shown(row);
        let whisker = PathElement::new(vec![at(first), at(third)], color.stroke_width(2));
        chart.draw_series([whisker])?;
        chart.draw_series([Circle::new(at(middle), 4, color.filled())])?;
        // The median as a number, beyond the spread.
        let number = ("sans-serif", 12).into_text_style(area).color(&BLACK);
        let number = number.pos(Pos::new(HPos::Left, VPos::Center));
        let beside = (at(third).0 + 0.008 * (high - low), y);
        chart.plotting_area().draw(&Text::new(short(middle), beside, number))?;
    }
    Ok(())
}

/// Logarithms of the numbers on an axis: near to 1 where a plot has no more than twice and half, otherwise 1, 2 and 5 of each power of ten.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let near = [0.25f64, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0].map(f64::log10);
    if high - low < 1.0 && low > -0.7 && high < 0.7 {
        return near.into_iter().filter(|tick| (low..=high).contains(tick)).collect();
    }
    let powers = low.floor() as i32..=high.ceil() as i32;
    let digits = [1.0f64, 2.0, 5.0].map(f64::log10);
    // More ticks than fit beside each other would be dropped by chance.
    let digits = if high - low > 4.0 { &digits[..1] } else { &digits[..] };
    let all = powers.flat_map(|power| digits.iter().map(move |digit| f64::from(power) + digit));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(low: f64, high: f64) -> Vec<f64> {
        let rounded = |tick: f64| (10f64.powf(tick) * 1000.0).round() / 1000.0;
        ticks(low.log10(), high.log10()).into_iter().map(rounded).collect()
    }

    #[test]
    fn there_are_ticks_where_the_figures_are() {
        assert_eq!(numbers(0.45, 2.1), [0.5, 0.75, 1.0, 1.5, 2.0]);
        assert_eq!(numbers(0.9, 1.1), [1.0]);
        assert_eq!(numbers(0.9, 30.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(numbers(0.9, 2e6), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn colours_are_dark_enough_on_white() {
        for (index, RGBColor(red, green, blue)) in COLOURS.into_iter().enumerate() {
            let light =
                0.2126 * f64::from(red) + 0.7152 * f64::from(green) + 0.0722 * f64::from(blue);
            assert!(light < 180.0, "{index}: {light}");
            assert!(COLOURS[index + 1..].iter().all(|other| *other != RGBColor(red, green, blue)));
        }
    }
}
