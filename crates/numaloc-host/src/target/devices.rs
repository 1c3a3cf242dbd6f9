//! Devices that processes have open and that access their memory themselves. What the device uses is pinned, or slower from other nodes:
//! a placement on several nodes should leave it alone.

use crate::Roots;
use std::{collections::BTreeSet, fs};

/// Where such devices begin: GPUs, VFIO, InfiniBand.
const PATHS: [&str; 5] = ["/dev/nvidia", "/dev/vfio/", "/dev/infiniband/", "/dev/dri/", "/dev/kfd"];
/// The most that are named.
const NAMED: usize = 16;

/// The devices that a process has open (/proc/PID/fd), each once. Empty if it has none, has ended or may not be read.
pub fn open_devices(roots: &Roots, pid: i32) -> Vec<String> {
    let entries =
        fs::read_dir(roots.proc.join(format!("{pid}/fd"))).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let paths: BTreeSet<String> = links
        .filter_map(|link| link.into_os_string().into_string().ok())
        .filter(|path| PATHS.iter().any(|begin| path.starts_with(begin)))
        .collect();
    paths.into_iter().take(NAMED).collect()
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
        ];
        for (number, to) in open {
            symlink(to, fake.path(&format!("proc/7/fd/{number}"))).expect("a link");
        }
        let found = open_devices(&fake.roots(), 7);
        let expected = [
            "/dev/dri/renderD128",
            "/dev/infiniband/uverbs0",
            "/dev/kfd",
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
}
