//! Facts about the host that decide how well a migration goes, for a diagnosis.

pub use crate::limits::capabilities::Capabilities;

use crate::{
    Roots,
    files::{procfs_mount, read},
    limits::capabilities,
    nodes::node_memory::pool_directories,
    numa_balancing,
    views::obstacles::has_foreign_cgroups,
};
use numaloc_core::HugePool;
use procfs::MountEntry;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The cgroup versions that are mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// No cgroup file system is mounted at all.
    None,
    /// Hierarchies of cgroup v1, and no unified one.
    V1,
    /// The unified hierarchy, and none of cgroup v1.
    V2,
    /// Hierarchies of v1, and the unified one beside them.
    Hybrid,
}

impl CgroupVersion {
    /// Stable name for machines and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A setting as the kernel shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSetting {
    /// Where the setting is read and written.
    pub path: PathBuf,
    /// Its text without the line's end; none when it cannot be read.
    pub value: Option<String>,
}

/// Facts about the host. `None` means that the kernel does not have the file or does not show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// The kernel's release as uname(1) prints it (/proc/sys/kernel/osrelease).
    pub kernel_release: Option<String>,
    /// /proc/sys/kernel/numa_balancing: 0 off, bit 0 normal, bit 1 memory tiering.
    pub numa_balancing: Option<u32>,
    /// The chosen word of transparent_hugepage/enabled: always, madvise, never.
    pub thp_enabled: Option<String>,
    /// The chosen word of transparent_hugepage/defrag.
    pub thp_defrag: Option<String>,
    /// The chosen word of transparent_hugepage/hugepages-*kB/enabled by size in bytes (from Linux 6.8).
    pub mthp_enabled: BTreeMap<u64, String>,
    /// The cgroup versions that are mounted.
    pub cgroups: CgroupVersion,
    /// Effective capabilities of this process (CapEff in /proc/self/status).
    pub capabilities: Capabilities,
    /// Option hidepid of the mounted proc, as it is written (`2`, `invisible`).
    pub hidepid: Option<String>,
    /// Whether the mounted proc shows processes alone (its option subset=pid).
    pub has_processes_alone: bool,
    /// Whether this process is in a cgroup namespace of its own, in which the cgroups of others have no names.
    pub has_foreign_cgroups: bool,
    /// Settings of kernel-side copy offload that this kernel has.
    pub offload: Vec<KernelSetting>,
    /// Whether the kernel measures pressure (PSI): off by default on RHEL, and with psi=0.
    pub pressure: bool,
    /// Swap in bytes (SwapTotal in /proc/meminfo).
    pub swap_bytes: u64,
    /// hugetlb pools of the whole machine, by page size.
    pub huge_pools: Vec<HugePool>,
}

/// Directories whose files steer copy offload: Alibaba Cloud Linux; the upstream series with its module dcbm; an
/// earlier version of it.
const OFFLOAD: [&str; 3] = ["kernel/mm/migrate", "module/dcbm/parameters", "kernel/dcbm"];

/// Reads what can be read; what cannot is left out.
pub fn read(roots: &Roots) -> HostFacts {
    let thp = roots.sys.join("kernel/mm/transparent_hugepage");
    let mounts = procfs_mount::mounts(&roots.proc);
    HostFacts {
        kernel_release: line(&roots.proc.join("sys/kernel/osrelease")),
        numa_balancing: numa_balancing::read(roots).ok().flatten(),
        thp_enabled: chosen(&thp.join("enabled")),
        thp_defrag: chosen(&thp.join("defrag")),
        mthp_enabled: mthp(&thp),
        cgroups: cgroup_version(&mounts),
        capabilities: capabilities::read(roots),
        hidepid: procfs_mount::hidepid(&mounts, &roots.proc),
        has_processes_alone: procfs_mount::has_processes_alone(&mounts, &roots.proc),
        has_foreign_cgroups: has_foreign_cgroups(roots),
        offload: OFFLOAD.iter().flat_map(|name| knobs(roots.sys.join(name))).collect(),
        // Where it is off at boot, the files exist and reading them fails (kernel/sched/psi.c, `psi_show`).
        pressure: read::text(&roots.proc.join("pressure/cpu")).is_ok(),
        swap_bytes: swap_bytes(roots),
        huge_pools: huge_pools(roots),
    }
}

/// A file's text without the space around it.
fn line(path: &Path) -> Option<String> {
    read::text(path).ok().map(|text| text.trim().to_owned())
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    line(path)?.parse().ok()
}

/// The word in brackets of `always [madvise] never`.
fn chosen(path: &Path) -> Option<String> {
    let text = line(path)?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn mthp(thp: &Path) -> BTreeMap<u64, String> {
    let sizes = pool_directories(thp).into_iter();
    sizes.filter_map(|(bytes, path)| Some((bytes, chosen(&path.join("enabled"))?))).collect()
}

fn cgroup_version(mounts: &[MountEntry]) -> CgroupVersion {
    let mounted = |kind| mounts.iter().any(|mount| mount.fs_vfstype == kind);
    match (mounted("cgroup"), mounted("cgroup2")) {
        (false, false) => CgroupVersion::None,
        (true, false) => CgroupVersion::V1,
        (false, true) => CgroupVersion::V2,
        (true, true) => CgroupVersion::Hybrid,
    }
}

/// Names in a directory, in order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn knobs(directory: PathBuf) -> impl Iterator<Item = KernelSetting> {
    let paths = names(&directory).into_iter().map(move |name| directory.join(name));
    paths.filter(|path| path.is_file()).map(|path| KernelSetting { value: line(&path), path })
}

fn swap_bytes(roots: &Roots) -> u64 {
    let text = read::text(&roots.proc.join("meminfo")).unwrap_or_default();
    read::kib(&text, "SwapTotal").unwrap_or(0)
}

fn huge_pools(roots: &Roots) -> Vec<HugePool> {
    let pools = pool_directories(&roots.sys.join("kernel/mm/hugepages")).into_iter();
    let pool = |(page_bytes, path): (u64, PathBuf)| {
        let free_pages = number(&path.join("free_hugepages"))?;
        Some(HugePool {
            page_bytes,
            total_pages: number(&path.join("nr_hugepages"))?,
            free_pages,
            unreserved_pages: free_pages
                .saturating_sub(number(&path.join("resv_hugepages")).unwrap_or(0)),
        })
    };
    pools.filter_map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn with_mounts(text: &str) -> HostFacts {
        let fake = Fake::new();
        let text = text.replace("PROC", &fake.path("proc").display().to_string());
        fake.write("proc/self/mounts", &text);
        read(&fake.roots())
    }

    #[test]
    fn an_empty_tree_gives_no_facts() {
        let facts = read(&Fake::new().roots());
        assert_eq!(facts.kernel_release, None);
        assert_eq!(facts.cgroups, CgroupVersion::None);
        assert_eq!(facts.capabilities, Capabilities::default());
        assert!(facts.offload.is_empty() && facts.huge_pools.is_empty());
    }

    #[test]
    fn mounts_tell_cgroups_and_hidepid() {
        let v2 = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        let v1 = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        assert_eq!(with_mounts(v2).cgroups, CgroupVersion::V2);
        assert_eq!(with_mounts(v1).cgroups, CgroupVersion::V1);
        assert_eq!(with_mounts(&format!("{v1}{v2}")).cgroups, CgroupVersion::Hybrid);
        let hidden = with_mounts("proc PROC proc rw,hidepid=invisible 0 0\n");
        assert_eq!(hidden.hidepid.as_deref(), Some("invisible"));
        assert_eq!(with_mounts("proc PROC proc rw,hidepid=off 0 0\n").hidepid, None);
        let alone = with_mounts("proc PROC proc rw,subset=pid 0 0\n");
        assert!(alone.has_processes_alone && !hidden.has_processes_alone);
        assert_eq!(with_mounts("proc /elsewhere proc rw,hidepid=2 0 0\n").hidepid, None);
    }

    #[test]
    fn settings_are_read() {
        let fake = Fake::new();
        let thp = "sys/kernel/mm/transparent_hugepage";
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-31-amd64\n"),
            ("proc/sys/kernel/numa_balancing", "1\n"),
            (&format!("{thp}/enabled"), "always [madvise] never\n"),
            (&format!("{thp}/hugepages-64kB/enabled"), "always [inherit] madvise never\n"),
            ("proc/self/status", "Name:\tx\nCapEff:\t0000000000880004\n"),
            ("proc/meminfo", "MemTotal: 9 kB\nSwapTotal:       1024 kB\n"),
            ("sys/kernel/mm/migrate/dma_migrate_enabled", "1\n"),
            ("sys/module/dcbm/parameters/offloading", "N\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n"),
        ] {
            fake.write(path, text);
        }
        let facts = read(&fake.roots());
        assert_eq!(facts.kernel_release.as_deref(), Some("6.1.0-31-amd64"));
        assert_eq!(facts.numa_balancing, Some(1));
        assert_eq!(facts.thp_enabled.as_deref(), Some("madvise"));
        assert_eq!(facts.thp_defrag, None);
        assert_eq!(facts.mthp_enabled, BTreeMap::from([(64 << 10, "inherit".to_owned())]));
        let capabilities = Capabilities {
            sys_ptrace: true,
            sys_nice: true,
            sys_admin: false,
            dac_read_search: true,
            fowner: false,
            sys_resource: false,
        };
        assert_eq!(facts.capabilities, capabilities);
        let values: Vec<_> =
            facts.offload.iter().filter_map(|knob| knob.value.as_deref()).collect();
        assert_eq!(values, ["1", "N"]);
        assert!(!facts.pressure);
        fake.write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        assert!(read(&fake.roots()).pressure);
        assert_eq!(facts.swap_bytes, 1 << 20);
        let pool =
            HugePool { page_bytes: 1 << 30, total_pages: 2, free_pages: 1, unreserved_pages: 1 };
        assert_eq!(facts.huge_pools, [pool]);
    }
}
