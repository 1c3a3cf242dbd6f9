//! Finds the cgroups of containers and pods by the names that runtimes and the kubelet give to them.
//!
//! Users may make cgroups below the cgroups that are delegated to them, with any name. So a cgroup that root has made
//! goes before one that another user may have made, except the caller, and one outside of all containers before one
//! inside of another container.

use crate::{Error, Roots, processes::cgroup};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Largest number of cgroups of a hierarchy that are looked at. A host with very many pods has some ten thousand.
const MOST: usize = 200_000;

/// Credibility of the name of a cgroup; the first is best. Any process that may write to the cgroup above it can make
/// one.
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
    let sought = Sought::containers(ids.iter().map(String::as_str));
    let found = find(roots, &sought, own, stop)?;
    let one = |id: &String| match found.get(&Name::Container(id)).map(Vec::as_slice) {
        None | Some([]) => Err(Error::NoContainer { id: id.clone(), root: roots.cgroup.clone() }),
        Some([only]) => Ok(only.clone()),
        Some([one, other, ..]) => {
            let target = format!("container {id}");
            Err(Error::SeveralCgroups { target, cgroups: [one.clone(), other.clone()] })
        }
    };
    Ok(ids.iter().map(|id| (id.clone(), one(id))).collect())
}

/// A name that a cgroup's directory may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name<'a> {
    /// A container's id, or the beginning of one.
    Container(&'a str),
    /// A pod's uid.
    Pod(&'a str),
}

/// The containers and pods whose cgroups are sought.
#[derive(Debug, Default)]
pub(crate) struct Sought<'a> {
    containers: BTreeSet<&'a str>,
    /// The lengths of the containers' ids. Shorter ids than that of a cgroup are compared with its beginning.
    lengths: BTreeSet<usize>,
    pods: BTreeSet<&'a str>,
}

impl<'a> Sought<'a> {
    /// Containers by their ids.
    pub fn containers(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sought = Self::default();
        sought.extend(ids.into_iter().map(Name::Container));
        sought
    }

    /// The names that the directory of a cgroup has.
    fn meant_by(&self, directory: &str) -> Vec<Name<'a>> {
        let mut names = Vec::new();
        if let Some(id) = container(directory) {
            let beginnings = self.lengths.iter().filter(|_| is_id(id));
            let beginnings = beginnings.filter_map(|&length| id.get(..length));
            let known = beginnings.chain([id]).filter_map(|id| self.containers.get(id).copied());
            names.extend(known.map(Name::Container));
            names.dedup();
        }
        let uid = pod(directory).filter(|_| !self.pods.is_empty());
        names.extend(uid.and_then(|uid| self.pods.get(&*uid)).copied().map(Name::Pod));
        names
    }
}

impl<'a> Extend<Name<'a>> for Sought<'a> {
    fn extend<I: IntoIterator<Item = Name<'a>>>(&mut self, names: I) {
        for name in names {
            match name {
                Name::Container(id) => {
                    self.lengths.insert(id.len());
                    self.containers.insert(id);
                }
                Name::Pod(uid) => {
                    self.pods.insert(uid);
                }
            }
        }
    }
}

/// The cgroups of the best origin that have each name, in one walk of each hierarchy. Names that none has are left out.
///
/// # Errors
/// [`Error::Stopped`] if `stop` returns true; [`Error::ManyCgroups`].
pub(crate) fn find<'a>(
    roots: &Roots,
    sought: &Sought<'a>,
    own: Option<u32>,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<Name<'a>, Vec<String>>, Error> {
    let all = sought.containers.iter().map(|&id| Name::Container(id));
    let all: BTreeSet<_> = all.chain(sought.pods.iter().map(|&uid| Name::Pod(uid))).collect();
    let mut found: BTreeMap<Name<'a>, (Origin, Vec<String>)> = BTreeMap::new();
    for hierarchy in cgroup::hierarchies(&roots.cgroup) {
        // A name that any user may have made in one hierarchy must not hide a better one in the next.
        let is_open =
            |name: &&Name<'a>| found.get(*name).is_none_or(|(origin, _)| *origin != Origin::Host);
        let mut open = Sought::default();
        open.extend(all.iter().filter(is_open).copied());
        if open.containers.is_empty() && open.pods.is_empty() {
            break;
        }
        let mut here: BTreeMap<Name<'a>, (Origin, Vec<String>)> = BTreeMap::new();
        for (name, path, origin) in walk(&hierarchy, &open, own, MOST, stop)? {
            let (best, paths) = here.entry(name).or_insert((origin, Vec::new()));
            if origin < *best {
                (*best, *paths) = (origin, Vec::new());
            }
            if origin == *best {
                paths.push(path);
            }
        }
        for (name, (origin, paths)) in here {
            if found.get(&name).is_none_or(|(best, _)| origin < *best) {
                found.insert(name, (origin, paths));
            }
        }
    }
    Ok(found.into_iter().map(|(name, (_, paths))| (name, paths)).collect())
}

/// All cgroups of these names in a hierarchy, without those inside another cgroup of the same name.
fn walk<'a>(
    hierarchy: &Path,
    sought: &Sought<'a>,
    own: Option<u32>,
    most: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<(Name<'a>, String, Origin)>, Error> {
    let mut found = Vec::new();
    let mut seen = 0;
    let owner = |directory: &Path| Some(fs::metadata(hierarchy.join(directory)).ok()?.uid());
    let root = owner(Path::new(""));
    // Directories still to read, each with the names that it lies within, and whether it lies within any container.
    let mut directories = vec![(PathBuf::new(), Vec::<Name<'a>>::new(), false)];
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
        for directory in children {
            seen += 1;
            if seen > most {
                return Err(Error::ManyCgroups { root: hierarchy.into(), most });
            }
            let path = relative.join(&directory);
            let mut within = within.clone();
            for name in sought.meant_by(&directory) {
                if within.contains(&name) {
                    continue;
                }
                let origin = match owner(&relative) {
                    maker if maker.is_some() && maker == root && is_within => Origin::Container,
                    maker if maker.is_some() && maker == root => Origin::Host,
                    maker if maker.is_some() && maker == own => Origin::Own,
                    _ => Origin::User,
                };
                found.push((name, format!("/{}", path.display()), origin));
                within.push(name);
            }
            let is_within = is_within || container(&directory).is_some_and(is_id);
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

/// The uid in the name of a pod's cgroup: `podUID` with the kubelet's cgroupfs driver, and with that of systemd
/// `kubepods-burstable-podUID.slice`, where the dashes of the uid are underscores (Kubernetes,
/// pkg/kubelet/cm/cgroup_manager_linux.go, `escapeSystemdCgroupName`).
pub(crate) fn pod(name: &str) -> Option<String> {
    match name.strip_suffix(".slice") {
        Some(slice) => Some(slice.rsplit('-').next()?.strip_prefix("pod")?.replace('_', "-")),
        None => Some(name.strip_prefix("pod")?.to_owned()),
    }
}

/// The full id of the container that a cgroup belongs to, by the names in its path. For containers within containers
/// it is the outermost one, which a runtime of the host has made.
pub(crate) fn container_of(cgroup: &str) -> Option<&str> {
    cgroup.split('/').filter_map(container).find(|id| is_id(id))
}

/// Whether this is the full id of a container, as Docker, Podman and the runtimes of Kubernetes make them.
pub(crate) fn is_id(text: &str) -> bool {
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
        // Neither of the names of two users is better.
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
    fn the_beginning_of_an_id_means_each_container_that_it_fits() {
        let [one, other] = ["0123", "0124"].map(|begin| format!("{begin}{}", "e".repeat(60)));
        let cgroups = [format!("docker/{one}"), format!("docker/{other}"), "docker/012".into()];
        let fake = host(&[""], &cgroups);
        let sought = Sought::containers(["012", "0123", "0124e", "9", &one]);
        let found = super::find(&fake.roots(), &sought, None, &|| false).expect("it can be read");
        let found = |id| found.get(&Name::Container(id)).cloned().unwrap_or_default();
        let [one_path, other_path] = [&one, &other].map(|id| format!("/docker/{id}"));
        assert_eq!(found("0123"), std::slice::from_ref(&one_path));
        assert_eq!(found(&one), std::slice::from_ref(&one_path));
        assert_eq!(found("0124e"), std::slice::from_ref(&other_path));
        assert_eq!(found("012"), ["/docker/012".to_owned(), one_path, other_path]);
        assert!(found("9").is_empty());
    }

    #[test]
    fn a_pod_has_the_name_that_its_driver_gives() {
        let uid = "1ad5-77";
        for name in [
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1ad5_77.slice",
            "kubepods.slice/kubepods-pod1ad5_77.slice",
            "kubepods/besteffort/pod1ad5-77",
            "kubelet/kubepods/pod1ad5-77",
        ] {
            let others = ["kubepods/pod1ad5-778", "pod.slice", "podman", "machine.slice"];
            let cgroups: Vec<_> = others.into_iter().chain([name]).map(str::to_owned).collect();
            let fake = host(&[""], &cgroups);
            let mut sought = Sought::default();
            sought.extend([Name::Pod(uid), Name::Pod("77")]);
            let found =
                super::find(&fake.roots(), &sought, None, &|| false).expect("it can be read");
            assert_eq!(found, [(Name::Pod(uid), vec![format!("/{name}")])].into());
        }
    }

    #[test]
    fn it_looks_no_further_than_it_may() {
        let fake = host(&[""], &(0..9).map(|n| format!("top/c{n}")).collect::<Vec<_>>());
        let root = fake.path("cgroup");
        let sought = Sought::containers(["a"]);
        assert!(walk(&root, &sought, None, 10, &|| false).is_ok());
        let error = walk(&root, &sought, None, 9, &|| false).expect_err("there are ten");
        assert!(matches!(error, Error::ManyCgroups { most: 9, .. }), "{error}");
        let error = walk(&root, &sought, None, 10, &|| true).expect_err("it was stopped");
        assert!(matches!(error, Error::Stopped), "{error}");
    }
}
