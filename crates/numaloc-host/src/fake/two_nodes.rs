//! A fake host of two nodes with one block of memory each.

use super::Fake;
use numaloc_core::{Node, NodeId, NodeMemory, Topology};
use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

/// Page frames of a block of 128 MiB.
const BLOCK_FRAMES: u64 = 1 << 15;

/// Two nodes of four CPUs each, with `free_bytes` free on either, which is half of its memory.
pub fn topology(free_bytes: u64) -> Topology {
    let memory = NodeMemory { total_bytes: 2 * free_bytes, free_bytes, ..Default::default() };
    let node = |id, cpus: &str| Node {
        id: NodeId(id),
        cpus: cpus.parse().expect("a list"),
        memory: memory.clone(),
    };
    Topology::new([node(0, "0-3"), node(1, "4-7")], [])
}

/// Writes the files of the host, and those of this process, which may see page frames.
pub fn write(fake: &Fake) {
    fake.write("sys/devices/system/node/online", "0-1\n");
    fake.write("sys/devices/system/memory/block_size_bytes", "8000000\n");
    for node in [0, 1] {
        let block = format!("sys/devices/system/node/node{node}/memory{node}");
        fs::create_dir_all(fake.path(&block)).expect("a directory");
        let meminfo = format!("Node {node} MemTotal: 1048576 kB\nNode {node} MemFree: 524288 kB\n");
        fake.write(&format!("sys/devices/system/node/node{node}/meminfo"), &meminfo);
    }
    fake.write("proc/stat", "");
    fake.write("proc/zoneinfo", "");
    fake.write("proc/self/status", "Mems_allowed_list:\t0-1\n");
    let local = 0u8;
    let here = std::hint::black_box(&raw const local) as u64 / 4096;
    pagemap(fake, "proc/self/pagemap", &[(here - 256, 512, 1)]);
}

/// A page frame of a node, with many of the same node behind it.
pub fn frame(node: u64) -> u64 {
    node * BLOCK_FRAMES + 64
}

/// The page map entry of a page that is present and that no other process maps.
pub fn entry(frame: u64) -> [u8; 8] {
    const PRESENT_EXCLUSIVE: u64 = 1 << 63 | 1 << 56;
    (PRESENT_EXCLUSIVE | frame).to_ne_bytes()
}

/// Writes a page map. Each run is the first page, the number of pages, and the first frame.
pub fn pagemap(fake: &Fake, path: &str, runs: &[(u64, u64, u64)]) {
    let file = File::create(fake.path(path)).expect("a file");
    for &(page, count, frame) in runs {
        let bytes: Vec<u8> = (frame..frame + count).flat_map(entry).collect();
        file.write_all_at(&bytes, page * 8).expect("room for a sparse file");
    }
}
