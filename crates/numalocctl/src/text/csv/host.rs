//! What the host has, and where memory is on it.

use super::{by_node, by_node_names, known, list, rows};
use crate::{
    doc::{
        BenchDoc, DoctorDoc, DsaDeviceDoc, DsaDoc, PlacementBenchDoc, StorageBenchDoc, WorkQueueDoc,
    },
    fields::{amount, bytes_on},
    output::View,
    text::cells::skip,
};
use numaloc_api::{Known, v1};
use numaloc_core::{NodeKind, TierSource, page_size};
use std::{collections::BTreeSet, iter::once};

/// The nodes of a host, with a column for the distance to each.
pub fn nodes(topology: &v1::Topology, view: View) -> String {
    let all: Vec<i32> = topology.nodes.iter().map(|node| node.node_id).collect();
    let names = [
        "node",
        "cpus",
        "total_bytes",
        "free_bytes",
        "cache_bytes",
        "protected_bytes",
        "high_watermark_bytes",
        "default_reserve_bytes",
        "movable_bytes",
        "side_cache_bytes",
        "kind",
        "tier",
        "tier_source",
        "huge_pages",
        "free_huge_pages",
        "huge_page_bytes",
    ];
    let distances = all.iter().map(|node| format!("distance_to_{node}"));
    let row = |node: &v1::Node| {
        let pools =
            |of: fn(&v1::HugePool) -> i64| list(&Vec::from_iter(node.huge_pools.iter().map(of)));
        let to = |other: &i32| node.distances.iter().find(|to| to.node_id == *other);
        let fixed = [
            node.node_id.to_string(),
            node.cpus.clone(),
            node.total_bytes.to_string(),
            node.free_bytes.to_string(),
            node.cache_bytes.to_string(),
            node.protected_bytes.to_string(),
            node.high_watermark_bytes.to_string(),
            node.default_reserve_bytes.to_string(),
            known(node.movable_bytes),
            node.side_caches.iter().map(|cache| amount(cache.bytes)).sum::<u64>().to_string(),
            known(NodeKind::known(node.kind).flatten().map(NodeKind::name)),
            known(node.tier),
            known(TierSource::known(node.tier_source).flatten().map(TierSource::name)),
            pools(|pool| pool.total_pages),
            pools(|pool| pool.free_pages),
            pools(|pool| pool.page_bytes),
        ];
        let distances = all.iter().map(|other| known(to(other).map(|to| to.distance)));
        fixed.into_iter().chain(distances).collect::<Vec<_>>()
    };
    let names = names.into_iter().map(str::to_owned).chain(distances);
    rows(names, topology.nodes.iter().map(row), view)
}

/// Memory of each process by node, and memory that several of them share as one row without a pid: the rows together are all of it.
pub fn localities(locality: &v1::Locality, nodes: &BTreeSet<u32>, view: View) -> String {
    let none = v1::ResidentMemory::default();
    let names = ["pid", "comm"].into_iter().map(str::to_owned).chain(by_node_names(nodes));
    let names = names.chain(
        [
            "total_bytes",
            "local_percent",
            "near_bytes",
            "demoted_bytes",
            "remote_bytes",
            "movable_local_percent",
            "movable_remote_bytes",
            "home_nodes",
            "cpus",
            "skipped",
        ]
        .map(str::to_owned),
    );
    let row = |first: [String; 2], memory: &v1::ResidentMemory, last: [String; 3]| {
        let overall = memory.overall.unwrap_or_default();
        let movable = memory.movable.unwrap_or_default();
        let shares = [
            bytes_on(&memory.nodes, |_| true).to_string(),
            overall.local_percent.to_string(),
            overall.near_bytes.to_string(),
            overall.demoted_bytes.to_string(),
            overall.remote_bytes.to_string(),
            movable.local_percent.to_string(),
            movable.remote_bytes.to_string(),
        ];
        let cells = first.into_iter().chain(by_node(nodes, &memory.nodes));
        cells.chain(shares).chain(last).collect::<Vec<_>>()
    };
    let processes = locality.processes.iter().map(|process| {
        let first = [process.process.unwrap_or_default().pid.to_string(), process.comm.clone()];
        let homes = list(&process.home_node_ids);
        let last = [homes, process.cpus.clone(), known(skip(process))];
        row(first, process.memory.as_ref().unwrap_or(&none), last)
    });
    let shared = locality.shared.as_ref().filter(|shared| !shared.nodes.is_empty());
    let shared = shared
        .map(|shared| row([String::new(), "(shared)".to_owned()], shared, Default::default()));
    rows(names, processes.chain(shared), view)
}

/// Page cache of files by node.
pub fn files(cached: &v1::CachedFiles, nodes: &BTreeSet<u32>, view: View) -> String {
    let names = ["file", "length_bytes", "cached_bytes", "mapped_bytes"].map(str::to_owned);
    let last = ["move_bytes", "mount_policy"].map(str::to_owned);
    let row = |file: &v1::CachedFile| {
        let first = [
            file.path.clone(),
            file.length_bytes.to_string(),
            bytes_on(&file.nodes, |_| true).to_string(),
            known(file.mapped_bytes),
        ];
        let last = [known(file.move_bytes), file.mount_policy.clone()];
        first.into_iter().chain(by_node(nodes, &file.nodes)).chain(last).collect::<Vec<_>>()
    };
    let names = names.into_iter().chain(by_node_names(nodes)).chain(last);
    rows(names, cached.files.iter().map(row), view)
}

/// What memory of each node costs from the CPUs of each.
pub fn pairs(document: &BenchDoc, view: View) -> String {
    let names = [
        "cpu_node",
        "memory_node",
        "distance",
        "latency_ns",
        "bandwidth_bytes_per_second",
        "write_bandwidth_bytes_per_second",
        "firmware_latency_ns",
        "firmware_read_bandwidth_bytes_per_second",
        "firmware_write_bandwidth_bytes_per_second",
    ];
    let pairs = document.pairs.iter().map(|pair| {
        [
            pair.cpu_node.to_string(),
            pair.memory_node.to_string(),
            pair.distance.to_string(),
            pair.latency_ns.to_string(),
            pair.bandwidth_bytes_per_second.to_string(),
            pair.write_bandwidth_bytes_per_second.to_string(),
            known(pair.firmware_latency_ns),
            known(pair.firmware_read_bandwidth_bytes_per_second),
            known(pair.firmware_write_bandwidth_bytes_per_second),
        ]
    });
    rows(names, pairs, view)
}

/// What balancing makes of placements.
pub fn placement_runs(document: &PlacementBenchDoc, view: View) -> String {
    let names = [
        "placement",
        "numa_balancing",
        "remote_bytes",
        "moved_bytes",
        "host_moved_bytes",
        "passes",
        "user_seconds",
        "system_seconds",
    ];
    let bytes = |pages: u64| pages * page_size();
    let runs = document.runs.iter().map(|run| {
        [
            run.placement.clone(),
            known(run.numa_balancing),
            bytes(run.remote_pages).to_string(),
            bytes(run.moved_pages).to_string(),
            known(run.host_moved_pages.map(bytes)),
            run.passes.to_string(),
            run.user_seconds.to_string(),
            run.system_seconds.to_string(),
        ]
    });
    rows(names, runs, view)
}

/// What a file on persistent memory costs.
pub fn storage_runs(document: &StorageBenchDoc, view: View) -> String {
    let names = [
        "cpu_node",
        "pattern",
        "operation",
        "bandwidth_bytes_per_second",
        "operations_per_second",
        "latency_ns",
        "latency_p99_ns",
    ];
    let runs = document.runs.iter().map(|run| {
        [
            run.cpu_node.to_string(),
            run.pattern.clone(),
            run.operation.clone(),
            run.bandwidth_bytes_per_second.to_string(),
            run.operations_per_second.to_string(),
            run.latency_ns.to_string(),
            run.latency_p99_ns.to_string(),
        ]
    });
    rows(names, runs, view)
}

/// Devices of DSA with their work queues.
pub fn devices(document: &DsaDoc, view: View) -> String {
    let names = [
        "device",
        "node",
        "device_state",
        "queue",
        "state",
        "type",
        "mode",
        "driver",
        "name",
        "group",
        "size",
        "priority",
        "max_transfer_bytes",
        "clients",
    ];
    let row = |device: &DsaDeviceDoc, queue: Option<&WorkQueueDoc>| {
        [
            device.name.clone(),
            known(device.numa_node),
            device.state.to_owned(),
            known(queue.map(|queue| &queue.name)),
            known(queue.map(|queue| queue.state)),
            known(queue.and_then(|queue| queue.kind.as_ref())),
            known(queue.and_then(|queue| queue.mode.as_ref())),
            known(queue.and_then(|queue| queue.driver.as_ref())),
            known(queue.and_then(|queue| queue.label.as_ref())),
            known(queue.and_then(|queue| queue.group)),
            known(queue.and_then(|queue| queue.size)),
            known(queue.and_then(|queue| queue.priority)),
            known(queue.and_then(|queue| queue.max_transfer_bytes)),
            known(queue.and_then(|queue| queue.clients)),
        ]
    };
    let all = document.devices.iter().flat_map(|device| {
        let queues = device.work_queues.iter().map(Some);
        let alone = device.work_queues.is_empty().then(|| once(None)).into_iter().flatten();
        queues.chain(alone).map(move |queue| row(device, queue))
    });
    rows(names, all, view)
}

/// The checks of `doctor`.
pub fn checks(document: &DoctorDoc, view: View) -> String {
    let checks = document.checks.iter().map(|check| {
        let level = check.level.name().to_owned();
        [check.name.to_owned(), level, check.found.clone(), known(check.advice.as_ref())]
    });
    rows(["check", "result", "found", "advice"], checks, view)
}
