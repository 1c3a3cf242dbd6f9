//! Memory that the driver kmem has made of DAX devices: persistent memory, or memory that is attached by CXL. The kernel adds it to the node
//! that the firmware names for the device, which may be one with DRAM (drivers/dax/kmem.c, `dev_dax_kmem_probe`).

use crate::{Roots, files::read};
use numaloc_core::{DaxMemory, NodeId};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The devices that the driver has, by their nodes and names. Unreadable devices are left out.
pub(crate) fn read(roots: &Roots) -> BTreeMap<NodeId, Vec<DaxMemory>> {
    let mut found = BTreeMap::<NodeId, Vec<DaxMemory>>::new();
    for (node, name, directory) in devices(roots) {
        if let Some(bytes) = read::number(&directory.join("size")) {
            found.entry(node).or_default().push(DaxMemory { name, bytes });
        }
    }
    found
}

/// The devices that the driver has, with their nodes, names and directories.
pub(crate) fn devices(roots: &Roots) -> impl Iterator<Item = (NodeId, String, PathBuf)> {
    let name = |name: &str| name.starts_with("dax").then(|| name.to_owned());
    let all = read::entries(&roots.sys.join("bus/dax/devices"), name).into_iter();
    let memory = all.filter(|(_, directory)| is_memory(directory));
    memory.filter_map(|(name, directory)| {
        // -1: the firmware names no node, and the driver has refused it.
        Some((NodeId(read::number(&directory.join("target_node"))?), name, directory))
    })
}

/// Whether the driver has made memory of a device.
pub(crate) fn is_memory(device: &Path) -> bool {
    fs::read_link(device.join("driver")).is_ok_and(|driver| driver.ends_with("kmem"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::fs::symlink;

    #[test]
    fn devices_of_the_driver_are_memory_of_their_node() {
        let fake = Fake::new();
        assert!(read(&fake.roots()).is_empty());
        let device = |name: &str, driver: Option<&str>, node: &str, size: &str| {
            let directory = format!("sys/bus/dax/devices/{name}");
            fake.write(&format!("{directory}/target_node"), node);
            fake.write(&format!("{directory}/size"), size);
            if let Some(driver) = driver {
                let target = format!("../../../../bus/dax/drivers/{driver}");
                symlink(target, fake.path(&format!("{directory}/driver"))).expect("a link");
            }
        };
        device("dax0.0", Some("kmem"), "0\n", "266338304\n");
        device("dax1.0", Some("device_dax"), "1\n", "4096\n");
        device("dax2.0", None, "1\n", "4096\n");
        device("dax3.0", Some("kmem"), "-1\n", "4096\n");
        device("dax4.0", Some("kmem"), "0\n", "2097152\n");
        let memory = |name: &str, bytes| DaxMemory { name: name.into(), bytes };
        let expected = vec![memory("dax0.0", 266338304), memory("dax4.0", 2 << 20)];
        assert_eq!(read(&fake.roots()), [(NodeId(0), expected)].into());
    }
}
