//! The process under measurement: it fills memory as asked, runs on the CPUs asked for and then sleeps.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::{HUGE, PAGE};
use numaloc_sys::fixture::{Advice, Backing, Region, set_thread_policy};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    ops::Range,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
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
    /// What the memory is made of.
    #[arg(long, value_enum, default_value_t)]
    pub pages: Pages,
    /// A file that is mapped shared, instead of anonymous memory; it is long enough.
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// Node whose CPUs it runs on.
    #[arg(long)]
    pub cpu_node: Option<u32>,
    /// Node that the memory comes from.
    #[arg(long)]
    pub memory_node: Option<u32>,
}

/// What memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// Base pages.
    #[default]
    Base,
    /// Transparent huge pages.
    Huge,
    /// Huge pages of 2 MiB from the pools.
    Hugetlb,
    /// Base pages with holes: each third is not there, and each fifth of those that are is on the node of the CPUs.
    Mixed,
}

impl Pages {
    /// From one page's address to the next one's.
    pub fn bytes(self) -> u64 {
        if matches!(self, Self::Huge | Self::Hugetlb) { HUGE } else { PAGE }
    }
}

impl Default for Args {
    fn default() -> Self {
        let (file, cpu_node, memory_node) = Default::default();
        Self { mib: 0, regions: 1, pages: Pages::Base, file, cpu_node, memory_node }
    }
}

impl Args {
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        add("mib", self.mib.to_string());
        add("regions", self.regions.to_string());
        let pages = self.pages.to_possible_value().expect("no variant is skipped");
        add("pages", pages.get_name().to_owned());
        self.file.iter().for_each(|file| add("file", file.display().to_string()));
        self.cpu_node.into_iter().for_each(|node| add("cpu-node", node.to_string()));
        self.memory_node.into_iter().for_each(|node| add("memory-node", node.to_string()));
        words
    }
}

/// The process's own side.
pub fn run(args: &Args) -> Result<()> {
    let _regions = fill(args)?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Goes where it is to run, gets the memory, and says where its first region is.
pub fn fill(args: &Args) -> Result<Vec<Region>> {
    if let Some(node) = args.cpu_node {
        pin(node)?;
    }
    let mixed = args.pages == Pages::Mixed;
    let populated = (args.mib << 20) / args.regions;
    let bytes = if mixed { populated / 2 * 3 } else { populated };
    let file = args.file.as_ref().map(|path| File::options().read(true).write(true).open(path));
    let file = file.transpose()?;
    let backing = match (&file, args.pages) {
        (Some(file), _) => Backing::File(file),
        (None, Pages::Hugetlb) => Backing::Hugetlb(HUGE as usize),
        (None, _) => Backing::Private,
    };
    let mut regions = Vec::with_capacity(args.regions);
    for _ in 0..args.regions {
        let region = Region::map(bytes, backing, None)?;
        match args.pages {
            Pages::Base | Pages::Mixed => region.advise(Advice::NoHuge)?,
            Pages::Huge => region.advise(Advice::Huge)?,
            Pages::Hugetlb => {}
        }
        regions.push(region);
    }
    touch(&regions, args.memory_node, |page| !mixed || page % 3 != 2 && !early(page))?;
    if mixed {
        touch(&regions, args.cpu_node, |page| page % 3 != 2 && early(page))?;
    }
    set_thread_policy(None)?;
    let Range { start, end } = regions.first().context("at least one region")?.range();
    println!("{start:x} {end:x}");
    io::stdout().flush()?;
    Ok(regions)
}

/// Whether a page of a mixed region is at home from the beginning: every fifth of those that are there.
fn early(page: usize) -> bool {
    (page - page / 3).is_multiple_of(5)
}

fn touch(regions: &[Region], node: Option<u32>, wanted: impl Fn(usize) -> bool) -> Result<()> {
    set_thread_policy(node)?;
    for region in regions {
        let pages = (0..region.pages()).filter(|&page| wanted(page));
        pages.for_each(|page| region.page(page)[0].store(1, Relaxed));
    }
    Ok(())
}

/// Memory of a node that [`touch_all`] leaves alone, and how much it touches at most: in MiB.
const SPARED: usize = 256;
const TOUCHED_MAX: usize = 4096;

/// Touches the free memory of the nodes once: an emulated machine gets its memory from its host at the first touch, which
/// takes longer than to move a page there.
pub fn touch_all(nodes: [u32; 2]) -> Result<()> {
    for node in nodes {
        let path = format!("/sys/devices/system/node/node{node}/meminfo");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        let free = text.lines().find_map(|line| line.split_once("MemFree:"));
        let kib = free.and_then(|(_, kib)| kib.trim().strip_suffix(" kB")).context("MemFree")?;
        let mib = (kib.trim().parse::<usize>()? / 1024).saturating_sub(SPARED).min(TOUCHED_MAX);
        drop(Holder::start(&Args { mib, memory_node: Some(node), ..Args::default() })?);
    }
    Ok(())
}

/// Lets the calling thread, and what it starts from now on, run on the CPUs of a node alone.
pub fn pin(node: u32) -> Result<()> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = fs::read_to_string(&path).with_context(|| path.clone())?;
    let mut set = CpuSet::new();
    for cpu in list.parse::<numaloc_core::CpuSet>()?.iter() {
        set.set(cpu.0 as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Does something from the CPUs of a node, and goes back to where it was: for programs to start there.
pub fn pinned<T>(node: u32, what: impl FnOnce() -> T) -> Result<T> {
    let before = sched_getaffinity(Pid::from_raw(0))?;
    pin(node)?;
    let result = what();
    sched_setaffinity(Pid::from_raw(0), &before)?;
    Ok(result)
}

/// The measuring side: a running process, ended when this is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    output: BufReader<ChildStdout>,
    args: Args,
    /// Its first region.
    pub range: Range<u64>,
}

impl Holder {
    /// Starts one that sleeps and waits until its memory is there.
    pub fn start(args: &Args) -> Result<Self> {
        Self::start_as("hold", args)
    }

    /// The same with another subcommand of this program, which begins with [`fill`].
    pub fn start_as(subcommand: &str, args: &Args) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(subcommand).args(args.words()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = BufReader::new(child.stdout.take().context("it has an output")?);
        let mut holder = Self { child, output, args: args.clone(), range: 0..0 };
        let line = holder.line()?;
        let (start, end) = line.trim().split_once(' ').context("it could not get its memory")?;
        holder.range = u64::from_str_radix(start, 16)?..u64::from_str_radix(end, 16)?;
        Ok(holder)
    }

    /// Sends it an empty line and returns the line that it answers with.
    pub fn ask(&mut self) -> Result<String> {
        self.child.stdin.as_mut().context("it has an input")?.write_all(b"\n")?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// CPUs that it may run on, as the kernel lists them.
    pub fn cpus(&self) -> Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(line.context("Cpus_allowed_list")?.trim().to_owned())
    }

    /// What it was told to be like.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// Base pages of memory in the first region.
    pub fn pages(&self) -> u64 {
        ((self.args.mib << 20) / self.args.regions) as u64 / PAGE
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
        // It counts transparent huge pages by their base pages, and those of the pools once.
        let each = if self.args.pages == Pages::Hugetlb { HUGE / PAGE } else { 1 };
        let counts = node_counts(line).map(|(node, pages)| (node, pages * each));
        let counts = counts.collect::<Vec<_>>();
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
