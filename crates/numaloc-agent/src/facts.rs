//! The facts about a pod, from the API's object. Pure.

use crate::cluster::objects::{ContainerResources, ContainerSpec, ContainerState, Meta, PodObject};
use numaloc_policy::{Owner, Pod, Resources, cgroup_parent, cpu_resources, milli_cpu};
use std::{collections::BTreeMap, time::SystemTime};

/// The annotation of a static pod's mirror that has the uid by which its node knows it (kubernetes/pkg/kubelet/types).
const MIRROR_KEY: &str = "kubernetes.io/config.mirror";

/// A pod of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Its uid in the API, of which the node knows static pods by another one.
    pub api_uid: String,
    /// The pod as the policies see it: with the labels and annotations that are read, and the uid that its node knows.
    pub pod: Pod,
    /// Its containers that run or will run again, sidecars last, each in the pod's order.
    pub containers: Vec<Container>,
    /// The last writer of the status annotation; `None` if it was never written.
    pub status_writer: Option<String>,
    /// When it was created; `None` if that is not known.
    pub created: Option<SystemTime>,
    /// Whether its specification was changed after it was made, as by a resize of its CPUs (Kubernetes 1.33, KEP-5067).
    pub is_changed: bool,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its name within the pod.
    pub name: String,
    /// The id that its runtime knows; `None`: it has not been made yet.
    pub id: Option<String>,
    /// The CPUs that the kubelet gives it.
    pub resources: Resources,
}

impl Facts {
    /// Takes the facts from an object.
    pub fn new(object: PodObject) -> Self {
        let PodObject { metadata, spec, status } = object;
        let Meta { name, namespace, uid: api_uid, labels, annotations, .. } = metadata;
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller);
        let controller = controller.map(|owner| (owner.kind, owner.name));
        let owner = Owner::of(&name, controller, &labels);
        let uid = annotations.get(MIRROR_KEY).unwrap_or(&api_uid).clone();
        let mut containers = Vec::new();
        if !matches!(status.phase.as_str(), "Succeeded" | "Failed") {
            let restart = spec.restart_policy.as_str();
            // Containers of a pod that has CPUs as a whole share these, whatever each of them asks for.
            let pool = cpu(&status.allocated_resources, &spec.resources);
            let usual = spec.containers.iter().filter_map(|container| {
                running(container, &status.container_statuses, restart, pool)
            });
            let sidecars =
                spec.init_containers.iter().filter(|init| init.restart_policy == "Always");
            let sidecars = sidecars.filter_map(|container| {
                running(container, &status.init_container_statuses, "Always", pool)
            });
            containers = usual.chain(sidecars).collect();
        }
        let cgroup_parent = cgroup_parent(&status.qos_class, &uid);
        let namespace_labels = BTreeMap::new();
        let pod = Pod {
            namespace,
            name,
            uid,
            labels,
            annotations,
            cgroup_parent,
            namespace_labels,
            owner,
        };
        let status_writer = metadata.status_writer;
        let created = numaloc_policy::read_time(&metadata.creation_timestamp);
        let is_changed = metadata.generation > 1;
        let pod = pod.bounded();
        Self { api_uid, pod, containers, status_writer, created, is_changed }
    }
}

/// A container, if it runs or will run again.
fn running(
    spec: &ContainerSpec,
    states: &[ContainerState],
    restart: &str,
    pool: Option<u64>,
) -> Option<Container> {
    let state = states.iter().find(|state| state.name == spec.name)?;
    // `containerd://<id>`.
    let id = state.container_id.rsplit('/').next().filter(|id| !id.is_empty());
    // A container may have a policy of its own (Kubernetes 1.35, KEP-5307).
    let restart = if spec.restart_policy.is_empty() { restart } else { &spec.restart_policy };
    let is_over = state.state.terminated.as_ref().is_some_and(|ended| match restart {
        "Never" => true,
        "OnFailure" => ended.exit_code == 0,
        _ => false,
    });
    // Between two runs it has the id of the last one, whose cgroup is gone.
    (!is_over && id.is_some()).then(|| Container {
        name: spec.name.clone(),
        id: id.filter(|_| state.state.running.is_some()).map(str::to_owned),
        resources: cpu_resources(pool.or_else(|| cpu(&state.allocated_resources, &spec.resources))),
    })
}

/// The CPU that was given or else is asked for, in thousandths; `None`: none is.
fn cpu(allocated: &BTreeMap<String, String>, asked: &ContainerResources) -> Option<u64> {
    let of = |all: &BTreeMap<String, String>| all.get("cpu").and_then(|cpu| milli_cpu(cpu));
    of(allocated).or_else(|| of(&asked.requests)).or_else(|| of(&asked.limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::QosClass;
    use numaloc_policy::{Ceilings, qos_class};

    const POD: &str = include_str!("../tests/pod.json");

    fn facts(change: impl FnOnce(&mut serde_json::Value)) -> Facts {
        let mut pod = serde_json::from_str(POD).expect("JSON");
        change(&mut pod);
        Facts::new(serde_json::from_value(pod).expect("a pod"))
    }

    fn names(facts: &Facts) -> Vec<&str> {
        facts.containers.iter().map(|container| container.name.as_str()).collect()
    }

    #[test]
    fn containers_and_sidecars_that_run_are_known_in_the_pods_order() {
        let pod = facts(|_| {});
        assert_eq!(names(&pod), ["web", "cache", "proxy"]);
        assert_eq!(pod.containers[0].id.as_deref(), Some("a".repeat(64).as_str()));
        assert_eq!((&*pod.pod.namespace, &*pod.pod.name), ("shop", "web-0"));
        assert_eq!(
            pod.pod.annotations.keys().collect::<Vec<_>>(),
            ["koordinator.sh/memoryLocality"]
        );
    }

    #[test]
    fn a_container_that_will_run_again_stays_without_its_id() {
        let ended = |code: i64, restart: &str| {
            facts(|pod| {
                pod["spec"]["restartPolicy"] = restart.into();
                let state = serde_json::json!({"terminated": {"exitCode": code}});
                pod["status"]["containerStatuses"][0]["state"] = state;
            })
        };
        for (code, restart, stays) in [
            (0, "Always", true),
            (1, "OnFailure", true),
            (0, "OnFailure", false),
            (1, "Never", false),
        ] {
            let pod = ended(code, restart);
            // Statuses are sorted by name: the first is that of `cache`.
            let cache = pod.containers.iter().find(|container| container.name == "cache");
            assert_eq!(
                cache.map(|cache| cache.id.clone()),
                stays.then_some(None),
                "{code} {restart}"
            );
        }
        for (own, stays) in [("Never", false), ("Always", true)] {
            let pod = facts(|pod| {
                for container in pod["spec"]["containers"].as_array_mut().expect("a list") {
                    container["restartPolicy"] = own.into();
                }
                let state = serde_json::json!({"terminated": {"exitCode": 1}});
                pod["status"]["containerStatuses"][0]["state"] = state;
            });
            assert_eq!(names(&pod).contains(&"cache"), stays, "its own policy is {own}");
        }
        let done = facts(|pod| pod["status"]["phase"] = "Succeeded".into());
        assert_eq!(names(&done), [""; 0]);
    }

    #[test]
    fn a_static_pod_has_the_uid_of_its_node() {
        let pod = facts(|pod| pod["metadata"]["annotations"][MIRROR_KEY] = "0123abcd".into());
        assert_eq!(
            (&*pod.pod.uid, &*pod.api_uid),
            ("0123abcd", "5f2a60c1-d3b4-4e89-8f00-000000000001")
        );
    }

    #[test]
    fn the_workload_is_that_which_has_made_the_pod() {
        let owner = |references: serde_json::Value, hash: &str| {
            let pod = facts(|pod| {
                pod["metadata"]["ownerReferences"] = references;
                pod["metadata"]["labels"]["pod-template-hash"] = hash.into();
            });
            (pod.pod.owner.kind, pod.pod.owner.name)
        };
        let by = |kind: &str, name: &str| {
            let config = serde_json::json!({"kind": "Config", "name": "x"});
            serde_json::json!([config, {"kind": kind, "name": name, "controller": true}])
        };
        for (references, hash, kind, name) in [
            (by("ReplicaSet", "web-6f7d"), "6f7d", "Deployment", "web"),
            // A ReplicaSet made by hand, without a Deployment.
            (by("ReplicaSet", "web-6f7d"), "other", "ReplicaSet", "web-6f7d"),
            (by("StatefulSet", "db-6f7d"), "6f7d", "StatefulSet", "db-6f7d"),
            (by("DaemonSet", "log"), "", "DaemonSet", "log"),
            (by("Job", "once-28"), "", "Job", "once-28"),
            (serde_json::json!([]), "", "Pod", "web-0"),
            (serde_json::Value::Null, "", "Pod", "web-0"),
        ] {
            assert_eq!(owner(references, hash), (kind.to_owned(), name.to_owned()));
        }
    }

    #[test]
    fn the_class_is_that_of_the_kubelet() {
        for (class, cpu, expected) in [
            ("Guaranteed", "2", QosClass::Lsr),
            ("Guaranteed", "2000m", QosClass::Lsr),
            ("Guaranteed", "1500m", QosClass::Ls),
            ("Burstable", "2", QosClass::Ls),
            ("BestEffort", "0", QosClass::Be),
        ] {
            let pod = facts(|pod| {
                pod["status"]["qosClass"] = class.into();
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu.into();
            });
            let resources = pod.containers[0].resources;
            let container = numaloc_policy::Container { name: "web".to_owned(), resources };
            assert_eq!(
                qos_class(&pod.pod, &container, &Ceilings::default()),
                expected,
                "{class} {cpu}"
            );
        }
    }

    #[test]
    fn what_the_kubelet_has_given_counts_and_a_pool_of_the_pod_is_that_of_all() {
        let shares = |change: fn(&mut serde_json::Value)| {
            let pod = facts(|pod| {
                pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
                change(pod);
            });
            pod.containers[0].resources.cpu_shares
        };
        assert_eq!(shares(|_| {}), Some(2048));
        // A resize is not carried out yet.
        assert_eq!(
            shares(|pod| {
                for at in 0..3 {
                    let state = &mut pod["status"]["containerStatuses"][at];
                    state["allocatedResources"] =
                        serde_json::json!({"cpu": "1500m", "memory": "1Gi"});
                }
            }),
            Some(1536)
        );
        // A container that requests a part of its pod's CPUs.
        let shared = |pod: &mut serde_json::Value| {
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m".into();
            pod["spec"]["resources"] = serde_json::json!({"limits": {"cpu": "4", "memory": "8Gi"}});
        };
        assert_eq!(shares(shared), Some(4096));
        let class = |change: fn(&mut serde_json::Value)| {
            let pod = facts(|pod| {
                pod["status"]["qosClass"] = "Guaranteed".into();
                change(pod);
            });
            let resources = pod.containers[0].resources;
            let container = numaloc_policy::Container { name: "web".to_owned(), resources };
            qos_class(&pod.pod, &container, &Ceilings::default())
        };
        assert_eq!(class(shared), QosClass::Lsr);
        assert_eq!(
            class(|pod| {
                pod["spec"]["resources"] = serde_json::json!({"requests": {"cpu": "3500m"}});
            }),
            QosClass::Ls
        );
    }
}
