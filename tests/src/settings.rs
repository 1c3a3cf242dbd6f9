//! Settings of the host that tests and benchmarks change and restore.

use crate::until;
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
};

/// The kernel's own balancing (Documentation/admin-guide/sysctl/kernel.rst).
pub const NUMA_BALANCING: &str = "/proc/sys/kernel/numa_balancing";

/// Size of the hugetlb pages of scenes: kernels with base pages of 4, 16 and 64 KiB have such pages.
pub const HUGETLB_BYTES: u64 = 2 << 20;

/// A file of /proc/sys or /sys that has another value until this is dropped.
#[derive(Debug)]
pub struct Setting {
    path: PathBuf,
    before: String,
}

impl Setting {
    /// Writes `value`.
    ///
    /// # Panics
    /// The file does not exist, or the kernel refuses the value.
    pub fn set(path: impl Into<PathBuf>, value: &str) -> Self {
        let path = path.into();
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        // Some files list all values with the chosen one in brackets. Only that one can be written back.
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let before = chosen.map_or(text.clone(), |(chosen, _)| chosen.to_owned());
        fs::write(&path, value).unwrap_or_else(|e| panic!("{} = {value}: {e}", path.display()));
        Self { path, before }
    }

    /// Writes `value` if the kernel has this file.
    pub fn set_if_present(path: &str, value: &str) -> Option<Self> {
        Path::new(path).exists().then(|| Self::set(path, value))
    }

    /// Keeps the host still while memory is watched: no other program moves pages, and free memory of a node stays
    /// free.
    pub fn still_host() -> [Self; 3] {
        [Self::numa_balancing(false), Self::steady_watermarks(), Self::short_free_lists()]
    }

    /// Keeps free memory in the pieces that it is in: khugepaged sleeps, and the kernel compacts nothing of its own accord.
    pub fn no_compaction() -> [Self; 2] {
        let khugepaged = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
        let proactiveness = "/proc/sys/vm/compaction_proactiveness";
        [Self::set(khugepaged, "3600000"), Self::set(proactiveness, "0")]
    }

    /// Makes huge pages of all memory that may become one, without pauses (Documentation/admin-guide/mm/transhuge.rst).
    pub fn eager_khugepaged() -> [Self; 4] {
        let of =
            |name, value| Self::set(format!("/sys/kernel/mm/transparent_hugepage/{name}"), value);
        [
            of("enabled", "always"),
            of("khugepaged/scan_sleep_millisecs", "0"),
            of("khugepaged/alloc_sleep_millisecs", "0"),
            of("khugepaged/pages_to_scan", "1000000"),
        ]
    }

    /// Turns the kernel's own balancing on or off. If it is on, it moves the control processes' pages too.
    pub fn numa_balancing(on: bool) -> Self {
        Self::set(NUMA_BALANCING, if on { "1" } else { "0" })
    }

    /// Keeps the lists of free pages short that each CPU has for itself (Documentation/admin-guide/sysctl/vm.rst). They may hold
    /// tens of MiB of a node, which do not count as free, and which other CPUs cannot have.
    pub fn short_free_lists() -> Self {
        Self::set("/proc/sys/vm/percpu_pagelist_high_fraction", "1000000")
    }

    /// Has watermarks stay where they are. The kernel raises them by up to 150 % when it has to mix movable and other pages
    /// (mm/page_alloc.c, `boost_watermark`), until kswapd has run. A node that was filled up to a raised watermark has a hundred
    /// MiB free a moment later.
    pub fn steady_watermarks() -> Self {
        let setting = Self::set("/proc/sys/vm/watermark_boost_factor", "0");
        // Whatever is written, this takes back what has been raised (`__setup_per_zone_wmarks`).
        let path = "/proc/sys/vm/min_free_kbytes";
        let reserved = fs::read_to_string(path).expect("all kernels have it");
        fs::write(path, reserved).expect("root");
        setting
    }

    /// Reserves hugetlb pages of [`HUGETLB_BYTES`] on a node.
    ///
    /// # Panics
    /// The node has not enough memory for the pages.
    pub fn huge_pool(node: u32, pages: u64) -> Self {
        let path = format!("{}/nr_hugepages", hugetlb_pool(node));
        let setting = Self::set(&path, &pages.to_string());
        let got = fs::read_to_string(&path).expect("just written");
        assert_eq!(got.trim(), pages.to_string(), "node {node} has no room for huge pages");
        setting
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let result = fs::write(&self.path, &self.before);
        assert!(result.is_ok() || thread::panicking(), "{self:?}: {result:?}");
    }
}

/// The directory of a node's pool of hugetlb pages of [`HUGETLB_BYTES`].
fn hugetlb_pool(node: u32) -> String {
    let kib = HUGETLB_BYTES >> 10;
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB")
}

/// A count of a node's pool, such as `free_hugepages`.
///
/// # Panics
/// The node has no pool.
pub fn hugetlb_pages(node: u32, count: &str) -> u64 {
    let text = fs::read_to_string(format!("{}/{count}", hugetlb_pool(node))).expect("a pool");
    text.trim().parse().expect("a number")
}

/// A cgroup that lives as long as this value. In v1 it is one of the cpuset hierarchy.
#[derive(Debug)]
pub struct Cgroup {
    root: PathBuf,
    name: String,
}

impl Cgroup {
    /// Makes a cgroup below the root.
    pub fn new(name: &str) -> Self {
        let mount = PathBuf::from("/sys/fs/cgroup");
        let is_v2 = mount.join("cgroup.controllers").exists();
        let root = if is_v2 { mount } else { mount.join("cpuset") };
        let cgroup = Self { root, name: format!("numaloc-{name}") };
        fs::create_dir(cgroup.path()).unwrap_or_else(|error| panic!("{cgroup:?}: {error}"));
        if !is_v2 {
            // A v1 cpuset accepts no process before it has CPUs and nodes.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                let all = fs::read_to_string(cgroup.root.join(file)).expect("the root's");
                cgroup.write(file, all.trim());
            }
        }
        cgroup
    }

    pub fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// The target that names it.
    pub fn target(&self) -> numaloc_host::Target {
        numaloc_host::Target::Cgroup(format!("/{}", self.name))
    }

    /// Writes one of its files.
    pub fn write(&self, file: &str, value: &str) {
        let path = self.path().join(file);
        fs::write(&path, value).unwrap_or_else(|e| panic!("{} = {value}: {e}", path.display()));
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Killed processes take a moment to leave.
        let gone = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
        if !thread::panicking() {
            until("the cgroup is empty", || {
                fs::remove_dir(self.path()).map_or_else(gone, |()| true)
            });
        }
    }
}
