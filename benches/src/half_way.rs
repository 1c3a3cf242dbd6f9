//! Share of a process's accesses that is local while its memory is on the way home: in address order, and the most
//! used memory first.
//!
//! Nothing is timed. The process writes to blocks of memory by a Zipf distribution, so the share of each block is known. The
//! kernel is asked where each page is.

use crate::{
    figure::{Figure, kernel},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME},
    print,
};
use anyhow::{Context, Result, ensure};
use numaloc_core::{Options, Order, Pacing, Profile, Topology, number, page_size, pmd_pages};
use numaloc_executor::{Control, Migration, RunLimits};
use numaloc_host::{Policies, Roots, Target, heat, resolve};
use numaloc_sys::query_pages;
use std::sync::atomic::Ordering::Relaxed;

/// Pages that are used equally often, such as a slab or a part of a table. With smaller blocks in random order, all larger parts
/// of the memory would be equally hot.
fn block_pages() -> usize {
    number::index(pmd_pages())
}

/// Exponent of the distribution, the same as in YCSB.
const EXPONENT: f64 = 0.99;
/// Seed of the order in which blocks are popular. It is the same in all processes.
const SEED: u64 = 0x7a69_7066;
/// Percent of the memory that have moved when the shares are measured.
const MOVED: [u8; 3] = [25, 50, 75];

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB of memory to write to.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Rounds that count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Only these kinds of pages; repeatable.
    #[arg(long, value_enum)]
    pages: Vec<Pages>,
}

/// Measures base pages, then huge pages.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    let mut orders = vec![("address order", Order::Address)];
    match heat::choose(&Roots::default(), Order::Damon) {
        Ok(_) => orders.push(("hot first, by DAMON", Order::Damon)),
        Err(error) => println!("kernel {kernel}: {error}"),
    }
    let all = [(Pages::Base, "4 KiB pages"), (Pages::Huge, "THP")];
    for (pages, name) in all {
        if !args.pages.is_empty() && !args.pages.contains(&pages) {
            continue;
        }
        let figure = |subject: &str, percent: u8| Figure {
            bench: "half_way".into(),
            kernel: kernel.clone(),
            case: format!("zipf over {} MiB of {name}", args.mib),
            subject: subject.into(),
            metric: format!("local accesses after {percent}% of the bytes"),
            unit: "%".into(),
            values: Vec::new(),
        };
        let mut figures = Vec::new();
        for percent in MOVED {
            figures.extend(
                orders.iter().map(|&(name, order)| (order, percent, figure(name, percent))),
            );
        }
        for _ in 0..args.rounds {
            for (order, percent, figure) in &mut figures {
                figure.values.push(100.0 * local(args.mib, pages, *order, *percent)?);
            }
        }
        print::figures(&figures.into_iter().map(|(.., figure)| figure).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Brings a part of the memory home. Returns which share of the accesses is local then.
fn local(mib: usize, pages: Pages, order: Order, percent: u8) -> Result<f64> {
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let hold = hold::Args { mib, pages, cpu_node, memory_node, ..hold::Args::default() };
    let writer = Holder::start_as("zipf", &hold)?;
    // The writer takes turns with another process. An emulated CPU that runs only one process keeps its translations, and DAMON
    // sees no accesses through them.
    let other = hold::Args { mib: 2, cpu_node, memory_node: Some(HOME), ..hold::Args::default() };
    let _other = Holder::start_as("zipf", &other)?;
    let roots = Roots::default();
    // The time of the move does not matter here.
    let pacing = Pacing { profile: Profile::Fast, ..Pacing::default() };
    let options = Options { order, pacing, target_ratio: percent, ..Options::default() };
    let find = |topology: &Topology| resolve(&roots, &[Target::Pid(writer.pid())], topology);
    let mut planned = Migration::on(&roots)?.plan(&options, Policies::Ask, &|| false, find)?;
    let limits = RunLimits { batch_bytes: Some(4 << 20), ..RunLimits::default() };
    let (outcome, _) = planned.run(&limits, &Control::default())?;
    let (moved, all) = (outcome.account().moved_bytes(), (mib as u64) << 20);
    ensure!(
        moved.abs_diff(all * u64::from(percent) / 100) <= all / 50,
        "{moved} bytes moved and not {percent}%: {outcome:?}"
    );
    share_at_home(&writer)
}

fn share_at_home(writer: &Holder) -> Result<f64> {
    let addresses: Vec<u64> = writer.range.clone().step_by(page_size() as usize).collect();
    let mut nodes = vec![0; addresses.len()];
    query_pages(writer.pid(), &addresses, &mut nodes)?;
    let blocks = nodes.chunks(block_pages());
    let at_home = |nodes: &[i32]| {
        nodes.iter().filter(|&&node| node == HOME as i32).count() as f64 / nodes.len() as f64
    };
    Ok(blocks.clone().zip(shares(blocks.len())).map(|(nodes, share)| share * at_home(nodes)).sum())
}

/// The share of all accesses that goes to each block, in the order of the blocks' addresses.
fn shares(blocks: usize) -> Vec<f64> {
    let weights = (1..=blocks).map(|rank| (rank as f64).powf(-EXPONENT));
    let total: f64 = weights.clone().sum();
    let mut shares: Vec<f64> = weights.map(|weight| weight / total).collect();
    fastrand::Rng::with_seed(SEED).shuffle(&mut shares);
    shares
}

/// The process itself: writes until it is killed, to all pages of a block equally often.
pub fn write(args: &hold::Args) -> Result<()> {
    let region = hold::fill(args)?.into_iter().next().context("one region")?;
    let pages = block_pages();
    let mut below = shares(region.pages() / pages);
    let mut sum = 0.0;
    for share in &mut below {
        sum += *share;
        *share = sum;
    }
    let mut random = fastrand::Rng::new();
    loop {
        let at = random.f64();
        let block = below.partition_point(|&below| below <= at).min(below.len() - 1);
        let page = region.page(block * pages + random.usize(..pages));
        page[random.usize(..page.len())].store(1, Relaxed);
    }
}
