//! Storage that processes can map without page cache (DAX): persistent memory, or memory that is attached by CXL, below a file system or as a
//! character device. And the node that each is attached to.

use crate::{
    Roots,
    files::{file_system::block_device, read},
    nodes::devices::attached,
};
use numaloc_core::NodeId;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Major and minor number of a block device, which files on it have in /proc/PID/maps.
pub(crate) type DeviceNumber = (u32, u32);

/// Prefix of the names that character devices have (drivers/dax/bus.c, `dev_dax_init`).
pub(crate) const CHARACTER_DEVICE: &str = "/dev/dax";

/// Whether the memory of a block device can be mapped (Documentation/ABI/stable/sysfs-block, `queue/dax`). A partition has no queue: its
/// disk has.
pub(crate) fn has_dax(block_device: &Path) -> bool {
    let is_set = |path| read::text(&block_device.join(path)).is_ok_and(|text| text.trim() == "1");
    is_set("queue/dax") || is_set("../queue/dax")
}

/// The storage of a host that can be mapped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    blocks: BTreeSet<DeviceNumber>,
    has_characters: bool,
}

impl Storage {
    /// Most hosts have none, which costs two looks.
    pub(crate) fn read(roots: &Roots) -> Self {
        let names = |directory: &str| {
            !read::entries(&roots.sys.join(directory), |name| Some(name.to_owned())).is_empty()
        };
        let has_characters = names("bus/dax/devices");
        // The driver of persistent memory (nd) has made all block devices of this kind, or those below them.
        if !names("bus/nd/devices") {
            return Self { has_characters, ..Self::default() };
        }
        let all = read::entries(&roots.sys.join("class/block"), |name| Some(name.to_owned()));
        // `..` of a link leads to the disk only once it is followed.
        let all = all.into_values().filter_map(|path| path.canonicalize().ok());
        let number = |path: &Path| {
            let text = read::text(&path.join("dev")).ok()?;
            let (major, minor) = text.trim().split_once(':')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        };
        let blocks = all.filter(|path| has_dax(path)).filter_map(|path| number(&path)).collect();
        Self { blocks, has_characters }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && !self.has_characters
    }

    /// Whether a mapping of a file with this name, on a file system with this device, may be of such storage.
    pub(crate) fn may_have(&self, name: &str, device: DeviceNumber) -> bool {
        let is_character = device.0 == 0 && name.starts_with(CHARACTER_DEVICE);
        self.blocks.contains(&device) || is_character && self.has_characters
    }
}

/// The nodes of storage, for as long as one look takes.
#[derive(Debug)]
pub(crate) struct StorageNodes<'a> {
    roots: &'a Roots,
    /// By its directory in sysfs.
    known: BTreeMap<PathBuf, Option<NodeId>>,
}

impl<'a> StorageNodes<'a> {
    pub(crate) fn new(roots: &'a Roots) -> Self {
        Self { roots, known: BTreeMap::new() }
    }

    /// The node of the storage behind a mapping of a file with this name, on a file system with this device. `None`: the firmware does not
    /// say, the storage is on several nodes, or it belongs to a server (virtiofs).
    pub(crate) fn of(&mut self, name: &str, device: DeviceNumber) -> Option<NodeId> {
        let name = name.strip_prefix("/dev/").filter(|name| device.0 == 0 && !name.contains('/'));
        let directory = match name {
            Some(name) => self.roots.sys.join("bus/dax/devices").join(name),
            None => block_device(self.roots, device),
        };
        *self.known.entry(directory).or_insert_with_key(|directory| single(directory))
    }
}

/// The node of the storage that files of this block device are on; `None` as of [`StorageNodes::of`].
pub(crate) fn node_of_block(roots: &Roots, device: DeviceNumber) -> Option<NodeId> {
    single(&block_device(roots, device))
}

fn single(directory: &Path) -> Option<NodeId> {
    let nodes = attached(&[directory.to_owned()]).ok()?;
    nodes.iter().next().filter(|_| nodes.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const BUS: &str = "sys/devices/LNXSYSTM:00/ndbus0";

    /// Two regions of persistent memory: a disk on node 1 with a partition, a character device on node 0, an ordinary disk, and a volume
    /// over both.
    fn host() -> Fake {
        let fake = Fake::new();
        for (region, node) in [("region0", 1), ("region1", 0)] {
            fake.write(&format!("{BUS}/{region}/numa_node"), &format!("{node}\n"));
            fake.link(&format!("sys/bus/nd/devices/{region}"), &format!("{BUS}/{region}"));
        }
        let disk = format!("{BUS}/region0/namespace0.0/block/pmem0");
        let other = "sys/devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1".to_owned();
        let volume = "sys/devices/virtual/block/dm-0".to_owned();
        for (name, path, number, dax) in [
            ("pmem0", &disk, "259:0", Some(1)),
            ("pmem0p1", &format!("{disk}/pmem0p1"), "259:1", None),
            ("nvme0n1", &other, "259:2", Some(0)),
            ("dm-0", &volume, "254:0", Some(1)),
        ] {
            fake.write(&format!("{path}/dev"), &format!("{number}\n"));
            if let Some(dax) = dax {
                fake.write(&format!("{path}/queue/dax"), &format!("{dax}\n"));
            }
            fake.link(&format!("sys/class/block/{name}"), path);
            fake.link(&format!("sys/dev/block/{number}"), path);
        }
        fake.link(&format!("{volume}/slaves/pmem0"), "sys/class/block/pmem0");
        fake.link(&format!("{volume}/slaves/other"), &format!("{BUS}/region1"));
        let dax = format!("{BUS}/region1/dax1.0");
        fake.write(&format!("{dax}/target_node"), "0\n");
        fake.link("sys/bus/dax/devices/dax1.0", &dax);
        fake
    }

    #[test]
    fn storage_is_on_the_node_of_its_region() {
        let fake = host();
        let roots = fake.roots();
        let mut nodes = StorageNodes::new(&roots);
        let mut node = |name: &str, device| nodes.of(name, device).map(|node| node.0);
        assert_eq!(node("/pmem/a", (259, 0)), Some(1));
        assert_eq!(node("/pmem/b", (259, 1)), Some(1), "a partition");
        assert_eq!(node("/pmem/b", (254, 0)), None, "a volume on both nodes");
        assert_eq!(node("/dev/dax1.0", (0, 5)), Some(0));
        assert_eq!(node("/dev/dax1.0", (259, 0)), Some(1), "a file of this name on a disk");
        assert_eq!(node("/dev/dax9.0", (0, 5)), None, "there is none");
        assert_eq!(node("/shared/a", (0, 37)), None, "of a server");
        assert_eq!(node_of_block(&roots, (259, 1)), Some(NodeId(1)));
    }

    #[test]
    fn what_may_be_storage_is_known_by_device_and_name() {
        let fake = host();
        let storage = Storage::read(&fake.roots());
        for (name, device, expected) in [
            ("/pmem/a", (259, 0), true),
            ("/pmem/a", (259, 1), true),
            ("/data/a", (259, 2), false),
            ("/volume/a", (254, 0), true),
            ("/dev/dax1.0", (0, 5), true),
            ("/dev/shm/dax", (0, 20), false),
        ] {
            assert_eq!(storage.may_have(name, device), expected, "{name}");
        }
        assert!(!storage.is_empty() && Storage::read(&Fake::new().roots()).is_empty());
    }
}
