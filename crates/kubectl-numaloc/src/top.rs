//! `top`: where remote memory is.

use crate::{
    Answer,
    args::Output,
    cluster::{Api, Failure},
    object::{NODE_LOCALITIES, age, ago, condition, list, name, number, text},
    table::table,
};
use numaloc_core::amount::shown_size;
use serde_json::{Value, json};
use std::{cmp::Reverse, time::SystemTime};

/// The agents' reports, or a message about what is missing if there are none.
pub async fn reported(cluster: &impl Api) -> Result<Vec<Value>, Failure> {
    match cluster.list(NODE_LOCALITIES, false).await {
        Err(Failure::NotFound(_)) => Err(Failure::NotFound(
            "the cluster has no kind NodeMemoryLocality: install the definitions and the agent (helm install numaloc)".to_owned(),
        )),
        other => other,
    }
}

pub async fn nodes(cluster: &impl Api, output: Output, now: SystemTime) -> Result<Answer, Failure> {
    let mut nodes = reported(cluster).await?;
    nodes.sort_by(|a, b| {
        let key = |node: &Value| Reverse(number(node, "/status/remoteBytes"));
        key(a).cmp(&key(b)).then_with(|| name(a).cmp(name(b)))
    });
    if output == Output::Json {
        return Ok((json!({"items": nodes}).to_string() + "\n").into());
    }
    if nodes.is_empty() {
        return Ok("No agent has reported yet.\n".to_owned().into());
    }
    let row = |node: &Value| {
        let observed = ago(text(node, "/status/observedTime"), now);
        vec![
            name(node).to_owned(),
            number(node, "/status/localPercent").to_string(),
            shown_size(number(node, "/status/remoteBytes")),
            number(node, "/status/containers").to_string(),
            number(node, "/status/managedContainers").to_string(),
            condition(node, "DaemonReachable").map_or("?", |it| text(it, "/status")).to_owned(),
            observed.map_or_else(|| "?".to_owned(), age),
        ]
    };
    let mut rows: Vec<_> = nodes.iter().map(row).collect();
    if nodes.len() > 1 {
        let sum = |pointer: &str| nodes.iter().map(|node| number(node, pointer)).sum::<u64>();
        let (local, remote) = (sum("/status/localBytes"), sum("/status/remoteBytes"));
        let percent = (100 * local).checked_div(local + remote).unwrap_or(100);
        rows.push(vec![
            "(all)".to_owned(),
            percent.to_string(),
            shown_size(remote),
            sum("/status/containers").to_string(),
            sum("/status/managedContainers").to_string(),
            String::new(),
            String::new(),
        ]);
    }
    let headers = ["NODE", ">LOCAL%", ">REMOTE", ">CONTAINERS", ">MANAGED", "DAEMON", ">OBSERVED"];
    Ok(table(&headers, rows).into())
}

/// The containers with the most remote memory, of one namespace or of all.
pub async fn containers(
    cluster: &impl Api,
    namespace: Option<&str>,
    output: Output,
) -> Result<Answer, Failure> {
    let nodes = reported(cluster).await?;
    let of_node = |node: &Value| {
        let node_name = name(node).to_owned();
        let top = list(node, "/status/topRemote").to_vec();
        top.into_iter().map(move |mut container| {
            container["node"] = node_name.clone().into();
            container
        })
    };
    let is_wanted =
        |container: &Value| namespace.is_none_or(|wanted| container["namespace"] == wanted);
    let mut all: Vec<Value> = nodes.iter().flat_map(of_node).filter(is_wanted).collect();
    all.sort_by_key(|container| Reverse(number(container, "/remoteBytes")));
    if output == Output::Json {
        return Ok((json!({"items": all}).to_string() + "\n").into());
    }
    if all.is_empty() {
        let place = namespace.map_or(String::new(), |name| format!(" in namespace {name}"));
        return Ok(format!(
            "No container{place} is among the ten of its node with the most remote memory.\n"
        )
        .into());
    }
    let row = |container: &Value| {
        let word = |key: &str| text(container, key).to_owned();
        vec![
            word("/namespace"),
            word("/pod"),
            word("/container"),
            word("/node"),
            shown_size(number(container, "/remoteBytes")),
            number(container, "/localPercent").to_string(),
        ]
    };
    let headers = ["NAMESPACE", "POD", "CONTAINER", "NODE", ">REMOTE", ">LOCAL%"];
    Ok(table(&headers, all.iter().map(row).collect()).into())
}
