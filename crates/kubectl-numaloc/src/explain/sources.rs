//! The source that decides about each container of a pod, as its agent finds it: also before the agent has written a status. What only the
//! configuration of the agent has, defaults and ceilings, is not known here.

use crate::{
    cluster::{Api, Failure},
    object::{NODES, age, labels, list, text},
};
use numaloc_policy::{
    ClassStrategy, Container, DecisionSource, Defaults, Node, Pod, Policies, PolicyResource,
    QOS_CONFIG_KEY, QOS_LABEL, QosConfig, Settings, Sources, cgroup_parent, cpu_resources, decide,
    milli_cpu, named_class,
};
use serde_json::Value;
use std::{fmt::Write, time::SystemTime};

/// The ConfigMaps that agents read, in this order: the one that is configured by default, and Koordinator's own.
const CONFIG_MAPS: [(&str, &str); 2] =
    [("kube-system", "ack-slo-config"), ("koordinator-system", "slo-controller-config")];

/// A node as policies select it. Without the right to get it, it has no labels.
pub async fn node(cluster: &impl Api, node: &str) -> Result<Node, Failure> {
    let labels = match cluster.get(&format!("{NODES}/{node}")).await {
        Ok(object) => labels(&object),
        Err(Failure::Forbidden(_) | Failure::NotFound(_)) => Default::default(),
        Err(other) => return Err(other),
    };
    Ok(Node { name: node.to_owned(), labels })
}

/// The strategies that a ConfigMap has for a node.
#[derive(Default)]
pub struct OfConfigMap {
    /// What it has for the pod, or why there is none.
    pub text: String,
    /// The ConfigMap.
    name: String,
    strategy: Option<ClassStrategy>,
    /// Why its strategies are not known, as far as the decision depends on them.
    unknown: Option<&'static str>,
}

/// Reads the first ConfigMap that has strategies.
pub async fn config_map(
    cluster: &impl Api,
    pod: &Pod,
    node: &Node,
) -> Result<OfConfigMap, Failure> {
    let mut of = OfConfigMap::default();
    let Some(class) = named_class(pod) else {
        of.text = format!("ConfigMap: for pods with the label {QOS_LABEL}\n");
        return Ok(of);
    };
    for (namespace, map) in CONFIG_MAPS {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/{map}");
        let object = match cluster.get(&path).await {
            Ok(object) => object,
            Err(Failure::NotFound(_)) => continue,
            Err(Failure::Forbidden(why)) => {
                of.name = format!("ConfigMap {namespace}/{map}");
                of.text = format!("{}: unknown, {why}\n", of.name);
                of.unknown = Some("unknown, you may not read it");
                return Ok(of);
            }
            Err(other) => return Err(other),
        };
        let value = text(&object, &format!("/data/{QOS_CONFIG_KEY}"));
        if value.is_empty() {
            continue;
        }
        of.name = format!("ConfigMap {namespace}/{map}");
        let what = match QosConfig::read(value) {
            Ok(config) => {
                let strategy = config.for_node(&node.labels).clone();
                let settings = strategy.get(&class).cloned();
                of.strategy = Some(strategy);
                settings.map_or_else(|| "nothing".to_owned(), |settings| does(settings.as_ref()))
            }
            Err(bad) => {
                of.unknown = Some("what it had last");
                format!("{bad}; the last valid contents stay in force")
            }
        };
        let label = pod.labels.get(QOS_LABEL).map(String::as_str).unwrap_or_default();
        of.text = format!("{}, for class {label}: {what}\n", of.name);
        return Ok(of);
    }
    of.text = format!("ConfigMap: none has {QOS_CONFIG_KEY}\n");
    Ok(of)
}

/// The source that decides about each container.
pub fn deciding(
    object: &Value,
    pod: Pod,
    policies: &[PolicyResource],
    node: &Node,
    map: &OfConfigMap,
    now: SystemTime,
) -> String {
    let (uid, class) = (text(object, "/metadata/uid"), text(object, "/status/qosClass"));
    let annotations = object.pointer("/metadata/annotations");
    let annotations = annotations.and_then(|all| serde_json::from_value(all.clone()).ok());
    let cgroup_parent = cgroup_parent(class, uid);
    let pod = Pod {
        uid: uid.to_owned(),
        annotations: annotations.unwrap_or_default(),
        cgroup_parent,
        ..pod
    }
    .bounded();
    let defaults = Defaults::default();
    let sources = Sources {
        policies: Some(Policies { all: policies, node, now }),
        strategy: map.strategy.as_ref(),
        is_strategy_unknown: map.unknown.is_some(),
        ..Sources::from(&defaults)
    };
    let mut lines = String::from("decides:\n");
    for container in containers(object) {
        let source = match decide(&pod, &container, sources) {
            Err(bad) => format!("annotation {}, which cannot be parsed", bad.key),
            Ok(decision) => match decision.source {
                DecisionSource::Default => {
                    "no source of these; the agent's default for its class, if agent.toml has one in [pods]"
                        .to_owned()
                }
                DecisionSource::ConfigMap => {
                    let what = does(decision.settings.as_ref());
                    format!("{}: {}", map.name, map.unknown.unwrap_or(&what))
                }
                source => format!("{source}: {}", does(decision.settings.as_ref())),
            },
        };
        let _ = writeln!(lines, "  {}: {source}", container.name);
    }
    lines
}

/// A schedule in a few words.
fn does(settings: Option<&Settings>) -> String {
    match settings {
        None => "none".to_owned(),
        Some(settings) if settings.is_paused() => "paused".to_owned(),
        Some(settings) if settings.repeats() => format!("each {}", age(settings.interval())),
        Some(_) => "once".to_owned(),
    }
}

/// The containers that run all the time, sidecars last, with what decides about their class.
fn containers(object: &Value) -> impl Iterator<Item = Container> {
    let usual = list(object, "/spec/containers").iter();
    let sidecars = list(object, "/spec/initContainers").iter();
    let all = usual.chain(sidecars.filter(|init| init["restartPolicy"] == "Always"));
    all.map(move |container| {
        // CPUs of the pod as a whole are shared by its containers.
        let cpu = [(object, "/spec/resources"), (container, "/resources")];
        let cpu = cpu.iter().find_map(|(of, path)| {
            let asked = ["requests", "limits"].map(|kind| text(of, &format!("{path}/{kind}/cpu")));
            asked.into_iter().find_map(milli_cpu)
        });
        Container { name: text(container, "/name").to_owned(), resources: cpu_resources(cpu) }
    })
    .filter(|container| !container.name.is_empty())
}
