//! How fast the memory of a process is interleaved over two nodes: by numalocctl, and by the process itself with mbind(2).

use crate::{
    figure::{Figure, kernel},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME, Mover, both_nodes},
    print,
    subject::ITSELF,
};
use anyhow::{Context, Result, ensure};
use numaloc_core::PAGE;
use numaloc_tests::settings::{NUMA_BALANCING, Setting};
use std::{
    io::{self, BufRead, Write},
    time::{Duration, Instant},
};

/// How much is measured.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory of the process.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Rounds; in each both take turns.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// The process itself: for each line that it reads it interleaves its memory, and prints how many nanoseconds that took.
pub fn spread(args: &hold::Args) -> Result<()> {
    let regions = hold::fill(args)?;
    for line in io::stdin().lock().lines() {
        line?;
        let begin = Instant::now();
        regions.iter().try_for_each(|region| region.interleave(&[HOME, AWAY]))?;
        println!("{}", begin.elapsed().as_nanos());
        io::stdout().flush()?;
    }
    Ok(())
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    both_nodes()?;
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    hold::touch_all([HOME, AWAY])?;
    let ours = Mover::numalocctl("fast", "--profile=fast --place=interleave --nodes=0,1");
    for (pages, name) in [(Pages::Base, "4 KiB pages"), (Pages::Huge, "THP")] {
        let (mut by_itself, mut by_us) = (Vec::new(), Vec::new());
        // The first round pays for free memory that is not in the state in which this case leaves it. It does not count.
        for round in 0..=args.rounds {
            let target = || {
                let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
                let args = hold::Args {
                    mib: args.mib,
                    pages,
                    cpu_node,
                    memory_node,
                    ..hold::Args::default()
                };
                Holder::start_as("spread-itself", &args)
            };
            let mut holder = target()?;
            let wall = Duration::from_nanos(holder.ask()?.trim().parse().context("it ended")?);
            ensure_spread(&holder, ITSELF)?;
            drop(holder);
            let holder = target()?;
            let turn = ours.turn(&holder, false)?;
            ensure_spread(&holder, &ours.name)?;
            if round > 0 {
                by_itself.push(wall.as_secs_f64() * 1e3);
                by_us.push(turn.wall.as_secs_f64() * 1e3);
            }
        }
        let figure = |subject: &str, values| Figure {
            bench: "spread".into(),
            kernel: kernel.clone(),
            case: format!("{} MiB of {name}", args.mib),
            subject: subject.into(),
            metric: "wall".into(),
            unit: "ms".into(),
            values,
        };
        print::figures(&[figure(ITSELF, by_itself), figure(&ours.name, by_us)])?;
    }
    Ok(())
}

/// Checks that each node has half of the memory, to within a hundredth, and that huge pages are whole.
fn ensure_spread(holder: &Holder, mover: &str) -> Result<()> {
    let (nodes, all) = (holder.pages_by_node()?, holder.pages());
    let half = |&(_, pages): &(u32, u64)| pages.abs_diff(all / 2) <= all / 100;
    ensure!(nodes.len() == 2 && nodes.iter().all(half), "{mover} has not spread it: {nodes:?}");
    let huge_kib = holder.huge_kib()?;
    let is_whole = holder.args().pages != Pages::Huge || huge_kib * 1024 == all * PAGE;
    ensure!(is_whole, "{mover} split huge pages: {huge_kib} KiB");
    Ok(())
}
