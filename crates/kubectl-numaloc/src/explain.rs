//! `explain`: the policy that decides for a pod, and its result.

mod sources;

use crate::{
    Answer,
    cluster::{Api, Failure},
    object::{NODE_LOCALITIES, age, ago, annotation, condition, pods, text},
    policies::{self, NamespaceLabels, Policies},
    table::table,
};
use numaloc_core::amount::shown_size;
use numaloc_policy::{
    CONTAINER_KEY, KOORDINATOR_KEY, OWN_STATUS_KEY, OwnStatus, POLICIES_KEY, POLICY_KEY, PastRun,
    Pod, RUN_KEY, STATUS_KEY,
};
use serde_json::Value;
use std::{fmt::Write, time::SystemTime};

/// The annotation of a static pod's mirror that has the uid by which its node knows it (kubernetes/pkg/kubelet/types).
const MIRROR_KEY: &str = "kubernetes.io/config.mirror";

pub async fn run(
    cluster: &impl Api,
    namespace: &str,
    pod_name: &str,
    now: SystemTime,
) -> Result<Answer, Failure> {
    let pod = cluster.get(&format!("{}/{pod_name}", pods(namespace))).await?;
    let mut out = format!("pod {namespace}/{pod_name}");
    let node = text(&pod, "/spec/nodeName");
    match node {
        "" => out += ", on no node yet\n",
        node => writeln!(out, ", on node {node}").unwrap_or_default(),
    }
    out += &asked(&pod);
    out += &deciding(cluster, namespace, &pod, now).await?;
    let is_served = agent(cluster, node, now, &mut out).await?;
    out += &result(&pod);
    out += &last_runs(&pod, now);
    out += &events(cluster, namespace, &pod, now).await?;
    Ok(Answer { text: out, is_well: is_served })
}

/// The policy in its annotations.
fn asked(pod: &Value) -> String {
    let keys = pod.pointer("/metadata/annotations").and_then(Value::as_object);
    let is_policy = |key: &str| {
        [POLICY_KEY, POLICIES_KEY, KOORDINATOR_KEY, RUN_KEY].contains(&key)
            || key.starts_with(CONTAINER_KEY)
    };
    let mut lines = String::new();
    for (key, value) in keys.into_iter().flatten().filter(|(key, _)| is_policy(key)) {
        let _ = writeln!(lines, "  {key}: {}", value.as_str().unwrap_or_default().trim());
    }
    match lines.is_empty() {
        true => "annotations: no policy\n".to_owned(),
        false => format!("annotations:\n{lines}"),
    }
}

/// The policies and the ConfigMap that are for it, and what decides.
async fn deciding(
    cluster: &impl Api,
    namespace: &str,
    object: &Value,
    now: SystemTime,
) -> Result<String, Failure> {
    let (all, mut out) = match policies::read(cluster, Some(namespace)).await {
        Err(Failure::Forbidden(why)) => (None, format!("policies: unknown, {why}\n")),
        other => (Some(other?), String::new()),
    };
    let labels = NamespaceLabels::read(cluster, all.as_ref().unwrap_or(&Vec::new())).await?;
    let pod = labels.pod(object);
    out += &all.as_ref().map(|all| selecting(all, &labels, &pod)).unwrap_or_default();
    let node = sources::node(cluster, text(object, "/spec/nodeName")).await?;
    let map = sources::config_map(cluster, &pod, &node).await?;
    out += &map.text;
    let Some(all) = all else { return Ok(out + "decides: unknown, without the policies\n") };
    let mut policies = Vec::new();
    for policy in all.into_iter().filter_map(|(.., read)| read.ok()) {
        if !labels.suffice_for(&policy) {
            return Ok(out + "decides: unknown, without the labels of namespaces\n");
        }
        policies.push(policy);
    }
    Ok(out + &sources::deciding(object, pod, &policies, &node, &map, now))
}

/// The policies that select it.
fn selecting(all: &Policies, labels: &NamespaceLabels, pod: &Pod) -> String {
    let mut lines = String::new();
    for (_, object, read) in all {
        match read {
            Ok(policy) if !labels.suffice_for(policy) => {
                let _ = writeln!(
                    lines,
                    "  {policy}: unknown, it selects namespaces by labels, and you may not list namespaces"
                );
            }
            Ok(policy) if policy.selects(pod) => {
                let enforced = if policy.cluster.is_enforced { ", enforced" } else { "" };
                let _ = writeln!(
                    lines,
                    "  {policy}: {}, priority {}{enforced}",
                    policies::does(policy, object),
                    policy.priority
                );
            }
            _ => {}
        }
    }
    match lines.is_empty() {
        true => "policies: none selects it\n".to_owned(),
        false => format!("policies that select it:\n{lines}"),
    }
}

/// Whether its node has an agent that works.
async fn agent(
    cluster: &impl Api,
    node: &str,
    now: SystemTime,
    out: &mut String,
) -> Result<bool, Failure> {
    if node.is_empty() {
        return Ok(true);
    }
    let reported = match cluster.get(&format!("{NODE_LOCALITIES}/{node}")).await {
        Ok(reported) => reported,
        // Without the definitions no agent reports, and all of them work.
        Err(Failure::NotFound(_)) if is_undefined(cluster).await => {
            *out += "agent: unknown, the cluster does not define NodeMemoryLocality\n";
            return Ok(true);
        }
        Err(Failure::NotFound(_)) => {
            *out += "agent: none has reported for this node; see kubectl numaloc doctor\n";
            return Ok(false);
        }
        Err(Failure::Forbidden(why)) => {
            let _ = writeln!(out, "agent: unknown, {why}");
            return Ok(true);
        }
        Err(other) => return Err(other),
    };
    let seen =
        ago(text(&reported, "/status/observedTime"), now).map_or_else(|| "?".to_owned(), age);
    let daemon = condition(&reported, "DaemonReachable");
    let is_reachable = daemon.is_some_and(|daemon| daemon["status"] == "True");
    let state = match daemon {
        Some(_) if is_reachable => "its daemon answers".to_owned(),
        Some(daemon) => format!("its daemon does not answer: {}", text(daemon, "/message")),
        None => "it does not report on its daemon".to_owned(),
    };
    let _ = writeln!(out, "agent: seen {seen} ago, {state}");
    Ok(is_reachable)
}

async fn is_undefined(cluster: &impl Api) -> bool {
    matches!(cluster.list(NODE_LOCALITIES, true).await, Err(Failure::NotFound(_)))
}

/// The agent's report on the pod.
fn result(pod: &Value) -> String {
    let mut out = String::new();
    for (title, key) in [("status", OWN_STATUS_KEY), ("status for Koordinator", STATUS_KEY)] {
        let Some(value) = annotation(pod, key) else { continue };
        let shown = serde_json::from_str::<Value>(value)
            .and_then(|mut value| {
                // They are a table.
                value.as_object_mut().map(|status| status.remove("lastRuns"));
                serde_json::to_string_pretty(&value)
            })
            .unwrap_or_else(|_| value.to_owned());
        let _ = writeln!(out, "{title}: {}", shown.replace('\n', "\n  "));
    }
    if out.is_empty() { "status: the agent has written none\n".to_owned() } else { out }
}

/// The runs that the agent's status remembers.
fn last_runs(pod: &Value, now: SystemTime) -> String {
    let status = OwnStatus::read(annotation(pod, OWN_STATUS_KEY).unwrap_or_default());
    let row = |run: &PastRun| {
        vec![
            ago(&run.ended, now).map_or_else(|| "?".to_owned(), age),
            run.result.trim_start_matches("MemoryLocality").to_owned(),
            shown_size(run.moved_bytes),
            run.remote_bytes.map_or_else(|| "?".to_owned(), shown_size),
            run.message.replace('\n', " "),
        ]
    };
    let rows: Vec<_> = status.last_runs.iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let lines = table(&[">AGO", "RESULT", ">MOVED", ">LEFT", "WHY"], rows);
    let lines = lines.lines().map(|line| format!("  {line}\n"));
    format!("last runs:\n{}", lines.collect::<String>())
}

/// The pod's events about memory locality that the API server still has.
async fn events(
    cluster: &impl Api,
    namespace: &str,
    pod: &Value,
    now: SystemTime,
) -> Result<String, Failure> {
    // Events of a static pod have the uid that its node knows.
    let uid = annotation(pod, MIRROR_KEY).unwrap_or_else(|| text(pod, "/metadata/uid"));
    let path =
        format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}");
    let mut events = match cluster.list(&path, false).await {
        Err(Failure::Forbidden(why)) => return Ok(format!("events: unknown, {why}\n")),
        other => other?,
    };
    events.retain(|event| text(event, "/reason").starts_with("MemoryLocality"));
    events.sort_by(|a, b| text(a, "/lastTimestamp").cmp(text(b, "/lastTimestamp")));
    let mut out = String::new();
    for event in &events {
        let seen = ago(text(event, "/lastTimestamp"), now).map_or_else(|| "?".to_owned(), age);
        let message = text(event, "/message").replace('\n', "\n    ");
        let _ = writeln!(out, "  {seen} ago {}: {message}", text(event, "/reason"));
    }
    Ok(if out.is_empty() { "events: none is left\n".to_owned() } else { format!("events:\n{out}") })
}
