//! `policies`: all policies, the pods that they select, and their errors.

use crate::{
    Answer,
    args::Output,
    cluster::{Api, Failure},
    object::{
        ALL_POLICIES, CLUSTER_POLICIES, PODS, name, pods as pods_of, policies as policies_of, text,
    },
    table::table,
};
use numaloc_policy::{PolicyKind, PolicyResource, PolicyVerdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The policies of a namespace, or of all, and those of the cluster, as they are read.
pub async fn read(
    cluster: &impl Api,
    namespace: Option<&str>,
) -> Result<Vec<(PolicyKind, Value, Result<PolicyResource, String>)>, Failure> {
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
    let rows: Vec<_> =
        all.iter().map(|(kind, object, read)| row(*kind, object, read, pods.as_deref())).collect();
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
    pods: Option<&[Value]>,
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
            let selected = pods.map(|pods| pods.iter().filter(|pod| selects(policy, pod)).count());
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

/// Whether a policy selects a pod by its namespace and labels. Nodes and classes of containers are the agents'
/// business.
pub fn selects(policy: &PolicyResource, pod: &Value) -> bool {
    let namespace = text(pod, "/metadata/namespace");
    let labels: BTreeMap<String, String> = pod
        .pointer("/metadata/labels")
        .and_then(|labels| serde_json::from_value(labels.clone()).ok())
        .unwrap_or_default();
    policy.selects(namespace, &labels)
}
