//! A node whose memory is full: of another process's memory, and of unused page cache.

use crate::{
    hold::{self, Holder},
    movers::HOME,
};
use anyhow::{Result, ensure};
use numaloc_tests::{
    disk::{OnDisk, drop_cache},
    settings::Setting,
    truth::{free_bytes, node_bytes},
};
use std::path::Path;

/// Free memory in bytes beyond what the cache takes: so much stays for everything else.
const SPARE: u64 = 64 << 20;

/// Page cache that fills the home node, and the process that leaves no more room than it takes.
pub struct Cache {
    file: OnDisk,
    _ballast: Holder,
    _settings: [Setting; 2],
}

impl Cache {
    /// Makes ready what fills the node: a file of `mib` MiB, for which the node has room once nothing is in its cache.
    pub fn new(mib: usize) -> Result<Self> {
        // First of all: what is dropped goes to the CPUs' lists as long as they are long, and is missing from what counts as free.
        let settings = [Setting::short_free_lists(), Setting::steady_watermarks()];
        let file = OnDisk::new("numaloc-bench-cache", mib as u64);
        let ballast = free_bytes(HOME).saturating_sub(((mib as u64) << 20) + SPARE);
        let ballast = hold::Args {
            mib: (ballast >> 21) as usize * 2,
            pages: hold::Pages::Huge,
            memory_node: Some(HOME),
            ..hold::Args::default()
        };
        Ok(Self { file, _ballast: Holder::start(&ballast)?, _settings: settings })
    }

    /// The file that is in the cache once it has been filled.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads the file again, so that the node's free memory goes to its cache.
    pub fn fill(&self) -> Result<()> {
        drop_cache();
        self.file.read(HOME);
        let (free, cache) = (free_bytes(HOME), node_bytes(HOME, "Inactive(file):"));
        ensure!(free < 2 * SPARE && cache > free, "{free} bytes free, {cache} bytes in cache");
        Ok(())
    }
}
