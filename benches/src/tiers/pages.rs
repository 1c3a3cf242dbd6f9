//! The node of each page of a process, and what has changed: the truth that reports are compared with.

use anyhow::{Context, Result};
use numaloc_core::page_size;
use numaloc_sys::query_pages;
use std::{collections::BTreeMap, fs};

/// Addresses in one query.
const BATCH: usize = 1 << 14;

/// The node of each page, by address. Pages that are not in memory, or that processes share with the kernel (zeros), are left out.
pub fn of(pid: i32) -> Result<BTreeMap<u64, u32>> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut addresses = Vec::new();
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').context("a line of maps")?;
        // The kernel's own pages, and guards that cannot be read.
        if rest.starts_with("---") || rest.ends_with("[vsyscall]") || rest.contains("[vvar") {
            continue;
        }
        let (start, end) = range.split_once('-').context("a range")?;
        let number = |text| u64::from_str_radix(text, 16);
        addresses.extend((number(start)?..number(end)?).step_by(page_size() as usize));
    }
    let mut nodes = BTreeMap::new();
    for batch in addresses.chunks(BATCH) {
        let mut status = vec![0; batch.len()];
        query_pages(pid, batch, &mut status)?;
        let known = batch.iter().zip(status);
        nodes.extend(known.filter_map(|(&page, node)| Some((page, u32::try_from(node).ok()?))));
    }
    Ok(nodes)
}

/// Bytes that are on another node than before, by both nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved(BTreeMap<(u32, u32), u64>);

impl Moved {
    pub fn between(before: &BTreeMap<u64, u32>, after: &BTreeMap<u64, u32>) -> Self {
        let mut moved = BTreeMap::new();
        for (page, &from) in before {
            if let Some(&to) = after.get(page).filter(|&&to| to != from) {
                *moved.entry((from, to)).or_default() += page_size();
            }
        }
        Self(moved)
    }

    pub fn all(&self) -> u64 {
        self.0.values().sum()
    }

    /// Bytes that have gone to other nodes than these.
    pub fn not_to(&self, nodes: &[u32]) -> u64 {
        let others = self.0.iter().filter(|((_, to), _)| !nodes.contains(to));
        others.map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_another_node_have_moved() {
        let before = [(0, 0), (page_size(), 0), (2 * page_size(), 2), (3 * page_size(), 0)].into();
        let after = [(0, 2), (page_size(), 1), (2 * page_size(), 2), (4 * page_size(), 2)].into();
        let moved = Moved::between(&before, &after);
        assert_eq!(moved, Moved([((0, 2), page_size()), ((0, 1), page_size())].into()));
        assert_eq!((moved.all(), moved.not_to(&[0, 2])), (2 * page_size(), page_size()));
    }

    #[test]
    fn this_process_has_pages() {
        assert!(!of(std::process::id() as i32).unwrap().is_empty());
    }
}
