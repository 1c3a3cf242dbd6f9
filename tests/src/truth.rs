//! Where pages really are: the kernel's numa_maps, smaps and counters, by a parser that numaloc does not have.

use numaloc_core::{page_size, pmd_size};
use std::{collections::BTreeMap, fs, ops::Range};

/// Bytes by node.
pub type Nodes = BTreeMap<u32, u64>;

/// numaloc-target keeps this many inaccessible bytes at least around each region. So a VMA that starts in the region, or in the guard
/// before it, has only pages of the region.
fn guard_bytes() -> u64 {
    pmd_size()
}

/// One line of numa_maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First virtual address.
    pub start: u64,
    /// Its memory policy, as the kernel writes it.
    pub policy: String,
    /// The file that it maps, as the kernel writes it: a space is `\040`.
    pub file: Option<String>,
    /// Bytes of its pages by node.
    pub nodes: Nodes,
}

/// A process's numa_maps at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// By address.
    pub vmas: Vec<Vma>,
}

impl Truth {
    /// Reads numa_maps of a living thread. The first thread may have ended, and then its file is empty.
    pub fn of(pid: i32) -> Self {
        let path = format!("/proc/{pid}/task");
        let tasks = fs::read_dir(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let texts = tasks.flatten().map(|task| fs::read_to_string(task.path().join("numa_maps")));
        let text = texts.filter_map(Result::ok).find(|text| !text.is_empty());
        let text = text.unwrap_or_else(|| panic!("{path}: no thread has memory"));
        Self { vmas: text.lines().map(vma).collect() }
    }

    /// Bytes by node of a region.
    pub fn region(&self, range: Range<u64>) -> Nodes {
        let range = range.start - guard_bytes()..range.end;
        sum(self.vmas.iter().filter(|vma| range.contains(&vma.start)))
    }

    /// Bytes by node of the mapping that begins at an address.
    pub fn mapping(&self, start: u64) -> Nodes {
        sum(self.vmas.iter().filter(|vma| vma.start == start))
    }

    /// Bytes by node of everything.
    pub fn all(&self) -> Nodes {
        sum(self.vmas.iter())
    }

    /// Bytes by node of anonymous memory that is mapped shared: of its pages that this process has used.
    pub fn segments(&self) -> Nodes {
        self.files(|file| file.starts_with("/dev/zero"))
    }

    /// Bytes by node of the files with this in their names.
    pub fn of_files(&self, name: &str) -> Nodes {
        self.files(|file| file.contains(name))
    }

    fn files(&self, is_meant: impl Fn(&str) -> bool) -> Nodes {
        sum(self.vmas.iter().filter(|vma| vma.file.as_deref().is_some_and(&is_meant)))
    }

    /// Everything except mapped files: other processes may move the pages of files.
    pub fn without_files(&self) -> Self {
        Self { vmas: self.vmas.iter().filter(|vma| vma.file.is_none()).cloned().collect() }
    }
}

pub fn on(nodes: &Nodes, node: u32) -> u64 {
    nodes.get(&node).copied().unwrap_or(0)
}

/// Bytes anywhere but on one node.
pub fn off(nodes: &Nodes, node: u32) -> u64 {
    nodes.iter().filter(|&(&other, _)| other != node).map(|(_, bytes)| bytes).sum()
}

fn sum<'a>(vmas: impl Iterator<Item = &'a Vma>) -> Nodes {
    let mut sum = Nodes::new();
    for (&node, bytes) in vmas.flat_map(|vma| &vma.nodes) {
        *sum.entry(node).or_default() += bytes;
    }
    sum
}

fn vma(line: &str) -> Vma {
    let mut words = line.split(' ');
    let start = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    let policy = words.next().unwrap_or_default().to_owned();
    let (mut counts, mut page_bytes, mut file) = (Nodes::new(), page_size(), None);
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        match (key.strip_prefix('N').and_then(|node| node.parse().ok()), key) {
            (Some(node), _) => {
                counts.insert(node, value.parse::<u64>().expect("a count of pages"));
            }
            (None, "kernelpagesize_kB") => page_bytes = value.parse::<u64>().expect("KiB") << 10,
            (None, "file") => file = Some(value.to_owned()),
            _ => {}
        }
    }
    let nodes = counts.into_iter().map(|(node, pages)| (node, pages * page_bytes)).collect();
    let start = start.unwrap_or_else(|| panic!("numa_maps: {line}"));
    Vma { start, policy, file, nodes }
}

/// Bytes in transparent huge pages in a region: AnonHugePages in /proc/PID/smaps.
pub fn huge_bytes(pid: i32, range: Range<u64>) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("smaps of our own child");
    let (mut within, mut bytes) = (false, 0);
    for line in text.lines() {
        let first = line.split([' ', '-']).next().unwrap_or_default();
        if let Some(kib) = line.strip_prefix("AnonHugePages:").filter(|_| within) {
            let kib = kib.trim().trim_end_matches(" kB");
            bytes += kib.parse::<u64>().expect("KiB") << 10;
        } else if let Ok(start) = u64::from_str_radix(first, 16) {
            within = range.contains(&start);
        }
    }
    bytes
}

/// A counter of /proc/vmstat; 0 where the kernel does not have it.
pub fn vmstat(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/vmstat").expect("vmstat");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().expect("a counter"))
}

/// MemFree of a node in bytes.
pub fn free_bytes(node: u32) -> u64 {
    node_bytes(node, "MemFree:")
}

/// Unused memory of a node, in bytes: MemFree, and the pages in the lists of free pages that each CPU keeps for itself
/// (mm/page_alloc.c, `free_unref_page`). Whatever frees much memory leaves tens of MiB in these.
pub fn unused_bytes(node: u32) -> u64 {
    free_bytes(node) + zoneinfo_bytes(node, "count:")
}

/// A field of a node's meminfo in bytes.
pub fn node_bytes(node: u32, field: &str) -> u64 {
    let path = format!("/sys/devices/system/node/node{node}/meminfo");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let line = text.lines().find_map(|line| line.split_once(field)).expect(field).1;
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("KiB") << 10
}

/// The sum of the high watermarks of a node's zones, in bytes, and what its lower zones keep from movable pages. The kernel reclaims
/// memory until this much is free.
pub fn high_watermark_bytes(node: u32) -> u64 {
    zoneinfo_bytes(node, "high") + reserved_bytes(node)
}

/// The values that decide when a node's kswapd reclaims, in pages: the lines of /proc/zoneinfo about it.
pub fn watermarks(node: u32) -> Vec<String> {
    let text = fs::read_to_string("/proc/zoneinfo").expect("zoneinfo");
    let names = ["pages free", "min", "low", "high", "node_unreclaimable", "nr_inactive_file"];
    let lines = zones(&text, node).flat_map(str::lines).map(str::trim);
    let chosen = lines.filter(|line| names.iter().any(|name| line.starts_with(name)));
    chosen.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Memory that the zones of a node keep from movable pages, in bytes: the last number of each `protection`, or the
/// free memory of the zone.
fn reserved_bytes(node: u32) -> u64 {
    let text = fs::read_to_string("/proc/zoneinfo").expect("zoneinfo");
    let number = |zone: &str, name: &str| {
        let value =
            zone.split_once(name).and_then(|(_, rest)| rest.lines().next()).expect("a field");
        let last = value.rsplit([',', ' ']).next().expect("a number");
        last.trim_end_matches(')').trim().parse::<u64>().expect("a number")
    };
    let kept = |zone: &str| {
        let free = number(zone, "pages free").saturating_sub(number(zone, " high "));
        number(zone, "protection:").min(free)
    };
    zones(&text, node).map(kept).sum::<u64>() * page_size()
}

/// The parts of /proc/zoneinfo about a node, one for each zone.
fn zones(zoneinfo: &str, node: u32) -> impl Iterator<Item = &str> {
    zoneinfo.split("\nNode ").filter(move |zone| {
        let id = zone.trim_start_matches("Node ").split(',').next();
        id == Some(&*node.to_string())
    })
}

/// A field of /proc/zoneinfo that counts pages, in bytes: the sum over the zones of a node, and their CPUs.
fn zoneinfo_bytes(node: u32, field: &str) -> u64 {
    let text = fs::read_to_string("/proc/zoneinfo").expect("zoneinfo");
    let (mut within, mut pages) = (false, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(id)) => within = id.trim_end_matches(',') == node.to_string(),
            (Some(name), Some(value)) if within && name == field => {
                pages += value.parse().unwrap_or(0);
            }
            _ => {}
        }
    }
    pages * page_size()
}

pub fn node_count() -> usize {
    let text = fs::read_to_string("/sys/devices/system/node/online").expect("nodes");
    text.parse::<numaloc_core::NodeSet>().expect("a list").len()
}

/// The kernel's release, such as `6.1.0-40-amd64`.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release").trim().to_owned()
}
