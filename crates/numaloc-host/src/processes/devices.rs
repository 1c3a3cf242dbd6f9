//! Devices that processes have open and that access their memory themselves. Memory that the device uses is pinned,
//! or slower from other nodes: a placement on several nodes should leave it alone.

use crate::{Roots, nodes::devices::nodes_of_file};
use numaloc_core::{HomeRule, NodeSet, Options, Process};
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Prefixes of the names of such devices: GPUs, VFIO, InfiniBand, and accelerators: devices of the kernel's subsystem
/// accel (drivers/accel/drm_accel.c), Gaudi before that (habanalabs), Trainium and Inferentia (neuron), Ascend
/// (davinci).
const PATHS: [&str; 9] = [
    "/dev/nvidia",
    "/dev/vfio/",
    "/dev/infiniband/",
    "/dev/dri/",
    "/dev/kfd",
    "/dev/accel/",
    "/dev/habanalabs",
    "/dev/neuron",
    "/dev/davinci",
];
/// The most that are named.
const NAMED: usize = 16;

/// The devices that a process has open (/proc/PID/fd), each once. Empty if it has none, has ended or may not be read.
pub fn open_devices(roots: &Roots, pid: i32) -> Vec<String> {
    found(roots, pid).into_keys().take(NAMED).collect()
}

/// The devices by the names that the process has opened them with, and the link of an open file of each.
fn found(roots: &Roots, pid: i32) -> BTreeMap<String, PathBuf> {
    let entries =
        fs::read_dir(roots.proc.join(format!("{pid}/fd"))).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok()?;
        Some((name, entry.path()))
    });
    named.filter(|(name, _)| PATHS.iter().any(|begin| name.starts_with(begin))).collect()
}

/// The process, with the nodes of its devices if the options go by them.
pub(crate) fn with_device_nodes(roots: &Roots, options: &Options, process: Process) -> Process {
    if options.home != HomeRule::Devices {
        return process;
    }
    Process { device_nodes: device_nodes(roots, process.identity.pid), ..process }
}

/// The nodes of the devices that a process has open. Devices that sysfs has on no node, such as the files of a driver
/// as a whole, have none.
pub(crate) fn device_nodes(roots: &Roots, pid: i32) -> NodeSet {
    let all = found(roots, pid);
    let nodes =
        all.iter().filter_map(|(name, link)| nodes_of_file(roots, name.as_ref(), link).ok());
    nodes.fold(NodeSet::new(), |all, nodes| all.or(&nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::fs::symlink;

    #[test]
    fn devices_that_access_memory_are_found_among_open_files() {
        let fake = Fake::new();
        assert!(open_devices(&fake.roots(), 7).is_empty(), "it has ended");
        fake.write("proc/7/fd/x", "");
        let open = [
            (0, "/dev/null"),
            (3, "/dev/nvidia0"),
            (4, "/dev/nvidiactl"),
            (5, "/dev/vfio/12"),
            (6, "/dev/nvidia0"),
            (7, "/dev/infiniband/uverbs0"),
            (8, "/home/dev/nvidia0"),
            (9, "socket:[1]"),
            (10, "/dev/dri/renderD128"),
            (11, "/dev/kfd"),
            (12, "/dev/accel/accel0"),
            (13, "/dev/habanalabs/hl0"),
            (14, "/dev/neuron3"),
            (15, "/dev/davinci1"),
        ];
        for (number, to) in open {
            symlink(to, fake.path(&format!("proc/7/fd/{number}"))).expect("a link");
        }
        let found = open_devices(&fake.roots(), 7);
        let expected = [
            "/dev/accel/accel0",
            "/dev/davinci1",
            "/dev/dri/renderD128",
            "/dev/habanalabs/hl0",
            "/dev/infiniband/uverbs0",
            "/dev/kfd",
            "/dev/neuron3",
            "/dev/nvidia0",
            "/dev/nvidiactl",
            "/dev/vfio/12",
        ];
        assert_eq!(found, expected);
        for number in 100..200 {
            symlink(format!("/dev/vfio/{number}"), fake.path(&format!("proc/7/fd/{number}")))
                .expect("a link");
        }
        assert_eq!(open_devices(&fake.roots(), 7).len(), NAMED);
    }

    #[test]
    fn nodes_of_open_devices_are_read_if_the_home_goes_by_them() {
        let fake = Fake::new();
        for (group, address, node) in [(12, "0000:17:00.0", 1), (13, "0000:99:00.0", -1)] {
            let device = format!("sys/devices/pci0000:00/{address}");
            fake.write(&format!("{device}/numa_node"), &format!("{node}\n"));
            let devices = fake.path(&format!("sys/kernel/iommu_groups/{group}/devices"));
            fs::create_dir_all(&devices).expect("a folder");
            symlink(fake.path(&device), devices.join(address)).expect("a link");
        }
        fake.process(7, "guest", &["0"]);
        fake.write("proc/7/fd/x", "");
        for (number, to) in [
            (3, "/dev/vfio/vfio"),
            (4, "/dev/vfio/13"),
            (5, "/dev/vfio/noiommu-12"),
            (6, "/dev/null"),
        ] {
            symlink(to, fake.path(&format!("proc/7/fd/{number}"))).expect("a link");
        }
        let nodes = |home| {
            let options = Options { home, ..Options::default() };
            let process = fake.space(7).process.clone();
            with_device_nodes(&fake.roots(), &options, process).device_nodes.to_string()
        };
        assert_eq!(nodes(HomeRule::Devices), "1");
        assert_eq!(nodes(HomeRule::Cpus), NodeSet::new().to_string(), "it costs something");
    }
}
