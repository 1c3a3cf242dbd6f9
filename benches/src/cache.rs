//! A node whose memory is full: of another process's memory, and of page cache that nobody uses.

use crate::{
    hold::{self, Holder, pin},
    movers::HOME,
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

const MIB: u64 = 1 << 20;
/// Free memory beyond what the cache takes: so much stays for everything else.
const SPARE_MIB: u64 = 64;

/// Page cache that fills the home node, and the process that leaves no more room than it takes.
pub struct Cache {
    path: PathBuf,
    _ballast: Holder,
}

impl Cache {
    /// Makes ready what fills the node: a file of so many MiB, for which the node has room once nothing is in its cache.
    pub fn new(mib: usize) -> Result<Self> {
        let path = Path::new("/mnt/disk/numaloc-bench-cache").to_owned();
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        let block = vec![7; MIB as usize];
        for _ in 0..mib {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        drop_caches()?;
        let free = meminfo("MemFree:")? / MIB;
        let ballast = free.saturating_sub(mib as u64 + SPARE_MIB);
        let ballast = hold::Args {
            mib: usize::try_from(ballast)? / 2 * 2,
            pages: hold::Pages::Huge,
            memory_node: Some(HOME),
            ..hold::Args::default()
        };
        Ok(Self { path, _ballast: Holder::start(&ballast)? })
    }

    /// Reads the file again, so that all that is free of the node goes to its cache.
    pub fn fill(&self) -> Result<()> {
        drop_caches()?;
        // In a thread of its own, which alone keeps to the node.
        let read = || -> Result<()> {
            pin(HOME)?;
            io::copy(&mut File::open(&self.path)?, &mut io::sink())?;
            Ok(())
        };
        thread::scope(|scope| scope.spawn(read).join().expect("reading does not panic"))?;
        let (free, cache) = (meminfo("MemFree:")? / MIB, meminfo("Inactive(file):")? / MIB);
        ensure!(free < 2 * SPARE_MIB && cache > free, "{free} MiB free, {cache} MiB in cache");
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn drop_caches() -> Result<()> {
    Ok(fs::write("/proc/sys/vm/drop_caches", "1")?)
}

/// A field of the home node's meminfo in bytes.
fn meminfo(field: &str) -> Result<u64> {
    let text = fs::read_to_string(format!("/sys/devices/system/node/node{HOME}/meminfo"))?;
    let value = text.lines().find_map(|line| line.split_once(field)).context("no such field")?.1;
    Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}
