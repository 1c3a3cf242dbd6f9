//! Prints targets as the options that name them.

use numaloc_api::v1::{self, LabelSelectorOperator as Operator};

/// A target for tables: the first members of each kind, and how many more there are.
pub fn target(target: Option<&v1::Target>) -> String {
    let Some(target) = target else { return String::new() };
    let named = target.processes.iter().map(|process| process.pid);
    let pids = target.pids.iter().copied().chain(named);
    let pids: Vec<_> = pids.map(|pid| pid.to_string()).collect();
    let named = [
        ("pid", &pids),
        ("cgroup", &target.cgroups),
        ("unit", &target.units),
        ("container", &target.containers),
        ("pod", &target.pods),
        ("vm", &target.virtual_machines),
        ("label", &target.container_labels),
        ("file", &target.files),
    ];
    let mut parts: Vec<_> = named
        .into_iter()
        .filter_map(|(kind, names)| match &names[..] {
            [] => None,
            [only] => Some(format!("{kind} {only}")),
            [first, more @ ..] => Some(format!("{kind} {first} +{}", more.len())),
        })
        .collect();
    if let Some(selector) = &target.labels {
        let labels = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<_> =
            labels.chain(selector.match_expressions.iter().map(condition)).collect();
        parts.extend((!labels.is_empty()).then(|| labels.join(",")));
        let namespace = &selector.namespace;
        parts.extend((!namespace.is_empty()).then(|| format!("namespace {namespace}")));
    }
    let creators = target.workload_creators.join(",");
    parts.extend((!creators.is_empty()).then(|| format!("workloads of {creators}")));
    parts.join("; ")
}

/// A condition on a label in the text form of Kubernetes.
fn condition(condition: &v1::LabelSelectorRequirement) -> String {
    let (key, values) = (&condition.key, condition.values.join(","));
    match condition.operator() {
        Operator::In => format!("{key} in ({values})"),
        Operator::NotIn => format!("{key} notin ({values})"),
        Operator::DoesNotExist => format!("!{key}"),
        Operator::Exists | Operator::Unspecified => key.clone(),
    }
}
