//! Throughput of a reader of page cache while memory comes to the node that the cache is on: the node has room, or is
//! full of other cache, so that some has to be dropped. One CPU for each node, as for `stall`: the reader has one and
//! the mover another.

use crate::{
    cache::Cache,
    figure::{Figure, Series, kernel},
    hold::{self, Holder},
    movers::{self, AWAY, HOME, Mover},
    print,
    subject::{THE_FILE, TO_EMPTY, TO_FULL},
};
use anyhow::{Context, Result, ensure};
use numaloc_core::page_size;
use numaloc_tests::{
    cpus::pinned,
    disk::{OnDisk, drop_cache},
    settings::{NUMA_BALANCING, Setting},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, BufRead, Write},
    mem,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move.
    #[arg(long, default_value_t = 192)]
    mib: usize,
    /// MiB of the file that is read.
    #[arg(long, default_value_t = 48)]
    file_mib: usize,
    /// Number of rounds, each with one move to either node.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The page cache of the file itself goes to the other node while it is read, instead.
    #[arg(long)]
    of_file: bool,
}

/// Time for which the reader is watched before a move.
const BEFORE: Duration = Duration::from_secs(1);
pub const MIB: f64 = (1 << 20) as f64;

/// The reads between two lines of input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Window {
    seconds: f64,
    bytes: u64,
}

impl Window {
    fn mib_per_second(self) -> f64 {
        self.bytes as f64 / MIB / self.seconds
    }
}

struct Shown {
    wall: Duration,
    before: Window,
    during: Window,
    /// Bytes that the reader had to read from the disk during the move.
    from_disk_bytes: u64,
}

/// Moves the same amount of memory by `balanced` to a node with room and to a full one, in turns.
pub fn run(args: &Args) -> Result<()> {
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let kernel = kernel()?;
    hold::touch_all(&[HOME, AWAY])?;
    let file = OnDisk::new("numaloc-bench-read", args.file_mib as u64);
    if args.of_file {
        return moved_itself(args, &file, &kernel);
    }
    let balanced = Mover::profile("balanced")?;
    let (mut empty, mut full) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        empty.push(turn(args, file.path(), None, &balanced)?);
        // Its process takes the memory of the node, so it is there only meanwhile.
        let cache = Cache::new(args.mib + args.mib / 2 + args.file_mib)?;
        full.push(turn(args, file.path(), Some(&cache), &balanced)?);
    }
    let case = format!("{} MiB of 4 KiB pages, {} MiB read", args.mib, args.file_mib);
    let shown = [(TO_EMPTY, &empty), (TO_FULL, &full)];
    let figures = shown.iter().flat_map(|(subject, shown)| figures(&kernel, &case, subject, shown));
    print::figures(&figures.collect::<Vec<_>>())
}

/// Moves the page cache that is read to the other node.
fn moved_itself(args: &Args, file: &OnDisk, kernel: &str) -> Result<()> {
    let mut shown = Vec::new();
    for _ in 0..args.rounds {
        drop_cache();
        let mut reader = reader(file.path())?;
        let cached: u64 = file.cached().values().sum();
        let before = before(&mut reader)?;
        let disk = read_bytes(reader.pid())?;
        let turn = movers::move_file(file.path(), AWAY)?;
        let during = window(&mut reader)?;
        let from_disk_bytes = read_bytes(reader.pid())?.saturating_sub(disk);
        let on = file.cached();
        ensure!(on == [(AWAY, cached)].into(), "the cache is not all on node {AWAY}: {on:?}");
        shown.push(Shown { wall: turn.wall, before, during, from_disk_bytes });
    }
    let case = format!("{} MiB of page cache", args.file_mib);
    print::figures(&figures(kernel, &case, THE_FILE, &shown))
}

/// Starts to read a file at random, on a CPU of the home node, where its cache is.
fn reader(file: &Path) -> Result<Holder> {
    let (cpu_node, memory_node) = (Some(HOME), Some(HOME));
    let file = Some(file.to_owned());
    Holder::start_as(
        "pages",
        &hold::Args { mib: 2, file, cpu_node, memory_node, ..hold::Args::default() },
    )
}

/// The reads while nothing moves.
fn before(reader: &mut Holder) -> Result<Window> {
    window(reader)?;
    thread::sleep(BEFORE);
    window(reader)
}

fn turn(args: &Args, file: &Path, cache: Option<&Cache>, mover: &Mover) -> Result<Shown> {
    match cache {
        Some(cache) => cache.fill()?,
        None => drop_cache(),
    }
    let mut reader = reader(file)?;
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib: args.mib, cpu_node, memory_node, ..hold::Args::default() };
    let holder = Holder::start(&target)?;
    let before = before(&mut reader)?;
    let disk = read_bytes(reader.pid())?;
    let turn = mover.turn(&holder, true)?;
    let during = window(&mut reader)?;
    let from_disk_bytes = read_bytes(reader.pid())?.saturating_sub(disk);
    holder.ensure_on(HOME, &mover.name)?;
    Ok(Shown { wall: turn.wall, before, during, from_disk_bytes })
}

/// The reads since the last call.
fn window(reader: &mut Holder) -> Result<Window> {
    Ok(serde_json::from_str(&reader.ask()?)?)
}

/// Bytes that a process has had read from a disk (proc_pid_io(5)).
pub fn read_bytes(pid: i32) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(bytes.context("read_bytes")?.parse()?)
}

fn figures(kernel: &str, case: &str, subject: &str, shown: &[Shown]) -> Vec<Figure> {
    let series = Series { bench: "reader", kernel, case, subject, rounds: shown };
    vec![
        series.figure("wall", "ms", |of| of.wall.as_secs_f64() * 1e3),
        series.figure("read before", "MiB/s", |of| of.before.mib_per_second()),
        series.figure("read during", "MiB/s", |of| of.during.mib_per_second()),
        series.figure("read of before", "share of before", |of| {
            of.during.mib_per_second() / of.before.mib_per_second()
        }),
        series.figure("from the disk", "MiB", |of| of.from_disk_bytes as f64 / MIB),
    ]
}

/// The process itself: reads pages of its file at random, which it has read twice before so that its cache counts as used. It
/// answers each line of input with the window since the line before, until its input ends.
pub fn read(args: &hold::Args) -> Result<()> {
    let path = args.file.as_ref().context("--file: what to read")?;
    let file = File::open(path)?;
    if let Some(node) = args.cpu_node {
        pinned(node, || (0..2).try_for_each(|_| whole(path)))?;
    }
    let _regions = hold::fill(&hold::Args { file: None, ..args.clone() })?;
    let pages = file.metadata()?.len() / page_size();
    ensure!(pages > 0, "{}: nothing to read", path.display());
    let bytes = &AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Err(error) = at_random(&file, pages, bytes) {
                eprintln!("cannot read: {error}");
                std::process::exit(1);
            }
        });
        let mut begin = Instant::now();
        for line in io::stdin().lock().lines() {
            line?;
            let seconds = mem::replace(&mut begin, Instant::now()).elapsed().as_secs_f64();
            let window = Window { seconds, bytes: bytes.swap(0, Relaxed) };
            println!("{}", serde_json::to_string(&window)?);
            io::stdout().flush()?;
        }
        // The thread never ends by itself.
        std::process::exit(0)
    })
}

fn whole(path: &Path) -> io::Result<()> {
    io::copy(&mut File::open(path)?, &mut io::sink()).map(drop)
}

fn at_random(file: &File, pages: u64, bytes: &AtomicU64) -> io::Result<()> {
    let (mut random, mut page) = (fastrand::Rng::new(), vec![0; page_size() as usize]);
    loop {
        file.read_exact_at(&mut page, random.u64(..pages) * page_size())?;
        bytes.fetch_add(page_size(), Relaxed);
    }
}
