//! Which containers have a name, by the files that container runtimes keep.
//!
//! | runtime | file | source of its form |
//! |---|---|---|
//! | Docker | `containers/ID/config.v2.json` in its data root | moby, daemon/container/container.go, `Container` |
//! | Podman | `*-containers/*containers.json` in a storage root | containers/storage, containers.go, `Container` |
//! | nerdctl | `/var/lib/nerdctl/ADDRESS/names/NAMESPACE/NAME` | nerdctl, pkg/namestore |
//! | containerd | `io.containerd.runtime.v2.task/NAMESPACE/ID` in its state directory | containerd, core/runtime/v2/bundle.go |
//! | Kubernetes | `/var/log/containers/POD_NAMESPACE_CONTAINER-ID.log` | Kubernetes, pkg/kubelet/kuberuntime/legacy.go |

use crate::{Roots, files::read};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A container that a runtime lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub runtime: &'static str,
    pub id: String,
}

/// The containers of this name. With Kubernetes a name is `CONTAINER` or `NAMESPACE/POD/CONTAINER`. Files that cannot be read or
/// parsed list none.
pub(crate) fn containers(roots: &Roots, name: &str) -> BTreeSet<Listed> {
    let list = |runtime, ids: Vec<String>| ids.into_iter().map(move |id| Listed { runtime, id });
    let kubernetes = list("Kubernetes", kubernetes(roots, name));
    if !is_file_name(name) {
        return kubernetes.collect();
    }
    let others = list("Docker", docker(roots, name))
        .chain(list("Podman", podman(roots, name)))
        .chain(list("nerdctl", nerdctl(roots, name)))
        .chain(list("containerd", containerd(roots, name)));
    others.chain(kubernetes).collect()
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
pub(crate) fn docker_root(roots: &Roots) -> PathBuf {
    #[derive(Deserialize)]
    struct Daemon {
        #[serde(rename = "data-root")]
        data_root: Option<PathBuf>,
    }
    let daemon: Option<Daemon> = json(&roots.etc.join("docker/daemon.json"));
    let root = daemon.and_then(|daemon| daemon.data_root);
    root.unwrap_or_else(|| roots.var.join("lib/docker"))
}

fn docker(roots: &Roots, name: &str) -> Vec<String> {
    let has_name = |directory: &Path| {
        let container: Option<DockerContainer> = json(&directory.join("config.v2.json"));
        container.is_some_and(|container| container.name.trim_start_matches('/') == name)
    };
    let root = docker_root(roots).join("containers");
    let directories = read::entries(&root, |id| Some(id.to_owned()));
    directories.into_iter().filter(|(_, path)| has_name(path)).map(|(id, _)| id).collect()
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

fn podman(roots: &Roots, name: &str) -> Vec<String> {
    // Of containers that outlive a boot, and of others.
    let lists = podman_drivers(roots).flat_map(|driver| {
        ["containers.json", "volatile-containers.json"].map(|file| driver.join(file))
    });
    let all = lists.filter_map(|list| json::<Vec<PodmanContainer>>(&list)).flatten();
    all.filter(|container| container.names.iter().any(|known| known == name))
        .map(|container| container.id)
        .collect()
}

fn nerdctl(roots: &Roots, name: &str) -> Vec<String> {
    let own = roots.home.iter().map(|home| home.join(".local/share"));
    let bases = [roots.var.join("lib")].into_iter().chain(own);
    let addresses = bases.flat_map(|base| directories(&base.join("nerdctl")));
    let namespaces = addresses.flat_map(|address| directories(&address.join("names")));
    let ids = namespaces.filter_map(|namespace| fs::read_to_string(namespace.join(name)).ok());
    ids.map(|id| id.trim().to_owned()).collect()
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

/// containerd knows no names: with ctr(1) the id is chosen as one.
fn containerd(roots: &Roots, id: &str) -> Vec<String> {
    let tasks = containerd_tasks(roots);
    let is_there = tasks.iter().any(|namespace| namespace.join(id).is_dir());
    is_there.then(|| id.to_owned()).into_iter().collect()
}

fn kubernetes(roots: &Roots, name: &str) -> Vec<String> {
    // No part of such a file name has an underscore.
    let parse = |file: &str| {
        let (pod, rest) = file.strip_suffix(".log")?.split_once('_')?;
        let (namespace, rest) = rest.split_once('_')?;
        let (container, id) = rest.rsplit_once('-')?;
        let is_meant = name == container || name == format!("{namespace}/{pod}/{container}");
        is_meant.then(|| id.to_owned())
    };
    read::entries(&roots.var.join("log/containers"), parse).into_keys().collect()
}

/// The uids of the pods of this name: `NAMESPACE/NAME`, or `NAME` in any namespace, by the directories in which the kubelet keeps
/// their logs (Kubernetes, pkg/kubelet/kuberuntime/helpers.go, `BuildPodLogsDirectory`).
pub(crate) fn pods(roots: &Roots, name: &str) -> BTreeSet<String> {
    let parse = |directory: &str| {
        let (namespace, rest) = directory.split_once('_')?;
        let (pod, uid) = rest.split_once('_')?;
        let is_meant = name == pod || name == format!("{namespace}/{pod}");
        is_meant.then(|| uid.to_owned())
    };
    read::entries(&roots.var.join("log/pods"), parse).into_keys().collect()
}

fn directories(directory: &Path) -> Vec<PathBuf> {
    read::entries(directory, |name| Some(name.to_owned())).into_values().collect()
}

/// The content of a file; `None` if it cannot be read or parsed.
pub(crate) fn json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn found(roots: &Roots, name: &str) -> Vec<(&'static str, String)> {
        containers(roots, name).into_iter().map(|listed| (listed.runtime, listed.id)).collect()
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
        let ids = |name: &str| containers(&roots, name).into_iter().map(|listed| listed.id);
        assert_eq!(ids("nginx").collect::<Vec<_>>(), ["k1", "k3"]);
        assert_eq!(ids("prod/web-0/log-proxy").collect::<Vec<_>>(), ["k2"]);
        assert_eq!(ids("test/web-1/nginx").collect::<Vec<_>>(), ["k3"]);
        for none in ["", ".", "..", "../db", "d1", "no", "prod/web-0"] {
            assert_eq!(found(&roots, none), [], "{none:?}");
        }
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
        let found = |name| pods(&fake.roots(), name).into_iter().collect::<Vec<_>>();
        assert_eq!(found("prod/web-0"), ["1ad5-77"]);
        assert_eq!(found("web-0"), ["1ad5-77", "1ad5-78"]);
        assert!(found("prod/web").is_empty() && found("").is_empty());
    }
}
