//! A simulated host: 8 nodes, 6 TiB and 10,000 processes. Measures how long planning takes and how much memory, and in which
//! order a queue of 1,000 jobs is served. Also measures a crowd of up to 100,000 processes, which is read from files as a real
//! host shows it.

pub mod crowd;
mod host;
mod queue;
pub mod record;
pub mod vast;

use crate::{
    figure::{NATIVE, Series},
    measured::{measured, peak_bytes},
    print,
};
use anyhow::Result;
use host::Host;
pub use host::Maps;
use numaloc_core::{Options, Process, planner, planner::Scene};
use std::{
    cell::Cell,
    hint::black_box,
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Processes for each measurement.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn run(args: &Args) -> Result<()> {
    for (maps, name) in [(Maps::Synthetic, "synthetic"), (Maps::Recorded, "recorded")] {
        let host = Host::new(maps)?;
        let extents: usize = (0..host::PROCESSES).map(|index| host.extents(index, 0).len()).sum();
        let case = format!("{} processes on 8 nodes of 6 TiB, {name} maps", host::PROCESSES);
        let mut figures = Vec::new();
        for (together, subject) in [(false, "each a target"), (true, "all one target")] {
            let mut words = vec!["--maps", name];
            words.extend(together.then_some("--together"));
            let results = measured::<4>(args.rounds, &words)?;
            let rounds = &*results;
            let series = Series { bench: "scale", kernel: NATIVE, case: &case, subject, rounds };
            figures.extend([
                series.figure("extents", "", |_| extents as f64),
                series.figure("planning", "ms", |[ns, ..]| *ns as f64 / 1e6),
                series.figure("longest plan", "ms", |[_, longest, ..]| *longest as f64 / 1e6),
                series.figure("planning by extent", "ns", |[ns, ..]| *ns as f64 / extents as f64),
                series.figure("memory", "MiB", |[.., before, peak]| {
                    (peak - before) as f64 / 1048576.0
                }),
            ]);
        }
        print::figures(&figures)?;
    }
    print::figures(&crowd::figures(args.rounds)?)?;
    print::figures(&vast::figures(args.rounds)?)?;
    print::figures(&queue::figures(args.rounds)?)
}

/// One measurement. Prints the nanoseconds of all plans and of the longest plan, and the peak memory in bytes before and after.
pub fn one(maps: Maps, together: bool) -> Result<()> {
    let host = Host::new(maps)?;
    let processes: Vec<Process> = (0..host::PROCESSES).map(|index| host.process(index)).collect();
    let before = peak_bytes()?;
    let (mut all, mut longest) = (Duration::ZERO, Duration::ZERO);
    let targets = if together { 1 } else { processes.len() };
    for (target, processes) in processes.chunks(processes.len() / targets).enumerate() {
        // Making up the extents takes as long as planning does, so that time is subtracted.
        let making = Cell::new(Duration::ZERO);
        let extents = (0..processes.len()).flat_map(|at| {
            let begin = Instant::now();
            let extents = host.extents(target + at, at);
            making.set(making.get() + begin.elapsed());
            extents
        });
        let caller_mems = &host.topology.with_memory();
        let scene = Scene { topology: &host.topology, processes, caller_mems };
        let begin = Instant::now();
        let plan = planner::plan(scene, extents, &Options::default());
        let took = begin.elapsed() - making.get();
        drop(black_box(plan));
        all += took;
        longest = longest.max(took);
    }
    println!("{} {} {before} {}", all.as_nanos(), longest.as_nanos(), peak_bytes()?);
    Ok(())
}
