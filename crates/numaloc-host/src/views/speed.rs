//! Measures what memory of each node costs on the CPUs of each node, with memory of its own that is bound to the node; where each page of
//! it is, is verified.

use crate::{Error, Roots, files::read};
use nix::{
    sched::{CpuSet as Mask, sched_setaffinity},
    unistd::Pid,
};
use numaloc_core::{
    CpuId, CpuSet, NodeId, NodeSet, Topology,
    speed::{AccessPattern, BLOCK, Operation, Pair, Walk, chain, follow, median},
};
use numaloc_sys::{Scratch, ScratchPages};
use std::{
    collections::BTreeMap,
    hint::black_box,
    io,
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Loads between two looks at the clock.
const STEPS: usize = 1 << 14;
/// Number of words that are read or written between two looks at the clock.
const PIECE: usize = 1 << 14;
const BLOCK_WORDS: usize = BLOCK / size_of::<u64>();

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Size of the memory. It has to be much larger than the caches of a node, or those are measured.
    pub bytes: usize,
    /// Time of each measurement of a pair: latency, and bandwidth of reads and of writes.
    pub each: Duration,
    /// Whether the memory is to be of huge pages, so that misses of the TLB do not count.
    pub huge: bool,
}

/// A node whose CPUs may be used, and nodes on which memory may be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Nodes with CPUs on which this process may run, with those.
    pub cpus: Vec<(NodeId, CpuSet)>,
    /// Nodes with memory that this process may take.
    pub memory: NodeSet,
}

/// The part of the host that this process may use.
///
/// # Errors
/// [`Error::Read`] and [`Error::Parse`] of /proc/self/status.
pub fn usable(roots: &Roots, topology: &Topology) -> Result<Usable, Error> {
    let mine = read::cpus_allowed(roots)?;
    let cpus = topology.nodes().map(|node| (node.id, node.cpus.and(&mine)));
    let memory = topology.with_memory().and(&read::mems_allowed(roots)?);
    Ok(Usable { cpus: cpus.filter(|(_, cpus)| !cpus.is_empty()).collect(), memory })
}

/// Bytes of all last-level caches that these CPUs have; 0 if the kernel shows none
/// (Documentation/ABI/testing/sysfs-devices-system-cpu, `cache/index*`).
pub fn cache_bytes(roots: &Roots, cpus: &CpuSet) -> u64 {
    let last = cpus.iter().filter_map(|cpu| {
        let directory = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
        let caches =
            read::entries(&directory, |name| name.strip_prefix("index")?.parse::<u32>().ok());
        let value = |path: &Path, name| Some(read::text(&path.join(name)).ok()?.trim().to_owned());
        let level = |path: &Path| value(path, "level")?.parse::<u32>().ok();
        let last = caches.into_values().max_by_key(|path| level(path))?;
        let kib = value(&last, "size")?.strip_suffix('K')?.parse::<u64>().ok()?;
        Some((value(&last, "shared_cpu_list")?, kib.saturating_mul(1024)))
    });
    // CPUs that share a cache name it alike.
    last.collect::<BTreeMap<_, _>>().into_values().sum()
}

/// Measures one pair: `cpus` of `cpu_node` with memory of `memory_node`.
///
/// # Errors
/// [`Error::Measure`]: the kernel refuses memory there, CPUs or threads, or has put a page elsewhere.
pub fn measure(
    cpu_node: NodeId,
    cpus: &CpuSet,
    memory_node: NodeId,
    how: How,
) -> Result<Pair, Error> {
    let failed =
        |what: &str, source| Error::Measure { cpu_node, memory_node, what: what.into(), source };
    let mut memory =
        allocate(memory_node, how).map_err(|source| failed("allocating memory", source))?;
    let nodes = memory.nodes().map_err(|source| failed("move_pages", source))?;
    if let Some(wrong) = nodes.iter().find(|&&node| u32::try_from(node) != Ok(memory_node.0)) {
        let source = io::Error::other(format!("a page is on node {wrong}, although all are bound"));
        return Err(failed("verifying where its memory is", source));
    }
    chain(memory.words_mut(), 1 << 63 | u64::from(cpu_node.0) << 32 | u64::from(memory_node.0));
    let latency_ns =
        latency(&memory, cpus, how.each).map_err(|source| failed("sched_setaffinity", source))?;
    let mut bandwidth = |operation| {
        bandwidth(memory.words_mut(), cpus, how.each, operation)
            .map_err(|source| failed("sched_setaffinity", source))
    };
    let read_bandwidth = bandwidth(Operation::Read)?;
    // Last, because it overwrites the chain.
    let write_bandwidth = bandwidth(Operation::Write)?;
    Ok(Pair { cpu_node, memory_node, latency_ns, read_bandwidth, write_bandwidth })
}

/// Memory on a node. Huge pages are taken as far as the kernel has them.
fn allocate(node: NodeId, how: How) -> io::Result<Scratch> {
    if how.huge {
        Scratch::on(node.0, how.bytes, ScratchPages::Huge)
            .or_else(|_| Scratch::on(node.0, how.bytes, ScratchPages::Base))
    } else {
        Scratch::on(node.0, how.bytes, ScratchPages::Base)
    }
}

/// Nanoseconds that a load waits for, on the first of these CPUs.
fn latency(memory: &Scratch, cpus: &CpuSet, each: Duration) -> io::Result<f64> {
    let words = memory.words();
    let cpu = cpus.iter().next();
    let one = || {
        cpu.map_or(Ok(()), run_on)?;
        let (begin, mut at, mut all) = (Instant::now(), 0, Vec::new());
        while all.is_empty() || begin.elapsed() < each {
            let before = Instant::now();
            at = black_box(follow(words, at, STEPS));
            all.push(before.elapsed().as_nanos() as f64 / STEPS as f64);
        }
        Ok(median(all))
    };
    thread::scope(|scope| scope.spawn(one).join())
        .map_err(|_| io::Error::other("a thread has panicked"))?
}

/// Bytes a second that all of these CPUs read or write together, each a part of its own, over and over. Writes are ordinary stores.
fn bandwidth(
    words: &mut [u64],
    cpus: &CpuSet,
    each: Duration,
    operation: Operation,
) -> io::Result<f64> {
    let one = |part: &mut [u64], walk: &mut Walk| {
        let start = walk.next().unwrap_or_default() * PIECE;
        let end = part.len().min(start + PIECE);
        let piece = &mut part[start..end];
        match operation {
            Operation::Read => {
                black_box(piece.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
            }
            Operation::Write => {
                piece.fill(black_box(1));
                black_box(&mut *piece);
            }
        }
        Ok(size_of_val(piece))
    };
    rate(
        words,
        cpus,
        each,
        |part| Walk::new(AccessPattern::Sequential, part.div_ceil(PIECE), 1),
        one,
    )
}

/// Bytes a second of these CPUs together: each does `one` step after another to a part of the words of its own. A walk is made for each part by its
/// length in words.
pub(crate) fn rate(
    words: &mut [u64],
    cpus: &CpuSet,
    each: Duration,
    walk: impl Fn(usize) -> Walk + Sync,
    one: impl Fn(&mut [u64], &mut Walk) -> io::Result<usize> + Sync,
) -> io::Result<f64> {
    // A whole number of blocks for each CPU, of which there is at least one.
    let part = (words.len() / cpus.len().max(1) / BLOCK_WORDS * BLOCK_WORDS).max(BLOCK_WORDS);
    let parts: Vec<_> = words.chunks_mut(part).zip(cpus.iter()).collect();
    let (start, stop) = (Barrier::new(parts.len() + 1), AtomicBool::new(false));
    let run = |part: &mut [u64], cpu: CpuId| {
        let pinned = run_on(cpu);
        let mut walk = walk(part.len());
        start.wait();
        pinned?;
        let mut bytes = 0;
        while !stop.load(Ordering::Relaxed) {
            bytes += one(part, &mut walk)?;
        }
        Ok(bytes)
    };
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            parts.into_iter().map(|(part, cpu)| scope.spawn(move || run(part, cpu))).collect();
        start.wait();
        let begin = Instant::now();
        thread::sleep(each);
        stop.store(true, Ordering::Relaxed);
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| io::Error::other("a thread has panicked"))?);
        let bytes: usize = ended.sum::<io::Result<usize>>()?;
        Ok(bytes as f64 / begin.elapsed().as_secs_f64())
    })
}

/// Has the calling thread run on a CPU alone.
pub(crate) fn run_on(cpu: CpuId) -> io::Result<()> {
    let mut mask = Mask::new();
    mask.set(cpu.0 as usize)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &mask)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, topology::topology};

    #[test]
    fn caches_that_are_shared_count_once() {
        let fake = Fake::new();
        let cpus = [0, 1, 2].map(CpuId).into_iter().collect();
        assert_eq!(cache_bytes(&fake.roots(), &cpus), 0);
        for (cpu, shared) in [(0, "0-1"), (1, "0-1"), (2, "2-3")] {
            for (index, level, size) in [(0, "1", "32K"), (3, "3", "2048K"), (1, "1", "32K")] {
                let write = |name: &str, text: &str| {
                    let cache = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
                    fake.write(&format!("{cache}/{name}"), text);
                };
                write("level", level);
                write("size", size);
                write("shared_cpu_list", shared);
            }
        }
        assert_eq!(cache_bytes(&fake.roots(), &cpus), 4 << 20);
    }

    /// More CPUs than blocks: some have nothing to do, and none waits for them.
    #[test]
    fn writes_reach_all_of_the_memory_and_reads_change_nothing() {
        let roots = Roots::default();
        let cpus = read::cpus_allowed(&roots).expect("of this process");
        let each = Duration::from_millis(20);
        let mut words = vec![7; 3 * BLOCK_WORDS];
        assert!(bandwidth(&mut words, &cpus, each, Operation::Read).expect("it runs") > 0.0);
        assert_eq!(words, vec![7; 3 * BLOCK_WORDS]);
        assert!(bandwidth(&mut words, &cpus, each, Operation::Write).expect("it runs") > 0.0);
        assert!(words[..BLOCK_WORDS].iter().all(|&word| word == 1));
    }

    #[test]
    fn this_host_is_measured() {
        let roots = Roots::default();
        let topology = topology(&roots).expect("this host's");
        let usable = usable(&roots, &topology).expect("of this process");
        let (cpu_node, cpus) = usable.cpus.first().expect("this process runs");
        let memory_node = usable.memory.iter().next().expect("this process has memory");
        let how = How { bytes: 1 << 20, each: Duration::ZERO, huge: false };
        let pair = measure(*cpu_node, cpus, memory_node, how).expect("measured");
        assert!(pair.latency_ns > 0.0, "{pair:?}");
        let how = How { each: Duration::from_millis(20), ..how };
        let pair = measure(*cpu_node, cpus, memory_node, how).expect("measured");
        assert!(pair.read_bandwidth > 0.0 && pair.write_bandwidth > 0.0, "{pair:?}");
        let unknown = measure(*cpu_node, cpus, NodeId(1023), how).expect_err("no such node");
        assert!(unknown.to_string().contains("node 1023"), "{unknown}");
    }
}
