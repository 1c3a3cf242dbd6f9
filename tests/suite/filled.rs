//! The node 2 without CPUs, filled with what a drain takes from it.

use crate::{
    app::{App, Layout},
    cli::numalocctl,
    disk::OnDisk,
    truth::{node_bytes, on},
};

const MIB: u64 = 1 << 20;
pub const NODE: u32 = 2;
/// What programs of the test may leave on the node meanwhile, such as page cache of libraries.
pub const NOISE: u64 = 2 * MIB;

/// Bytes on the node that can move, by the kernel's count.
pub fn movable_bytes() -> u64 {
    ["AnonPages:", "FilePages:"].into_iter().map(|field| node_bytes(NODE, field)).sum()
}

/// Four services with memory of several kinds there.
pub fn services() -> Vec<App> {
    [&["anon:64M"][..], &["thp:32M"], &["shm:32M"], &["bound:16M:bind=2"]]
        .into_iter()
        .map(|regions| Layout::remote(regions).memory_on(NODE).start("service"))
        .collect()
}

/// A file of 32 MiB whose page cache is there.
pub fn cached_file() -> OnDisk {
    let file = OnDisk::new("drained", 32);
    file.read(0);
    let path = file.path().to_str().expect("text");
    numalocctl(&["migrate", "--file", path, "--to", &NODE.to_string()]);
    assert!(on(&file.cached(), NODE) >= 30 * MIB, "the scene: {:?}", file.cached());
    file
}
