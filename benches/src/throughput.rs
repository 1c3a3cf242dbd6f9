//! Rate at which all of a process's memory comes home, and its CPU time.

use crate::{
    cache::Cache,
    figure::{Figure, kernel},
    hold::{self, Holder, Pages},
    movers::{AWAY, HOME, Mover, Turn},
    print,
};
use anyhow::{Result, ensure};
use numaloc_core::page_size;
use numaloc_tests::settings::Setting;
use std::{fs, path::PathBuf};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move; repeatable.
    #[arg(long, default_values_t = [512, 2048])]
    mib: Vec<usize>,
    /// Number of rounds; half of it for more than 1 GiB.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Only these kinds of pages; repeatable.
    #[arg(long, value_enum)]
    pages: Vec<Pages>,
    /// Further options of `numalocctl migrate` in one word, such as "--workers=1 --batch-bytes=4M"; repeatable. Each becomes a
    /// subject of its own.
    #[arg(long, allow_hyphen_values = true)]
    with: Vec<String>,
    /// To a node that is full of unused page cache.
    #[arg(long)]
    full: bool,
    /// Another build of numalocctl, to compare with.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Only subjects with this word in their name; repeatable.
    #[arg(long)]
    subject: Vec<String>,
}

/// A mover, and its results.
struct Subject {
    mover: Mover,
    turns: Vec<Turn>,
}

/// Measures all kinds of pages in all sizes.
pub fn run(args: &Args) -> Result<()> {
    let kernel = kernel()?;
    let all = [Pages::Base, Pages::Huge, Pages::Hugetlb, Pages::Mixed];
    hold::touch_all(&[HOME, AWAY])?;
    for &mib in &args.mib {
        for pages in all.into_iter().filter(|of| args.pages.is_empty() || args.pages.contains(of)) {
            compare(args, mib, pages, &kernel)?;
        }
    }
    Ok(())
}

fn target(mib: usize, pages: Pages, node: u32) -> hold::Args {
    let (cpu_node, memory_node) = (Some(HOME), Some(node));
    hold::Args { mib, pages, cpu_node, memory_node, ..hold::Args::default() }
}

/// The movers to compare; with much memory only those for which there are goals.
fn subjects(args: &Args, large: bool) -> Result<Vec<Subject>> {
    let fast = Mover::profile("fast")?;
    let mut movers = vec![Mover::migratepages(), Mover::bare_calls(), fast.clone()];
    if !large {
        movers.extend([fast.with_workers(1), Mover::profile("balanced")?]);
        movers.extend([Mover::cpuset(), Mover::all_in_one_call(), Mover::one_page_a_call()]);
    }
    movers.extend(args.with.iter().map(|with| Mover::numalocctl(with, with)));
    Mover::add_another_build(&mut movers, args.beside.as_deref());
    movers.retain(|mover| mover.is_one_of(&args.subject));
    Ok(movers.into_iter().map(|mover| Subject { mover, turns: Vec::new() }).collect())
}

fn compare(args: &Args, mib: usize, pages: Pages, kernel: &str) -> Result<()> {
    let cache = args.full.then(|| Cache::new(mib + mib / 2)).transpose()?;
    let _pools = (pages == Pages::Hugetlb).then(|| {
        // The kernel may have to compact memory first.
        fs::write("/proc/sys/vm/compact_memory", "1").expect("root");
        [HOME, AWAY].map(|node| Setting::huge_pool(node, mib as u64 / 2))
    });
    let large = mib > 1024;
    let mut subjects = subjects(args, large)?;
    let rounds = if large { args.rounds.div_ceil(2) } else { args.rounds };
    // The first move pays for free memory that is not in the state in which this case leaves it. It does not count.
    measured(&Mover::migratepages(), &Holder::start(&target(mib, pages, AWAY))?)?;
    let mut moved = 0;
    for round in 1..=rounds {
        // Each subject comes first in some round, so that none always pays for what the one before it has left: a host lends less of its
        // CPUs after two of them were busy.
        let first = (round - 1) % subjects.len().max(1);
        let (last, first) = subjects.split_at_mut(first);
        for Subject { mover, turns } in first.iter_mut().chain(last) {
            // It is by far the slowest, and one round shows that.
            if round > 1 && *mover == Mover::one_page_a_call() {
                continue;
            }
            let holder = Holder::start(&target(mib, pages, AWAY))?;
            cache.iter().try_for_each(Cache::fill)?;
            let (turn, bytes) = measured(mover, &holder)?;
            println!("round {round}: {}: {:.0} ms", mover.name, turn.wall.as_secs_f64() * 1e3);
            moved = bytes;
            turns.push(turn);
        }
    }
    let full = if args.full { ", to a node full of page cache" } else { "" };
    let case = case(mib, pages) + full;
    let figure = |subject: &Subject, metric: &str, unit: &str, values: Vec<f64>| Figure {
        bench: "throughput".into(),
        kernel: kernel.into(),
        case: case.clone(),
        subject: subject.mover.name.clone(),
        metric: metric.into(),
        unit: unit.into(),
        values,
    };
    let mut figures = Vec::new();
    for subject in &subjects {
        let of = |value: fn(&Turn) -> Option<f64>| subject.turns.iter().filter_map(value).collect();
        let wall = of(|turn| Some(turn.wall.as_secs_f64() * 1e3));
        let cpu: Vec<f64> = of(|turn| Some(turn.cpu?.as_secs_f64() * 1e3));
        let each = cpu.iter().map(|ms| moved as f64 / ms * 1e3).collect();
        let longest = of(longest_call_ms);
        let passes = of(|turn| Some(turn.read_bytes? as f64));
        let pass = (holder_pages(mib) * 8) as f64;
        let passes = passes.iter().map(|bytes| bytes / pass).collect();
        figures.push(figure(subject, "wall", "ms", wall));
        figures.push(figure(subject, "cpu", "ms", cpu));
        figures.push(figure(subject, "moved per CPU second", "bytes per CPU second", each));
        figures.push(figure(subject, "longest call", "ms", longest));
        if subject.mover.is_numalocctl() {
            figures.push(figure(subject, "passes", "page maps of the target", passes));
        }
    }
    print::figures(&figures)
}

/// Milliseconds of the longest call, as numalocctl reports it.
fn longest_call_ms(turn: &Turn) -> Option<f64> {
    let longest = turn.report.as_ref()?.pointer("/outcome/calls/longest")?.as_str()?;
    longest.strip_suffix('s')?.parse::<f64>().ok().map(|seconds| seconds * 1e3)
}

/// Base pages of a target: the entries of its page map, of 8 bytes each.
fn holder_pages(mib: usize) -> u64 {
    ((mib as u64) << 20) / page_size()
}

fn case(mib: usize, pages: Pages) -> String {
    let size =
        if mib.is_multiple_of(1024) { format!("{} GiB", mib / 1024) } else { format!("{mib} MiB") };
    let pages = match pages {
        Pages::Base => "of 4 KiB pages",
        Pages::Huge => "of THP",
        Pages::Hugetlb => "of hugetlb pages",
        Pages::Mixed => "with holes, 20% local",
    };
    format!("{size} {pages}")
}

/// Does one move, and checks it by what the kernel says before and after it. Also returns the bytes that had to move.
fn measured(mover: &Mover, holder: &Holder) -> Result<(Turn, u64)> {
    let pages = holder.args().pages;
    let all = holder.pages();
    let early = if pages == Pages::Mixed { all.div_ceil(5) } else { 0 };
    let before = holder.pages_by_node()?;
    let expected = [(HOME, early), (AWAY, all - early)];
    ensure!(
        before.iter().eq(expected.iter().filter(|&&(_, pages)| pages > 0)),
        "the memory is not where it should be: {before:?}"
    );
    let huge_kib = holder.huge_kib()?;
    ensure!(
        pages != Pages::Huge || huge_kib * 1024 == all * page_size(),
        "huge pages: {huge_kib} KiB"
    );
    let turn = mover.turn(holder, false)?;
    let after = holder.pages_by_node()?;
    ensure!(after == [(HOME, all)], "{} left pages behind: {after:?}", mover.name);
    let huge_after = holder.huge_kib()?;
    ensure!(
        huge_after == huge_kib,
        "{} split huge pages: {huge_kib} KiB -> {huge_after} KiB",
        mover.name
    );
    Ok((turn, (all - early) * page_size()))
}
