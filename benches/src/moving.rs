//! Whole commands that bring a process's memory from node 1 to node 0: numalocctl against migratepages(8).

use crate::{
    hold::{self, Holder},
    rounds::{median, verdict},
};
use anyhow::{Context, Result, bail, ensure};
use numaloc_core::{HUGE, PAGE};
use serde_json::Value;
use std::{
    process::Command,
    time::{Duration, Instant},
};

/// How much of it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move.
    #[arg(long, default_value_t = 512)]
    mib: usize,
    /// Rounds that count.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Further options of `numalocctl migrate` in one word, such as "--workers=1 --batch-bytes=4M"; repeatable. Each
    /// becomes a candidate of its own beside the defaults.
    #[arg(long, allow_hyphen_values = true)]
    with: Vec<String>,
    /// Only base pages, or only huge ones.
    #[arg(long, value_enum)]
    pages: Option<Pages>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pages {
    Base,
    Huge,
}

/// A mover with what it has shown.
#[derive(Debug, Default)]
struct Mover {
    /// `None`: migratepages.
    options: Option<String>,
    times: Vec<Duration>,
    /// Of its report: the longest call, all calls of all workers together, and the moving with what is around it.
    longest_calls: Vec<Duration>,
    all_calls: Vec<Duration>,
    executions: Vec<Duration>,
    addresses_per_huge_page: Vec<f64>,
}

/// Measures base pages, then huge ones.
pub fn run(args: &Args) -> Result<()> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("move {} MiB, kernel {}, medians of {}", args.mib, kernel.trim(), args.rounds);
    for node in [0, 1] {
        // An emulated machine gets its memory from the host at the first touch.
        drop(Holder::start(&target(args.mib * 3 / 2, false, node))?);
    }
    for pages in [Pages::Base, Pages::Huge] {
        if args.pages.is_none_or(|only| only == pages) {
            compare(args, pages == Pages::Huge)?;
        }
    }
    Ok(())
}

fn target(mib: usize, huge: bool, node: u32) -> hold::Args {
    hold::Args { mib, regions: 1, huge, cpu_node: Some(0), memory_node: Some(node) }
}

fn compare(args: &Args, huge: bool) -> Result<()> {
    let ours = [String::new()].into_iter().chain(args.with.iter().cloned()).map(Some);
    let movers = [None].into_iter().chain(ours);
    let mut movers: Vec<Mover> =
        movers.map(|options| Mover { options, ..Mover::default() }).collect();
    for round in 0..=args.rounds {
        for mover in &mut movers {
            let holder = Holder::start(&target(args.mib, huge, 1))?;
            mover.turn(&holder, huge)?;
            if round == 0 {
                *mover = Mover { options: mover.options.take(), ..Mover::default() };
            }
        }
    }
    println!("\n{}", if huge { "THP" } else { "4 KiB pages" });
    let bare = median(&movers[0].times).as_secs_f64();
    let goal = if huge { 0.9 } else { 1.15 };
    for (index, mover) in movers.iter().enumerate() {
        mover.print(bare, (index == 1).then_some(goal));
    }
    parts(args, huge, bare)
}

/// What a migration does before it moves anything, by commands that end there.
fn parts(args: &Args, huge: bool, bare: f64) -> Result<()> {
    let holder = Holder::start(&target(args.mib, huge, 1))?;
    let pid = holder.pid().to_string();
    for words in [&["version"][..], &["topology"], &["plan", "--pid", &pid]] {
        let mut times = Vec::new();
        for _ in 0..args.rounds {
            let begin = Instant::now();
            let output = Command::new("numalocctl").args(words).output()?;
            times.push(begin.elapsed());
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let seconds = median(&times).as_secs_f64();
        let name = format!("  for comparison: numalocctl {}", words[0]);
        println!("{name:<52} {:8.1} ms {:6.2}", seconds * 1e3, seconds / bare);
    }
    Ok(())
}

impl Mover {
    /// One move, checked by what the kernel says afterwards.
    fn turn(&mut self, holder: &Holder, huge: bool) -> Result<()> {
        let all = holder.pages();
        ensure!(
            holder.pages_by_node()? == [(1, all)],
            "not on node 1: {:?}",
            holder.pages_by_node()?
        );
        let huge_kib = holder.huge_kib()?;
        ensure!(!huge || huge_kib * 1024 == all * PAGE, "no huge pages: {huge_kib} KiB");
        let mut command = self.command(holder.pid());
        let begin = Instant::now();
        let output = command.output().with_context(|| format!("{command:?}"))?;
        self.times.push(begin.elapsed());
        if !output.status.success() {
            bail!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let nodes = holder.pages_by_node()?;
        ensure!(nodes == [(0, all)], "{command:?} left pages behind: {nodes:?}");
        let after = holder.huge_kib()?;
        ensure!(after == huge_kib, "{command:?} split huge pages: {huge_kib} KiB -> {after} KiB");
        if self.options.is_some() {
            self.note(&serde_json::from_slice(&output.stdout)?, huge_kib * 1024)?;
        }
        Ok(())
    }

    fn command(&self, pid: i32) -> Command {
        let pid = pid.to_string();
        let Some(options) = &self.options else {
            let mut command = Command::new("migratepages");
            command.args([&pid, "1", "0"]);
            return command;
        };
        let mut command = Command::new("numalocctl");
        command.args(["migrate", "--no-progress", "-o", "json", "--pid", &pid]);
        command.args(options.split_whitespace());
        command
    }

    /// Takes what the report says of its calls. What is not in huge pages takes one address a page, so the rest of
    /// the addresses are those of the huge pages.
    fn note(&mut self, report: &Value, huge_bytes: u64) -> Result<()> {
        let number = |path: &str| report.pointer(path).with_context(|| format!("no {path}"));
        let bytes = number("/found_bytes")?.as_u64().context("a number")?;
        let addresses = number("/calls/addresses")?.as_u64().context("a number")?;
        let time = |path| -> Result<Duration> {
            Ok(Duration::from_secs_f64(number(path)?.as_f64().context("a number")?))
        };
        self.longest_calls.push(time("/calls/longest_seconds")?);
        self.all_calls.push(time("/calls/total_seconds")?);
        self.executions.push(time("/elapsed_seconds")?);
        if huge_bytes > 0 {
            let base = (bytes - huge_bytes) / PAGE;
            let per_page = addresses.saturating_sub(base) as f64 / (huge_bytes / HUGE) as f64;
            self.addresses_per_huge_page.push(per_page);
        }
        Ok(())
    }

    fn print(&self, bare: f64, goal: Option<f64>) {
        let seconds = median(&self.times).as_secs_f64();
        let ratio = seconds / bare;
        let name = match &self.options {
            None => "migratepages".to_owned(),
            Some(options) => format!("numalocctl migrate {options}"),
        };
        print!("{name:<52} {:8.1} ms {ratio:6.2}", seconds * 1e3);
        if let Some(goal) = goal {
            print!("  goal {goal}: {}", verdict(ratio, goal));
        }
        if !self.longest_calls.is_empty() {
            let ms = |times: &[Duration]| median(times).as_secs_f64() * 1e3;
            print!(
                "; moving {:.0} ms, calls {:.0} ms, the longest {:.0} ms",
                ms(&self.executions),
                ms(&self.all_calls),
                ms(&self.longest_calls)
            );
        }
        if let Some(most) = self.addresses_per_huge_page.iter().copied().reduce(f64::max) {
            print!("; addresses a huge page: {most} at most");
        }
        println!();
    }
}
