//! A node whose memory is full: of another process's memory, and of page cache that nobody uses.

use crate::{
    hold::{self, Holder, meminfo, pinned},
    movers::HOME,
    setting::{Setting, short_free_lists, steady_watermarks},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

const MIB: usize = 1 << 20;
/// Free memory beyond what the cache takes: so much stays for everything else.
const SPARE_MIB: usize = 64;

/// Page cache that fills the home node, and the process that leaves no more room than it takes.
pub struct Cache {
    path: PathBuf,
    _ballast: Holder,
    _settings: [Option<Setting>; 2],
}

impl Cache {
    /// Makes ready what fills the node: a file of so many MiB, for which the node has room once nothing is in its cache.
    pub fn new(mib: usize) -> Result<Self> {
        // First of all: what is dropped goes to the CPUs' lists as long as they are long, and is missing from what counts as free.
        let settings = [short_free_lists()?, steady_watermarks()?];
        let path = Path::new("/mnt/disk/numaloc-bench-cache").to_owned();
        write(&path, mib)?;
        drop_caches()?;
        let ballast = meminfo(HOME, "MemFree:")?.saturating_sub(mib + SPARE_MIB);
        let ballast = hold::Args {
            mib: ballast / 2 * 2,
            pages: hold::Pages::Huge,
            memory_node: Some(HOME),
            ..hold::Args::default()
        };
        Ok(Self { path, _ballast: Holder::start(&ballast)?, _settings: settings })
    }

    /// The file that is in the cache once it has been filled.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file again, so that all that is free of the node goes to its cache.
    pub fn fill(&self) -> Result<()> {
        drop_caches()?;
        pinned(HOME, || io::copy(&mut File::open(&self.path)?, &mut io::sink()))??;
        let (free, cache) = (meminfo(HOME, "MemFree:")?, meminfo(HOME, "Inactive(file):")?);
        ensure!(free < 2 * SPARE_MIB && cache > free, "{free} MiB free, {cache} MiB in cache");
        Ok(())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Writes a file of so many MiB to the disk.
pub fn write(path: &Path, mib: usize) -> Result<()> {
    let mut file = File::create(path).with_context(|| path.display().to_string())?;
    let block = vec![7; MIB];
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    Ok(file.sync_all()?)
}

/// Drops all page cache that is clean.
pub fn drop_caches() -> Result<()> {
    Ok(fs::write("/proc/sys/vm/drop_caches", "1")?)
}
