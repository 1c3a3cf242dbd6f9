//! The CPUs and nodes that cgroups may use.

use crate::{Roots, files::read, processes::cgroup};
use numaloc_core::{CpuId, CpuSet};
use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path},
};

/// The files with the effective CPUs and nodes, in v2 and in v1.
const EFFECTIVE: [[&str; 2]; 2] = [
    ["cpuset.cpus.effective", "cpuset.mems.effective"],
    ["cpuset.effective_cpus", "cpuset.effective_mems"],
];

/// The effective cpuset of each of these cgroups: its lists of CPUs and nodes as one text, to be compared with an
/// earlier reading. Paths are as in /proc/PID/cgroup. A cgroup without the controller has the cpuset of the nearest
/// cgroup above that has one. `None`: the cgroup does not exist, or no cgroup has a cpuset.
pub fn cpusets<'a>(roots: &Roots, paths: impl IntoIterator<Item = &'a str>) -> Vec<Option<String>> {
    let hierarchies = cgroup::hierarchies(&roots.cgroup);
    let read = |path: &str| hierarchies.iter().find_map(|hierarchy| cpuset(hierarchy, path));
    paths.into_iter().map(read).collect()
}

fn cpuset(hierarchy: &Path, path: &str) -> Option<String> {
    let relative = Path::new(path.trim_start_matches('/'));
    let normal = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if !normal || !hierarchy.join(relative).is_dir() {
        return None;
    }
    relative.ancestors().find_map(|relative| in_force(&hierarchy.join(relative)))
}

/// CPUs that one cgroup alone has been given: kubelet's static CPU manager gives a container such CPUs, and no cgroup but this one
/// names them. An inherited cpuset names none. Unreadable cgroups are left out.
pub fn exclusive_cpus(roots: &Roots) -> CpuSet {
    let mut named = Vec::new();
    for hierarchy in cgroup::hierarchies(&roots.cgroup) {
        name_cpus(&hierarchy, &mut named);
    }
    let mut names: BTreeMap<CpuId, usize> = BTreeMap::new();
    for cpu in named.iter().flat_map(CpuSet::iter) {
        *names.entry(cpu).or_default() += 1;
    }
    let is_alone = |cpus: &&CpuSet| cpus.iter().all(|cpu| names[&cpu] == 1);
    named.iter().filter(is_alone).fold(CpuSet::new(), |all, cpus| all.or(cpus))
}

/// Collects the cpusets of the cgroups below a directory, each unless a cgroup below it has one, too. Returns whether there is any.
/// A cgroup without the file has none below it: controllers are enabled from the root on (cgroup-v2.rst, "Top-down Constraint").
fn name_cpus(directory: &Path, named: &mut Vec<CpuSet>) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut any = false;
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let directory = entry.path();
        let Ok(text) = read::text(&directory.join("cpuset.cpus")) else { continue };
        let below = name_cpus(&directory, named);
        let own = text.trim().parse().ok().filter(|cpus: &CpuSet| !below && !cpus.is_empty());
        any |= below || own.is_some();
        named.extend(own);
    }
    any
}

fn in_force(directory: &Path) -> Option<String> {
    EFFECTIVE.iter().find_map(|files| {
        let [cpus, mems] = files.map(|file| fs::read_to_string(directory.join(file)).ok());
        Some(format!("{} {}", cpus?.trim_end(), mems?.trim_end()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn read(fake: &Fake, path: &str) -> Option<String> {
        let [only] = &cpusets(&fake.roots(), [path])[..] else { panic!("one for each") };
        only.clone()
    }

    #[test]
    fn a_cgroup_has_its_own_or_that_of_the_one_above() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "1\n");
        fake.write("cgroup/cpuset.cpus.effective", "0-7\n");
        fake.write("cgroup/cpuset.mems.effective", "0-1\n");
        fake.write("cgroup/a/cpuset.cpus.effective", "2-3\n");
        fake.write("cgroup/a/cpuset.mems.effective", "0\n");
        fake.write("cgroup/a/b/c/cgroup.procs", "");
        fake.write("cgroup/d/cgroup.procs", "");
        for (path, expected) in [
            ("/a", Some("2-3 0")),
            ("/a/b/c", Some("2-3 0")),
            ("/d", Some("0-7 0-1")),
            ("/", Some("0-7 0-1")),
            ("/gone", None),
            ("/a/gone", None),
            ("/a/../d", None),
        ] {
            assert_eq!(read(&fake, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn cpus_that_one_cgroup_alone_names_are_exclusive() {
        let fake = Fake::new();
        fake.write("cgroup/cgroup.procs", "1\n");
        assert!(exclusive_cpus(&fake.roots()).is_empty());
        for (path, cpus) in [
            ("pods", ""),
            ("pods/pinned", ""),
            ("pods/pinned/app", "4-5"),
            ("pods/shared", ""),
            ("pods/shared/one", "0-3,6-7"),
            ("pods/shared/other", "0-3,6-7"),
            ("pods/grouped", "8-9"),
            ("pods/grouped/app", "8"),
        ] {
            fake.write(&format!("cgroup/{path}/cpuset.cpus"), &format!("{cpus}\n"));
        }
        fake.write("cgroup/user/cgroup.procs", "2\n");
        assert_eq!(exclusive_cpus(&fake.roots()).to_string(), "4-5,8");
    }

    #[test]
    fn v1_has_it_in_its_hierarchy() {
        let fake = Fake::new();
        for hierarchy in ["cpuset", "memory"] {
            fake.write(&format!("cgroup/{hierarchy}/cgroup.procs"), "1\n");
            fake.write(&format!("cgroup/{hierarchy}/a/cgroup.procs"), "1\n");
        }
        assert_eq!(read(&fake, "/a"), None);
        fake.write("cgroup/cpuset/a/cpuset.effective_cpus", "4\n");
        fake.write("cgroup/cpuset/a/cpuset.effective_mems", "1\n");
        assert_eq!(read(&fake, "/a").as_deref(), Some("4 1"));
    }
}
