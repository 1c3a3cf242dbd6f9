//! Finds the cgroups of containers by the names that runtimes give to them.
//!
//! Users may make cgroups below those that are delegated to them, with any name. So a cgroup that root has made goes before one that
//! somebody else may have made, except the user who asks, and one outside of all containers before one inside of another container.

use crate::{Error, Roots, target::cgroup};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// How many cgroups of a hierarchy are looked at, at most. A host with very many pods has some ten thousand.
const MOST: usize = 200_000;

/// How far the name of a cgroup can be believed; the first is best. A cgroup was made by whoever may write to the one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    /// Made by the owner of the hierarchy, which is root.
    Host,
    /// Made by the user who asks, or by root for that user.
    Own,
    /// As the first, but within the cgroup of another container. It may be a container there, or a name that its root has chosen.
    Container,
    /// Perhaps made by another user: by a runtime without root, or to be mistaken for another one.
    User,
}

/// The cgroup of each container by its id, as a path as in /proc/PID/cgroup; or an error, if no cgroup or several
/// cgroups of the best origin may be meant. `own`: the user who asks. Ids have to be full ones, so that no id is the end of another. Under v1 the cgroup in the
/// cpuset hierarchy is taken; if there is none, the one in the memory hierarchy, and then those in the others. Cgroups
/// of the same name inside a container's cgroup are parts of it.
///
/// # Errors
/// [`Error::Stopped`] if `stop` returns true; [`Error::ManyCgroups`].
pub fn containers(
    roots: &Roots,
    ids: &BTreeSet<String>,
    own: Option<u32>,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, Result<String, Error>>, Error> {
    let mut found: BTreeMap<&str, (Origin, Vec<String>)> = BTreeMap::new();
    for hierarchy in cgroup::hierarchies(&roots.cgroup) {
        // A name that anybody may have made in one hierarchy must not hide a better one in the next.
        let is_sure = |id: &str| found.get(id).is_some_and(|(origin, _)| *origin == Origin::Host);
        let sought: BTreeSet<&str> =
            ids.iter().map(String::as_str).filter(|id| !is_sure(id)).collect();
        if sought.is_empty() {
            break;
        }
        let mut here: BTreeMap<&str, (Origin, Vec<String>)> = BTreeMap::new();
        for (id, path, origin) in walk(&hierarchy, &sought, own, MOST, stop)? {
            let (best, paths) = here.entry(id).or_insert((origin, Vec::new()));
            if origin < *best {
                (*best, *paths) = (origin, Vec::new());
            }
            if origin == *best {
                paths.push(path);
            }
        }
        for (id, (origin, paths)) in here {
            if found.get(id).is_none_or(|(best, _)| origin < *best) {
                found.insert(id, (origin, paths));
            }
        }
    }
    let mut one = |id: &String| match found.remove(id.as_str()).map(|(_, paths)| paths).as_deref() {
        None | Some([]) => Err(Error::NoContainer { id: id.clone(), root: roots.cgroup.clone() }),
        Some([only]) => Ok(only.clone()),
        Some([one, other, ..]) => {
            let cgroups = [one.clone(), other.clone()];
            Err(Error::SeveralCgroups { id: id.clone(), cgroups })
        }
    };
    Ok(ids.iter().map(|id| (id.clone(), one(id))).collect())
}

/// All cgroups of these containers in a hierarchy, without those inside another cgroup of the same container.
fn walk<'a>(
    hierarchy: &Path,
    sought: &BTreeSet<&'a str>,
    own: Option<u32>,
    most: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(&'a str, String, Origin)>, Error> {
    let mut found = Vec::new();
    let mut seen = 0;
    let owner = |directory: &Path| Some(fs::metadata(hierarchy.join(directory)).ok()?.uid());
    let root = owner(Path::new(""));
    // Directories still to read, each with the ids of the containers that it lies within, and whether it lies within any.
    let mut directories = vec![(PathBuf::new(), Vec::<&'a str>::new(), false)];
    while let Some((relative, within, is_within)) = directories.pop() {
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
                let origin = match owner(&relative) {
                    maker if maker.is_some() && maker == root && is_within => Origin::Container,
                    maker if maker.is_some() && maker == root => Origin::Host,
                    maker if maker.is_some() && maker == own => Origin::Own,
                    _ => Origin::User,
                };
                found.push((id, format!("/{}", path.display()), origin));
                within.push(id);
            }
            let is_within = is_within || container(&name).is_some_and(is_id);
            directories.push((path, within, is_within));
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

/// The full id of the container that a cgroup belongs to, by the names in its path. Of containers within containers the outermost,
/// which a runtime of the host has made.
pub(crate) fn container_of(cgroup: &str) -> Option<&str> {
    cgroup.split('/').filter_map(container).find(|id| is_id(id))
}

/// Whether this is the full id of a container, as all runtimes make them.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use std::os::unix::fs::chown;

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
        let found = containers(&fake.roots(), &ids, None, &|| false).expect("it can be read");
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
    fn what_root_has_made_goes_before_what_a_user_may_have_made() {
        let [a, b] = ['a', 'b'].map(id);
        let user = "user.slice/user-1000.slice/user@1000.service";
        let decoy = format!("{user}/docker-{a}.scope");
        let (own, rootless) =
            (format!("docker/{a}"), format!("{user}/user.slice/libpod-{b}.scope"));
        let other = format!("user.slice/user-1001.slice/user@1001.service/docker-{b}.scope");
        let fake = host(&[""], &[decoy, own.clone(), rootless.clone()]);
        // systemd gives a user its own service's cgroup.
        let give = |path: &str, uid| chown(fake.path(&format!("cgroup/{path}")), Some(uid), None);
        if give(user, 1000).and_then(|()| give(&format!("{user}/user.slice"), 1000)).is_err() {
            return println!("SKIPPED: only root may give directories to others");
        }
        let found = [Ok(format!("/{own}")), Ok(format!("/{rootless}"))];
        assert_eq!(find(&fake, &['a', 'b']), found);
        // Of two users' none is better.
        fake.write(&format!("cgroup/{other}/cgroup.procs"), "");
        give("user.slice/user-1001.slice/user@1001.service", 1001).expect("it is root");
        assert!(find(&fake, &['b'])[0].as_ref().is_err_and(|error| error.contains(&other)));
        // Each means its own.
        for (uid, expected) in [(1000, rootless), (1001, other)] {
            let found = containers(&fake.roots(), &[b.clone()].into(), Some(uid), &|| false);
            let found = found.expect("it can be read").remove(&b).expect("it was sought");
            assert_eq!(found.expect("one is its own"), format!("/{expected}"));
        }
    }

    #[test]
    fn what_is_outside_of_containers_goes_before_what_is_inside() {
        let [a, b] = ['a', 'b'].map(id);
        let own = format!("kubepods.slice/cri-containerd-{a}.scope");
        let decoy = format!("kubepods.slice/cri-containerd-{b}.scope/inner/docker-{a}.scope");
        let fake = host(&[""], &[own.clone(), decoy]);
        assert_eq!(find(&fake, &['a']), [Ok(format!("/{own}"))]);
    }

    #[test]
    fn a_decoy_in_one_hierarchy_hides_nothing_in_the_next() {
        let [a, b] = ['a', 'b'].map(id);
        let decoy = format!("cpuset/docker/{b}/{a}");
        let fake = host(&["cpuset", "memory"], &[decoy, format!("memory/docker/{a}")]);
        assert_eq!(find(&fake, &['a']), [Ok(format!("/docker/{a}"))]);
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
        assert!(walk(&root, &sought, None, 10, &|| false).is_ok());
        let error = walk(&root, &sought, None, 9, &|| false).expect_err("there are ten");
        assert!(matches!(error, Error::ManyCgroups { most: 9, .. }), "{error}");
        let error = walk(&root, &sought, None, 10, &|| true).expect_err("it was stopped");
        assert!(matches!(error, Error::Stopped), "{error}");
    }
}
