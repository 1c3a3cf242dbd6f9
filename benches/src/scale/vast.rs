//! One process of a fake host whose memory takes turns page by page, which is the worst case of a placement on several nodes: time and
//! memory for looking at it and planning.

use crate::{
    figure::{Figure, NATIVE, Series},
    measured::{measured, peak_bytes},
};
use anyhow::{Result, ensure};
use numaloc_core::{Move, Options, Placement};
use numaloc_host::{Surveyor, fake::Vast, resolve};
use std::{hint::black_box, time::Instant};

/// Memory of the process, as the argument `--vast`.
const GIB: [u64; 2] = [64, 1024];

/// The results for both sizes.
pub fn figures(rounds: usize) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for gib in GIB {
        let rounds = &*measured::<3>(rounds, &["--vast", &gib.to_string()])?;
        let (case, subject) = ("a page map that alternates", &*format!("{gib} GiB"));
        let series = Series { bench: "scale", kernel: NATIVE, case, subject, rounds };
        figures.extend([
            series.figure("look and plan", "s", |[ns, ..]| *ns as f64 / 1e9),
            series.figure("memory", "MiB", |[_, before, peak]| (peak - before) as f64 / 1048576.0),
        ]);
    }
    Ok(figures)
}

/// One measurement. Prints nanoseconds, and the peak memory in bytes before and after.
pub fn one(gib: u64) -> Result<()> {
    let vast = Vast::new(gib << 30);
    let (roots, topology) = (vast.roots(), Vast::topology());
    let options = Options { placement: Placement::Interleave(None), ..Options::default() };
    let before = peak_bytes()?;
    let begin = Instant::now();
    let found = resolve(&roots, &[Vast::target()], &topology)?.processes;
    let (survey, seen) = Surveyor::new(&roots, &topology, &options).survey(found, None)?;
    let plan = seen.plan(&topology, &options);
    let took = begin.elapsed();
    let moved: u64 = plan.moves.iter().map(Move::remote_bytes).sum();
    ensure!(moved == gib << 30, "{moved} bytes of {gib} GiB would move");
    println!("{} {before} {}", took.as_nanos(), peak_bytes()?);
    drop(black_box((plan, survey)));
    Ok(())
}
