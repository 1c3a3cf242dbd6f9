//! Prints targets as the options that name them.

use numaloc_api::v1::{self, LabelSelectorOperator as Operator};

/// A target for tables: the first members of each kind, and how many more there are.
pub fn target(target: Option<&v1::Target>) -> String {
    let Some(target) = target else { return String::new() };
    // Each field is named: a new one does not compile before it is shown.
    let v1::Target {
        pids,
        processes,
        cgroups,
        units,
        containers,
        pods,
        virtual_machines,
        container_labels,
        files,
        labels,
        workload_creators,
    } = target;
    let named = processes.iter().map(|process| process.pid);
    let pids = pids.iter().copied().chain(named);
    let pids: Vec<_> = pids.map(|pid| pid.to_string()).collect();
    let named = [
        ("pid", &pids),
        ("cgroup", cgroups),
        ("unit", units),
        ("container", containers),
        ("pod", pods),
        ("vm", virtual_machines),
        ("label", container_labels),
        ("file", files),
    ];
    let mut parts: Vec<_> = named
        .into_iter()
        .filter_map(|(kind, names): (_, &Vec<String>)| match &names[..] {
            [] => None,
            [only] => Some(format!("{kind} {only}")),
            [first, more @ ..] => Some(format!("{kind} {first} +{}", more.len())),
        })
        .collect();
    if let Some(selector) = labels {
        let labels = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<_> =
            labels.chain(selector.match_expressions.iter().map(condition)).collect();
        parts.extend((!labels.is_empty()).then(|| labels.join(",")));
        let namespace = &selector.namespace;
        parts.extend((!namespace.is_empty()).then(|| format!("namespace {namespace}")));
    }
    let creators = workload_creators.join(",");
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
