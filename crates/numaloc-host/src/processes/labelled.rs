//! Containers by their own labels, as container runtimes keep them.
//!
//! | runtime | what | file |
//! |---|---|---|
//! | Docker | labels (`--label`) | `containers/ID/config.v2.json` in its data root (moby, daemon/container/container.go, `Container`) |
//! | Podman | annotations (`--annotation`); its labels are in a database | `*-containers/ID/userdata/config.json` in a storage root (OCI runtime specification) |
//! | containerd, and with it Docker, nerdctl and Kubernetes | annotations | `io.containerd.runtime.v2.task/NAMESPACE/ID/config.json` in its state directory (core/runtime/v2/bundle.go) |

use crate::{
    Error, Roots,
    files::read,
    processes::{
        containers::{self, is_id},
        runtime_files::{OF_ONE, RuntimeFiles},
        runtimes::{containerd_tasks, docker_root, podman_drivers},
    },
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A label to look for, in the form `KEY=VALUE`; or `KEY`, whatever its value.
struct Wanted<'a> {
    label: &'a str,
    key: &'a str,
    value: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    fn new(label: &'a str) -> Self {
        match label.split_once('=') {
            Some((key, value)) => Self { label, key, value: Some(value) },
            None => Self { label, key: label, value: None },
        }
    }

    fn is_in(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(self.key).is_some_and(|value| self.value.is_none_or(|wanted| value == wanted))
    }
}

/// The running containers with a label: their cgroups by their ids.
pub type Labelled = BTreeMap<String, String>;

/// The containers that run and have labels, each label in the form `KEY=VALUE` or `KEY`. Per label: its containers, or
/// [`Error::NotRunning`] if there are none. Reads the files of each container once, and the cgroups once.
///
/// # Errors
/// [`Error::ManyCgroups`]; [`Error::Stopped`] once `stop` is true.
pub fn labelled<'a>(
    roots: &Roots,
    labels: &'a BTreeSet<String>,
    stop: &dyn Fn() -> bool,
) -> Result<BTreeMap<&'a str, Result<Labelled, Error>>, Error> {
    let wanted: Vec<Wanted<'a>> = labels.iter().map(|label| Wanted::new(label)).collect();
    let mut found: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let files = &RuntimeFiles::new(roots, stop);
    for (id, its) in docker(files).chain(bundles(files)) {
        let of_it = wanted.iter().filter(|wanted| wanted.is_in(&its)).map(|wanted| wanted.label);
        found.entry(id).or_default().extend(of_it);
    }
    if files.is_stopped() {
        return Err(Error::Stopped);
    }
    found.retain(|_, labels| !labels.is_empty());
    let ids: BTreeSet<String> = found.keys().cloned().collect();
    let cgroups = containers::containers(roots, &ids, roots.own_uid(), stop)?;
    let running: Labelled =
        cgroups.into_iter().filter_map(|(id, path)| Some((id, path.ok()?))).collect();
    let of = |label: &str| {
        let ids = found.iter().filter(|(_, labels)| labels.contains(label)).map(|(id, _)| id);
        let ids: Vec<&String> = ids.collect();
        let path = |id: &&String| Some(((*id).clone(), running.get(*id)?.clone()));
        let its: Labelled = ids.iter().filter_map(path).collect();
        if !its.is_empty() {
            return Ok(its);
        }
        let reason = match ids.len() {
            0 => "Docker lists no container with this label, and neither Podman nor containerd one with this annotation".to_owned(),
            stopped => format!("of {stopped} containers with this label none runs"),
        };
        let reason = reason + &files.left_out();
        Err(Error::NotRunning { target: format!("container with label {label}"), reason })
    };
    Ok(labels.iter().map(|label| (label.as_str(), of(label))).collect())
}

/// The ids of containers and their labels, as Docker keeps them.
fn docker(files: &RuntimeFiles<'_>) -> impl Iterator<Item = (String, BTreeMap<String, String>)> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Container {
        config: Config,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Config {
        #[serde(default)]
        labels: Option<BTreeMap<String, String>>,
    }
    let directories = read::entries(&docker_root(files).join("containers"), known);
    directories.into_iter().filter_map(move |(id, path)| {
        let container: Container = files.json(&path.join("config.v2.json"), OF_ONE)?;
        Some((id, container.config.labels?))
    })
}

/// The ids of containers and the annotations in their bundles.
fn bundles(files: &RuntimeFiles<'_>) -> impl Iterator<Item = (String, BTreeMap<String, String>)> {
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let podman = podman_drivers(files.roots).map(|driver| (driver, "userdata/config.json"));
    let tasks =
        containerd_tasks(files.roots).into_iter().map(|namespace| (namespace, "config.json"));
    podman.chain(tasks).flat_map(move |(directory, file)| {
        let containers = read::entries(&directory, known).into_iter();
        containers.filter_map(move |(id, path)| {
            let spec: Spec = files.json(&path.join(file), OF_ONE)?;
            Some((id, spec.annotations))
        })
    })
}

/// Names of the directories of containers. A container with another name has no cgroup that could be found.
fn known(name: &str) -> Option<String> {
    is_id(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    fn id(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    #[test]
    fn each_runtime_keeps_labels_in_its_own_form() {
        let fake = Fake::new();
        let [docker, podman, task, stopped, plain] = ['a', 'b', 'c', 'd', 'e'].map(id);
        let config = |labels: &str| format!(r#"{{"ID": "x", "Config": {{"Labels": {labels}}}}}"#);
        for (id, labels) in [
            (&docker, r#"{"numaloc.io/policy": "bestEffort", "tier": "db"}"#),
            (&stopped, r#"{"tier": "web"}"#),
            (&plain, "null"),
        ] {
            let path = format!("var/lib/docker/containers/{id}/config.v2.json");
            fake.write(&path, &config(labels));
        }
        fake.write("var/lib/docker/containers/short/config.v2.json", &config(r#"{"tier": "db"}"#));
        let spec = r#"{"ociVersion": "1.0.2", "annotations": {"tier": "cache"}}"#;
        let storage = "var/lib/containers/storage/overlay-containers";
        fake.write(&format!("{storage}/{podman}/userdata/config.json"), spec);
        let tasks = "run/containerd/io.containerd.runtime.v2.task/default";
        fake.write(&format!("{tasks}/{task}/config.json"), spec);
        fake.write(&format!("{tasks}/{}/config.json", id('f')), "{");
        fake.write("cgroup/cgroup.procs", "");
        for scope in [
            format!("system.slice/docker-{docker}.scope"),
            format!("machine.slice/libpod-{podman}.scope"),
            format!("default/{task}"),
        ] {
            fake.write(&format!("cgroup/{scope}/cgroup.procs"), "");
        }
        let roots = fake.roots();
        let one = |label: &str| -> Result<Labelled, Error> {
            let labels = [label.to_owned()].into();
            labelled(&roots, &labels, &|| false)?.remove(label).expect("it was asked for")
        };
        let found = |label: &str| {
            one(label).map(BTreeMap::into_keys).map(Vec::from_iter).unwrap_or_default()
        };
        assert_eq!(found("numaloc.io/policy=bestEffort"), std::slice::from_ref(&docker));
        assert_eq!(found("tier=cache"), [podman.clone(), task.clone()]);
        assert_eq!(found("tier"), [docker.clone(), podman, task]);
        let cgroup = &one("tier=db").expect("it runs")[&docker];
        assert_eq!(cgroup, &format!("/system.slice/docker-{docker}.scope"));
        for (none, reason) in [
            ("tier=web", "of 1 containers with this label none runs"),
            ("tier=", "lists no container with this label"),
            ("numaloc.io/policy=none", "lists no container with this label"),
        ] {
            let error = one(none).expect_err("none").to_string();
            assert!(error.contains(none) && error.contains(reason), "{error}");
        }
    }
}
