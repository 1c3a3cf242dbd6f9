//! Costs for readers of page cache of the room that was made of it: dropped, or moved to the other node. One CPU for
//! each node, as for `stall`.

use crate::{
    cache::Cache,
    figure::{Figure, Series, kernel},
    hold::{self, Holder},
    movers::{AWAY, HOME, Mover},
    print,
    reader::{MIB, read_bytes},
    subject::{DROPPED, MOVED},
};
use anyhow::Result;
use numaloc_tests::{
    cpus::pinned,
    settings::{NUMA_BALANCING, Setting},
};
use std::{
    fs::File,
    io,
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// MiB to move to a node that is full of half as much page cache again.
    #[arg(long, default_value_t = 192)]
    mib: usize,
    /// Number of rounds, each with one move for either way to make room.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// One move, and the reading of the whole cache after it.
struct Shown {
    wall: Duration,
    reread: Duration,
    from_disk_bytes: u64,
}

/// Moves the same amount of memory, with either way to make room in turns.
pub fn run(args: &Args) -> Result<()> {
    let _off = Setting::set_if_present(NUMA_BALANCING, "0");
    let kernel = kernel()?;
    hold::touch_all(&[HOME, AWAY])?;
    let cache = Cache::new(args.mib + args.mib / 2)?;
    // Page cache moves only of files that a process has open.
    let _in_use = File::open(cache.path())?;
    let ways = [(DROPPED, "cache"), (MOVED, "move-cache")];
    let mut subjects = ways.map(|(subject, way)| {
        let options = format!("--profile=balanced --make-room={way}");
        (subject, Mover::numalocctl(subject, &options), Vec::new())
    });
    for _ in 0..args.rounds {
        for (_, mover, shown) in &mut subjects {
            shown.push(turn(args.mib, &cache, mover)?);
        }
    }
    let case = format!("{} MiB of 4 KiB pages", args.mib);
    let figures =
        subjects.iter().flat_map(|(subject, _, shown)| figures(&kernel, &case, subject, shown));
    print::figures(&figures.collect::<Vec<_>>())
}

fn turn(mib: usize, cache: &Cache, mover: &Mover) -> Result<Shown> {
    let (cpu_node, memory_node) = (Some(HOME), Some(AWAY));
    let target = hold::Args { mib, cpu_node, memory_node, ..hold::Args::default() };
    let holder = Holder::start(&target)?;
    cache.fill()?;
    let turn = mover.turn(&holder, true)?;
    holder.ensure_on(HOME, &mover.name)?;
    let (own, begin) = (std::process::id() as i32, Instant::now());
    let disk = read_bytes(own)?;
    pinned(HOME, || io::copy(&mut File::open(cache.path())?, &mut io::sink()))?;
    let from_disk_bytes = read_bytes(own)?.saturating_sub(disk);
    Ok(Shown { wall: turn.wall, reread: begin.elapsed(), from_disk_bytes })
}

fn figures(kernel: &str, case: &str, subject: &str, shown: &[Shown]) -> Vec<Figure> {
    let series = Series { bench: "reread", kernel, case, subject, rounds: shown };
    vec![
        series.figure("wall", "ms", |of| of.wall.as_secs_f64() * 1e3),
        series.figure("read again", "ms", |of| of.reread.as_secs_f64() * 1e3),
        series.figure("from the disk", "MiB", |of| of.from_disk_bytes as f64 / MIB),
    ]
}
