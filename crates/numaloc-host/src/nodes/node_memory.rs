//! The memory of nodes as of now, cheap enough to be read before each batch.

use crate::{
    Error, Roots,
    files::{
        read::{self, entries},
        zoneinfo::{Zone, zones},
    },
    nodes::protected,
};
use numaloc_core::{HugePool, NodeId, NodeMemory, Supply, page_size};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Bytes of a node's meminfo that are read at most: the file has about 1.6 KiB.
const MEMINFO_MAX: usize = 4096;

/// A sysfs file that is kept open from the first read on: each read at offset 0 makes the kernel generate its text again.
#[derive(Debug)]
struct SysfsFile {
    path: PathBuf,
    file: OnceLock<File>,
}

impl SysfsFile {
    fn new(path: PathBuf) -> Self {
        Self { path, file: OnceLock::new() }
    }
    fn file(&self) -> io::Result<&File> {
        match self.file.get() {
            Some(file) => Ok(file),
            None => File::open(&self.path).map(|file| self.file.get_or_init(|| file)),
        }
    }
    /// The first `LENGTH` bytes of it.
    fn text<const LENGTH: usize>(&self) -> Result<String, Error> {
        let mut buffer = [0; LENGTH];
        let read = self.file().and_then(|file| file.read_at(&mut buffer, 0));
        let length = read.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
    fn number(&self) -> Result<u64, Error> {
        let text = self.text::<64>()?;
        text.trim().parse().map_err(|_| self.nonsense(format!("'{}' is not a number", text.trim())))
    }
    fn meminfo_bytes(&self, text: &str, field: &str) -> Result<u64, Error> {
        meminfo_bytes(text, field).ok_or_else(|| self.nonsense(format!("no {field}")))
    }
    fn nonsense(&self, reason: String) -> Error {
        Error::Parse { path: self.path.clone(), reason }
    }
}

/// A field of nodeN/meminfo (`Node 0 MemFree:   3834612 kB`) in bytes.
pub(crate) fn meminfo_bytes(text: &str, field: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|&word| word != field).skip(1);
        words.next()?.parse::<u64>().ok()
    })?;
    value.checked_mul(1 << 10)
}

/// A node's pool of hugetlb pages of one size.
#[derive(Debug)]
struct KeptPool {
    total: SysfsFile,
    free: SysfsFile,
}

/// All nodes' pools of hugetlb pages of one size together.
#[derive(Debug)]
struct KeptPools {
    free: SysfsFile,
    reserved: SysfsFile,
}

impl KeptPools {
    fn new(directory: &Path) -> Self {
        let file = |name| SysfsFile::new(directory.join(name));
        Self { free: file("free_hugepages"), reserved: file("resv_hugepages") }
    }
    /// Pages of all nodes that the kernel may take for a migration. If there are none, it takes a fresh page, even if
    /// the node's own pool has free pages (mm/hugetlb.c, `available_huge_pages`).
    fn unreserved_pages(&self) -> Result<u64, Error> {
        Ok(self.free.number()?.saturating_sub(self.reserved.number()?))
    }
}

#[derive(Debug)]
struct KeptNode {
    meminfo: SysfsFile,
    pools: BTreeMap<u64, KeptPool>,
}

impl KeptNode {
    fn new(directory: &Path) -> Self {
        let pool = |(page_bytes, directory): (u64, PathBuf)| {
            let file = |name| SysfsFile::new(directory.join(name));
            (page_bytes, KeptPool { total: file("nr_hugepages"), free: file("free_hugepages") })
        };
        let pools = pool_directories(&directory.join("hugepages")).into_iter().map(pool).collect();
        Self { meminfo: SysfsFile::new(directory.join("meminfo")), pools }
    }
    /// Its memory without its pools.
    fn memory(&self, watermarks: Watermarks, protected_bytes: u64) -> Result<NodeMemory, Error> {
        // The fields that are needed are in its first lines.
        let text = self.meminfo.text::<MEMINFO_MAX>()?;
        let bytes = |field| self.meminfo.meminfo_bytes(&text, field);
        let file = |field| bytes(field).unwrap_or(0);
        let unclean_bytes = file("Dirty:") + file("Writeback:");
        Ok(NodeMemory {
            total_bytes: bytes("MemTotal:")?,
            free_bytes: bytes("MemFree:")?,
            // Dirty pages may be on the active list: at worst too little is counted.
            cache_bytes: file("Inactive(file):").saturating_sub(unclean_bytes),
            protected_bytes,
            min_watermark_bytes: watermarks.min_bytes,
            low_watermark_bytes: watermarks.low_bytes,
            high_watermark_bytes: watermarks.high_bytes,
            huge_pools: Vec::new(),
        })
    }
}

/// Reads the memory of nodes again and again. Watermarks are read once: they change only when an administrator
/// sets vm.min_free_kbytes or memory is plugged. So is what cgroups protect: what is dropped of a cgroup's cache is not what it
/// protects. A node that comes online later is opened at each read.
#[derive(Debug)]
pub struct NodeMemoryReader {
    nodes: PathBuf,
    watermarks: BTreeMap<NodeId, Watermarks>,
    /// Bytes in the zone Movable of each node.
    movable_bytes: BTreeMap<NodeId, u64>,
    /// Page cache that cgroups protect.
    protected: BTreeMap<NodeId, u64>,
    kept: BTreeMap<NodeId, KeptNode>,
    pools: BTreeMap<u64, KeptPools>,
}

impl NodeMemoryReader {
    /// Finds the files that are read again and again. Each is opened when it is read first.
    ///
    /// # Errors
    /// [`Error::Read`] when /proc/zoneinfo cannot be read.
    pub fn new(roots: &Roots) -> Result<Self, Error> {
        let nodes = roots.sys.join("devices/system/node");
        let zones = zones(&read::text(&roots.proc.join("zoneinfo"))?);
        let kept = node_directories(&nodes).into_iter();
        let kept = kept.map(|(id, directory)| (id, KeptNode::new(&directory))).collect();
        let pools = pool_directories(&roots.sys.join("kernel/mm/hugepages")).into_iter();
        let pools = pools.map(|(bytes, directory)| (bytes, KeptPools::new(&directory))).collect();
        let protected = protected::cache(roots);
        let (watermarks, movable_bytes) = (watermarks(&zones), movable_bytes(&zones));
        Ok(Self { nodes, watermarks, movable_bytes, protected, kept, pools })
    }

    /// Bytes in the zone Movable of each node, as of when this was made.
    pub(super) fn movable_bytes(&self) -> &BTreeMap<NodeId, u64> {
        &self.movable_bytes
    }

    /// A node's memory as of now.
    ///
    /// # Errors
    /// [`Error::Read`] when the node does not exist, [`Error::Parse`] when the kernel's format is not understood.
    pub fn read(&self, node: NodeId) -> Result<NodeMemory, Error> {
        self.with(node, |kept| {
            let pools = kept.pools.iter().map(|(&page_bytes, pool)| self.pool(page_bytes, pool));
            let huge_pools = pools.collect::<Result<_, Error>>()?;
            Ok(NodeMemory {
                huge_pools,
                ..kept.memory(self.watermarks(node), self.protected(node))?
            })
        })
    }

    /// The part of a node's memory that serves `supply`, as of now. Nothing else is read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_for(&self, node: NodeId, supply: Supply) -> Result<NodeMemory, Error> {
        self.with(node, |kept| {
            let mut memory = match supply.free_memory {
                true => kept.memory(self.watermarks(node), self.protected(node))?,
                false => NodeMemory::default(),
            };
            if let Some(pool) = kept.pools.get(&supply.page_bytes).filter(|_| supply.pool) {
                memory.huge_pools.push(self.pool(supply.page_bytes, pool)?);
            }
            Ok(memory)
        })
    }

    fn with<T>(
        &self,
        node: NodeId,
        read: impl FnOnce(&KeptNode) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.kept.get(&node) {
            Some(kept) => read(kept),
            None => read(&KeptNode::new(&self.nodes.join(format!("node{node}")))),
        }
    }

    fn watermarks(&self, node: NodeId) -> Watermarks {
        self.watermarks.get(&node).copied().unwrap_or_default()
    }

    fn protected(&self, node: NodeId) -> u64 {
        self.protected.get(&node).copied().unwrap_or(0)
    }

    fn pool(&self, page_bytes: u64, pool: &KeptPool) -> Result<HugePool, Error> {
        let total_pages = pool.total.number()?;
        // Most hosts have no pages of most sizes, and each file takes a system call or two.
        let free_pages = if total_pages > 0 { pool.free.number()? } else { 0 };
        let unreserved_pages = match self.pools.get(&page_bytes) {
            Some(all) if free_pages > 0 => free_pages.min(all.unreserved_pages()?),
            _ => free_pages,
        };
        Ok(HugePool { page_bytes, total_pages, free_pages, unreserved_pages })
    }
}

/// Size of a node's memory in bytes; nothing else of it is read. 0 on a kernel without CONFIG_NUMA, which has no nodeN.
///
/// # Errors
/// [`Error::Read`], and [`Error::Parse`] when the kernel's format is not understood.
pub(crate) fn total_bytes(roots: &Roots, node: NodeId) -> Result<u64, Error> {
    field_bytes(roots, node, "MemTotal:")
}

/// Free memory of a node in bytes, without page cache; nothing else of it is read. 0 for a node that is not online.
///
/// # Errors
/// [`Error::Read`], and [`Error::Parse`] when the kernel's format is not understood.
pub fn node_free_bytes(roots: &Roots, node: NodeId) -> Result<u64, Error> {
    field_bytes(roots, node, "MemFree:")
}

fn field_bytes(roots: &Roots, node: NodeId, field: &str) -> Result<u64, Error> {
    let path = roots.sys.join(format!("devices/system/node/node{node}/meminfo"));
    let meminfo = SysfsFile::new(path);
    match meminfo.text::<MEMINFO_MAX>() {
        Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(0),
        text => meminfo.meminfo_bytes(&text?, field),
    }
}

/// The hugetlb pools in a directory such as /sys/kernel/mm/hugepages, by page size in bytes; none if there is none.
pub(crate) fn pool_directories(directory: &Path) -> BTreeMap<u64, PathBuf> {
    entries(directory, |name| {
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        kib.checked_mul(1024)
    })
}

fn node_directories(directory: &Path) -> BTreeMap<NodeId, PathBuf> {
    entries(directory, |name| name.strip_prefix("node")?.parse().ok().map(NodeId))
}

/// The watermarks of a node's zones, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watermarks {
    min_bytes: u64,
    low_bytes: u64,
    high_bytes: u64,
}

/// Sums the zones' watermarks by node, with what the lower zones reserve: for movable memory the kernel compares the free pages of
/// a zone with both (mm/page_alloc.c, `__zone_watermark_ok`). Each watermark includes a boost that fragmentation adds for a short
/// time. The file is read only once, so the boost is subtracted.
fn watermarks(zones: &[Zone]) -> BTreeMap<NodeId, Watermarks> {
    let mut sums: BTreeMap<NodeId, Watermarks> = BTreeMap::new();
    for zone in zones {
        // A zone that reserves all its free pages has no room, and takes none from the other zones.
        let withheld = |mark: u64| match zone.reserve {
            0 => mark,
            reserve => mark.saturating_add(reserve).min(zone.free.max(mark)),
        };
        let bytes = |mark: u64| withheld(mark.saturating_sub(zone.boost)) * page_size();
        let sums = sums.entry(zone.node).or_default();
        sums.min_bytes += bytes(zone.min);
        sums.low_bytes += bytes(zone.low);
        sums.high_bytes += bytes(zone.high);
    }
    sums
}

fn movable_bytes(zones: &[Zone]) -> BTreeMap<NodeId, u64> {
    let mut found = BTreeMap::new();
    for zone in zones {
        let pages = if zone.is_movable { zone.managed } else { 0 };
        *found.entry(zone.node).or_insert(0_u64) += pages.saturating_mul(page_size());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const ZONEINFO: &str = "Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 66242
  pages free     2816
        boost    0
        min      44
        low      55
        high     66
        spanned  4095
  pagesets
    cpu: 0
              count:    421
              high:     4204
Node 0, zone   Normal
  pages free     100
        boost    50
        min      44
        low      55
        high     150
Node 0, zone   Device
  pages free     0
        boost    0
        min      0
        low      0
        high     0
Node 64, zone   Normal
        high     7
";

    #[test]
    fn watermarks_are_summed_without_boost_and_per_cpu_lists() {
        let sums = watermarks(&zones(ZONEINFO));
        let pages = |min, low, high| Watermarks {
            min_bytes: min * page_size(),
            low_bytes: low * page_size(),
            high_bytes: high * page_size(),
        };
        assert_eq!(sums[&NodeId(0)], pages(44, 55 + 5, 66 + 100));
        assert_eq!(sums[&NodeId(64)], pages(0, 0, 7));
    }

    #[test]
    fn memory_that_lower_zones_reserve_does_not_count_as_room() {
        let zoneinfo = "Node 0, zone      DMA
  pages free     2816
        min      44
        low      55
        high     66
        protection: (0, 700, 31837, 31837)
Node 0, zone    DMA32
  pages free     90000
        min      400
        low      500
        high     600
        protection: (0, 0, 1000, 1000)
Node 0, zone   Normal
  pages free     7
        min      30
        low      40
        high     50
        protection: (0, 0, 0, 0)
";
        let expected = Watermarks {
            min_bytes: (2816 + 1400 + 30) * page_size(),
            low_bytes: (2816 + 1500 + 40) * page_size(),
            high_bytes: (2816 + 1600 + 50) * page_size(),
        };
        assert_eq!(watermarks(&zones(zoneinfo))[&NodeId(0)], expected);
    }

    #[test]
    fn memory_is_read_again_through_the_kept_files() {
        let fake = Fake::new();
        let node = "sys/devices/system/node/node64";
        let meminfo = |free: u64| {
            let text = format!(
                "MemTotal: 2048\nMemFree: {free}\nInactive(file): 100\nDirty: 20\nWriteback: 10\n"
            );
            let lines = text.lines().map(|line| format!("Node 64 {line} kB\n"));
            fake.write(&format!("{node}/meminfo"), &lines.collect::<String>());
        };
        meminfo(1024);
        fake.write(&format!("{node}/hugepages/hugepages-2048kB/nr_hugepages"), "5\n");
        fake.write(&format!("{node}/hugepages/hugepages-2048kB/free_hugepages"), "3\n");
        fake.write("proc/zoneinfo", ZONEINFO);
        let reader = NodeMemoryReader::new(&fake.roots()).unwrap();
        let pool =
            HugePool { page_bytes: 2 << 20, total_pages: 5, free_pages: 3, unreserved_pages: 3 };
        let expected = NodeMemory {
            total_bytes: 2 << 20,
            free_bytes: 1 << 20,
            cache_bytes: 70 << 10,
            high_watermark_bytes: 7 * 4096,
            huge_pools: vec![pool],
            ..NodeMemory::default()
        };
        assert_eq!(reader.read(NodeId(64)).unwrap(), expected);
        meminfo(512);
        assert_eq!(reader.read(NodeId(64)).unwrap().free_bytes, 512 << 10);
        assert!(matches!(reader.read(NodeId(1)), Err(Error::Read { .. })));
        fake.write(&format!("{node}/meminfo"), "nonsense");
        assert!(matches!(reader.read(NodeId(64)), Err(Error::Parse { .. })));
    }

    #[test]
    fn this_machine_is_understood() {
        let reader = NodeMemoryReader::new(&Roots::default()).unwrap();
        let memory = reader.read(NodeId(0)).unwrap();
        assert!(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
        assert!(
            memory.high_watermark_bytes > 0 && memory.high_watermark_bytes < memory.total_bytes
        );
    }
}
