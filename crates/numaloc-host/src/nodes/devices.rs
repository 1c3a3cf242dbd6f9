//! The nodes that devices are attached to, as sysfs has them (Documentation/ABI/testing/sysfs-bus-pci, `numa_node`).

use crate::{Error, Roots, files::read, nodes::disk};
use numaloc_core::{NodeId, NodeSet};
use std::{
    collections::BTreeSet,
    fmt, fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    str::FromStr,
};

/// Largest depth of devices upon others, such as a VLAN upon a bond upon ports.
const DEPTH: u32 = 8;
/// The major number of NVIDIA's devices, which have no link to their PCI device in sysfs (Documentation/admin-guide/devices.txt).
const NVIDIA: u64 = 195;

/// A device of this host, as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// `device:0000:17:00.0`: the address of a PCI device.
    Pci(String),
    /// `device:/dev/nvidia0`: a device file.
    File(PathBuf),
    /// `iface:eth0`: a network interface.
    Interface(String),
    /// `block:nvme0n1`: a disk or partition.
    Block(String),
    /// `path:/mnt/pmem0`: the disk, or the persistent memory, with the file system of a path.
    Path(PathBuf),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(address) => write!(f, "device:{address}"),
            Self::File(path) => write!(f, "device:{}", path.display()),
            Self::Interface(name) => write!(f, "iface:{name}"),
            Self::Block(name) => write!(f, "block:{name}"),
            Self::Path(path) => write!(f, "path:{}", path.display()),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    /// Reads what [`Device`] has examples of. The domain of a PCI address may be left out, as lspci does.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('/');
        match text.split_once(':') {
            Some(("device", path)) if path.starts_with('/') => Ok(Self::File(path.into())),
            Some(("device", address)) => pci(address).map(Self::Pci).ok_or_else(|| {
                format!("'{address}' is not a PCI address: expected for example device:0000:17:00.0 or device:/dev/nvidia0")
            }),
            Some(("iface", name)) if is_name(name) => Ok(Self::Interface(name.to_owned())),
            Some(("block", name)) if is_name(name) => Ok(Self::Block(name.to_owned())),
            Some(("path", path)) if path.starts_with('/') => Ok(Self::Path(path.into())),
            _ => Err(format!(
                "'{text}' is not a device: expected for example device:0000:17:00.0, device:/dev/nvidia0, iface:eth0, block:nvme0n1 or path:/mnt/data"
            )),
        }
    }
}

/// A PCI address in the form that sysfs has: `0000:17:00.0`.
fn pci(address: &str) -> Option<String> {
    let (rest, function) = address.rsplit_once('.')?;
    let mut parts: Vec<&str> = rest.split(':').collect();
    if parts.len() == 2 {
        parts.insert(0, "0000");
    }
    let [domain, bus, device] = parts[..] else { return None };
    let number = |text: &str, most: u32| {
        let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u32::from_str_radix(text, 16).ok().filter(|number| is_hexadecimal && *number <= most)
    };
    let (domain, bus) = (number(domain, u32::MAX)?, number(bus, 0xff)?);
    let (device, function) = (number(device, 0x1f)?, number(function, 7)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
}

impl Device {
    /// The nodes that it is attached to: one, or several for a device upon others, such as a bond.
    ///
    /// # Errors
    /// [`Error::BadDevice`]: it is not there, or the firmware does not say where it is.
    pub fn nodes(&self, roots: &Roots) -> Result<NodeSet, Error> {
        let bad = |reason: String| Error::BadDevice { device: self.to_string(), reason };
        let class = |class: &str, name: &str| some(roots.sys.join("class").join(class).join(name));
        let found = match self {
            Self::Pci(address) => {
                let path = roots.sys.join("bus/pci/devices").join(address);
                vec![some(path).ok_or_else(|| bad("lspci -D lists the devices".into()))?]
            }
            Self::Interface(name) => {
                vec![class("net", name).ok_or_else(|| bad("ip link lists the interfaces".into()))?]
            }
            Self::Block(name) => {
                vec![class("block", name).ok_or_else(|| bad("lsblk lists the disks".into()))?]
            }
            Self::File(path) => of_file(roots, path, path).map_err(bad)?,
            Self::Path(path) => vec![disk::of_path(roots, path).map_err(bad)?],
        };
        attached(&found).map_err(bad)
    }
}

/// The nodes of a device that a process has opened by the name `name`, and whose file is at `file`, such as in /proc/PID/fd: a container may
/// have another device by that name.
///
/// # Errors
/// Why no node is known.
pub(crate) fn nodes_of_file(roots: &Roots, name: &Path, file: &Path) -> Result<NodeSet, String> {
    attached(&of_file(roots, name, file)?)
}

/// The nodes of devices in sysfs.
pub(super) fn attached(found: &[PathBuf]) -> Result<NodeSet, String> {
    let mut nodes = BTreeSet::new();
    found.iter().for_each(|path| collect(path, DEPTH, &mut nodes));
    match nodes.is_empty() {
        true => Err("the firmware does not report which node it is attached to (numa_node in sysfs is -1 or missing): \
                     find it in the manual of the host, and name the node"
            .into()),
        false => Ok(nodes.into_iter().collect()),
    }
}

fn some(path: PathBuf) -> Option<PathBuf> {
    path.exists().then_some(path)
}

/// The devices in sysfs that a device file stands for, which has this name and is at `file`.
fn of_file(roots: &Roots, name: &Path, file: &Path) -> Result<Vec<PathBuf>, String> {
    // IOMMU groups, by whose number VFIO names its files (Documentation/driver-api/vfio.rst).
    let group = name.to_str().and_then(|name| name.strip_prefix("/dev/vfio/"));
    if let Some(group) = group.filter(|group| !group.contains('/')) {
        let group = group.strip_prefix("noiommu-").unwrap_or(group);
        let group = roots.sys.join("kernel/iommu_groups").join(group).join("devices");
        let devices = read::entries(&group, |name| Some(name.to_owned()));
        if !devices.is_empty() {
            return Ok(devices.into_values().collect());
        }
    }
    let file = fs::metadata(file).map_err(|error| error.to_string())?;
    let kind = match file.file_type() {
        kind if kind.is_char_device() => "char",
        kind if kind.is_block_device() => "block",
        _ => return Err("it is not a device file".into()),
    };
    let (major, minor) = (nix::libc::major(file.rdev()), nix::libc::minor(file.rdev()));
    if u64::from(major) == NVIDIA {
        return nvidia(roots, minor).map(|device| vec![device]);
    }
    let device = roots.sys.join("dev").join(kind).join(format!("{major}:{minor}"));
    some(device).map(|device| vec![device]).ok_or_else(|| "sysfs does not have it".into())
}

/// The PCI device of NVIDIA's device file with this minor number, by its driver's own files.
fn nvidia(roots: &Roots, minor: u32) -> Result<PathBuf, String> {
    let all = read::entries(&roots.proc.join("driver/nvidia/gpus"), |name| Some(name.to_owned()));
    let is_it = |path: &Path| {
        let text = read::text(&path.join("information")).ok()?;
        Some(read::field(&text, "Device Minor")?.parse() == Ok(minor))
    };
    let address = all.into_iter().find(|(_, path)| is_it(path) == Some(true));
    let (address, _) = address.ok_or_else(|| "it is not a GPU: name a PCI address".to_owned())?;
    some(roots.sys.join("bus/pci/devices").join(address)).ok_or("sysfs does not have it".into())
}

/// Adds the nodes of a device: those of the nearest device above it that has any, or else of the devices that it lies upon.
fn collect(path: &Path, depth: u32, nodes: &mut BTreeSet<NodeId>) {
    let Ok(path) = fs::canonicalize(path) else { return };
    // The device of a network interface is a link, and the device of a disk is above it.
    let above = path.ancestors().map(Path::to_owned);
    let own = fs::canonicalize(path.join("device")).ok();
    let own = own.iter().flat_map(|own| own.ancestors()).map(Path::to_owned);
    let node = |path: PathBuf| read::text(&path.join("numa_node")).ok()?.trim().parse().ok();
    if let Some(node) = own.chain(above).find_map(node) {
        nodes.insert(NodeId(node));
        return;
    }
    if depth == 0 {
        return;
    }
    // A bond, VLAN or bridge has its ports as links (net/core/dev.c, `netdev_adjacent_sysfs_add`), a volume its disks.
    let lower = |name: &str| name.starts_with("lower_").then(|| name.to_owned());
    let ports = read::entries(&path, lower);
    let disks = read::entries(&path.join("slaves"), |name| Some(name.to_owned()));
    for lower in ports.values().chain(disks.values()) {
        collect(lower, depth - 1, nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const ROOT: &str = "sys/devices/pci0000:00";

    /// A host with a network card on node 1, a disk on node 0, a card that the firmware says nothing of, and what lies upon them.
    fn host() -> Fake {
        let fake = Fake::new();
        for (address, node) in [("0000:17:00.0", 1), ("0000:03:00.0", 0), ("0000:05:00.0", -1)] {
            fake.write(&format!("{ROOT}/{address}/numa_node"), &format!("{node}\n"));
            fake.link(&format!("sys/bus/pci/devices/{address}"), &format!("{ROOT}/{address}"));
        }
        for (name, address) in [("eth0", "0000:17:00.0"), ("eth1", "0000:05:00.0")] {
            fake.write(&format!("{ROOT}/{address}/net/{name}/mtu"), "1500\n");
            fake.link(&format!("{ROOT}/{address}/net/{name}/device"), &format!("{ROOT}/{address}"));
            fake.link(&format!("sys/class/net/{name}"), &format!("{ROOT}/{address}/net/{name}"));
        }
        let disk = format!("{ROOT}/0000:03:00.0/nvme/nvme0/nvme0n1");
        fake.write(&format!("{disk}/nvme0n1p1/partition"), "1\n");
        fake.link("sys/class/block/nvme0n1", &disk);
        fake.link("sys/class/block/nvme0n1p1", &format!("{disk}/nvme0n1p1"));
        for name in ["bond0", "lo", "vlan"] {
            fake.write(&format!("sys/devices/virtual/net/{name}/mtu"), "1500\n");
            fake.link(&format!("sys/class/net/{name}"), &format!("sys/devices/virtual/net/{name}"));
        }
        let lower = |name: &str, of: &str| {
            fake.link(
                &format!("sys/devices/virtual/net/{name}/lower_{of}"),
                &format!("sys/class/net/{of}"),
            );
        };
        lower("bond0", "eth0");
        lower("bond0", "eth1");
        lower("vlan", "bond0");
        // Two that lie upon each other, as no kernel has them.
        lower("lo", "lo");
        let region = "sys/devices/LNXSYSTM:00/ndbus0/region1";
        fake.write(&format!("{region}/numa_node"), "1\n");
        fake.write(&format!("{region}/namespace1.0/block/pmem1/size"), "8\n");
        fake.link("sys/class/block/pmem1", &format!("{region}/namespace1.0/block/pmem1"));
        fake.write("sys/devices/virtual/block/dm-0/size", "8\n");
        fake.link("sys/class/block/dm-0", "sys/devices/virtual/block/dm-0");
        fake.link("sys/devices/virtual/block/dm-0/slaves/nvme0n1p1", "sys/class/block/nvme0n1p1");
        fake
    }

    fn nodes(fake: &Fake, text: &str) -> Result<String, String> {
        let nodes = text.parse::<Device>()?.nodes(&fake.roots());
        nodes.map(|nodes| nodes.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_device_is_on_the_node_that_sysfs_names() {
        let fake = host();
        for (device, node) in [
            ("device:0000:17:00.0", "1"),
            ("device:17:00.0", "1"),
            ("device:0000:03:00.0", "0"),
            ("iface:eth0", "1"),
            ("iface:bond0", "1"),
            ("iface:vlan", "1"),
            ("block:nvme0n1", "0"),
            ("block:nvme0n1p1", "0"),
            ("block:dm-0", "0"),
            ("block:pmem1", "1"),
        ] {
            assert_eq!(nodes(&fake, device).as_deref(), Ok(node), "{device}");
        }
    }

    #[test]
    fn a_device_without_a_node_or_that_is_not_there_is_refused() {
        let fake = host();
        for (device, why) in [
            ("device:0000:05:00.0", "numa_node"),
            ("iface:eth1", "numa_node"),
            ("iface:lo", "numa_node"),
            ("device:0000:99:00.0", "lspci"),
            ("iface:eth9", "ip link"),
            ("block:sdx", "lsblk"),
            ("device:/no/such/device", "No such file"),
            ("device:/proc/self/status", "not a device file"),
        ] {
            let refused = nodes(&fake, device).expect_err(device);
            assert!(refused.starts_with(device) && refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn gpus_and_groups_of_vfio_are_found_by_their_own_files() {
        let fake = host();
        fake.write(
            "proc/driver/nvidia/gpus/0000:17:00.0/information",
            "Model: x\nDevice Minor: \t 3\n",
        );
        let found = nvidia(&fake.roots(), 3).expect("a GPU");
        assert!(found.ends_with("0000:17:00.0"), "{}", found.display());
        assert!(nvidia(&fake.roots(), 255).is_err(), "nvidiactl");
    }

    #[test]
    fn names_of_devices_are_read_and_written_alike() {
        for text in [
            "device:0000:17:00.0",
            "device:/dev/nvidia0",
            "iface:eth0",
            "block:sda1",
            "path:/mnt/a",
        ] {
            assert_eq!(
                text.parse::<Device>().map(|device| device.to_string()).as_deref(),
                Ok(text)
            );
        }
        let all = [
            "device:",
            "device:17",
            "device:0:0:20.0",
            "device:0:0:1.8",
            "device:+1:0:1.0",
            "iface:",
            "iface:a/b",
            "block:..",
            "eth0",
            "usb:1",
            "path:data",
            "path:",
        ];
        for text in all {
            assert!(text.parse::<Device>().is_err_and(|why| why.contains("expected")), "{text}");
        }
    }
}
