//! The kernel's pools of 2 MiB huge pages, filled while they are needed.

use crate::movers::{AWAY, HOME};
use anyhow::{Context, Result, ensure};
use std::{fs, path::PathBuf};

/// Pages in the pools of both nodes. The old numbers are restored when this is dropped.
#[derive(Debug)]
pub struct Pool {
    before: Vec<(PathBuf, String)>,
}

impl Pool {
    /// Fills each pool with this many MiB.
    pub fn fill(mib: usize) -> Result<Self> {
        let mut pool = Self { before: Vec::new() };
        // The kernel may have to compact memory first.
        fs::write("/proc/sys/vm/compact_memory", "1")?;
        for node in [HOME, AWAY] {
            let path = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
            let path = PathBuf::from(path).join("nr_hugepages");
            let read = || fs::read_to_string(&path).with_context(|| path.display().to_string());
            pool.before.push((path.clone(), read()?));
            let wanted = mib / 2;
            fs::write(&path, wanted.to_string())?;
            let got = read()?;
            ensure!(got.trim() == wanted.to_string(), "{}: {got} of {wanted}", path.display());
        }
        Ok(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (path, before) in &self.before {
            let _ = fs::write(path, before);
        }
    }
}
