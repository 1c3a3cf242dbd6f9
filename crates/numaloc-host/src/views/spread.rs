//! A microbenchmark of placements: threads on each node write memory block by block, each block once a pass. The memory is laid out page
//! by page or in blocks, and nothing binds it, so kernel.numa_balancing moves pages to the threads that write them, if it is on.
//!
//! As in "Measuring the Impact of NUMA Migrations on Performance" (The Parallel Universe 37, 2019), with two differences: the threads
//! of a node claim blocks of its own part, and passes are made as long as the time allows, so that balancing has
//! something to do on small hosts as well.

use crate::{Error, Roots, files::vmstat::balanced_pages, views::speed::run_on};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use numaloc_core::{CpuSet, NodeId, layout::Layout, number, page_size};
use numaloc_sys::Scratch;
use parking_lot::Mutex;
use std::{
    hint::black_box,
    io,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A block that a thread claims, in words: 256 KiB.
const BLOCK: usize = (256 << 10) / size_of::<u64>();

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct HowSpread {
    /// The nodes, at least two, with the CPUs that write: a thread for each.
    pub nodes: Vec<(NodeId, CpuSet)>,
    /// Memory that each node gets, in bytes.
    pub node_bytes: usize,
    /// Time for which the memory is written.
    pub time: Duration,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Number of times that all of the memory was written.
    pub passes: u64,
    /// Duration of the measurement.
    pub elapsed: Duration,
    /// CPU time of this process in that time, outside of the kernel.
    pub user: Duration,
    /// The same in the kernel.
    pub system: Duration,
    /// Number of base pages of the memory.
    pub pages: u64,
    /// Pages that began on another node than the threads that write them.
    pub remote_pages: u64,
    /// Pages that are on another node in the end than in the beginning.
    pub moved_pages: u64,
    /// Pages that NUMA balancing has moved meanwhile, on the whole host; `None` if the kernel does not count them.
    pub host_moved_pages: Option<u64>,
}

/// Lays memory out and has it written.
///
/// # Errors
/// [`Error::Measure`]: the kernel refuses memory or CPUs, or has put a page elsewhere.
pub fn run(roots: &Roots, layout: Layout, how: &HowSpread) -> Result<Spread, Error> {
    let (first, _) = how.nodes.first().expect("there are nodes");
    let failed = |what: &str| {
        let (cpu_node, memory_node, what) = (*first, *first, what.to_owned());
        move |source| Error::Measure { cpu_node, memory_node, what, source }
    };
    let count = how.nodes.len();
    let pages = how.node_bytes / number::index(page_size()) * count;
    let mut memory = Scratch::untouched(pages * number::index(page_size()))
        .map_err(failed("allocating memory"))?;
    for (index, (_, cpus)) in how.nodes.iter().enumerate() {
        let words = memory.words_mut();
        let own = |page: &usize| layout.node(*page, pages, count) == index;
        touch(words, cpus, (0..pages).filter(own)).map_err(failed("sched_setaffinity"))?;
    }
    let nodes = |memory: &Scratch| memory.nodes().map_err(failed("move_pages"));
    let before = nodes(&memory)?;
    let id = |index: usize| i32::try_from(how.nodes[index].0.0).unwrap_or(i32::MAX);
    let wrong = (0..pages).filter(|&page| before[page] != id(layout.node(page, pages, count)));
    // A handful may be elsewhere if balancing is on already.
    let wrong = wrong.count();
    if wrong > pages / 100 {
        let source = io::Error::other(format!("{wrong} of {pages} pages are on other nodes"));
        return Err(failed("laying out memory")(source));
    }
    let writer = |page: usize| id(Layout::Block.node(page, pages, count));
    let remote = (0..pages).filter(|&page| before[page] != writer(page)).count();
    let moved_before = balanced_pages(roots);
    let Written { passes, elapsed, user, system } =
        write(memory.words_mut(), how).map_err(failed("sched_setaffinity"))?;
    let host_moved_pages =
        moved_before.zip(balanced_pages(roots)).map(|(before, after)| after.saturating_sub(before));
    let after = nodes(&memory)?;
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    let (pages, remote_pages, moved_pages) = (pages as u64, remote as u64, moved as u64);
    Ok(Spread { passes, elapsed, user, system, pages, remote_pages, moved_pages, host_moved_pages })
}

/// Writes pages on one of these CPUs, so that they come to its node.
fn touch(
    words: &mut [u64],
    cpus: &CpuSet,
    pages: impl Iterator<Item = usize> + Send,
) -> io::Result<()> {
    let page_words = number::index(page_size()) / size_of::<u64>();
    let one = || {
        cpus.iter().next().map_or(Ok(()), run_on)?;
        pages.for_each(|page| words[page * page_words] = 1);
        Ok(())
    };
    thread::scope(|scope| scope.spawn(one).join()).map_err(|_| panicked())?
}

struct Written {
    passes: u64,
    elapsed: Duration,
    user: Duration,
    system: Duration,
}

/// The blocks of a node, in a pass.
struct ThreadPart<'a> {
    left: Vec<&'a mut [u64]>,
    written: Vec<&'a mut [u64]>,
}

/// Has the threads of each node write its part of the memory, again and again.
fn write(words: &mut [u64], how: &HowSpread) -> io::Result<Written> {
    let part_words = words.len() / how.nodes.len();
    let parts = words.chunks_mut(part_words).map(|part| {
        Mutex::new(ThreadPart { left: part.chunks_mut(BLOCK).collect(), written: Vec::new() })
    });
    let parts: Vec<Mutex<ThreadPart<'_>>> = parts.take(how.nodes.len()).collect();
    let threads = how.nodes.iter().map(|(_, cpus)| cpus.len()).sum();
    let (barrier, stop, passes) =
        (Barrier::new(threads), AtomicBool::new(false), AtomicU64::new(0));
    let (begin, before) = (Instant::now(), usage()?);
    let one = |part: &Mutex<ThreadPart<'_>>, cpu| {
        // A thread that cannot run there takes part all the same: the others wait for each thread.
        let pinned = run_on(cpu);
        for pass in 1.. {
            loop {
                // In a statement of its own, so that the lock is not held while the block is written.
                let Some(block) = part.lock().left.pop() else { break };
                block.fill(black_box(pass));
                part.lock().written.push(block);
            }
            if barrier.wait().is_leader() {
                for part in &parts {
                    let mut part = part.lock();
                    let ThreadPart { left, written } = &mut *part;
                    std::mem::swap(left, written);
                }
                passes.fetch_add(1, Ordering::Relaxed);
                stop.store(begin.elapsed() >= how.time, Ordering::Relaxed);
            }
            barrier.wait();
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        pinned
    };
    thread::scope(|scope| {
        let one = &one;
        let all = parts.iter().zip(&how.nodes);
        let threads: Vec<_> = all
            .flat_map(|(part, (_, cpus))| {
                cpus.iter().map(move |cpu| scope.spawn(move || one(part, cpu)))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().map_err(|_| panicked())?);
        ended.collect::<io::Result<()>>()
    })?;
    let (elapsed, after) = (begin.elapsed(), usage()?);
    let [user, system] = [(before.0, after.0), (before.1, after.1)]
        .map(|(before, after)| after.saturating_sub(before));
    Ok(Written { passes: passes.into_inner(), elapsed, user, system })
}

/// CPU time of this process outside of the kernel and in it.
fn usage() -> io::Result<(Duration, Duration)> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let span = |time: nix::sys::time::TimeVal| {
        Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or_default())
    };
    Ok((span(usage.user_time()), span(usage.system_time())))
}

fn panicked() -> io::Error {
    io::Error::other("a thread has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{speed::usable, topology::topology};

    /// One real node that stands for two: what is written, and how often, does not depend on where it is.
    #[test]
    fn all_of_the_memory_is_written_in_each_pass() {
        let roots = Roots::default();
        let usable =
            usable(&roots, &topology(&roots).expect("this host's")).expect("of this process");
        let (node, cpus) = usable.cpus.first().expect("this process runs").clone();
        let nodes = vec![(node, cpus.clone()), (node, cpus)];
        let how = HowSpread { nodes, node_bytes: 1 << 20, time: Duration::ZERO };
        let mut words = vec![0; (2 << 20) / size_of::<u64>()];
        let written = write(&mut words, &how).expect("written");
        assert_eq!(written.passes, 1);
        assert!(words.iter().all(|&word| word == 1));
        for layout in Layout::ALL {
            let ran = run(&roots, layout, &how).expect("it runs");
            assert_eq!((ran.pages, ran.passes), (512, 1), "{ran:?}");
        }
    }
}
