//! Workloads in a file.

use crate::{
    args::{Qos, cgroup_path, parse_workload},
    exit::Failure,
};
use clap::ValueEnum;
use numaloc_api::value::WorkloadSpec;
use serde::Deserialize;
use serde_json::{Deserializer, Value};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// A workload as documents have it. Fields that only the daemon sets are ignored.
#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    cgroup: Option<String>,
    container_id: Option<String>,
    pod_uid: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    qos_class: Option<String>,
    ttl_seconds: Option<f64>,
}

/// Reads the workloads of a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, is no JSON, or has values that no workload can have.
pub fn read(path: &Path) -> Result<Vec<WorkloadSpec>, Failure> {
    let text = match path.as_os_str() == "-" {
        true => io::read_to_string(io::stdin()),
        false => fs::read_to_string(path),
    };
    let failed = |reason: String| Failure::Config { path: PathBuf::from(path), reason };
    let text = text.map_err(|error| failed(format!("cannot be read: {error}")))?;
    parse(&text).map_err(failed)
}

fn parse(text: &str) -> Result<Vec<WorkloadSpec>, String> {
    let mut entries = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        entries.extend(workloads(value.map_err(|error| format!("no JSON: {error}"))?));
    }
    let numbered = entries.into_iter().zip(1..);
    let spec = |(entry, number)| spec(entry).map_err(|why| format!("workload {number}: {why}"));
    numbered.map(spec).collect()
}

/// The workloads in one JSON value: a document, a list, or a single workload.
fn workloads(value: Value) -> Vec<Value> {
    match value {
        Value::Array(entries) => entries,
        Value::Object(mut fields) => match fields.remove("workloads") {
            Some(Value::Array(entries)) => entries,
            _ => vec![Value::Object(fields)],
        },
        other => vec![other],
    }
}

fn spec(entry: Value) -> Result<WorkloadSpec, String> {
    let entry: Entry = serde_json::from_value(entry).map_err(|error| error.to_string())?;
    let qos = |class: &String| Qos::from_str(class, true).map(Into::into);
    let qos_class = entry.qos_class.as_ref().map(qos).transpose();
    let ttl = entry.ttl_seconds.map(Duration::try_from_secs_f64).transpose();
    Ok(WorkloadSpec {
        id: parse_workload(&entry.name)?,
        cgroup: entry.cgroup.as_deref().map(cgroup_path).unwrap_or_default(),
        container_id: entry.container_id,
        pod_uid: entry.pod_uid,
        namespace: entry.namespace,
        labels: entry.labels,
        qos_class: qos_class.map_err(|_| "qos_class is none of lsr, ls and be".to_owned())?,
        source: None,
        ttl: ttl.map_err(|error| format!("ttl_seconds: {error}"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_api::value::QosClass;

    fn ids(text: &str) -> Result<Vec<String>, String> {
        Ok(parse(text)?.iter().map(|spec| spec.id.id().to_owned()).collect())
    }

    #[test]
    fn a_document_a_list_and_lines_are_read() {
        let [a, b] =
            ["a", "b"].map(|id| format!(r#"{{"name": "workloads/{id}", "cgroup": "/{id}"}}"#));
        for text in [
            format!(r#"{{"workloads": [{a}, {b}]}}"#),
            format!("[{a}, {b}]"),
            format!("{a}\n{b}\n"),
            format!("{a}{b}"),
            format!("[{a}]\n{b}"),
        ] {
            assert_eq!(ids(&text).as_deref(), Ok(&["a".to_owned(), "b".to_owned()][..]), "{text}");
        }
        assert_eq!(ids(""), Ok(Vec::new()));
        assert_eq!(ids(r#"{"workloads": []}"#), Ok(Vec::new()));
    }

    #[test]
    fn what_is_printed_is_read() {
        let text = r#"{"name": "redis", "cgroup": "/sys/fs/cgroup/a/", "container_id": null, "pod_uid": "p", "namespace": "prod",
            "labels": {"app": "redis"}, "qos_class": "be", "source": "other", "ttl_seconds": 90, "expire_time": null,
            "etag": "1", "creator": "uid:0"}"#;
        let [spec] = &parse(text).expect("a workload")[..] else { panic!("one") };
        assert_eq!((spec.cgroup.as_str(), &spec.container_id), ("/a", &None));
        assert_eq!((spec.pod_uid.as_deref(), spec.namespace.as_deref()), (Some("p"), Some("prod")));
        assert_eq!((spec.qos_class, &spec.source), (Some(QosClass::Be), &None));
        assert_eq!(
            (spec.labels["app"].as_str(), spec.ttl),
            ("redis", Some(Duration::from_secs(90)))
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, expected) in [
            ("{", "no JSON: EOF"),
            ("[1]", "workload 1: invalid type"),
            (r#"{"name": "a"} {"cgroup": "/a"}"#, "workload 2: missing field `name`"),
            (r#"{"name": "a b"}"#, "workload 1: 'a b' is not a valid name for a workload"),
            (r#"{"name": "a", "qos_class": "x"}"#, "workload 1: qos_class is none"),
            (r#"{"name": "a", "ttl_seconds": -1}"#, "workload 1: ttl_seconds"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
