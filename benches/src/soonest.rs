//! Time until the memory of a busy process is at home: from the start of a tool until 99% of the process's memory is
//! local, for all tools that can bring memory home.

mod numad;
mod peer;
mod sample;

use crate::{
    figure::{Figure, kernel},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME, ensure_nodes},
    print,
};
use anyhow::{Result, ensure};
use numaloc_core::page_size;
use numaloc_tests::settings::{NUMA_BALANCING, Setting};
use peer::Peer;
use sample::Sample;
use std::{
    io, process,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Share of local memory that counts as being at home.
const LOCAL: f64 = 0.99;
/// Time between two looks at where the pages are.
const POLL: Duration = Duration::from_millis(20);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory of the process.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Rounds; in each all tools run, one after the other.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds after which a tool counts as one that does not get there.
    #[arg(long, default_value_t = 30)]
    cap: u64,
    /// Only tools with this word in their names; repeatable.
    #[arg(long)]
    only: Vec<String>,
    /// "TOOL: REASON" for a tool that is not available; repeatable.
    #[arg(long)]
    missing: Vec<String>,
    /// The kind of pages that the memory consists of. Without it: base pages, then huge pages.
    #[arg(long, value_enum)]
    pages: Option<Pages>,
}

/// The process itself: one thread writes at random until the input ends.
pub fn write(args: &hold::Args) -> Result<()> {
    let regions = hold::fill(args)?;
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(0)
    });
    let mut random = fastrand::Rng::new();
    loop {
        let region = &regions[random.usize(..regions.len())];
        let page = region.page(random.usize(..region.pages()));
        page[random.usize(..page_size() as usize / 8)].store(1, Relaxed);
    }
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    ensure_nodes(&[HOME, AWAY])?;
    println!("seconds until {:.0}% of {} MiB are local, kernel {kernel}", LOCAL * 100.0, args.mib);
    // The kernel's balancing would help every tool. It takes part as one of the tools itself.
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    hold::touch_all(&[HOME, AWAY])?;
    for pages in [Pages::Base, Pages::Huge] {
        if args.pages.is_none_or(|only| only == pages) {
            let case = match pages {
                Pages::Huge => format!("{} MiB of THP", args.mib),
                _ => format!("{} MiB of 4 KiB pages", args.mib),
            };
            compare(args, &kernel, &case, pages)?;
        }
    }
    Ok(())
}

fn compare(args: &Args, kernel: &str, case: &str, pages: Pages) -> Result<()> {
    println!("\n{case}");
    let figure = |peer: &Peer, metric: &str, unit: &str, values| Figure {
        bench: "soonest".into(),
        kernel: kernel.into(),
        case: case.into(),
        subject: peer.name(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    };
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|it| name.contains(it));
    let mut peers = Vec::new();
    for peer in Peer::all()?.into_iter().filter(|peer| wanted(&peer.name())) {
        match peer.missing(&args.missing) {
            Some(reason) => {
                println!("{:<24} missing: {reason}", peer.name());
                figure(&peer, &format!("missing: {reason}"), "", Vec::new()).emit()?;
            }
            None => peers.push((peer, Vec::new())),
        }
    }
    for _ in 0..args.rounds {
        for (peer, times) in &mut peers {
            // A tool that once did not get there in time is not tried again.
            if !times.contains(&None) {
                times.push(turn(args, peer, pages)?);
            }
        }
    }
    let mut figures = Vec::new();
    for (peer, times) in &peers {
        let arrived = times.iter().flatten().count();
        if arrived < times.len() {
            let name = peer.name();
            println!(
                "{name}: there in {arrived} of {} rounds, the cap for the others",
                times.len()
            );
        }
        let seconds = times.iter().map(|time| time.unwrap_or(args.cap as f64)).collect();
        figures.push(figure(peer, "wall", "s", seconds));
        let there = times.iter().map(|time| f64::from(u8::from(time.is_some()))).collect();
        figures.push(figure(peer, "got there", "share of rounds", there));
    }
    print::figures(&figures)
}

/// Runs one tool on a process of its own. Returns seconds, or `None` if it did not get there in time.
fn turn(args: &Args, peer: &Peer, pages: Pages) -> Result<Option<f64>> {
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib: args.mib, pages, cpu_node, memory_node, ..Default::default() };
    let holder = Holder::start_as("writer", &target)?;
    let nodes = holder.pages_by_node()?;
    ensure!(nodes == [(AWAY, holder.pages())], "not on node {AWAY}: {nodes:?}");
    let cpus = holder.cpus()?;
    let sample = Sample::open(&holder)?;
    let cap = Duration::from_secs(args.cap);
    let begin = Instant::now();
    let tool = peer.start(&holder)?;
    let time = loop {
        thread::sleep(POLL);
        let elapsed = begin.elapsed();
        if sample.local()? >= LOCAL && is_home(&holder)? {
            break Some(elapsed.as_secs_f64());
        }
        if elapsed >= cap {
            println!("  {}: {:.1}% after {cap:?}", peer.name(), sample.local()? * 100.0);
            break None;
        }
    };
    tool.end()?;
    if holder.cpus()? != cpus {
        println!("  {}: moved the process to CPUs {}, from {cpus}", peer.name(), holder.cpus()?);
    }
    Ok(time)
}

/// Whether the process is at home, by numa_maps, which counts all pages. This decides, but it costs too much to be read all the
/// time.
fn is_home(holder: &Holder) -> Result<bool> {
    let nodes = holder.pages_by_node()?;
    let home = nodes.iter().find(|(node, _)| *node == HOME).map_or(0, |(_, pages)| *pages);
    Ok(home as f64 >= LOCAL * holder.pages() as f64)
}
