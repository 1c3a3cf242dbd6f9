//! A setting of the kernel that is restored at the end.

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// The kernel's own balancing (Documentation/admin-guide/sysctl/kernel.rst).
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// A file of the kernel that has another value until this is dropped.
#[derive(Debug)]
pub struct Setting {
    path: &'static str,
    before: String,
}

impl Setting {
    /// Writes `value`, and restores the old value when the result is dropped. `None`: the kernel has no such file.
    pub fn set(path: &'static str, value: &str) -> Result<Option<Self>> {
        if !Path::new(path).exists() {
            return Ok(None);
        }
        let before = fs::read_to_string(path)?;
        fs::write(path, value).with_context(|| format!("{path} = {value}"))?;
        Ok(Some(Self { path, before }))
    }
}

/// Keeps the CPUs' own lists of free pages short. Else they hold up to 100 MiB of a node, which come back as free memory after the node
/// has been filled.
pub fn short_free_lists() -> Result<Option<Setting>> {
    Setting::set("/proc/sys/vm/percpu_pagelist_high_fraction", "1000000")
}

/// Has watermarks stay where they are. The kernel raises them by up to 150 % when it has to mix movable and other pages
/// (mm/page_alloc.c, `boost_watermark`), and reclaims that much more of a full node.
pub fn steady_watermarks() -> Result<Option<Setting>> {
    let setting = Setting::set("/proc/sys/vm/watermark_boost_factor", "0")?;
    // Whatever is written, this takes back what has been raised (`__setup_per_zone_wmarks`).
    let reserved = "/proc/sys/vm/min_free_kbytes";
    fs::write(reserved, fs::read_to_string(reserved)?).context(reserved)?;
    Ok(setting)
}

impl Drop for Setting {
    fn drop(&mut self) {
        if let Err(error) = fs::write(self.path, self.before.trim()) {
            eprintln!("{} could not be put back to {}: {error}", self.path, self.before.trim());
        }
    }
}
