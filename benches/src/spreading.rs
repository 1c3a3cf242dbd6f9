//! Rate at which the memory of a process is interleaved over three nodes: by numalocctl, by the process itself with
//! mbind(2), and by DAMON.
//!
//! It begins on a fourth node: mbind(2) moves only pages that are outside of the nodes that it names (mm/mempolicy.c, `queue_folio_required`),
//! so it would leave memory where it is that begins on one of them.

use crate::{
    damos::{self, Kdamond},
    figure::{Figure, kernel},
    hold::{self, Holder, Pages},
    movers::{Mover, ensure_nodes},
    print,
    subject::{DAMOS_DESTS, ITSELF},
};
use anyhow::{Context, Result, ensure};
use numaloc_core::page_size;
use numaloc_tests::settings::{NUMA_BALANCING, Setting};
use std::{
    io::{self, BufRead, Write},
    thread,
    time::{Duration, Instant},
};

/// Where the memory begins, and the nodes that it goes to.
const FROM: u32 = 3;
const NODES: [u32; 3] = [0, 1, 2];
/// Longest time for DAMON.
const DAMON_MOST: Duration = Duration::from_secs(60);

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
        regions.iter().try_for_each(|region| region.interleave(&NODES))?;
        println!("{}", begin.elapsed().as_nanos());
        io::stdout().flush()?;
    }
    Ok(())
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    let all = [NODES[0], NODES[1], NODES[2], FROM];
    ensure_nodes(&all)?;
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    hold::touch_all(&all)?;
    let ours = Mover::numalocctl("fast", "--profile=fast --place=interleave --nodes=0-2");
    for (pages, name) in [(Pages::Base, "4 KiB pages"), (Pages::Huge, "THP")] {
        let (mut by_itself, mut by_us, mut by_damon) = (Vec::new(), Vec::new(), Vec::new());
        // The first round pays for free memory that is not in the state in which this case leaves it. It does not count.
        for round in 0..=args.rounds {
            let target = || {
                let (cpu_node, memory_node) = (Some(NODES[0]), Some(FROM));
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
            drop(holder);
            let damon = damon(&target()?)?;
            if round > 0 {
                by_itself.push(wall.as_secs_f64() * 1e3);
                by_us.push(turn.wall.as_secs_f64() * 1e3);
                by_damon.extend(damon.map(|took| took.as_secs_f64() * 1e3));
            }
        }
        let figure = |subject: &str, metric: &str, values| Figure {
            bench: "spread".into(),
            kernel: kernel.clone(),
            case: format!("{} MiB of {name}", args.mib),
            subject: subject.into(),
            metric: metric.into(),
            unit: "ms".into(),
            values,
        };
        let mut figures =
            vec![figure(ITSELF, "wall", by_itself), figure(&ours.name, "wall", by_us.clone())];
        if !by_damon.is_empty() {
            // Ours has all in place at its end.
            figures.push(figure(DAMOS_DESTS, "99% in place", by_damon));
            figures.push(figure(&ours.name, "99% in place", by_us));
        }
        print::figures(&figures)?;
    }
    Ok(())
}

/// Time of DAMON until 99% of the pages are in place; `None`: this kernel's cannot interleave, or it did not get there.
fn damon(holder: &Holder) -> Result<Option<Duration>> {
    if damos::missing().is_some() {
        return Ok(None);
    }
    let begin = Instant::now();
    let Some(_kdamond) = Kdamond::interleave(holder.pid(), &NODES)? else { return Ok(None) };
    while begin.elapsed() < DAMON_MOST {
        // DAMON looks at its schemes each 100 ms.
        thread::sleep(Duration::from_millis(20));
        if is_spread(&holder.pages_by_node()?, holder.pages()) {
            return Ok(Some(begin.elapsed()));
        }
    }
    eprintln!("{DAMOS_DESTS} has not spread it in {DAMON_MOST:?}: {:?}", holder.pages_by_node()?);
    Ok(None)
}

/// Whether each node has its third of the pages, to within a hundredth of all.
fn is_spread(nodes: &[(u32, u64)], all: u64) -> bool {
    let of = |node| nodes.iter().find(|&&(on, _)| on == node).map_or(0, |&(_, pages)| pages);
    NODES.iter().all(|&node| of(node).abs_diff(all / NODES.len() as u64) <= all / 100)
}

/// Checks that each node has a third of the memory, to within a hundredth, and that huge pages are whole.
fn ensure_spread(holder: &Holder, mover: &str) -> Result<()> {
    let (nodes, all) = (holder.pages_by_node()?, holder.pages());
    ensure!(is_spread(&nodes, all), "{mover} has not spread it: {nodes:?}");
    let huge_kib = holder.huge_kib()?;
    let is_whole = holder.args().pages != Pages::Huge || huge_kib * 1024 == all * page_size();
    ensure!(is_whole, "{mover} split huge pages: {huge_kib} KiB");
    Ok(())
}
