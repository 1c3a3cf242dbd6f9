//! The process under measurement: it fills memory as asked, runs on the CPUs asked for and then sleeps.

use anyhow::{Context, Result, ensure};
use nix::{
    sched::{CpuSet, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::PAGE;
use numaloc_sys::fixture::{Advice, Backing, Region, set_thread_policy};
use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    ops::Range,
    process::{Child, Command, Stdio},
    sync::atomic::Ordering::Relaxed,
};

/// What it is to be like.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// MiB of anonymous memory.
    #[arg(long)]
    pub mib: usize,
    /// Mappings that it is spread over.
    #[arg(long, default_value_t = 1)]
    pub regions: usize,
    /// Transparent huge pages instead of base pages.
    #[arg(long)]
    pub huge: bool,
    /// Node whose CPUs it runs on.
    #[arg(long)]
    pub cpu_node: Option<u32>,
    /// Node that the memory comes from.
    #[arg(long)]
    pub memory_node: Option<u32>,
}

impl Args {
    fn words(&self) -> Vec<String> {
        let mut words = vec!["hold".to_owned()];
        let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        add("mib", self.mib.to_string());
        add("regions", self.regions.to_string());
        self.cpu_node.into_iter().for_each(|node| add("cpu-node", node.to_string()));
        self.memory_node.into_iter().for_each(|node| add("memory-node", node.to_string()));
        words.extend(self.huge.then(|| "--huge".to_owned()));
        words
    }
}

/// The process's own side.
pub fn run(args: &Args) -> Result<()> {
    if let Some(node) = args.cpu_node {
        pin(node)?;
    }
    set_thread_policy(args.memory_node)?;
    let bytes = (args.mib << 20) / args.regions;
    let advice = if args.huge { Advice::Huge } else { Advice::NoHuge };
    let mut regions = Vec::with_capacity(args.regions);
    for _ in 0..args.regions {
        let region = Region::map(bytes, Backing::Private)?;
        region.advise(advice)?;
        (0..region.pages()).for_each(|page| region.page(page)[0].store(1, Relaxed));
        regions.push(region);
    }
    if args.memory_node.is_some() {
        set_thread_policy(None)?;
    }
    let Range { start, end } = regions.first().context("at least one region")?.range();
    println!("{start:x} {end:x}");
    io::stdout().flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn pin(node: u32) -> Result<()> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = fs::read_to_string(&path).with_context(|| path.clone())?;
    let mut set = CpuSet::new();
    for cpu in list.parse::<numaloc_core::CpuSet>()?.iter() {
        set.set(cpu.0 as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// The measuring side: a running process, ended when this is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    /// Its first region.
    pub range: Range<u64>,
}

impl Holder {
    /// Starts one and waits until its memory is there.
    pub fn start(args: &Args) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.args(args.words()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = Self { child: child.spawn()?, range: 0..0 };
        let mut line = String::new();
        let output = holder.child.stdout.take().context("it has an output")?;
        BufReader::new(output).read_line(&mut line)?;
        let (start, end) = line.trim().split_once(' ').context("hold could not get its memory")?;
        holder.range = u64::from_str_radix(start, 16)?..u64::from_str_radix(end, 16)?;
        Ok(holder)
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Base pages of the first region.
    pub fn pages(&self) -> u64 {
        (self.range.end - self.range.start) / PAGE
    }

    /// KiB of transparent huge pages in all of it.
    pub fn huge_kib(&self) -> Result<u64> {
        let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))?;
        let line = smaps.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("AnonHugePages")?;
        Ok(kib.trim().parse()?)
    }

    /// Base pages of the first region by node, as the kernel's numa_maps counts them.
    pub fn pages_by_node(&self) -> Result<Vec<(u32, u64)>> {
        let text = fs::read_to_string(format!("/proc/{}/numa_maps", self.pid()))?;
        let line = text.lines().find(|line| line.starts_with(&format!("{:x} ", self.range.start)));
        let line = line.context("the region is not in numa_maps")?;
        let counts = node_counts(line).collect::<Vec<_>>();
        ensure!(!counts.is_empty(), "numa_maps shows no pages: {line}");
        Ok(counts)
    }
}

/// The `N0=123` words of a line of numa_maps.
pub fn node_counts(line: &str) -> impl Iterator<Item = (u32, u64)> {
    line.split(' ').filter_map(|word| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, pages.trim().parse().ok()?))
    })
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Not by closing its input: tearing the memory down would go on into the next measurement.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
