//! Cgroups that have processes and memory of their own, under v2.

use crate::{Error, Roots, files::read, processes::cgroup};
use numaloc_core::{NodeId, live::CountedMemory};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// More cgroups than this are not looked at.
const MOST: usize = 100_000;

/// Less shared memory that no process maps than this is not worth a look at the mappings of processes.
const LEAST: u64 = 1 << 20;

/// The cgroups v2 at or below a path whose memory is accounted by node; their paths below the mount point. None where v1 has
/// the memory controller: its memory.numa_stat has another form, and says nothing of shared memory.
pub fn below(roots: &Roots, path: &str) -> Result<Vec<String>, Error> {
    let top = Path::new(path).strip_prefix(&roots.cgroup).unwrap_or(Path::new(path));
    let top = top.to_string_lossy().into_owned();
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = directory(roots, &top).into_iter().collect();
    let mut seen = 0;
    while let Some(directory) = left.pop() {
        seen += 1;
        if seen > MOST {
            return Err(Error::ManyCgroups { root: roots.cgroup.clone(), most: MOST });
        }
        left.extend(cgroup::children(&directory));
        if directory.join("memory.numa_stat").exists()
            && let Some(path) = name(roots, &directory)
            && is_one_workload(&path)
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Its path as in /proc/PID/cgroup. `None` if it cannot be written on a command line.
fn name(roots: &Roots, directory: &Path) -> Option<String> {
    let below = directory.strip_prefix(cgroup::unified_root(roots)?).ok()?.to_str()?;
    let path = format!("/{below}");
    (!path.chars().any(char::is_control)).then_some(path)
}

/// A login session is many programs that have nothing in common, and so is the root.
fn is_one_workload(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    !(last.is_empty() || last.starts_with("session-") && last.ends_with(".scope"))
}

/// The directory of a cgroup v2 that exists.
pub fn directory(roots: &Roots, path: &str) -> Option<PathBuf> {
    cgroup::unified(roots, path).filter(|path| path.is_dir())
}

/// The processes whose memory is charged to the cgroup itself: its own, and those of cgroups below it that have no memory
/// controller.
pub fn members(directory: &Path) -> Vec<i32> {
    let (mut pids, mut left) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = left.pop() {
        let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        pids.extend(
            text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0),
        );
        left.extend(
            cgroup::children(&directory).filter(|path| !path.join("memory.numa_stat").exists()),
        );
    }
    pids.sort_unstable();
    pids
}

/// Anonymous and shared memory by node: what a migration moves. Page cache that no process maps is not, nor are
/// files. Shared memory that no process maps counts as far as the processes have attached it, `attached` bytes of
/// which are asked for where there is enough of it.
///
/// The counts are summed up from those of the CPUs now and then: each may be off by some MiB (mm/memcontrol.c,
/// `memory_numa_stat_show`).
pub fn resident(directory: &Path, attached: impl FnOnce() -> u64) -> BTreeMap<NodeId, u64> {
    let text = read::text(&directory.join("memory.numa_stat")).unwrap_or_default();
    let [anon, shmem, mapped] = ["anon", "shmem", "file_mapped"].map(|kind| of_kind(&text, kind));
    let mut counted = CountedMemory { nodes: anon, ..CountedMemory::default() };
    for (node, bytes) in shmem {
        *counted.nodes.entry(node).or_default() += bytes;
        let unmapped = bytes.saturating_sub(mapped.get(&node).copied().unwrap_or(0));
        counted.unmapped.insert(node, unmapped);
    }
    // Files of a tmpfs that no process maps are shmem as well.
    let is_much = counted.unmapped.values().sum::<u64>() >= LEAST;
    let mut resident = counted.with_attached(if is_much { attached() } else { 0 }).nodes;
    resident.retain(|_, bytes| *bytes > 0);
    resident
}

/// Hugetlb memory by size of a page and by node: hugetlb.2MB.numa_stat, and so on, from Linux 5.17.
pub fn hugetlb(directory: &Path) -> BTreeMap<u64, BTreeMap<NodeId, u64>> {
    let files = read::entries(directory, |name| {
        size(name.strip_prefix("hugetlb.")?.strip_suffix(".numa_stat")?)
    });
    let read = |(size, path): (u64, PathBuf)| {
        let text = read::text(&path).ok()?;
        // "total=0 N0=0 N1=0"; a kernel that counts children too has a line `hierarchical_total` after it.
        let mut nodes: BTreeMap<_, _> = cgroup::by_node(text.lines().next()?).collect();
        nodes.retain(|_, bytes| *bytes > 0);
        (!nodes.is_empty()).then_some((size, nodes))
    };
    files.into_iter().filter_map(read).collect()
}

/// `64KB`, `2MB`, `1GB` (mm/hugetlb_cgroup.c, `mem_fmt`).
fn size(text: &str) -> Option<u64> {
    let units = [("KB", 10), ("MB", 20), ("GB", 30)];
    units.into_iter().find_map(|(unit, shift)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(1 << shift)
    })
}

fn of_kind(text: &str, kind: &str) -> BTreeMap<NodeId, u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let values = lines.find(|(name, _)| *name == kind).map_or("", |(_, values)| values);
    cgroup::by_node(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[test]
    fn what_a_migration_moves_is_counted() {
        let fake = Fake::new();
        let stat = "anon N0=8192 N8=4096\nfile N0=99999 N8=0\nfile_mapped N0=4096 N8=0\nshmem N0=12288 N8=4096\n";
        fake.write("cgroup/a/memory.numa_stat", stat);
        fake.write("cgroup/a/hugetlb.2MB.numa_stat", "total=4194304 N0=4194304 N8=0\n");
        fake.write("cgroup/a/hugetlb.1GB.numa_stat", "total=0 N0=0 N8=0\n");
        fake.write("cgroup/a/hugetlb.2MB.max", "max\n");
        let directory = fake.path("cgroup/a");
        let on = |pairs: &[(u32, u64)]| -> BTreeMap<NodeId, u64> {
            pairs.iter().map(|&(node, bytes)| (NodeId(node), bytes)).collect()
        };
        let unasked = || -> u64 { panic!("for so little") };
        assert_eq!(resident(&directory, unasked), on(&[(0, 8192 + 4096), (8, 4096)]));
        // PostgreSQL's buffers, which a session has filled that has ended.
        let mib = 1 << 20;
        let stat =
            format!("anon N0=4096 N8=0\nfile_mapped N0=0 N8={mib}\nshmem N0=0 N8={}\n", 9 * mib);
        fake.write("cgroup/b/memory.numa_stat", &stat);
        let of = |attached| resident(&fake.path("cgroup/b"), || attached);
        assert_eq!(of(200 * mib), on(&[(0, 4096), (8, 9 * mib)]));
        assert_eq!(of(0), on(&[(0, 4096), (8, mib)]), "files that no process has attached");
        assert_eq!(hugetlb(&directory), [(2 << 20, on(&[(0, 4 << 20)]))].into());
        assert!(resident(&fake.path("cgroup/none"), unasked).is_empty());
    }

    #[test]
    fn cgroups_without_memory_of_their_own_belong_to_the_one_above() {
        let fake = Fake::new();
        fake.write("cgroup/a/cgroup.procs", "7\n");
        fake.write("cgroup/a/b/cgroup.procs", "8\n0\n");
        fake.write("cgroup/a/c/cgroup.procs", "9\n");
        fake.write("cgroup/a/c/memory.numa_stat", "anon N0=1\n");
        assert_eq!(members(&fake.path("cgroup/a")), [7, 8]);
    }

    #[test]
    fn sessions_the_root_and_names_for_no_command_line_are_not_workloads() {
        let fake = Fake::new();
        let stat =
            |path: &str| fake.write(&format!("cgroup{path}/memory.numa_stat"), "anon N0=1\n");
        fake.write("cgroup/cgroup.procs", "");
        for path in ["", "/a", "/a/b c", "/user/session-1.scope", "/bad\u{1b}[2J"] {
            stat(path);
        }
        assert_eq!(below(&fake.roots(), "/").unwrap(), ["/a", "/a/b c"]);
        assert_eq!(below(&fake.roots(), "/a/b c").unwrap(), ["/a/b c"]);
        assert!(below(&fake.roots(), "/none").unwrap().is_empty());
    }
}
