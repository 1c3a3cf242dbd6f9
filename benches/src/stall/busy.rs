//! The process that should not notice the move: one thread writes at random all over the memory, another one does what allocators
//! do.

use crate::hold;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use numaloc_sys::{
    fixture::{Advice, Backing, Region},
    set_nice,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufRead, Write},
    mem,
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Random writes that count as one operation. To read the clock for each of them would take longer than the write.
const BURST: usize = 16;
/// Bytes that the allocating thread maps at a time.
const MAPPED: usize = 64 << 10;
/// Its rest between two operations. It shares a CPU with the writer, and uses a small part of it.
const REST: Duration = Duration::from_micros(500);
/// Period of the moments in which the other process gets the CPU.
const TICK: Duration = Duration::from_millis(1);
/// Longest time that is recorded exactly; longer ones count as this.
const LONGEST: Duration = Duration::from_secs(100);

/// The operations between two lines of input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    pub seconds: f64,
    pub writes: Latencies,
    /// The allocating thread's operations: map, touch each page, unmap.
    pub maps: Latencies,
}

/// Operations, and how long they took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Latencies {
    pub operations: u64,
    /// Milliseconds at each of [`PERCENTILES`].
    pub ms: [f64; 3],
}

/// The percentiles that are reported.
pub const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

type Times = Mutex<Histogram<u64>>;

/// The process itself. It answers each line of input with the window since the line before, until its input ends.
pub fn run(args: &hold::Args) -> Result<()> {
    answer(args, true)
}

/// The same without the writing thread.
pub fn map(args: &hold::Args) -> Result<()> {
    answer(args, false)
}

fn answer(args: &hold::Args, with_writer: bool) -> Result<()> {
    let regions = hold::fill(args)?;
    let region = regions.first().context("at least one region")?;
    let (writes, maps) = (&Mutex::new(times()?), &Mutex::new(times()?));
    thread::scope(|scope| {
        if with_writer {
            scope.spawn(move || write(region, writes));
        }
        scope.spawn(move || allocate(maps));
        let mut begin = Instant::now();
        for line in io::stdin().lock().lines() {
            line?;
            let window = Window {
                seconds: mem::replace(&mut begin, Instant::now()).elapsed().as_secs_f64(),
                writes: taken(writes)?,
                maps: taken(maps)?,
            };
            println!("{}", serde_json::to_string(&window)?);
            io::stdout().flush()?;
        }
        // The threads never end by themselves.
        std::process::exit(0)
    })
}

/// Wakes up each millisecond and does nothing else, until it is killed.
pub fn tick(args: &hold::Args) -> Result<()> {
    let _regions = hold::fill(args)?;
    loop {
        thread::sleep(TICK);
    }
}

fn times() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3)?)
}

fn taken(times_of: &Times) -> Result<Latencies> {
    let empty = times()?; // allocated before the lock is taken, so that the other thread does not wait for it
    let times = mem::replace(&mut *times_of.lock(), empty);
    let ms = PERCENTILES.map(|(_, share)| times.value_at_quantile(share) as f64 / 1e6);
    Ok(Latencies { operations: times.len(), ms })
}

fn note(times: &Times, took: Duration) {
    let mut times = times.lock();
    times.saturating_record(took.as_nanos() as u64);
}

fn write(region: &Region, times: &Times) {
    let mut random = fastrand::Rng::new();
    let mut before = Instant::now();
    loop {
        for _ in 0..BURST {
            let page = region.page(random.usize(..region.pages()));
            page[random.usize(..page.len())].store(1, Relaxed);
        }
        let now = Instant::now();
        note(times, now - before);
        before = now;
    }
}

fn allocate(times: &Times) {
    // This thread is to wait for the kernel's locks, and not for its turn on the CPU that it shares with the writer.
    if let Err(error) = set_nice(-20) {
        eprintln!("cannot go before the writer: {error}");
    }
    loop {
        let begin = Instant::now();
        // Without huge pages, like an allocator's own memory. With huge pages this would measure something else.
        let map = || -> io::Result<()> {
            let region = Region::map(MAPPED, Backing::Private, None)?;
            region.advise(Advice::NoHuge)?;
            (0..region.pages()).for_each(|page| region.page(page)[0].store(1, Relaxed));
            Ok(())
        };
        if let Err(error) = map() {
            eprintln!("cannot map: {error}");
            std::process::exit(1);
        }
        note(times, begin.elapsed());
        thread::sleep(REST);
    }
}
