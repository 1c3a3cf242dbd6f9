//! Very many processes of a fake host, in one cgroup: time and memory for finding them, surveying them and planning.

use crate::{
    figure::{Figure, NATIVE},
    measured::{measured, peak_bytes},
};
use anyhow::{Result, ensure};
use numaloc_core::Options;
use numaloc_host::{
    Surveyor,
    fake::{Crowd, open_page_maps},
    resolve,
};
use std::{hint::black_box, time::Instant};

/// The number of processes of the simulated host, and ten times that.
const SIZES: [usize; 2] = [10_000, 100_000];
/// Most page maps that may be open at a time.
const OPEN: usize = 1_024;

/// The results for both sizes, and the ratio of the times per process.
pub fn figures(rounds: usize) -> Result<Vec<Figure>> {
    let figure = |subject: &str, metric: &str, unit: &str, values| Figure {
        bench: "scale".into(),
        kernel: NATIVE.into(),
        case: "a cgroup of a fake host".into(),
        subject: subject.into(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    };
    let (mut figures, mut by_size) = (Vec::new(), Vec::new());
    for size in SIZES {
        let results = measured::<4>(rounds, &["--crowd", &size.to_string()])?;
        let each = |value: &dyn Fn(&[u64; 4]) -> f64| -> Vec<f64> {
            results.iter().map(|result| value(result) / size as f64).collect()
        };
        let subject = format!("{size} processes");
        let look = each(&|[ns, ..]| *ns as f64 / 1e3);
        let memory = each(&|[_, before, peak, _]| (peak - before) as f64 / 1024.0);
        let open = results.iter().map(|[.., open]| *open as f64).collect();
        figures.extend([
            figure(&subject, "look and plan, by process", "us", look.clone()),
            figure(&subject, "memory, by process", "KiB", memory),
            figure(&subject, "page maps open", "", open),
        ]);
        by_size.push(look);
    }
    let ratios = by_size[1].iter().zip(&by_size[0]).map(|(large, small)| large / small).collect();
    figures.push(figure("ten times the processes", "time by process, against", "", ratios));
    Ok(figures)
}

/// One measurement. Prints nanoseconds, the peak memory in bytes before and after, and how many page maps are open.
pub fn one(processes: usize) -> Result<()> {
    let crowd = Crowd::new(processes);
    let (roots, topology, options) = (crowd.roots(OPEN), Crowd::topology(), Options::default());
    let before = peak_bytes()?;
    let begin = Instant::now();
    let found = resolve(&roots, &[Crowd::target()], &topology)?.processes;
    let (survey, seen) = Surveyor::new(&roots, &topology, &options).survey(found, None)?;
    let plan = seen.plan(&topology, &options);
    let took = begin.elapsed();
    ensure!(plan.processes.len() == processes, "{} of {processes}", plan.processes.len());
    println!("{} {before} {} {}", took.as_nanos(), peak_bytes()?, open_page_maps());
    drop(black_box((plan, survey)));
    Ok(())
}
