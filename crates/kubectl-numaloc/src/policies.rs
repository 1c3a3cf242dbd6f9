//! `policies`: all policies, the pods that they select, and their errors.

use crate::{
    Answer,
    args::Output,
    cluster::{Api, Failure},
    object::{
        ALL_POLICIES, CLUSTER_POLICIES, NAMESPACES, PODS, labels, name, pods as pods_of,
        policies as policies_of, text,
    },
    table::table,
};
use numaloc_policy::{Owner, Pod, PolicyKind, PolicyResource, PolicyVerdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Policies as they are read, with their objects.
pub type Policies = Vec<(PolicyKind, Value, Result<PolicyResource, String>)>;

/// The policies of a namespace, or of all, and those of the cluster.
pub async fn read(cluster: &impl Api, namespace: Option<&str>) -> Result<Policies, Failure> {
    let path = namespace.map_or_else(|| ALL_POLICIES.to_owned(), policies_of);
    let mut all = Vec::new();
    for (kind, path) in
        [(PolicyKind::Cluster, CLUSTER_POLICIES.to_owned()), (PolicyKind::Namespaced, path)]
    {
        let objects = match cluster.list(&path, false).await {
            // The kinds are optional.
            Err(Failure::NotFound(_)) => Vec::new(),
            other => other?,
        };
        for object in objects {
            let read = PolicyResource::read(kind, &object).map_err(|bad| bad.problem);
            all.push((kind, object, read));
        }
    }
    Ok(all)
}

pub async fn run(
    cluster: &impl Api,
    namespace: Option<&str>,
    output: Output,
) -> Result<Answer, Failure> {
    let all = read(cluster, namespace).await?;
    let path = namespace.map_or_else(|| PODS.to_owned(), pods_of);
    // Without the right to list pods, policies are worth showing all the same.
    let pods = match cluster.list(&path, true).await {
        Err(Failure::Forbidden(_)) => None,
        other => Some(other?),
    };
    let is_well = all.iter().all(|(_, _, read)| read.is_ok());
    let labels = NamespaceLabels::read(cluster, &all).await?;
    let pods = pods.map(|pods| pods.iter().map(|pod| labels.pod(pod)).collect::<Vec<_>>());
    let row = |(kind, object, read): &(_, _, _)| {
        let selected = |policy: &PolicyResource| {
            let pods = pods.as_ref().filter(|_| labels.suffice_for(policy))?;
            Some(pods.iter().filter(|pod| policy.selects(pod)).count())
        };
        row(*kind, object, read, selected)
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    if output == Output::Json {
        let item = |row: &Vec<String>| {
            let keys = [
                "namespace",
                "name",
                "priority",
                "does",
                "enforce",
                "rolloutPercent",
                "pods",
                "state",
            ];
            Value::Object(
                keys.iter().zip(row).map(|(key, cell)| ((*key).to_owned(), json!(cell))).collect(),
            )
        };
        let items: Vec<Value> = rows.iter().map(item).collect();
        return Ok(Answer { text: json!({"items": items}).to_string() + "\n", is_well });
    }
    if rows.is_empty() {
        return Ok("No policies.\n".to_owned().into());
    }
    let headers =
        ["NAMESPACE", "NAME", ">PRIORITY", "DOES", "ENFORCE", ">ROLLOUT", ">PODS", "STATE"];
    Ok(Answer { text: table(&headers, rows), is_well })
}

fn row(
    kind: PolicyKind,
    object: &Value,
    read: &Result<PolicyResource, String>,
    selected: impl Fn(&PolicyResource) -> Option<usize>,
) -> Vec<String> {
    let namespace = match kind {
        PolicyKind::Namespaced => text(object, "/metadata/namespace"),
        PolicyKind::Cluster => "(cluster)",
    };
    let mut row = vec![namespace.to_owned(), name(object).to_owned()];
    match read {
        Err(problem) => {
            row.extend(["", "nothing", "", "", "", problem.as_str()].map(str::to_owned))
        }
        Ok(policy) => {
            let is_of_cluster = kind == PolicyKind::Cluster;
            let only = |text: String| if is_of_cluster { text } else { String::new() };
            let selected = selected(policy);
            row.extend([
                policy.priority.to_string(),
                does(policy, object),
                only(if policy.cluster.is_enforced { "yes" } else { "no" }.to_owned()),
                only(format!("{} %", policy.cluster.rollout_percent)),
                selected.map_or_else(|| "?".to_owned(), |count| count.to_string()),
                "accepted".to_owned(),
            ]);
        }
    }
    row
}

/// A policy in a few words; the interval as its object has it.
pub fn does(policy: &PolicyResource, object: &Value) -> String {
    let interval = text(object, "/spec/schedule/interval");
    match &policy.verdict {
        PolicyVerdict::Abstains => "bounds".to_owned(),
        PolicyVerdict::Off => "none".to_owned(),
        PolicyVerdict::Settings(settings) if policy.is_paused || settings.is_paused() => {
            "paused".to_owned()
        }
        PolicyVerdict::Settings(settings) if settings.repeats() => format!("each {interval}"),
        PolicyVerdict::Settings(_) => "once".to_owned(),
    }
}

/// The labels of all namespaces.
pub struct NamespaceLabels(Option<BTreeMap<String, BTreeMap<String, String>>>);

impl NamespaceLabels {
    /// Reads them if one of these policies chooses by them. Without the right to do so they are not known.
    pub async fn read(cluster: &impl Api, all: &Policies) -> Result<Self, Failure> {
        let mut policies = all.iter().filter_map(|(.., read)| read.as_ref().ok());
        if !policies.any(PolicyResource::needs_namespaces) {
            return Ok(Self(Some(BTreeMap::new())));
        }
        let namespaces = match cluster.list(NAMESPACES, true).await {
            Err(Failure::Forbidden(_)) => return Ok(Self(None)),
            other => other?,
        };
        let labels = |namespace: &Value| (name(namespace).to_owned(), labels(namespace));
        Ok(Self(Some(namespaces.iter().map(labels).collect())))
    }

    /// Whether they are known as far as a policy needs them.
    pub fn suffice_for(&self, policy: &PolicyResource) -> bool {
        self.0.is_some() || !policy.needs_namespaces()
    }

    /// A pod as policies select it. Nodes and classes of containers are the agents' business.
    pub fn pod(&self, object: &Value) -> Pod {
        let namespace = text(object, "/metadata/namespace").to_owned();
        let (name, labels) = (name(object).to_owned(), labels(object));
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten();
        let controller = owners.find(|owner| owner["controller"] == Value::Bool(true));
        let controller = controller
            .map(|owner| (text(owner, "/kind").to_owned(), text(owner, "/name").to_owned()));
        let owner = Owner::of(&name, controller, &labels);
        let of_namespace = self.0.as_ref().and_then(|all| all.get(&namespace));
        let namespace_labels = of_namespace.cloned().unwrap_or_default();
        Pod { namespace, name, labels, owner, namespace_labels, ..Pod::default() }
    }
}
