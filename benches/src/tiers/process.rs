//! The process under measurement: four parts of its memory, of which one is busy at a time.

use super::{BUSY_FAST, FAST, IDLE_SLOW, SLOW};
use crate::hold::{self, Holder};
use anyhow::{Context, Result};
use numaloc_core::page_size;
use numaloc_tests::truth::{Truth, on};
use std::{
    io::{self, BufRead, Write},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::Duration,
};

const PARTS: usize = 4;

/// For each line of input the next part becomes the busy one: a word of each of its pages is written over and over. The answer is the number of that
/// part, and where the parts begin.
pub fn roles(args: &hold::Args) -> Result<()> {
    static BUSY: AtomicUsize = AtomicUsize::new(PARTS - 1);
    let regions: &'static [_] = Box::leak(hold::fill(args)?.into_boxed_slice());
    thread::spawn(move || {
        loop {
            let region = &regions[BUSY.load(Relaxed) % regions.len()];
            (0..region.pages()).for_each(|page| {
                region.page(page)[0].fetch_add(1, Relaxed);
            });
            // A writer that takes all of a CPU would be slowed down by whatever else runs.
            thread::sleep(Duration::from_millis(20));
        }
    });
    for line in io::stdin().lock().lines() {
        line?;
        let busy = (BUSY.load(Relaxed) + 1) % regions.len();
        BUSY.store(busy, Relaxed);
        let starts: String =
            regions.iter().map(|region| format!(" {}", region.range().start)).collect();
        println!("{busy}{starts}");
        io::stdout().flush()?;
    }
    Ok(())
}

/// Memory that the kernel can neither demote nor drop.
pub fn locked(args: &hold::Args) -> Result<()> {
    let regions = hold::fill(args)?;
    regions.iter().try_for_each(|region| region.lock())?;
    println!("locked");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// The process, all of whose memory begins on the fast node, and others that run on its CPUs in turns: an emulated CPU keeps address translations
/// while it runs one process, and accesses through them are not seen.
#[derive(Debug)]
pub struct Subject {
    holder: Holder,
    _others: Vec<Holder>,
    starts: Vec<u64>,
    /// The part that is busy.
    pub busy: usize,
}

impl Subject {
    pub fn start(mib: usize) -> Result<Self> {
        let on_fast = |mib, regions| hold::Args {
            mib,
            regions,
            cpu_node: Some(FAST),
            memory_node: Some(FAST),
            ..hold::Args::default()
        };
        let holder = Holder::start_as("roles", &on_fast(mib, PARTS))?;
        let others = (0..3).map(|_| Holder::start_as("tick", &on_fast(1, 1)));
        let others = others.collect::<Result<_>>()?;
        let mut subject = Self { holder, _others: others, starts: Vec::new(), busy: 0 };
        subject.rotate()?;
        Ok(subject)
    }

    pub fn pid(&self) -> i32 {
        self.holder.pid()
    }

    /// Makes the next part the busy one.
    pub fn rotate(&mut self) -> Result<usize> {
        let answer = self.holder.ask()?;
        let mut words = answer.split_whitespace().map(str::parse::<u64>);
        self.busy = words.next().context("a part")?? as usize;
        self.starts = words.collect::<Result<_, _>>()?;
        Ok(self.busy)
    }

    /// Moves the busy part to a node.
    pub fn put_busy_on(&self, node: u32) -> Result<()> {
        let start = self.starts[self.busy];
        let pages = self.holder.pages();
        let addresses: Vec<u64> = (0..pages).map(|page| start + page * page_size()).collect();
        self.holder.put(&addresses, node)
    }

    pub fn regions(&self) -> Regions {
        Regions { pid: self.pid(), starts: self.starts.clone() }
    }
}

/// Where the parts of the process begin.
#[derive(Clone, Debug)]
pub struct Regions {
    pid: i32,
    starts: Vec<u64>,
}

impl Regions {
    /// Where busy and idle memory is now, by numa_maps.
    pub fn share(&self, busy: usize) -> Share {
        let (truth, mut share) = (Truth::of(self.pid), Share::default());
        for (part, &start) in self.starts.iter().enumerate() {
            let nodes = truth.mapping(start);
            let (fast, slow) = (on(&nodes, FAST), on(&nodes, SLOW));
            if part == busy {
                share.busy_fast += fast;
                share.busy_slow += slow;
            } else {
                share.idle_fast += fast;
                share.idle_slow += slow;
            }
        }
        share
    }
}

/// Bytes of busy and idle memory on each of the two nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub busy_fast: u64,
    pub busy_slow: u64,
    pub idle_fast: u64,
    pub idle_slow: u64,
}

impl Share {
    /// Whether most of each is where it is to be.
    pub fn is_reached(&self) -> bool {
        self.least() == 0
    }

    /// The bytes that have to move until that is so.
    pub fn least(&self) -> u64 {
        let missing = |there: u64, all: u64, share: f64| {
            ((all as f64 * share).ceil() as u64).saturating_sub(there)
        };
        missing(self.idle_slow, self.idle_slow + self.idle_fast, IDLE_SLOW)
            + missing(self.busy_fast, self.busy_fast + self.busy_slow, BUSY_FAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_what_is_on_the_wrong_node_but_for_the_allowance() {
        let start = Share { busy_fast: 100, idle_fast: 200, ..Share::default() };
        assert_eq!((start.least(), start.is_reached()), (190, false));
        let most = Share { busy_fast: 98, busy_slow: 2, idle_fast: 10, idle_slow: 190 };
        assert_eq!((most.least(), most.is_reached()), (0, true));
        let swapped = Share { busy_slow: 100, idle_fast: 200, ..Share::default() };
        assert_eq!(swapped.least(), 98 + 190);
    }
}
