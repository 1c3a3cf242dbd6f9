//! Measures a file on persistent memory, on the CPUs of each node.

use super::report;
use crate::{
    args::BenchArgs,
    doc::{StorageBenchDoc, StorageRunDoc},
    exit::Failure,
};
use numaloc_api::timestamp;
use numaloc_core::speed::{AccessPattern, BLOCK, FileSpeed, Operation};
use numaloc_host::{OwnStorage, Roots, read, speed, topology};
use std::{path::Path, time::SystemTime};

/// Measures.
///
/// # Errors
/// The directory cannot hold a file that can be measured, or the kernel refuses CPUs.
pub fn measured(
    roots: &Roots,
    args: &BenchArgs,
    directory: &Path,
) -> Result<StorageBenchDoc, Failure> {
    let usable = speed::usable(roots, &topology::topology(roots)?)?;
    // Whole blocks.
    let bytes = super::bytes(roots, &usable, args) / BLOCK as u64 * BLOCK as u64;
    let each = args.seconds.unwrap_or(super::SECONDS);
    let mut storage = OwnStorage::new(roots, directory, bytes)?;
    let whats = AccessPattern::ALL
        .iter()
        .flat_map(|&pattern| Operation::ALL.map(|operation| (pattern, operation)));
    let whats: Vec<_> = whats.collect();
    let all = usable.cpus.len() * whats.len();
    let mut runs = Vec::new();
    for (cpu_node, cpus) in &usable.cpus {
        for &what in &whats {
            let (pattern, operation) = (what.0.name(), what.1.name());
            report(
                &format!("{pattern} {operation} on the CPUs of node {cpu_node}"),
                runs.len(),
                all,
            );
            runs.push(document(storage.measure(*cpu_node, cpus, what, each)?));
        }
    }
    Ok(StorageBenchDoc {
        host: read::host_name(roots)?,
        time: timestamp(SystemTime::now()).to_string(),
        directory: directory.display().to_string(),
        file_system: storage.file_system.clone(),
        storage_node: storage.node.map(|node| node.0),
        map_sync: storage.is_synchronous(),
        file_bytes: bytes,
        block_bytes: BLOCK as u64,
        seconds: each.as_secs_f64(),
        runs,
    })
}

fn document(speed: FileSpeed) -> StorageRunDoc {
    let tenth = |ns: f64| (ns * 10.0).round() / 10.0;
    StorageRunDoc {
        cpu_node: speed.cpu_node.0,
        pattern: speed.pattern.name().into(),
        operation: speed.operation.name().into(),
        bandwidth_bytes_per_second: speed.bandwidth as u64,
        operations_per_second: (speed.bandwidth / BLOCK as f64) as u64,
        latency_ns: tenth(speed.latency_ns),
        latency_p99_ns: tenth(speed.latency_p99_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::NodeId;

    #[test]
    fn operations_are_of_a_block_each() {
        let run = document(FileSpeed {
            cpu_node: NodeId(2),
            pattern: AccessPattern::Random,
            operation: Operation::Write,
            bandwidth: 40_960_000.7,
            latency_ns: 812.34,
            latency_p99_ns: 1500.06,
        });
        let expected = StorageRunDoc {
            cpu_node: 2,
            pattern: "random".into(),
            operation: "write".into(),
            bandwidth_bytes_per_second: 40_960_000,
            operations_per_second: 10_000,
            latency_ns: 812.3,
            latency_p99_ns: 1500.1,
        };
        assert_eq!(run, expected);
    }
}
