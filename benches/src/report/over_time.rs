//! One picture for each case and kernel whose figures are a value each second: a line for each subject.

use super::{
    Row, distinct,
    plot::{Plot, WIDTH, colour},
};
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// The metric of such figures.
pub const OVER_TIME: &str = "over time";

const HEIGHT: u32 = 360;

/// Draws all pictures for which there are figures. The seconds of several boots follow one another.
pub fn all(rows: &[Row], directory: &Path) -> Result<Vec<Plot>> {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.figure.metric == OVER_TIME).collect();
    let mut plots = Vec::new();
    for case in distinct(rows.iter().map(|row| &row.figure.case)) {
        let of_case: Vec<&&Row> = rows.iter().filter(|row| row.figure.case == case).collect();
        for kernel in distinct(of_case.iter().map(|row| &row.figure.kernel)) {
            let drawn: Vec<&Row> =
                of_case.iter().filter(|row| row.figure.kernel == kernel).map(|row| **row).collect();
            let bench = drawn[0].figure.bench.clone();
            let file = format!("{bench} {OVER_TIME} {kernel}.svg").replace(' ', "-");
            let title = format!("{bench}: {case}, kernel {kernel}");
            draw(&drawn, &title, &directory.join(&file))
                .map_err(|error| anyhow!("drawing {file}: {error}"))?;
            plots.push(Plot { bench, title, file });
        }
    }
    Ok(plots)
}

fn draw(rows: &[&Row], title: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let values = || rows.iter().flat_map(|row| &row.figure.values);
    let most = values().copied().fold(1.0, f64::max);
    let seconds = rows.iter().map(|row| row.figure.values.len()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..seconds as f64, 0.0..most * 1.3)?;
    chart.configure_mesh().x_desc("seconds").y_desc(&rows[0].figure.unit).draw()?;
    for (index, row) in rows.iter().enumerate() {
        let color = colour(index).stroke_width(2);
        let points = row.figure.values.iter().enumerate();
        let points: Vec<_> = points.map(|(at, value)| (at as f64, *value)).collect();
        chart
            .draw_series([PathElement::new(points, color)])?
            .label(&row.figure.subject)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(root.present()?)
}
