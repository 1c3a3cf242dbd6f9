//! The containers that have a name, by the files that container runtimes keep.
//!
//! | runtime | file | source of its form |
//! |---|---|---|
//! | Docker | `containers/ID/config.v2.json` in its data root | moby, daemon/container/container.go, `Container` |
//! | Podman | `*-containers/*containers.json` in a storage root | containers/storage, containers.go, `Container` |
//! | nerdctl | `/var/lib/nerdctl/ADDRESS/names/NAMESPACE/NAME` | nerdctl, pkg/namestore |
//! | containerd | `io.containerd.runtime.v2.task/NAMESPACE/ID` in its state directory | containerd, core/runtime/v2/bundle.go |
//! | Kubernetes | `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` | Kubernetes, pkg/kubelet/kuberuntime/legacy.go |

use crate::{
    Roots,
    files::read,
    processes::runtime_files::{OF_ALL, OF_ONE, RuntimeFiles},
};
use serde::Deserialize;
use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A container that a runtime lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub runtime: &'static str,
    pub id: String,
}

/// The lists of the runtimes, read when they are first asked for and once for all names of a request. Files that
/// cannot be read or parsed list nothing.
pub(crate) struct RuntimeLists<'a> {
    files: &'a RuntimeFiles<'a>,
    /// Ids of Docker's and Podman's containers by their names.
    docker: OnceCell<BTreeMap<String, Vec<String>>>,
    podman: OnceCell<BTreeMap<String, Vec<String>>>,
    /// Ids of Kubernetes' containers by `CONTAINER` and by `NAMESPACE/POD/CONTAINER`.
    kubernetes: OnceCell<BTreeMap<String, Vec<String>>>,
    /// Directories that have a file for each name.
    nerdctl: OnceCell<Vec<PathBuf>>,
    /// Directories that have one for each id.
    containerd: OnceCell<Vec<PathBuf>>,
    /// Uids of pods by `NAME` and by `NAMESPACE/NAME`.
    pods: OnceCell<BTreeMap<String, Vec<String>>>,
}

impl<'a> RuntimeLists<'a> {
    pub(crate) fn new(files: &'a RuntimeFiles<'a>) -> Self {
        Self {
            files,
            docker: OnceCell::new(),
            podman: OnceCell::new(),
            kubernetes: OnceCell::new(),
            nerdctl: OnceCell::new(),
            containerd: OnceCell::new(),
            pods: OnceCell::new(),
        }
    }

    /// The containers of this name. With Kubernetes a name is `CONTAINER` or `NAMESPACE/POD/CONTAINER`.
    pub(crate) fn containers(&self, name: &str) -> BTreeSet<Listed> {
        let list =
            |runtime, ids: Vec<String>| ids.into_iter().map(move |id| Listed { runtime, id });
        let of = |ids: &BTreeMap<String, Vec<String>>| ids.get(name).cloned().unwrap_or_default();
        let (files, roots) = (self.files, self.files.roots);
        let kubernetes = self.kubernetes.get_or_init(|| kubernetes(roots));
        let kubernetes = list("Kubernetes", of(kubernetes));
        if !is_file_name(name) {
            return kubernetes.collect();
        }
        let namespaces = self.nerdctl.get_or_init(|| nerdctl(roots));
        let named = namespaces.iter().filter_map(|names| fs::read_to_string(names.join(name)).ok());
        let named = named.map(|id| id.trim().to_owned()).collect();
        // containerd knows no names: with ctr(1) the id is chosen as one.
        let tasks = self.containerd.get_or_init(|| containerd_tasks(roots));
        let is_task = tasks.iter().any(|namespace| namespace.join(name).is_dir());
        let task = is_task.then(|| name.to_owned()).into_iter().collect();
        let others = list("Docker", of(self.docker.get_or_init(|| docker(files))))
            .chain(list("Podman", of(self.podman.get_or_init(|| podman(files)))))
            .chain(list("nerdctl", named))
            .chain(list("containerd", task));
        others.chain(kubernetes).collect()
    }

    /// The names of containers by their full ids: `NAMESPACE/POD/CONTAINER` with Kubernetes.
    pub(crate) fn names_of_containers(&self) -> BTreeMap<String, String> {
        let nerdctl = self.nerdctl.get_or_init(|| nerdctl(self.files.roots)).iter();
        let named = nerdctl.flat_map(|names| read::entries(names, |name| Some(name.to_owned())));
        let nerdctl = named.filter_map(|(name, path)| {
            Some((fs::read_to_string(path).ok()?.trim().to_owned(), name))
        });
        let others = [
            self.docker.get_or_init(|| docker(self.files)),
            self.podman.get_or_init(|| podman(self.files)),
        ];
        let kubernetes = self.kubernetes.get_or_init(|| kubernetes(self.files.roots));
        let others = others.into_iter().flat_map(|names| by_value(names, |_| true));
        nerdctl.chain(others).chain(by_value(kubernetes, |name| name.contains('/'))).collect()
    }

    /// The names of pods by their uids: `NAMESPACE/NAME`.
    pub(crate) fn names_of_pods(&self) -> BTreeMap<String, String> {
        let pods = self.pods.get_or_init(|| pods(self.files.roots));
        by_value(pods, |name| name.contains('/')).collect()
    }

    /// The uids of the pods of this name: `NAMESPACE/NAME`, or `NAME` in any namespace.
    pub(crate) fn pods(&self, name: &str) -> BTreeSet<String> {
        let pods = self.pods.get_or_init(|| pods(self.files.roots));
        pods.get(name).into_iter().flatten().cloned().collect()
    }
}

/// Values by their keys, of which several may have one.
fn by_key(pairs: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, Vec<String>> {
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    pairs.into_iter().for_each(|(key, value)| by_key.entry(key).or_default().push(value));
    by_key
}

/// The names of values, of those that are taken. Of several names of one the first counts.
fn by_value<'a>(
    names: &'a BTreeMap<String, Vec<String>>,
    is_taken: fn(&str) -> bool,
) -> impl Iterator<Item = (String, String)> + 'a {
    let taken = names.iter().rev().filter(move |(name, _)| is_taken(name));
    taken.flat_map(|(name, values)| values.iter().map(|value| (value.clone(), name.clone())))
}

/// Whether a name can be joined to a path and leads nowhere else.
pub(crate) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerContainer {
    name: String,
}

/// The data root of Docker.
pub(crate) fn docker_root(files: &RuntimeFiles<'_>) -> PathBuf {
    #[derive(Deserialize)]
    struct Daemon {
        #[serde(rename = "data-root")]
        data_root: Option<PathBuf>,
    }
    let daemon: Option<Daemon> = files.json(&files.roots.etc.join("docker/daemon.json"), OF_ONE);
    let root = daemon.and_then(|daemon| daemon.data_root);
    root.unwrap_or_else(|| files.roots.var.join("lib/docker"))
}

fn docker(files: &RuntimeFiles<'_>) -> BTreeMap<String, Vec<String>> {
    let root = docker_root(files).join("containers");
    let directories = read::entries(&root, |id| Some(id.to_owned()));
    by_key(directories.into_iter().filter_map(|(id, directory)| {
        let container: DockerContainer = files.json(&directory.join("config.v2.json"), OF_ONE)?;
        Some((container.name.trim_start_matches('/').to_owned(), id))
    }))
}

#[derive(Deserialize)]
struct PodmanContainer {
    id: String,
    #[serde(default)]
    names: Vec<String>,
}

/// The directories of Podman's containers: one for each storage driver.
pub(crate) fn podman_drivers(roots: &Roots) -> impl Iterator<Item = PathBuf> {
    let own = roots.home.iter().map(|home| home.join(".local/share"));
    let storage = [roots.var.join("lib")].into_iter().chain(own);
    storage.flat_map(|base| {
        let is_driver = |name: &str| name.ends_with("-containers").then(|| name.to_owned());
        read::entries(&base.join("containers/storage"), is_driver).into_values()
    })
}

fn podman(files: &RuntimeFiles<'_>) -> BTreeMap<String, Vec<String>> {
    // First containers that outlive a boot, then others.
    let lists = podman_drivers(files.roots).flat_map(|driver| {
        ["containers.json", "volatile-containers.json"].map(|file| driver.join(file))
    });
    let all = lists.filter_map(|list| files.json::<Vec<PodmanContainer>>(&list, OF_ALL)).flatten();
    by_key(all.flat_map(|PodmanContainer { id, names }| {
        names.into_iter().map(move |name| (name, id.clone()))
    }))
}

/// The directories with nerdctl's names: one for each namespace.
fn nerdctl(roots: &Roots) -> Vec<PathBuf> {
    let own = roots.home.iter().map(|home| home.join(".local/share"));
    let bases = [roots.var.join("lib")].into_iter().chain(own);
    let addresses = bases.flat_map(|base| directories(&base.join("nerdctl")));
    addresses.flat_map(|address| directories(&address.join("names"))).collect()
}

/// The directories of containerd's tasks: one for each namespace. k3s and RKE2 keep those of their own containerd in /run/k3s,
/// MicroK8s in the data of its snap.
pub(crate) fn containerd_tasks(roots: &Roots) -> Vec<PathBuf> {
    let states = [
        roots.run.join("containerd"),
        roots.run.join("k3s/containerd"),
        roots.var.join("snap/microk8s/common/run/containerd"),
    ];
    let tasks = states.map(|state| directories(&state.join("io.containerd.runtime.v2.task")));
    tasks.concat()
}

fn kubernetes(roots: &Roots) -> BTreeMap<String, Vec<String>> {
    // No part of such a file name has an underscore.
    let parse = |file: &str| {
        let (pod, rest) = file.strip_suffix(".log")?.split_once('_')?;
        let (namespace, rest) = rest.split_once('_')?;
        let (container, id) = rest.rsplit_once('-')?;
        let names = [container.to_owned(), format!("{namespace}/{pod}/{container}")];
        Some((id.to_owned(), names))
    };
    let files = read::entries(&roots.var.join("log/containers"), parse).into_keys();
    by_key(files.flat_map(|(id, names)| names.map(|name| (name, id.clone()))))
}

/// By the directories in which the kubelet keeps the logs of pods (Kubernetes, pkg/kubelet/kuberuntime/helpers.go,
/// `BuildPodLogsDirectory`).
fn pods(roots: &Roots) -> BTreeMap<String, Vec<String>> {
    let parse = |directory: &str| {
        let (namespace, rest) = directory.split_once('_')?;
        let (pod, uid) = rest.split_once('_')?;
        Some((uid.to_owned(), [pod.to_owned(), format!("{namespace}/{pod}")]))
    };
    let directories = read::entries(&roots.var.join("log/pods"), parse).into_keys();
    by_key(directories.flat_map(|(uid, names)| names.map(|name| (name, uid.clone()))))
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    read::entries(directory, |name| Some(name.to_owned())).into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn found(roots: &Roots, name: &str) -> Vec<(&'static str, String)> {
        let files = RuntimeFiles::new(roots, &|| false);
        let listed = RuntimeLists::new(&files).containers(name).into_iter();
        listed.map(|listed| (listed.runtime, listed.id)).collect()
    }

    #[test]
    fn tasks_of_k3s_and_microk8s_are_found() {
        let fake = Fake::new();
        for (place, id) in [("run/k3s", "k1"), ("var/snap/microk8s/common/run", "m1")] {
            let task = format!("{place}/containerd/io.containerd.runtime.v2.task/k8s.io/{id}");
            fake.write(&format!("{task}/config.json"), "{}");
        }
        for id in ["k1", "m1"] {
            assert_eq!(found(&fake.roots(), id), [("containerd", id.to_owned())]);
        }
    }

    #[test]
    fn each_runtime_is_asked_in_its_own_form() {
        let fake = Fake::new();
        fake.write("var/lib/docker/containers/d1/config.v2.json", r#"{"ID":"d1","Name":"/web"}"#);
        fake.write("var/lib/docker/containers/d2/config.v2.json", r#"{"ID":"d2","Name":"/db"}"#);
        fake.write("var/lib/docker/containers/d3/config.v2.json", "{");
        let podman = r#"[{"id":"p1","names":["db","alias"],"layer":"x"},{"id":"p2"}]"#;
        fake.write("var/lib/containers/storage/overlay-containers/containers.json", podman);
        fake.write(
            "var/lib/containers/storage/overlay-containers/volatile-containers.json",
            r#"[{"id":"p3","names":["short"]}]"#,
        );
        fake.write("var/lib/nerdctl/1935db59/names/default/db", "n1\n");
        fake.write("run/containerd/io.containerd.runtime.v2.task/k8s.io/redis1/init.pid", "7");
        for file in ["web-0_prod_nginx-k1", "web-0_prod_log-proxy-k2", "web-1_test_nginx-k3"] {
            fake.write(&format!("var/log/containers/{file}.log"), "");
        }
        let roots = fake.roots();
        assert_eq!(found(&roots, "web"), [("Docker", "d1".to_owned())]);
        let db = [("Docker", "d2"), ("Podman", "p1"), ("nerdctl", "n1")];
        assert_eq!(found(&roots, "db"), db.map(|(runtime, id)| (runtime, id.to_owned())));
        assert_eq!(found(&roots, "alias"), [("Podman", "p1".to_owned())]);
        assert_eq!(found(&roots, "short"), [("Podman", "p3".to_owned())]);
        assert_eq!(found(&roots, "redis1"), [("containerd", "redis1".to_owned())]);
        let files = RuntimeFiles::new(&roots, &|| false);
        let lists = RuntimeLists::new(&files);
        let ids = |name: &str| lists.containers(name).into_iter().map(|listed| listed.id);
        assert_eq!(ids("nginx").collect::<Vec<_>>(), ["k1", "k3"]);
        assert_eq!(ids("prod/web-0/log-proxy").collect::<Vec<_>>(), ["k2"]);
        assert_eq!(ids("test/web-1/nginx").collect::<Vec<_>>(), ["k3"]);
        for none in ["", ".", "..", "../db", "d1", "no", "prod/web-0"] {
            assert_eq!(found(&roots, none), [], "{none:?}");
        }
    }

    #[test]
    fn files_that_are_too_large_are_left_out_and_named() {
        let fake = Fake::new();
        let config = |name: &str, more: usize| {
            format!(r#"{{"Name":"/{name}","Config":{{"Labels":{{"x":"{}"}}}}}}"#, "y".repeat(more))
        };
        fake.write("var/lib/docker/containers/d1/config.v2.json", &config("web", 4 << 20));
        fake.write("var/lib/docker/containers/d2/config.v2.json", &config("db", 4_000_000));
        let (roots, path) = (fake.roots(), "var/lib/docker/containers/d1/config.v2.json");
        let files = RuntimeFiles::new(&roots, &|| false);
        let lists = RuntimeLists::new(&files);
        assert!(lists.containers("web").is_empty());
        let named = format!("; {} is too large to be read", fake.path(path).display());
        assert_eq!(files.left_out(), named);
        assert_eq!(lists.containers("db").len(), 1);
    }

    #[test]
    fn docker_keeps_its_data_where_it_is_configured() {
        let fake = Fake::new();
        let root = fake.path("data");
        fake.write("etc/docker/daemon.json", &format!("{{\"data-root\": {root:?}}}"));
        fake.write("data/containers/d1/config.v2.json", r#"{"Name":"/web"}"#);
        fake.write("var/lib/docker/containers/d2/config.v2.json", r#"{"Name":"/web"}"#);
        assert_eq!(found(&fake.roots(), "web"), [("Docker", "d1".to_owned())]);
    }

    #[test]
    fn containers_without_root_are_those_of_one_home() {
        let fake = Fake::new();
        fake.write(
            "home/.local/share/containers/storage/vfs-containers/containers.json",
            r#"[{"id":"p1","names":["db"]}]"#,
        );
        fake.write("home/.local/share/nerdctl/1935db59/names/default/db", "n1");
        assert_eq!(found(&fake.roots(), "db"), []);
        let roots = Roots { home: Some(fake.path("home")), ..fake.roots() };
        let expected = [("Podman", "p1"), ("nerdctl", "n1")];
        assert_eq!(found(&roots, "db"), expected.map(|(runtime, id)| (runtime, id.to_owned())));
    }

    #[test]
    fn pods_are_known_by_the_directories_of_their_logs() {
        let fake = Fake::new();
        for directory in ["prod_web-0_1ad5-77", "test_web-0_1ad5-78", "prod_web-01_1ad5-79"] {
            fake.write(&format!("var/log/pods/{directory}/nginx/0.log"), "");
        }
        let roots = fake.roots();
        let files = RuntimeFiles::new(&roots, &|| false);
        let lists = RuntimeLists::new(&files);
        let found = |name| lists.pods(name).into_iter().collect::<Vec<_>>();
        assert_eq!(found("prod/web-0"), ["1ad5-77"]);
        assert_eq!(found("web-0"), ["1ad5-77", "1ad5-78"]);
        assert!(found("prod/web").is_empty() && found("").is_empty());
    }
}
