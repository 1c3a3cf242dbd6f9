//! Carries out `numalocctl bench`, which measures this host.

mod kept;
mod placement;
mod storage;

use super::{Surroundings, shown};
use crate::{
    args::{BenchArgs, BenchKind, Cli},
    doc::{BenchDoc, LeftOutDoc, PairDoc},
    exit::Failure,
    output::{CommandResult, complain},
    text,
    units::size,
};
use numaloc_api::timestamp;
use numaloc_core::{Node, NodeId, Reserve, Supply, Topology, speed::Pair};
use numaloc_host::{Roots, read, speed, topology};
use std::{
    io::{IsTerminal, stderr},
    time::{Duration, SystemTime},
};

pub use kept::kept;
pub use placement::put_back;

/// The least memory that is read for a pair, unless another size is given.
const LEAST: u64 = 64 << 20;
/// The number of times the last cache of a node is read for a pair.
const CACHES: u64 = 4;
/// Time for each figure, unless another one is given.
const SECONDS: Duration = Duration::from_secs(1);

pub fn run(cli: &Cli, around: &Surroundings, args: &BenchArgs) -> Result<CommandResult, Failure> {
    if let Some(directory) = args.storage().map_err(|why| Failure::Usage(why.into()))? {
        let document = storage::measured(&around.roots, args, directory)?;
        return shown(cli, &document, text::storage_bench);
    }
    if args.what == BenchKind::Placement {
        let document = placement::measured(&around.roots, args)?;
        return shown(cli, &document, text::placement_bench);
    }
    if args.switch_balancing {
        let message = "--switch-balancing is for bench placement";
        return Err(Failure::Usage(message.into()));
    }
    let document = match args.kept {
        true => kept(&around.roots).ok_or_else(|| {
            Failure::Usage(
                "nothing has been measured on this host yet: run numalocctl bench".into(),
            )
        })?,
        false => {
            let document = measured(&around.roots, args)?;
            // The result is shown all the same.
            kept::keep(&document, &around.roots)
                .unwrap_or_else(|failure| complain(&format!("not kept: {failure}")));
            document
        }
    };
    shown(cli, &document, text::bench)
}

fn measured(roots: &Roots, args: &BenchArgs) -> Result<BenchDoc, Failure> {
    let topology = topology::topology(roots)?;
    if topology.with_memory().len() < 2 {
        let message = "this host has one NUMA node with memory, and bench compares nodes";
        return Err(Failure::Usage(message.into()));
    }
    let usable = speed::usable(roots, &topology)?;
    let bytes = bytes(roots, &usable, args);
    let why_not = |node: &Node| why_not(node, &usable, bytes);
    let left_out: Vec<_> = topology
        .nodes()
        .filter_map(|node| Some(LeftOutDoc { node: node.id.0, reason: why_not(node)? }))
        .collect();
    let memory_nodes: Vec<NodeId> =
        topology.nodes().filter(|node| why_not(node).is_none()).map(|node| node.id).collect();
    let each = args.seconds.unwrap_or(SECONDS);
    let how = speed::How {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        each,
        huge: !args.base_pages,
    };
    let mut pairs = Vec::new();
    for (cpu_node, cpus) in &usable.cpus {
        for &memory_node in &memory_nodes {
            let pair = format!("memory of node {memory_node} on the CPUs of node {cpu_node}");
            report(&pair, pairs.len(), usable.cpus.len() * memory_nodes.len());
            pairs.push(speed::measure(*cpu_node, cpus, memory_node, how)?);
        }
    }
    if pairs.is_empty() {
        let reasons: Vec<_> =
            left_out.iter().map(|of| format!("node {}: {}", of.node, of.reason)).collect();
        let message = format!("no node has memory that could be measured: {}", reasons.join("; "));
        return Err(Failure::Usage(message));
    }
    Ok(BenchDoc {
        host: read::host_name(roots)?,
        time: timestamp(SystemTime::now()).to_string(),
        memory_bytes: bytes,
        huge_pages: how.huge,
        seconds: each.as_secs_f64(),
        pairs: documents(pairs, &topology),
        left_out,
    })
}

/// The size of what is read and written: much larger than the caches of any node, unless it is given.
fn bytes(roots: &Roots, usable: &speed::Usable, args: &BenchArgs) -> u64 {
    let caches = usable.cpus.iter().map(|(_, cpus)| speed::cache_bytes(roots, cpus)).max();
    args.size.unwrap_or_else(|| LEAST.max(CACHES * caches.unwrap_or_default()))
}

/// The reason why the memory of a node is not measured. It must not exceed the free memory: the kernel would end
/// processes.
fn why_not(node: &Node, usable: &speed::Usable, bytes: u64) -> Option<String> {
    let room = node.memory.room(Supply::base(), Reserve::default());
    match node.memory.total_bytes {
        0 => Some("it has no memory".into()),
        _ if !usable.memory.contains(node.id) => {
            Some("cpuset.mems does not let this program use it".into())
        }
        _ if room < bytes => {
            Some(format!("it has {} free, and --size is {}", size(room), size(bytes)))
        }
        _ => None,
    }
}

/// Reports what is measured next, in a terminal.
fn report(what: &str, done: usize, all: usize) {
    if stderr().is_terminal() {
        complain(&format!("{} of {all}: {what}", done + 1));
    }
}

fn documents(pairs: Vec<Pair>, topology: &Topology) -> Vec<PairDoc> {
    let firmware = &topology.speeds().firmware;
    let document = |pair: Pair| {
        let Pair { cpu_node, memory_node, latency_ns, read_bandwidth, write_bandwidth } = pair;
        let by_firmware = firmware.get(&(cpu_node, memory_node)).copied().unwrap_or_default();
        PairDoc {
            cpu_node: cpu_node.0,
            memory_node: memory_node.0,
            distance: topology.distance(cpu_node, memory_node),
            latency_ns: (latency_ns * 10.0).round() / 10.0,
            bandwidth_bytes_per_second: read_bandwidth as u64,
            write_bandwidth_bytes_per_second: write_bandwidth as u64,
            firmware_latency_ns: by_firmware.latency_ps.map(|latency_ps| latency_ps / 1000),
            firmware_write_latency_ns: by_firmware.write_latency_ps.map(|ps| ps / 1000),
            firmware_bandwidth_bytes_per_second: by_firmware.bandwidth(),
            firmware_read_bandwidth_bytes_per_second: by_firmware.read_bandwidth,
            firmware_write_bandwidth_bytes_per_second: by_firmware.write_bandwidth,
        }
    };
    pairs.into_iter().map(document).collect()
}
