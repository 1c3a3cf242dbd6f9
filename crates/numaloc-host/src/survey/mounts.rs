//! What is known of mappings by the file systems of their devices, which /proc/PID/maps shows.
//!
//! All hugetlb memory is on a mount of hugetlbfs, which has pages of one size. Files are on a mount of their own. For all other
//! hugetlb memory (mmap(2) with MAP_HUGETLB, memfd_create(2) with MFD_HUGETLB, shmget(2) with SHM_HUGETLB) the kernel has a mount
//! for each page size (fs/hugetlbfs/inode.c, `hugetlb_file_setup`).
//!
//! Each subvolume of a btrfs numbers its files from the same number on. stat(2) returns a device for each of them
//! (fs/btrfs/inode.c, `btrfs_getattr`), maps that of the mount.

use crate::{
    Roots,
    files::{
        maps::{Object, Vma},
        read,
    },
    nodes::node_memory::pool_directories,
    survey::space::AddressSpace,
};
use nix::sys::{
    memfd::{MFdFlags, memfd_create},
    stat::{fstat, major, minor, stat},
};
use std::collections::BTreeMap;

/// Major and minor number of a file system, as stat(2) and /proc/PID/maps have them.
type DeviceNumber = (u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    /// With pages of so many bytes.
    Hugetlbfs(u64),
    Btrfs,
    Other,
}

/// What is known of devices, for as long as one look takes: a file system that is mounted later may get the device of one that
/// was unmounted.
#[derive(Debug)]
pub(crate) struct Mounts {
    file_systems: BTreeMap<DeviceNumber, FileSystem>,
    /// The pid of the process whose mounts were read last, and whether those of this process were.
    read: (Option<i32>, bool),
    /// The smallest page size of the kernel's pools in bytes; `None`: it has no pools.
    least: Option<u64>,
}

impl Mounts {
    /// Those that the kernel has for itself.
    pub(crate) fn new(roots: &Roots) -> Self {
        let pools = pool_directories(&roots.sys.join("kernel/mm/hugepages"));
        let least = pools.keys().next().copied();
        let of_pool = |bytes: &u64| {
            let size = MFdFlags::from_bits_retain(bytes.trailing_zeros() << HUGE_SHIFT);
            Some((device(MFdFlags::MFD_HUGETLB | size)?, FileSystem::Hugetlbfs(*bytes)))
        };
        let other = device(MFdFlags::empty()).map(|device| (device, FileSystem::Other));
        let file_systems = pools.keys().filter_map(of_pool).chain(other).collect();
        Self { file_systems, read: (None, false), least }
    }

    /// The page size of a mapping in bytes, if it is hugetlb memory.
    pub(crate) fn page_bytes(&mut self, space: &AddressSpace, vma: &Vma) -> Option<u64> {
        let (Object::File { device, .. } | Object::Segment { device, .. }) = vma.object else {
            return None;
        };
        // Libraries are most often on devices with such a number, too, but none of them fills huge pages.
        let bounds = vma.start | vma.end | vma.offset;
        if device.0 != 0 || self.least.is_none_or(|least| !bounds.is_multiple_of(least)) {
            return None;
        }
        match self.file_system(space, device) {
            FileSystem::Hugetlbfs(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The object of a mapping, by a number of the device that no other file with the same inode has. That of a subvolume cannot be
    /// found out without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, nor once the mapping is gone.
    pub(crate) fn object(&mut self, space: &AddressSpace, vma: &Vma) -> Object {
        match vma.object {
            // Pages that are mapped private are compared one by one.
            Object::File { device, inode }
                if vma.shared
                    && device.0 == 0
                    && self.file_system(space, device) == FileSystem::Btrfs =>
            {
                let path = space.path(&format!("map_files/{:x}-{:x}", vma.start, vma.end));
                let device = stat(&path).map_or(device, |stat| numbers(stat.st_dev));
                Object::File { device, inode }
            }
            object => object,
        }
    }

    fn file_system(&mut self, space: &AddressSpace, device: DeviceNumber) -> FileSystem {
        if let Some(known) = self.file_systems.get(&device) {
            return *known;
        }
        // Once for all mappings of a process: many may be on devices that no mount has.
        if self.read.0 != Some(space.pid()) {
            self.read.0 = Some(space.pid());
            self.learn(&space.read("mountinfo", read::text).ok().flatten().unwrap_or_default());
        }
        // The process may have got the file from another one, in whose namespace it is mounted.
        if !self.read.1 && !self.file_systems.contains_key(&device) {
            self.read.1 = true;
            let own = read::text(&space.roots().proc.join("self/mountinfo"));
            self.learn(&own.unwrap_or_default());
        }
        self.file_systems.get(&device).copied().unwrap_or(FileSystem::Other)
    }

    fn learn(&mut self, mountinfo: &str) {
        for (device, file_system) in mountinfo.lines().filter_map(mount) {
            self.file_systems.entry(device).or_insert(file_system);
        }
    }
}

/// MFD_HUGE_SHIFT (include/uapi/linux/memfd.h): the page size is in the bits above.
const HUGE_SHIFT: u32 = 26;

/// The device of memory that is made with these flags: of a file without a page.
fn device(flags: MFdFlags) -> Option<DeviceNumber> {
    let file = memfd_create("numaloc", flags | MFdFlags::MFD_CLOEXEC).ok()?;
    Some(numbers(fstat(&file).ok()?.st_dev))
}

fn numbers(device: u64) -> DeviceNumber {
    (major(device) as u32, minor(device) as u32)
}

/// The device and the file system of a line of mountinfo (proc_pid_mountinfo(5)).
fn mount(line: &str) -> Option<(DeviceNumber, FileSystem)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let mut words = file_system.split(' ');
    let file_system = match words.next() {
        Some("btrfs") => FileSystem::Btrfs,
        Some("hugetlbfs") => {
            let options = words.nth(1)?;
            let size = options.split(',').find_map(|option| option.strip_prefix("pagesize="));
            FileSystem::Hugetlbfs(bytes(size?)?)
        }
        _ => FileSystem::Other,
    };
    Some((device, file_system))
}

/// `2M`, `1024M`, `64K` (fs/hugetlbfs/inode.c, `hugetlbfs_show_options`).
fn bytes(size: &str) -> Option<u64> {
    let (digits, unit) = size.split_at_checked(size.len().checked_sub(1)?)?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fake::Fake, files::maps::parse_line};
    use numaloc_core::HUGE;

    const MOUNTS: &str = "\
        22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n\
        35 22 0:31 / /dev/hugepages rw,nosuid shared:8 - hugetlbfs hugetlbfs rw,pagesize=2M\n\
        36 22 0:32 / /dev/huge\\040pages rw - hugetlbfs none rw,uid=7,pagesize=1024M,size=4G\n\
        37 22 8:1 / / rw - ext4 /dev/sda1 rw\n\
        38 22 0:33 /data /srv rw shared:9 - btrfs /dev/sdb rw,subvol=/data\n";

    #[test]
    fn mounts_have_a_file_system() {
        let all: BTreeMap<DeviceNumber, FileSystem> = MOUNTS.lines().filter_map(mount).collect();
        let expected = [
            ((0, 20), FileSystem::Other),
            ((0, 31), FileSystem::Hugetlbfs(HUGE)),
            ((0, 32), FileSystem::Hugetlbfs(1 << 30)),
            ((0, 33), FileSystem::Btrfs),
            ((8, 1), FileSystem::Other),
        ];
        assert_eq!(all, expected.into());
        for line in
            ["", "1 2 3", "35 22 0:31 / / rw - hugetlbfs x rw", "a b c:d / / rw - hugetlbfs x y"]
        {
            assert_eq!(mount(line), None, "{line}");
        }
    }

    #[test]
    fn files_of_a_hugetlbfs_are_known_by_their_device() {
        let fake = Fake::new();
        fake.process(100, "qemu", &["0"]);
        fake.write("proc/100/mountinfo", MOUNTS);
        let bytes = |line: &str| {
            let mut mounts = Mounts::new(&fake.roots());
            mounts.page_bytes(&fake.space(100), &parse_line(line).expect("a line"))
        };
        let guest = "40000000-80000000 rw-s 00000000 00:1f 77 /dev/hugepages/guest";
        assert_eq!(bytes(guest), None, "there are no pools");
        fake.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1\n");
        assert_eq!(bytes(guest), Some(HUGE));
        assert_eq!(bytes(&guest.replace("00:1f", "00:20")), Some(1 << 30));
        assert_eq!(bytes(&guest.replace("00:1f", "00:14")), None);
        assert_eq!(bytes(&guest.replace("00:1f", "00:7f")), None, "nobody knows it");
        assert_eq!(bytes(&guest.replace("80000000", "80001000")), None, "no whole huge pages");
    }

    #[test]
    fn files_of_subvolumes_are_known_by_the_device_that_stat_returns() {
        let fake = Fake::new();
        fake.process(100, "db", &["0"]);
        fake.write("proc/100/mountinfo", MOUNTS);
        fake.write("proc/100/map_files/40000000-40001000", "");
        let object = |line: &str| {
            let mut mounts = Mounts::new(&fake.roots());
            mounts.object(&fake.space(100), &parse_line(line).expect("a line"))
        };
        let file = "40000000-40001000 rw-s 00000000 00:21 257 /srv/a";
        let found = stat(&fake.path("proc/100/map_files/40000000-40001000")).expect("it is there");
        let found = Object::File { device: numbers(found.st_dev), inode: 257 };
        assert_eq!(object(file), found);
        for as_shown in [
            file.replace("00:21", "00:14"),
            file.replace("rw-s", "rw-p"),
            file.replace("40001000", "40002000"),
        ] {
            assert_eq!(object(&as_shown), parse_line(&as_shown).expect("a line").object);
        }
    }
}
