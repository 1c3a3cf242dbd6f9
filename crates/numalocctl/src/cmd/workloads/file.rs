//! Reads the file of workloads that `workloads set` declares.

use crate::{
    args::{cgroup_path, parse_workload},
    exit::Failure,
};
use numaloc_api::{
    Known, descriptor, v1,
    value::{QosClass, WorkloadSpec},
};
use prost_reflect::{DeserializeOptions, DynamicMessage};
use serde_json::{Deserializer, Value};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Reads the workloads of a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, is not valid JSON, or has values that no workload can have.
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

/// What a workload's message registers. Fields that only the daemon sets are ignored.
fn spec(entry: Value) -> Result<WorkloadSpec, String> {
    let entry = message(entry)?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let ttl = entry.ttl.map(std::time::Duration::try_from).transpose();
    Ok(WorkloadSpec {
        id: parse_workload(&entry.name)?,
        cgroup: some(entry.cgroup).as_deref().map(cgroup_path).unwrap_or_default(),
        container_id: some(entry.container_id),
        pod_uid: some(entry.pod_uid),
        namespace: some(entry.namespace),
        labels: entry.labels,
        qos_class: QosClass::known(entry.qos_class).ok_or("qos_class is not known")?,
        source: None,
        ttl: ttl.map_err(|error| format!("ttl: {error}"))?,
    })
}

/// The message that `-o json` writes.
fn message(entry: Value) -> Result<v1::Workload, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let message =
        DynamicMessage::deserialize_with_options(descriptor::<v1::Workload>()?, entry, &options);
    let message = message.map_err(|error| error.to_string())?;
    message.transcode_to().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
            "labels": {"app": "redis"}, "qos_class": "QOS_CLASS_BE", "source": "other", "ttl": "90s", "expire_time": null,
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
            (
                r#"{"name": "a"} {"cgroup": "/a"}"#,
                "workload 2: '' is not a valid name for a workload",
            ),
            (r#"{"name": "a b"}"#, "workload 1: 'a b' is not a valid name for a workload"),
            (r#"{"name": "a", "qos_class": "x"}"#, "workload 1: unrecognized enum value"),
            (r#"{"name": "a", "ttl": "-1s"}"#, "workload 1: ttl"),
            (r#"{"name": "a", "ttl_seconds": 1}"#, "workload 1: unrecognized field"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
