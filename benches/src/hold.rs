//! The process under measurement: it fills the given memory, runs on the given CPUs and then sleeps.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use numaloc_core::{page_size, pmd_size};
use numaloc_sys::{
    MoveFlag,
    fixture::{Advice, Backing, Region, set_thread_policy},
    move_pages,
};
use numaloc_tests::{
    cpus::{cpus_of, run_on},
    truth::{Truth, free_bytes},
};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    ops::Range,
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::atomic::Ordering::Relaxed,
};

/// The memory and threads of the process.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// MiB of anonymous memory.
    #[arg(long)]
    pub mib: usize,
    /// Number of mappings that the memory is spread over.
    #[arg(long, default_value_t = 1)]
    pub regions: usize,
    /// Kind of pages that the memory consists of.
    #[arg(long, value_enum, default_value_t)]
    pub pages: Pages,
    /// A file to map shared, instead of anonymous memory. It must be long enough. For `pages`: the file to read.
    #[arg(long)]
    pub file: Option<PathBuf>,
    /// Node whose CPUs it runs on.
    #[arg(long)]
    pub cpu_node: Option<u32>,
    /// Node that the memory is taken from.
    #[arg(long)]
    pub memory_node: Option<u32>,
}

/// The kind of pages that memory consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// Pages of the base size.
    #[default]
    Base,
    /// Transparent huge pages (madvise(2), MADV_HUGEPAGE).
    Huge,
    /// Huge pages of 2 MiB from the hugetlb pools.
    Hugetlb,
    /// Base pages with holes: every third page is missing, and every fifth of the others is on the node of the CPUs.
    Mixed,
}

impl Pages {
    /// Bytes from one page's address to the next one's.
    pub fn bytes(self) -> u64 {
        if matches!(self, Self::Huge | Self::Hugetlb) { pmd_size() } else { page_size() }
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

pub fn run(args: &Args) -> Result<()> {
    let _regions = fill(args)?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Moves to its CPUs, fills the memory, and prints where its first region is.
pub fn fill(args: &Args) -> Result<Vec<Region>> {
    if let Some(node) = args.cpu_node {
        run_on(&cpus_of(node));
    }
    let mixed = args.pages == Pages::Mixed;
    let populated = (args.mib << 20) / args.regions;
    let bytes = if mixed { populated / 2 * 3 } else { populated };
    let file = args.file.as_ref().map(|path| File::options().read(true).write(true).open(path));
    let file = file.transpose()?;
    let backing = match (&file, args.pages) {
        (Some(file), _) => Backing::File(file),
        (None, Pages::Hugetlb) => Backing::Hugetlb(pmd_size() as usize),
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
    touch(&regions, args.memory_node, |page| !mixed || is_remote(page))?;
    if mixed {
        touch(&regions, args.cpu_node, |page| exists(page) && is_early(page))?;
    }
    set_thread_policy(None)?;
    show(&regions)?;
    Ok(regions)
}

/// Prints where the first region is, for [`Holder::start`].
pub fn show(regions: &[Region]) -> Result<()> {
    let Range { start, end } = regions.first().context("at least one region")?.range();
    println!("{start:x} {end:x}");
    Ok(io::stdout().flush()?)
}

/// Whether a page of a mixed region exists: every third is missing.
const fn exists(page: u64) -> bool {
    page % 3 != 2
}

/// Whether a page of a mixed region is at home from the beginning: every fifth of the existing pages is.
const fn is_early(page: u64) -> bool {
    (page - page / 3).is_multiple_of(5)
}

/// Whether a page of a mixed region has to move.
pub const fn is_remote(page: u64) -> bool {
    exists(page) && !is_early(page)
}

fn touch(regions: &[Region], node: Option<u32>, wanted: impl Fn(u64) -> bool) -> Result<()> {
    set_thread_policy(node)?;
    for region in regions {
        let pages = (0..region.pages()).filter(|&page| wanted(page as u64));
        pages.for_each(|page| region.page(page)[0].store(1, Relaxed));
    }
    Ok(())
}

/// [`touch_all`] leaves this much free memory of a node alone, and touches at most `TOUCHED_MAX`: both in MiB.
const SPARED: usize = 256;
const TOUCHED_MAX: usize = 4096;

/// Touches the free memory of the nodes once. An emulated machine gets its memory from its host at the first touch, which takes
/// longer than to move a page there.
pub fn touch_all(nodes: &[u32]) -> Result<()> {
    for &node in nodes {
        let mib = (free_bytes(node) >> 20) as usize;
        let mib = mib.saturating_sub(SPARED).min(TOUCHED_MAX);
        drop(Holder::start(&Args { mib, memory_node: Some(node), ..Args::default() })?);
    }
    Ok(())
}

/// The measuring side: a running process, which is killed when this is dropped.
#[derive(Debug)]
pub struct Holder {
    child: Child,
    output: BufReader<ChildStdout>,
    args: Args,
    /// The addresses of its first region.
    pub range: Range<u64>,
}

impl Holder {
    /// Starts a process that sleeps, and waits until its memory is filled.
    pub fn start(args: &Args) -> Result<Self> {
        Self::start_as("hold", args)
    }

    /// The same with another subcommand of this program, which must begin with [`fill`].
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

    /// Sends an empty line and returns the line that the process answers.
    pub fn ask(&mut self) -> Result<String> {
        self.child.stdin.as_mut().context("it has an input")?.write_all(b"\n")?;
        self.line()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// CPUs that it may run on, as the kernel lists them.
    pub fn cpus(&self) -> Result<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        Ok(line.context("Cpus_allowed_list")?.trim().to_owned())
    }

    pub fn args(&self) -> &Args {
        &self.args
    }

    /// Base pages of memory in the first region.
    pub fn pages(&self) -> u64 {
        ((self.args.mib << 20) / self.args.regions) as u64 / page_size()
    }

    /// Moves pages of it to a node with one call of move_pages(2).
    pub fn put(&self, addresses: &[u64], node: u32) -> Result<()> {
        let mut status = vec![0; addresses.len()];
        move_pages(self.pid(), addresses, node, &mut status, MoveFlag::Own)?;
        Ok(())
    }

    /// KiB of transparent huge pages in the whole process.
    pub fn huge_kib(&self) -> Result<u64> {
        let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))?;
        let line = smaps.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("AnonHugePages")?;
        Ok(kib.trim().parse()?)
    }

    /// Base pages of the first region by node, as the kernel's numa_maps counts them.
    pub fn pages_by_node(&self) -> Result<Vec<(u32, u64)>> {
        let nodes = Truth::of(self.pid()).mapping(self.range.start);
        ensure!(!nodes.is_empty(), "numa_maps shows no pages of the region");
        Ok(nodes.into_iter().map(|(node, bytes)| (node, bytes / page_size())).collect())
    }

    /// Checks that what `mover` was to bring to a node is there: at least 99 of 100 pages, as one that is being written to may not
    /// move.
    ///
    /// # Errors
    /// More pages are elsewhere.
    pub fn ensure_on(&self, node: u32, mover: &str) -> Result<()> {
        let nodes = self.pages_by_node()?;
        let there = nodes.iter().find(|(of, _)| *of == node).map_or(0, |&(_, pages)| pages);
        ensure!(there * 100 >= self.pages() * 99, "{mover} left pages behind: {nodes:?}");
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Kill it instead of closing its input: to take the memory down would last into the next measurement.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
