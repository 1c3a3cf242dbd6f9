//! Properties of mappings by the file systems of their devices, which /proc/PID/maps shows.
//!
//! All hugetlb memory is on a mount of hugetlbfs, which has pages of one size. Files are on a mount of their own. For all other
//! hugetlb memory (mmap(2) with MAP_HUGETLB, memfd_create(2) with MFD_HUGETLB, shmget(2) with SHM_HUGETLB) the kernel has a mount
//! for each page size (fs/hugetlbfs/inode.c, `hugetlb_file_setup`).
//!
//! Whether device and inode stand for one file is known of file systems on block devices and of those in memory. Elsewhere it is not:
//! - An overlay has a device of its own, and the inode numbers of its layers. So a file in a layer has another device in each mount,
//!   and two files of different layers may have the same device and inode in one mount. Linux 6.1 shows the file in the layer, later
//!   ones that of the overlay (fs/proc/task_mmu.c, `file_user_inode`).
//! - Each subvolume of a btrfs numbers its files from the same number on, and all have the device of the mount in maps.
//! - All files without a file system (`anon_inode:`) have one inode, and what device nodes map has that of the node.
//!
//! Whether memory is page cache or shared memory is a matter of the file system as well: tmpfs may be mounted anywhere, and files may
//! have the name of a segment. And whether a call may have to wait for a server before it moves a page ([`Kind::NetworkFile`]).

use crate::{
    Roots,
    files::{
        file_system::{MeantMounts, MountLine, device_numbers, is_served, mounts},
        maps::{Object, Vma},
        read,
    },
    nodes::{node_memory::pool_directories, storage::DeviceNumber},
    survey::{
        dax::{DaxFiles, Which},
        space::AddressSpace,
    },
};
use nix::sys::{
    memfd::{MFdFlags, memfd_create},
    stat::{SFlag, fstat, stat},
};
use numaloc_core::{FixedKind, Kind};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileSystem {
    /// With pages of this number of bytes.
    Hugetlbfs(u64),
    /// Files in memory: those of a mount, memfds, segments, and shared anonymous memory.
    Tmpfs,
    /// Files are mapped without page cache: by default (`is_default`), or only files with the attribute.
    Dax {
        is_default: bool,
    },
    /// The files in its layers may be mapped without page cache.
    OverDax,
    /// As `Served`, and mapped without page cache.
    ServedDax,
    /// A server, or a program, has the files.
    Served,
    Other,
    /// No mount has the device.
    Unknown,
}

/// Known devices, for as long as one look takes: a file system that is mounted later may get the device of one that
/// was unmounted.
#[derive(Debug)]
pub(crate) struct Mounts {
    file_systems: BTreeMap<DeviceNumber, FileSystem>,
    /// Page sizes of the kernel's pools in bytes, whose own mounts were not looked up yet.
    unknown_pools: Option<Vec<u64>>,
    /// The pid of the process whose mounts were read last.
    read: Option<i32>,
    /// The mount namespaces whose mounts were read, each with the root that they were seen from.
    namespaces: BTreeSet<(u64, PathBuf)>,
    /// Whether those of this process were read.
    knows_own: bool,
    /// The served mounts of this process, and the mounts whose files may have DAX, once an overlay was seen.
    below: Option<[MeantMounts; 2]>,
    dax_files: DaxFiles,
    /// The smallest page size of the kernel's pools in bytes; `None`: it has no pools.
    least: Option<u64>,
}

impl Mounts {
    /// Nothing is looked up yet.
    pub(crate) fn new(roots: &Roots) -> Self {
        let pools = pool_directories(&roots.sys.join("kernel/mm/hugepages"));
        let least = pools.keys().next().copied();
        Self {
            file_systems: BTreeMap::new(),
            unknown_pools: Some(pools.into_keys().collect()),
            read: None,
            namespaces: BTreeSet::new(),
            knows_own: false,
            below: None,
            dax_files: DaxFiles::default(),
            least,
        }
    }

    /// The page size of a mapping in bytes, if it is hugetlb memory.
    fn page_bytes(&mut self, space: &AddressSpace, vma: &Vma) -> Option<u64> {
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

    /// Fills in what a mapping is of, as far as its file system tells more than its line: the object, the kind, the page size, and why its
    /// pages can never move.
    pub(crate) fn tell(&mut self, space: &AddressSpace, vma: &mut Vma) {
        vma.hugetlb_bytes = self.page_bytes(space, vma);
        let Object::File { device, inode } = vma.object else { return };
        vma.fixed = self.fixed(space, vma, device);
        let file_system = self.file_system(space, device);
        // Others have the number 0 (fs/super.c, `get_anon_bdev`).
        let is_on_disk = device.0 != 0;
        vma.kind = match file_system {
            FileSystem::Served | FileSystem::ServedDax => Kind::NetworkFile,
            FileSystem::Hugetlbfs(_) | FileSystem::Tmpfs => Kind::Shmem,
            FileSystem::Other | FileSystem::OverDax | FileSystem::Dax { .. } => Kind::File,
            FileSystem::Unknown if is_on_disk => Kind::File,
            FileSystem::Unknown => vma.kind,
        };
        let is_proved = matches!(file_system, FileSystem::Hugetlbfs(_) | FileSystem::Tmpfs);
        if !is_on_disk && !is_proved && !matches!(file_system, FileSystem::Dax { .. }) {
            vma.object = Object::Compared { inode: Object::low_bits(inode) };
        }
    }

    /// Why the pages of a mapping of a file can never move, if they cannot.
    fn fixed(
        &mut self,
        space: &AddressSpace,
        vma: &Vma,
        device: DeviceNumber,
    ) -> Option<FixedKind> {
        match (vma.fixed, self.file_system(space, device)) {
            // It may be mounted below /dev.
            (_, FileSystem::Hugetlbfs(_)) => None,
            // To look at the file would ask the server.
            (_, FileSystem::Served) => None,
            (_, FileSystem::ServedDax) => Some(FixedKind::Dax),
            // A file of a tmpfs or devtmpfs on /dev is memory, a disk has page cache. A file that cannot be looked at
            // has its name alone.
            (Some(FixedKind::Device), _) => {
                let path = space.path(&format!("map_files/{:x}-{:x}", vma.start, vma.end));
                let is_device = |mode| mode & SFlag::S_IFMT.bits() == SFlag::S_IFCHR.bits();
                let is_file = stat(&path).is_ok_and(|stat| !is_device(stat.st_mode));
                vma.fixed.filter(|_| !is_file)
            }
            (None, FileSystem::Dax { is_default }) => {
                let has_dax = self.dax_files.has_dax(space, vma).unwrap_or(is_default);
                has_dax.then_some(FixedKind::Dax)
            }
            (None, FileSystem::OverDax) => {
                DaxFiles::ask(space, vma).unwrap_or(false).then_some(FixedKind::Dax)
            }
            (fixed, _) => fixed,
        }
    }

    /// Looks up the mounts that the kernel has for itself, once a mapping may be of one of them: it takes a file for each.
    fn learn_internal(&mut self, device: DeviceNumber) {
        if device.0 != 0 {
            return;
        }
        let Some(pools) = self.unknown_pools.take() else { return };
        let of_pool = |bytes: &u64| {
            let size = MFdFlags::from_bits_retain(bytes.trailing_zeros() << HUGE_SHIFT);
            Some((self::device(MFdFlags::MFD_HUGETLB | size)?, FileSystem::Hugetlbfs(*bytes)))
        };
        let memory = internal_device().map(|device| (device, FileSystem::Tmpfs));
        self.file_systems.extend(pools.iter().filter_map(of_pool).chain(memory));
    }

    fn file_system(&mut self, space: &AddressSpace, device: DeviceNumber) -> FileSystem {
        self.learn_internal(device);
        if let Some(known) = self.file_systems.get(&device) {
            return *known;
        }
        // Once for all mappings of a process: many may be on devices that no mount has.
        if self.read != Some(space.pid()) {
            self.read = Some(space.pid());
            let namespace = space.read("ns/mnt", read::namespace).ok().flatten();
            let seen_from = namespace.zip(fs::read_link(space.path("root")).ok());
            // Processes of one namespace, below one root, have the same mounts.
            if seen_from.is_none_or(|seen_from| self.namespaces.insert(seen_from)) {
                let text = space.read("mountinfo", read::text).ok().flatten().unwrap_or_default();
                self.learn(space.roots(), &text);
            }
        }
        // The process may have got the file from another one, in whose namespace it is mounted.
        if !self.knows_own && !self.file_systems.contains_key(&device) {
            self.knows_own = true;
            self.learn(space.roots(), &own(space.roots()));
        }
        self.file_systems.get(&device).copied().unwrap_or(FileSystem::Unknown)
    }

    fn learn(&mut self, roots: &Roots, mountinfo: &str) {
        for mount in mounts(mountinfo) {
            let Some(device) = mount.device() else { continue };
            if self.file_systems.contains_key(&device) {
                continue;
            }
            let file_system = match mount.kind {
                "overlay" => Some(self.overlay(roots, mount.options)),
                _ => file_system(roots, &mount),
            };
            self.file_systems.extend(file_system.map(|file_system| (device, file_system)));
        }
    }

    /// That of an overlay, by the mounts that its layers are on.
    fn overlay(&mut self, roots: &Roots, options: &str) -> FileSystem {
        // The program that mounts the overlays of containers names paths of the host.
        let [served, dax] = self.below.get_or_insert_with(|| {
            let text = own(roots);
            let served = MeantMounts::of(&text, |mount| is_served(mount.kind));
            // A file system may be mounted at very many places.
            let mut known = BTreeMap::new();
            let dax = MeantMounts::of(&text, |mount| {
                let has_dax = || Which::of(roots, mount) != Which::None;
                *known.entry(mount.device.to_owned()).or_insert_with(has_dax)
            });
            [served, dax]
        });
        match () {
            () if served.are_below(options) => FileSystem::Served,
            () if dax.are_below(options) => FileSystem::OverDax,
            () => FileSystem::Other,
        }
    }
}

/// The mountinfo of this process.
fn own(roots: &Roots) -> String {
    read::text(&roots.proc.join("self/mountinfo")).unwrap_or_default()
}

/// MFD_HUGE_SHIFT (include/uapi/linux/memfd.h): the page size is in the bits above.
const HUGE_SHIFT: u32 = 26;

/// The device of the kernel's own mount of tmpfs (mm/shmem.c, `shm_mnt`).
pub(super) fn internal_device() -> Option<DeviceNumber> {
    device(MFdFlags::empty())
}

/// The device of memory that is made with these flags: of a file without a page.
fn device(flags: MFdFlags) -> Option<DeviceNumber> {
    let file = memfd_create("numaloc", flags | MFdFlags::MFD_CLOEXEC).ok()?;
    Some(device_numbers(fstat(&file).ok()?.st_dev))
}

fn file_system(roots: &Roots, mount: &MountLine<'_>) -> Option<FileSystem> {
    Some(match mount.kind {
        "tmpfs" => FileSystem::Tmpfs,
        "hugetlbfs" => {
            let size = mount.options.split(',').find_map(|option| option.strip_prefix("pagesize="));
            FileSystem::Hugetlbfs(bytes(size?)?)
        }
        kind if is_served(kind) => match Which::of(roots, mount) {
            Which::All => FileSystem::ServedDax,
            Which::Some | Which::None => FileSystem::Served,
        },
        _ => match Which::of(roots, mount) {
            Which::All => FileSystem::Dax { is_default: true },
            Which::Some => FileSystem::Dax { is_default: false },
            Which::None => FileSystem::Other,
        },
    })
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
    use numaloc_core::pmd_size;

    const MOUNTS: &str = "\
        22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw\n\
        35 22 0:31 / /dev/hugepages rw,nosuid shared:8 - hugetlbfs hugetlbfs rw,pagesize=2M\n\
        36 22 0:32 / /dev/huge\\040pages rw - hugetlbfs none rw,uid=7,pagesize=1024M,size=4G\n\
        37 22 8:1 / / rw - ext4 /dev/sda1 rw\n\
        38 22 0:33 /data /srv rw shared:9 - btrfs /dev/sdb rw,subvol=/data\n\
        39 22 0:34 / /mnt/t rw - tmpfs t rw,size=1024k,mpol=interleave:0-1\n\
        40 22 259:0 / /pmem rw - ext4 /dev/pmem0 rw,dax=always\n\
        41 22 0:35 / /net rw - nfs4 server:/ rw\n\
        42 22 0:36 / / rw - overlay overlay rw,lowerdir=/layers/a,upperdir=/u\n\
        43 22 259:1 / /inode rw - xfs /dev/pmem1 rw,dax=inode\n\
        44 22 0:37 / /shared rw - virtiofs shared rw,dax=always\n";

    #[test]
    fn mounts_have_a_file_system() {
        let roots = Fake::new().roots();
        let known = |line: MountLine<'_>| Some((line.device()?, file_system(&roots, &line)?));
        let all: BTreeMap<DeviceNumber, FileSystem> = mounts(MOUNTS).filter_map(known).collect();
        let expected = [
            ((0, 20), FileSystem::Other),
            ((0, 31), FileSystem::Hugetlbfs(pmd_size())),
            ((0, 32), FileSystem::Hugetlbfs(1 << 30)),
            ((0, 33), FileSystem::Other),
            ((0, 34), FileSystem::Tmpfs),
            ((8, 1), FileSystem::Other),
            ((259, 0), FileSystem::Dax { is_default: true }),
            ((259, 1), FileSystem::Dax { is_default: false }),
            ((0, 35), FileSystem::Served),
            ((0, 37), FileSystem::ServedDax),
            ((0, 36), FileSystem::Other),
        ];
        assert_eq!(all, expected.into());
        for line in
            ["", "1 2 3", "35 22 0:31 / / rw - hugetlbfs x rw", "a b c:d / / rw - hugetlbfs x y"]
        {
            assert!(mounts(line).filter_map(known).next().is_none(), "{line}");
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
        assert_eq!(bytes(guest), None, "the host has no pools");
        fake.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "1\n");
        assert_eq!(bytes(guest), Some(pmd_size()));
        assert_eq!(bytes(&guest.replace("00:1f", "00:20")), Some(1 << 30));
        assert_eq!(bytes(&guest.replace("00:1f", "00:14")), None);
        assert_eq!(bytes(&guest.replace("00:1f", "00:7f")), None, "it is unknown");
        assert_eq!(bytes(&guest.replace("80000000", "80001000")), None, "no whole huge pages");
    }

    #[test]
    fn what_can_never_move_is_known_by_its_mount_and_its_device() {
        let fake = Fake::new();
        fake.process(100, "db", &["0"]);
        fake.write("proc/100/mountinfo", MOUNTS);
        // The file system has no DAX, and is not a device.
        fake.write("proc/100/map_files/40000000-40001000", "");
        let fixed = |line: &str| {
            let mut vma = parse_line(line).expect("a line");
            Mounts::new(&fake.roots()).tell(&fake.space(100), &mut vma);
            vma.fixed
        };
        let on = |start: &str, device: &str, name: &str| {
            fixed(&format!("{start}000000-{start}001000 rw-s 00000000 {device} 9 {name}"))
        };
        assert_eq!(on("40", "103:00", "/pmem/data"), None, "it has none all the same");
        assert_eq!(on("50", "103:00", "/pmem/data"), Some(FixedKind::Dax), "it cannot be asked");
        assert_eq!(on("50", "103:01", "/inode/data"), None, "it cannot be asked");
        assert_eq!(on("40", "00:25", "/shared/data"), Some(FixedKind::Dax));
        assert_eq!(on("40", "00:23", "/net/data"), None);
        assert_eq!(on("40", "08:01", "/srv/data"), None);
        assert_eq!(on("40", "00:05", "/dev/ring"), None, "it can be looked at");
        assert_eq!(on("50", "00:05", "/dev/nvidia0"), Some(FixedKind::Device));
        assert_eq!(on("50", "00:08", "socket:[9]"), Some(FixedKind::Kernel));
        assert_eq!(fixed("40000000-80000000 rw-s 0 00:1f 7 /dev/huge/a"), None);
    }

    #[test]
    fn the_file_system_decides_what_is_one_file_and_what_is_memory() {
        let fake = Fake::new();
        fake.process(100, "db", &["0"]);
        fake.write("proc/100/mountinfo", MOUNTS);
        let told = |line: &str| {
            let mut vma = parse_line(line).expect("a line");
            Mounts::new(&fake.roots()).tell(&fake.space(100), &mut vma);
            (vma.object, vma.kind)
        };
        let file = |device, inode| Object::File { device, inode };
        let compared = |inode| Object::Compared { inode };
        let line = |device: &str, name: &str| format!("1000-2000 rw-s 0 {device} 257 {name}");
        for (device, name, expected) in [
            ("00:21", "/srv/a", (compared(257), Kind::File)),
            ("00:14", "/dev/shm/a", (compared(257), Kind::File)),
            ("00:22", "/mnt/t/a", (file((0, 34), 257), Kind::Shmem)),
            ("08:01", "/a", (file((8, 1), 257), Kind::File)),
            ("08:01", "/memfd:a", (file((8, 1), 257), Kind::File)),
            ("00:7f", "/a", (compared(257), Kind::File)),
            ("00:23", "/net/a", (compared(257), Kind::NetworkFile)),
            ("00:24", "/usr/a", (compared(257), Kind::File)),
            ("00:7f", "/memfd:a (deleted)", (compared(257), Kind::Shmem)),
        ] {
            assert_eq!(told(&line(device, name)), expected, "{device} {name}");
            let private = line(device, name).replace("rw-s", "rw-p");
            assert_eq!(told(&private), expected, "{device} {name}, private");
        }
        fake.write("proc/self/mountinfo", "50 22 0:37 / /layers rw - fuse.layers layers rw\n");
        assert_eq!(told(&line("00:24", "/usr/a")), (compared(257), Kind::NetworkFile));
        fake.write(
            "proc/self/mountinfo",
            "50 22 259:0 / /layers rw - ext4 /dev/pmem0 rw,dax=always\n",
        );
        assert_eq!(told(&line("00:24", "/usr/a")), (compared(257), Kind::File));
        let memfd = internal_device().expect("a memfd");
        let shown = format!("{:x}:{:x}", memfd.0, memfd.1);
        assert_eq!(told(&line(&shown, "/dev/zero (deleted)")), (file(memfd, 257), Kind::Shmem));
    }

    #[test]
    fn an_overlay_and_its_layer_may_share_pages() {
        let compared = Object::Compared { inode: 257 };
        let layer = |inode| Object::File { device: (8, 1), inode };
        assert!(compared.may_share(layer(257)) && layer(257).may_share(compared));
        assert!(compared.may_share(layer(1 << 62 | 257)) && compared.may_share(compared));
        assert!(!compared.may_share(layer(256)) && !compared.may_share(Object::Anonymous));
        assert!(!layer(257).may_share(Object::File { device: (8, 2), inode: 257 }));
    }
}
