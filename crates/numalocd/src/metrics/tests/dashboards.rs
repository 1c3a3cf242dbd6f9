//! All metrics that the dashboard and the rules in `packaging` name exist. `tests/dashboards` asks a real Prometheus.

use super::filled;
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../../../packaging/grafana/numaloc.json");
const RULES: &str = include_str!("../../../../../packaging/prometheus/numaloc.rules.yml");

/// The names of metrics, and of records of rules, in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let is_ours = |name: &&str| {
        name.starts_with("numaloc_") || name.starts_with("process_") || name.contains(":numaloc_")
    };
    text.split(move |c: char| !is_part(c)).filter(is_ours)
}

/// The names of all samples. `docs/metrics.md` has the metrics that they belong to, as another test says.
fn samples() -> BTreeSet<String> {
    let text = filled().text();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// All texts in a document.
fn texts(document: &Value) -> Vec<&str> {
    match document {
        Value::String(text) => vec![text],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// The rest of each line of the rules that begins with this.
fn rules(beginning: &str) -> BTreeSet<&'static str> {
    RULES.lines().filter_map(|line| line.trim_start().strip_prefix(beginning)).collect()
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let samples = samples();
    let shown: BTreeSet<&str> = texts(&dashboard).into_iter().flat_map(names).collect();
    assert!(shown.contains("numaloc_moved_bytes_total"), "{shown:?}");
    let unknown: Vec<_> = shown.iter().filter(|name| !samples.contains(**name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_rules_are_about_what_there_is() {
    let samples = samples();
    let recorded = rules("- record: ");
    assert!(!recorded.is_empty());
    // Ports of the node agent have the metrics of both; what the agent adds, tests/dashboards has a recording of.
    let own = names(RULES).filter(|name| !name.starts_with("numaloc_agent_"));
    let unknown: BTreeSet<_> =
        own.filter(|name| !samples.contains(*name) && !recorded.contains(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn the_documentation_lists_the_alerts() {
    let page = include_str!("../../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
    let documented: BTreeSet<_> = rows.filter(|cell| cell.starts_with("Numaloc")).collect();
    let alerts = rules("- alert: ");
    assert!(!alerts.is_empty());
    assert_eq!(documented, alerts);
}
