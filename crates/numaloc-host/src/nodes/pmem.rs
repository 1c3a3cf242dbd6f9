//! Namespaces of persistent memory (`/sys/bus/nd`, as `ndctl list` shows them) and DAX devices (`/sys/bus/dax`, as `daxctl list` does).

use crate::{Roots, files::read, nodes::dax_memory::is_memory};
use numaloc_core::{NodeId, StorageDevice, StorageMode, page_size};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Bytes of a descriptor (include/linux/mm_types.h, `struct page`; with memory of a size that is no multiple of it, the kernel is refused).
const DESCRIPTOR: u64 = 64;

/// All of them, namespaces first, by name. Parts that are not understood are left out, and so are namespaces that are empty.
pub(crate) fn read(roots: &Roots) -> Vec<StorageDevice> {
    let nd = roots.sys.join("bus/nd/devices");
    let named =
        |prefix: &'static str| move |name: &str| name.starts_with(prefix).then(|| name.to_owned());
    let namespaces = read::entries(&nd, named("namespace")).into_iter();
    let devices = read::entries(&roots.sys.join("bus/dax/devices"), named("dax")).into_iter();
    let namespaces = namespaces.filter_map(|(name, path)| namespace(&nd, name, &path));
    namespaces.chain(devices.filter_map(|(name, path)| dax(name, &path))).collect()
}

fn word(path: &Path) -> Option<String> {
    let text = read::text(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn bytes(directory: &Path) -> Option<u64> {
    word(&directory.join("size"))?.parse().ok().filter(|&bytes| bytes > 0)
}

/// The node in a file of a device, or of the nearest one above it that has one.
fn node(device: &Path, file: &str) -> Option<NodeId> {
    let device = fs::canonicalize(device).ok()?;
    let node = |path: &Path| word(&path.join(file))?.parse().ok().map(NodeId);
    device.ancestors().find_map(node)
}

fn namespace(nd: &Path, name: String, directory: &Path) -> Option<StorageDevice> {
    let bytes = bytes(directory)?;
    // The device that has claimed it: pfn0.0, dax0.0 or btt0.0.
    let holder = word(&directory.join("holder")).filter(|holder| !holder.contains('/'));
    let holder: Option<PathBuf> = holder.map(|holder| nd.join(holder));
    // drivers/nvdimm/namespace_devs.c, `mode_show`.
    let mode = match word(&directory.join("mode"))?.as_str() {
        "raw" => StorageMode::Raw,
        "safe" => StorageMode::Sector,
        "memory" => StorageMode::Fsdax,
        "dax" => StorageMode::Devdax,
        _ => return None,
    };
    let has_pages = matches!(mode, StorageMode::Fsdax | StorageMode::Devdax);
    // Without a device of its own its driver takes DRAM (drivers/nvdimm/pmem.c, `pmem_attach_disk`).
    let map = holder.as_ref().map_or(Some("ram".to_owned()), |holder| word(&holder.join("mode")));
    let descriptor_bytes = match has_pages && map.as_deref() == Some("ram") {
        true => bytes / page_size() * DESCRIPTOR,
        false => 0,
    };
    let disks = holder.iter().map(PathBuf::as_path).chain([directory]);
    let disk = disks.flat_map(|path| {
        read::entries(&path.join("block"), |name| Some(name.to_owned())).into_keys()
    });
    Some(StorageDevice {
        disk: { disk }.next(),
        node: node(directory, "numa_node"),
        target_node: node(directory, "target_node"),
        name,
        mode,
        bytes,
        descriptor_bytes,
    })
}

fn dax(name: String, directory: &Path) -> Option<StorageDevice> {
    Some(StorageDevice {
        bytes: bytes(directory)?,
        node: node(directory, "numa_node"),
        target_node: node(directory, "target_node"),
        mode: if is_memory(directory) { StorageMode::SystemRam } else { StorageMode::Devdax },
        disk: None,
        // Those of a namespace's are counted there.
        descriptor_bytes: 0,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    const BUS: &str = "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus1";

    fn files(fake: &Fake, directory: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            fake.write(&format!("{directory}/{name}"), &format!("{text}\n"));
        }
    }

    fn named(device: &StorageDevice) -> (&str, &str, u64, u64) {
        (&device.name, device.mode.name(), device.bytes, device.descriptor_bytes)
    }

    /// As Linux 6.12 shows a range that it was told to take for persistent memory (memmap=), and a DIMM of 256 MiB of which a
    /// character device was made.
    fn recorded() -> Fake {
        let fake = Fake::new();
        let legacy = "sys/devices/platform/e820_pmem/ndbus0/region0";
        let namespace = format!("{legacy}/namespace0.0");
        let nodes = [("numa_node", "0"), ("target_node", "0")];
        files(&fake, legacy, &nodes);
        files(&fake, &namespace, &nodes);
        files(&fake, &namespace, &[("mode", "memory"), ("size", "402653184"), ("holder", "")]);
        fake.write(&format!("{namespace}/block/pmem0/size"), "786432\n");
        files(&fake, &format!("{legacy}/pfn0.0"), &[("mode", "none"), ("namespace", "")]);
        let region = format!("{BUS}/region1");
        files(&fake, &region, &[("numa_node", "1"), ("target_node", "2")]);
        let namespace = format!("{region}/namespace1.0");
        files(&fake, &namespace, &[("mode", "dax"), ("size", "268435456"), ("holder", "dax1.0")]);
        let holder = format!("{region}/dax1.0");
        files(&fake, &holder, &[("mode", "ram"), ("size", "266338304")]);
        let device = format!("{holder}/dax1.0");
        files(&fake, &device, &[("size", "266338304"), ("target_node", "2"), ("numa_node", "1")]);
        fake.link(&format!("{device}/driver"), "sys/bus/dax/drivers/device_dax");
        for (name, to) in [
            ("namespace0.0", format!("{legacy}/namespace0.0")),
            ("pfn0.0", format!("{legacy}/pfn0.0")),
            ("region0", legacy.to_owned()),
            ("namespace1.0", namespace),
            ("dax1.0", holder),
        ] {
            fake.link(&format!("sys/bus/nd/devices/{name}"), &to);
        }
        fake.link("sys/bus/dax/devices/dax1.0", &device);
        fake
    }

    #[test]
    fn namespaces_and_devices_are_those_that_ndctl_and_daxctl_list() {
        let fake = recorded();
        let all = read(&fake.roots());
        let expected = [
            ("namespace0.0", "fsdax", 402_653_184, 98_304 * 64),
            ("namespace1.0", "devdax", 268_435_456, 65_536 * 64),
            ("dax1.0", "devdax", 266_338_304, 0),
        ];
        assert_eq!(all.iter().map(named).collect::<Vec<_>>(), expected);
        let nodes = |device: &StorageDevice| (device.node, device.target_node);
        let on = |node, target| (Some(NodeId(node)), Some(NodeId(target)));
        assert_eq!(all.iter().map(nodes).collect::<Vec<_>>(), [on(0, 0), on(1, 2), on(1, 2)]);
        assert_eq!((all[0].disk.as_deref(), &all[1].disk), (Some("pmem0"), &None));
        // The driver kmem has it, and the descriptors are on the storage itself.
        let device = format!("{BUS}/region1/dax1.0");
        fs::remove_file(fake.path(&format!("{device}/dax1.0/driver"))).expect("a link");
        fake.link(&format!("{device}/dax1.0/driver"), "sys/bus/dax/drivers/kmem");
        fake.write(&format!("{device}/mode"), "pmem\n");
        let all = read(&fake.roots());
        assert_eq!(named(&all[1]), ("namespace1.0", "devdax", 268_435_456, 0));
        assert_eq!(named(&all[2]), ("dax1.0", "system-ram", 266_338_304, 0));
    }

    #[test]
    fn what_is_empty_or_not_understood_is_left_out() {
        let fake = recorded();
        let namespace = format!("{BUS}/region1/namespace1.0");
        for (file, text, left) in [
            ("size", "0", 2),
            ("size", "x", 2),
            ("size", "268435456", 3),
            ("mode", "future", 2),
            ("mode", "raw", 3),
            ("holder", "../../../../etc", 3),
            ("holder", "missing", 3),
        ] {
            fake.write(&format!("{namespace}/{file}"), text);
            assert_eq!(read(&fake.roots()).len(), left, "{file} {text}");
        }
        assert!(read(&Fake::new().roots()).is_empty());
    }
}
