//! Finds the cgroups of containers by the names that runtimes give to them.

use crate::{Error, Roots, cgroup};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// How many cgroups of a hierarchy are looked at, at most. A host with very many pods has some ten thousand.
const MOST: usize = 200_000;

/// The cgroup of each container by its id, as a path as in /proc/PID/cgroup; or an error, if no cgroup or several
/// cgroups may be meant. Ids have to be full ones, so that no id is the end of another. Under v1 the cgroup in the
/// cpuset hierarchy is taken; if there is none, the one in the memory hierarchy, and then those in the others. Cgroups
/// of the same name inside a container's cgroup are parts of it.
///
/// # Errors
/// [`Error::Stopped`] if `stop` returns true; [`Error::ManyCgroups`].
pub fn containers(
    roots: &Roots,
    ids: &BTreeSet<String>,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, Result<String, Error>>, Error> {
    let mut found: BTreeMap<String, Result<String, Error>> = BTreeMap::new();
    for hierarchy in cgroup::hierarchies(&roots.cgroup) {
        let sought = ids.iter().filter(|id| !found.contains_key(*id));
        let sought: BTreeSet<&str> = sought.map(String::as_str).collect();
        if sought.is_empty() {
            break;
        }
        for (id, path) in walk(&hierarchy, &sought, MOST, stop)? {
            let several = |other: &String| Error::SeveralCgroups {
                id: id.to_owned(),
                cgroups: [other.clone(), path.clone()],
            };
            let entry = match found.get(id) {
                None => Ok(path),
                Some(Ok(other)) => Err(several(other)),
                Some(Err(_)) => continue,
            };
            found.insert(id.to_owned(), entry);
        }
    }
    for id in ids {
        let none = || Err(Error::NoContainer { id: id.clone(), root: roots.cgroup.clone() });
        found.entry(id.clone()).or_insert_with(none);
    }
    Ok(found)
}

/// All cgroups of these containers in a hierarchy, without those inside another cgroup of the same container.
fn walk<'a>(
    hierarchy: &Path,
    sought: &BTreeSet<&'a str>,
    most: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(&'a str, String)>, Error> {
    let mut found = Vec::new();
    let mut seen = 0;
    // Directories still to read, each with the ids of the containers that it lies within.
    let mut directories: Vec<(PathBuf, Vec<&'a str>)> = vec![(PathBuf::new(), Vec::new())];
    while let Some((relative, within)) = directories.pop() {
        if stop() {
            return Err(Error::Stopped);
        }
        let entries = fs::read_dir(hierarchy.join(&relative)).into_iter().flatten();
        // The type of the entry itself: symbolic links are not followed.
        let children = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok());
        for name in children {
            seen += 1;
            if seen > most {
                return Err(Error::ManyCgroups { root: hierarchy.into(), most });
            }
            let path = relative.join(&name);
            let id = container(&name).and_then(|id| sought.get(id).copied());
            let mut within = within.clone();
            if let Some(id) = id.filter(|id| !within.contains(id)) {
                found.push((id, format!("/{}", path.display())));
                within.push(id);
            }
            directories.push((path, within));
        }
    }
    // Directory entries have no order of meaning, but messages should be the same each time.
    found.sort_unstable();
    Ok(found)
}

/// The id in the name of a container's cgroup. With systemd the name is `cri-containerd-ID.scope`, `docker-ID.scope`,
/// `crio-ID.scope` or `libpod-ID.scope`; without systemd it is `ID`, `crio-ID` or `libpod-ID`. It is
/// `SLICE:cri-containerd:ID` if a runtime does not know that it should ask systemd. The monitors of crio and podman
/// (conmon) have names like those of their containers; they are left out.
fn container(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    match name.rsplit_once(['-', ':']) {
        None => Some(name),
        Some((runtime, _)) if runtime.ends_with("conmon") => None,
        Some((_, id)) => Some(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    /// A host with these cgroups.
    fn host(hierarchies: &[&str], cgroups: &[String]) -> Fake {
        let fake = Fake::new();
        for hierarchy in hierarchies {
            fake.write(&format!("cgroup/{hierarchy}/cgroup.procs"), "1\n");
        }
        for cgroup in cgroups {
            fake.write(&format!("cgroup/{cgroup}/cgroup.procs"), "");
        }
        fake
    }

    fn find(fake: &Fake, digits: &[char]) -> Vec<Result<String, String>> {
        let ids = digits.iter().map(|&digit| id(digit)).collect();
        let found = containers(&fake.roots(), &ids, &|| false).expect("it can be read");
        assert!(found.keys().eq(&ids));
        found.into_values().map(|path| path.map_err(|error| error.to_string())).collect()
    }

    #[test]
    fn whatever_runtime_and_driver_has_named_it() {
        let a = id('a');
        for name in [
            format!("kubepods.slice/kubepods-pod1.slice/cri-containerd-{a}.scope"),
            format!("kubepods.slice/kubepods-burstable.slice/x.slice/crio-{a}.scope"),
            format!("system.slice/docker-{a}.scope"),
            format!("machine.slice/libpod-{a}.scope"),
            format!("user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{a}.scope"),
            format!("kubepods/besteffort/pod1/{a}"),
            format!("kubepods/pod1/crio-{a}"),
            format!("docker/{a}"),
            format!("system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{a}"),
        ] {
            let others = [
                format!("machine.slice/libpod-conmon-{a}.scope"),
                format!("kubepods/pod1/crio-conmon-{a}"),
                format!("docker/{}", id('b')),
                format!("docker/{}", &a[..63]),
                format!("docker/{a}{a}"),
            ];
            let fake = host(&[""], &[&others[..], std::slice::from_ref(&name)].concat());
            assert_eq!(find(&fake, &['a']), [Ok(format!("/{name}"))]);
        }
    }

    #[test]
    fn what_is_within_a_container_is_part_of_it_unless_it_is_another_one() {
        let [a, b] = ['a', 'b'].map(id);
        let outer = format!("machine.slice/libpod-{a}.scope");
        let inner = format!("{outer}/container/libpod-payload-{a}");
        let nested = format!("{outer}/container/docker/{b}");
        let fake = host(&[""], &[inner, nested.clone()]);
        assert_eq!(find(&fake, &['a', 'b']), [Ok(format!("/{outer}")), Ok(format!("/{nested}"))]);
    }

    #[test]
    fn two_of_one_name_are_refused_by_name() {
        let a = id('a');
        let [one, other] = ["docker", "kubepods"].map(|top| format!("{top}/{a}"));
        let fake = host(&[""], &[one, other, format!("docker/{}", id('b'))]);
        let found = find(&fake, &['a', 'b', 'c']);
        let refused = found[0].as_ref().expect_err("it is ambiguous");
        assert!(refused.contains(&format!("/docker/{a} and /kubepods/{a}")), "{refused}");
        assert!(found[1].is_ok());
        let refused = found[2].as_ref().expect_err("it is not there");
        assert!(refused.starts_with(&format!("no cgroup of container {}", id('c'))), "{refused}");
    }

    #[test]
    fn v1_goes_by_cpuset_and_memory_first() {
        let [a, b] = ['a', 'b'].map(id);
        let cgroups = [
            format!("cpuset/docker/{a}"),
            format!("memory/elsewhere/{a}"),
            format!("memory/docker/{b}"),
            format!("cpu,cpuacct/elsewhere/{b}"),
            format!("systemd/system.slice/docker-{}.scope", id('c')),
        ];
        let fake = host(&["cpuset", "memory", "cpu,cpuacct", "systemd"], &cgroups);
        let expected = [
            Ok(format!("/docker/{a}")),
            Ok(format!("/docker/{b}")),
            Ok(format!("/system.slice/docker-{}.scope", id('c'))),
        ];
        assert_eq!(find(&fake, &['a', 'b', 'c']), expected);
    }

    #[test]
    fn it_looks_no_further_than_it_may() {
        let fake = host(&[""], &(0..9).map(|n| format!("top/c{n}")).collect::<Vec<_>>());
        let root = fake.path("cgroup");
        let sought = BTreeSet::from(["a"]);
        assert!(walk(&root, &sought, 10, &|| false).is_ok());
        let error = walk(&root, &sought, 9, &|| false).expect_err("there are ten");
        assert!(matches!(error, Error::ManyCgroups { most: 9, .. }), "{error}");
        let error = walk(&root, &sought, 10, &|| true).expect_err("it was stopped");
        assert!(matches!(error, Error::Stopped), "{error}");
    }
}
