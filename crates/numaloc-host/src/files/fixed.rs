//! Mappings that can never move, by their names in /proc/PID/maps.

use numaloc_core::FixedKind;

/// Prefixes of names without a path: no file of a user can have them (fs/d_path.c, `d_path`, `simple_dname`).
const KERNEL: [&str; 3] = ["anon_inode:", "socket:", "/dmabuf:"];

/// Files below /dev that are memory or page cache: shared memory, pages of zeros, and the usual mounts of hugetlbfs.
const NO_DEVICE: [&str; 3] = ["/dev/zero", "/dev/shm/", "/dev/hugepages"];

/// The kind of a mapping with this name, if it can never move. `device`: major and minor number of its file system.
pub(crate) fn by_name(name: &str, device: (u32, u32)) -> Option<FixedKind> {
    // The mounts that the kernel has for itself have numbers without a device; a disk may hold a file of any name.
    let is_internal = device.0 == 0;
    if is_internal && KERNEL.iter().any(|prefix| name.starts_with(prefix)) {
        return Some(FixedKind::Kernel);
    }
    if is_internal && name == "/secretmem (deleted)" {
        return Some(FixedKind::Secret);
    }
    if !is_internal || !name.starts_with("/dev/") || name.ends_with(" (deleted)") {
        return None;
    }
    match name.strip_prefix("/dev/dax") {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            Some(FixedKind::Dax)
        }
        _ if NO_DEVICE.iter().any(|prefix| name.starts_with(prefix)) => None,
        _ => Some(FixedKind::Device),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_objects_devices_and_secrets_are_known_by_name() {
        for (name, kind) in [
            ("anon_inode:[io_uring]", FixedKind::Kernel),
            ("anon_inode:[perf_event]", FixedKind::Kernel),
            ("anon_inode:kvm-vcpu:0", FixedKind::Kernel),
            ("anon_inode:bpf-map", FixedKind::Kernel),
            ("socket:[4711]", FixedKind::Kernel),
            ("/dmabuf:heap", FixedKind::Kernel),
            ("/secretmem (deleted)", FixedKind::Secret),
            ("/dev/nvidia0", FixedKind::Device),
            ("/dev/vfio/12", FixedKind::Device),
            ("/dev/dax0.0", FixedKind::Dax),
        ] {
            assert_eq!(by_name(name, (0, 5)), Some(kind), "{name}");
        }
        for name in [
            "/dev/zero",
            "/dev/zero (deleted)",
            "/dev/shm/a",
            "/dev/hugepages/guest",
            "/dev/hugepages-1G/guest",
            "/memfd:secretmem (deleted)",
            "/SYSV00000000 (deleted)",
            "/anon_hugepage (deleted)",
            "/srv/dev/nvidia0",
            "",
        ] {
            assert_eq!(by_name(name, (0, 5)), None, "{name}");
        }
        let on_disk = ["/secretmem (deleted)", "/dmabuf:heap", "/dev/nvidia0"];
        on_disk.iter().for_each(|name| assert_eq!(by_name(name, (8, 1)), None, "{name}"));
    }
}
