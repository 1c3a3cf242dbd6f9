//! Cgroups: v1, v2 and both at once (hybrid), found below one mount point.

use crate::{
    Error, Roots,
    files::{globs, read},
    processes::process,
};
use numaloc_core::{NodeId, live::CountedMemory, page_size};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, ErrorKind},
    path::{Component, Path, PathBuf},
};

/// The processes of a cgroup and of its children. `path` may begin with a slash, with the mount point, or with the
/// mount point and a v1 hierarchy. If no such cgroup exists, `*` and `?` in a component stand for other characters,
/// and all cgroups that match are meant.
pub(crate) fn processes(roots: &Roots, path: &str) -> Result<BTreeSet<i32>, Error> {
    for directories in find(roots, path)? {
        let processes = below(roots, directories)?;
        // Under v1 a cgroup may exist in one hierarchy while its processes are listed in another one.
        if !processes.is_empty() {
            return Ok(processes);
        }
    }
    Ok(BTreeSet::new())
}

/// The memory of a cgroup and its children by node, as memory.numa_stat counts it; of all cgroups that are meant, as in [`processes`].
/// `None` if the cgroup does not exist or its memory is not accounted.
pub fn numa_stat(roots: &Roots, path: &str) -> Option<CountedMemory> {
    let counted = |directories: Vec<PathBuf>| -> Vec<CountedMemory> {
        directories.iter().filter_map(|directory| numa_stat_of(directory)).collect()
    };
    let found = find(roots, path).ok()?.into_iter().map(counted).find(|found| !found.is_empty())?;
    let mut all = CountedMemory::default();
    found.iter().for_each(|memory| all.add(memory));
    Some(all)
}

/// The same of the cgroup in a directory.
pub(crate) fn numa_stat_of(directory: &Path) -> Option<CountedMemory> {
    let text = fs::read_to_string(directory.join("memory.numa_stat")).ok()?;
    Some(parse_numa_stat(&text))
}

/// v2: one line for each kind, in bytes (mm/memcontrol.c, `memory_stats`). `file` has shared memory and mapped files as well, which are
/// processes' memory; as shared memory may be mapped, too, the larger of both counts. v1: in pages; `anon` has shared memory
/// (`memcg_numa_stat_show`: by LRU list), and lines with `hierarchical_` include the children.
fn parse_numa_stat(text: &str) -> CountedMemory {
    let lines =
        text.lines().filter_map(|line| line.split_once([' ', '=']).map(|(kind, _)| (kind, line)));
    let lines: BTreeMap<&str, &str> = lines.collect();
    let of = |kind: &str, unit: u64| -> BTreeMap<NodeId, u64> {
        let values = lines.get(kind).and_then(|line| line.split_once(' ')).map_or("", |it| it.1);
        by_node(values).map(|(node, value)| (node, value.saturating_mul(unit))).collect()
    };
    let prefix = ["hierarchical_", ""]
        .into_iter()
        .find(|prefix| lines.contains_key(&*format!("{prefix}total")));
    if let Some(prefix) = prefix {
        let of = |kind: &str| of(&format!("{prefix}{kind}"), page_size());
        return CountedMemory { nodes: of("anon"), cache: of("file"), ..CountedMemory::default() };
    }
    let (mut nodes, mut cache) = (of("anon", 1), of("file", 1));
    let (mapped, shmem) = (of("file_mapped", 1), of("shmem", 1));
    let mut unmapped = BTreeMap::new();
    for (node, file) in &mut cache {
        let [mapped, shmem] = [&mapped, &shmem].map(|of| of.get(node).copied().unwrap_or(0));
        let in_use = mapped.max(shmem).min(*file);
        *file -= in_use;
        *nodes.entry(*node).or_default() += in_use;
        if in_use > mapped {
            unmapped.insert(*node, in_use - mapped);
        }
    }
    CountedMemory { nodes, cache, unmapped }
}

/// The numbers by node in a line of a cgroup's numa_stat: `N0=0 N1=0`.
pub(crate) fn by_node(values: &str) -> impl Iterator<Item = (NodeId, u64)> {
    let pairs = values.split_whitespace().filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(node, value)| {
        Some((NodeId(node.strip_prefix('N')?.parse().ok()?), value.parse().ok()?))
    })
}

/// The path of a process's cgroup v2, counted from the root cgroup (cgroups(7), /proc/PID/cgroup).
pub(crate) fn of(roots: &Roots, pid: i32) -> Option<String> {
    let text = read::text(&roots.proc.join(pid.to_string()).join("cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A cgroup outside the reader's cgroup namespace shows as a path with `..`.
    let normal = Path::new(path).components().all(|part| part != Component::ParentDir);
    normal.then(|| path.to_owned())
}

/// The root of the v2 hierarchy: the mount point, or `unified` in it beside v1. `None` if there is only v1.
pub(crate) fn unified_root(roots: &Roots) -> Option<PathBuf> {
    // With v1 the mount point is a tmpfs, in which hierarchies of v1 are directories like any other.
    let places = [roots.cgroup.clone(), roots.cgroup.join("unified")];
    places.into_iter().find(|place| is_cgroup(place))
}

/// The directory of a cgroup v2, whether or not it exists. `None` if there is only v1.
pub(crate) fn unified(roots: &Roots, path: &str) -> Option<PathBuf> {
    Some(unified_root(roots)?.join(path.trim_start_matches('/')))
}

/// The directories of a cgroup, or of all cgroups that match: by hierarchy, in the order in which hierarchies are to be
/// asked.
fn find(roots: &Roots, path: &str) -> Result<Vec<Vec<PathBuf>>, Error> {
    let root = &roots.cgroup;
    let outside = || Error::CgroupOutside { path: path.into(), root: root.clone() };
    let below_mount = Path::new(path).strip_prefix(root).ok();
    let mut relative = PathBuf::new();
    for component in below_mount.unwrap_or(Path::new(path)).components() {
        match component {
            Component::Normal(name) => relative.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    let missing = || Error::NoCgroup { path: path.into(), root: root.clone() };
    // An empty name must not mean the root cgroup, which holds every process.
    if relative.as_os_str().is_empty() && !path.starts_with('/') {
        return Err(missing());
    }
    let whole = below_mount.is_some().then(|| root.clone());
    let mut found = Vec::new();
    for hierarchy in whole.into_iter().chain(hierarchies(root)) {
        let directory = hierarchy.join(&relative);
        if !is_cgroup(&directory) {
            let all = matching(&hierarchy, &relative)?;
            found.extend(Some(all).filter(|all| !all.is_empty()));
            continue;
        }
        let inside = |directory: PathBuf| {
            fs::canonicalize(&hierarchy).is_ok_and(|hierarchy| directory.starts_with(hierarchy))
        };
        if !fs::canonicalize(&directory).is_ok_and(inside) {
            return Err(outside());
        }
        found.push(vec![directory]);
    }
    if found.is_empty() {
        let elsewhere = below_mount.is_none() && path.starts_with('/') && Path::new(path).exists();
        return Err(if elsewhere { outside() } else { missing() });
    }
    Ok(found)
}

/// The cgroups of a hierarchy whose paths match one with globs, in ascending order; none for a path without. Symbolic links are not
/// followed.
///
/// # Errors
/// [`Error::ManyCgroups`].
fn matching(hierarchy: &Path, relative: &Path) -> Result<Vec<PathBuf>, Error> {
    let is_one = |directory: &Path| {
        let is_directory = fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
        is_directory && is_cgroup(directory)
    };
    let many = |_| Error::ManyCgroups { root: hierarchy.into(), most: globs::PATHS };
    globs::matches(hierarchy, relative, is_one, &|| false).map_err(many)
}

/// The mounted hierarchies: with v2 alone, that one; else those of v1 and the v2 one beside them, cpuset first, then
/// memory, then the others.
pub(crate) fn hierarchies(root: &Path) -> Vec<PathBuf> {
    if is_cgroup(root) {
        return vec![root.into()];
    }
    let rank = |name: &str| match name {
        _ if name.split(',').any(|controller| controller == "cpuset") => 0,
        _ if name.split(',').any(|controller| controller == "memory") => 1,
        _ => 2,
    };
    let entries = fs::read_dir(root).into_iter().flatten().filter_map(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ranked: BTreeSet<(u8, String)> = names.map(|name| (rank(&name), name)).collect();
    let directories = ranked.into_iter().map(|(_, name)| root.join(name));
    directories.filter(|directory| is_cgroup(directory)).collect()
}

/// The directories of the cgroups directly below one; none if it has been removed.
pub(crate) fn children(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    // The type of the entry itself: symbolic links are not followed.
    let children = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    children.map(|entry| entry.path())
}

fn is_cgroup(directory: &Path) -> bool {
    directory.join("cgroup.procs").exists()
}

/// The processes in the directories of cgroups and in all cgroups below them. Cgroups that are removed meanwhile are
/// left out.
fn below(roots: &Roots, mut directories: Vec<PathBuf>) -> Result<BTreeSet<i32>, Error> {
    let mut processes = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        processes.extend(direct(roots, &directory)?);
        directories.extend(children(&directory));
    }
    Ok(processes)
}

fn direct(roots: &Roots, directory: &Path) -> Result<BTreeSet<i32>, Error> {
    let path = directory.join("cgroup.procs");
    match ids(&path) {
        // A threaded cgroup has threads only; their processes are members of a cgroup above.
        Err(error) if error.raw_os_error() == Some(nix::libc::EOPNOTSUPP) => {
            let path = directory.join("cgroup.threads");
            let threads = present(ids(&path), path)?;
            Ok(threads.into_iter().filter_map(|tid| process::tgid(roots, tid).ok()).collect())
        }
        processes => present(processes, path),
    }
}

/// The ids in a list; a process of another pid namespace shows as 0.
fn ids(path: &Path) -> io::Result<BTreeSet<i32>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).filter(|&id| id > 0).collect())
}

/// Treats a cgroup that has been removed as an empty one.
fn present(ids: io::Result<BTreeSet<i32>>, path: PathBuf) -> Result<BTreeSet<i32>, Error> {
    match ids {
        Err(error)
            if error.kind() == ErrorKind::NotFound
                || error.raw_os_error() == Some(nix::libc::ENODEV) =>
        {
            Ok(BTreeSet::new())
        }
        ids => ids.map_err(|source| Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests;
