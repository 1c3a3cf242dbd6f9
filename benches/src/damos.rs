//! DAMON's operation schemes migrate_hot and migrate_cold, through its sysfs interface (Documentation/admin-guide/mm/damon/usage.rst): on physical
//! addresses to one node, and on the addresses of a process to several.

use anyhow::{Context, Result};
use numaloc_tests::settings::Setting;
use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

const ADMIN: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// Switches the kdamond that newer kernels have for themselves (mm/damon/stat.c). While it runs, no other can be switched on.
const STAT: &str = "/sys/module/damon_stat/parameters/enabled";
const NODES: &str = "/sys/devices/system/node";

/// The action that takes the most used regions first.
const HOT: &str = "migrate_hot";

/// Why DAMON is not available; `None`: it is.
pub fn missing() -> Option<String> {
    (!Path::new(ADMIN).exists()).then(|| "the kernel is built without DAMON".into())
}

/// A running kdamond. It is switched off when this is dropped.
#[derive(Debug)]
pub struct Kdamond {
    _no_stat: Option<Setting>,
}

impl Kdamond {
    /// Moves what is on node `from` to node `to`, with DAMON's default intervals and numbers of regions, and without a quota.
    /// Regions in which DAMON sees no access are moved too: a large emulated TLB keeps what it needs, so DAMON never sees an
    /// access there, and to require one could only delay the move.
    pub fn start(from: u32, to: u32) -> Result<Self> {
        let kdamond = Self::new("paddr", &[HOT])?;
        let memory = memory(from)?;
        put("0/contexts/0/targets/0/regions/nr_regions", memory.len())?;
        for (index, range) in memory.iter().enumerate() {
            put(&format!("0/contexts/0/targets/0/regions/{index}/start"), range.start)?;
            put(&format!("0/contexts/0/targets/0/regions/{index}/end"), range.end)?;
        }
        put("0/contexts/0/schemes/0/target_nid", to)?;
        put("0/state", "on")?;
        Ok(kdamond)
    }

    /// Interleaves the memory of a process over these nodes, in the same way. `None`: this kernel's schemes have one destination (several
    /// from Linux 6.17 on).
    pub fn interleave(pid: i32, nodes: &[u32]) -> Result<Option<Self>> {
        let kdamond = Self::new("vaddr", &[HOT])?;
        put("0/contexts/0/targets/0/pid_target", pid)?;
        let dests = "0/contexts/0/schemes/0/dests";
        if !Path::new(ADMIN).join(dests).exists() {
            return Ok(None);
        }
        put(&format!("{dests}/nr_dests"), nodes.len())?;
        for (index, node) in nodes.iter().enumerate() {
            put(&format!("{dests}/{index}/id"), node)?;
            put(&format!("{dests}/{index}/weight"), 1)?;
        }
        put("0/state", "on")?;
        Ok(Some(kdamond))
    }

    /// Moves what a process uses to node `fast`, and what it has not used for two seconds to node `slow`, without a quota. `None`: this kernel's
    /// schemes move no memory of a process (they do from Linux 6.17 on, which has `dests`).
    pub fn tiers(pid: i32, fast: u32, slow: u32) -> Result<Option<Self>> {
        let kdamond = Self::new("vaddr", &[HOT, "migrate_cold"])?;
        put("0/contexts/0/targets/0/pid_target", pid)?;
        let scheme = |index: u32| format!("0/contexts/0/schemes/{index}");
        if !Path::new(ADMIN).join(scheme(0)).join("dests").exists() {
            return Ok(None);
        }
        put(&format!("{}/access_pattern/nr_accesses/min", scheme(0)), 1)?;
        put(&format!("{}/access_pattern/nr_accesses/max", scheme(1)), 0)?;
        // In intervals of aggregation, of 100 ms.
        put(&format!("{}/access_pattern/age/min", scheme(1)), 20)?;
        put(&format!("{}/target_nid", scheme(0)), fast)?;
        put(&format!("{}/target_nid", scheme(1)), slow)?;
        put("0/state", "on")?;
        Ok(Some(kdamond))
    }

    /// The bytes that all of its schemes report as moved.
    pub fn applied_bytes(&self) -> Result<u64> {
        put("0/state", "update_schemes_stats")?;
        let schemes = Path::new(ADMIN).join("0/contexts/0/schemes");
        let count: u32 = fs::read_to_string(schemes.join("nr_schemes"))?.trim().parse()?;
        let applied = |index: u32| -> Result<u64> {
            let path = schemes.join(format!("{index}/stats/sz_applied"));
            Ok(fs::read_to_string(&path)
                .with_context(|| path.display().to_string())?
                .trim()
                .parse()?)
        };
        (0..count).map(applied).sum()
    }

    /// Not switched on yet, with one context that has one target and these schemes, which take regions whatever their size, accesses and age.
    fn new(operations: &str, schemes: &[&str]) -> Result<Self> {
        let kdamond = Self { _no_stat: Setting::set_if_present(STAT, "N") };
        put("nr_kdamonds", 1)?;
        put("0/contexts/nr_contexts", 1)?;
        put("0/contexts/0/operations", operations)?;
        put("0/contexts/0/targets/nr_targets", 1)?;
        put("0/contexts/0/schemes/nr_schemes", schemes.len())?;
        let int = u64::from(u32::MAX); // these are unsigned ints in the kernel
        for (index, action) in schemes.iter().enumerate() {
            put(&format!("0/contexts/0/schemes/{index}/action"), action)?;
            for (what, most) in [("sz", u64::MAX), ("nr_accesses", int), ("age", int)] {
                put(&format!("0/contexts/0/schemes/{index}/access_pattern/{what}/max"), most)?;
            }
        }
        Ok(kdamond)
    }
}

impl Drop for Kdamond {
    fn drop(&mut self) {
        // This fails if the kdamond was never switched on.
        let _ = put("0/state", "off");
        if let Err(error) = put("nr_kdamonds", 0) {
            eprintln!("DAMON is left with a kdamond: {error:#}");
        }
    }
}

fn put(name: &str, value: impl ToString) -> Result<()> {
    let path = PathBuf::from(ADMIN).join(name);
    let value = value.to_string();
    fs::write(&path, &value).with_context(|| format!("{} = {value}", path.display()))
}

/// The physical addresses of a node, from its memory blocks.
fn memory(node: u32) -> Result<Vec<Range<u64>>> {
    let size = fs::read_to_string("/sys/devices/system/memory/block_size_bytes")?;
    let size = u64::from_str_radix(size.trim(), 16)?;
    let mut blocks = Vec::new();
    for entry in fs::read_dir(format!("{NODES}/node{node}"))? {
        let name = entry?.file_name();
        let block = name.to_str().and_then(|name| name.strip_prefix("memory")?.parse::<u64>().ok());
        blocks.extend(block);
    }
    blocks.sort_unstable();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        match ranges.last_mut() {
            Some(last) if last.end == block * size => last.end += size,
            _ => ranges.push(block * size..(block + 1) * size),
        }
    }
    Ok(ranges)
}
