//! Reads files of workloads, for `workloads replace` and `workloads apply`.

use crate::{
    args::{cgroup_path, parse_workload},
    cmd::documents,
    exit::Failure,
};
use numaloc_api::{
    Known, v1,
    value::{QosClass, WorkloadSpec},
    written::read_message,
};
use numaloc_config::written::{Problem, Problems, Tree, all};
use std::path::Path;

/// Reads the workloads of a file; `-` is standard input.
///
/// # Errors
/// The file cannot be read, is neither YAML nor JSON, or has values that no workload can have.
pub fn read(path: &Path) -> Result<Vec<WorkloadSpec>, Failure> {
    documents::read(path, LIST, spec)
}

/// The field of a document that has the workloads.
const LIST: &str = "workloads";

/// The registration in a workload's message. Fields that only the daemon sets are ignored.
fn spec(entry: &Tree) -> Result<WorkloadSpec, Problems> {
    all("", entry, |entry| Ok::<_, Problems>(of_message(read_message(entry)?)?))
}

/// The registration that makes a workload like this one.
pub fn of_message(entry: v1::Workload) -> Result<WorkloadSpec, Problem> {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let ttl = entry.ttl.map(std::time::Duration::try_from).transpose();
    let class = QosClass::known(entry.qos_class);
    Ok(WorkloadSpec {
        id: parse_workload(&entry.name).map_err(|why| Problem::new("name", why, ""))?,
        cgroup: some(entry.cgroup).as_deref().map(cgroup_path).unwrap_or_default(),
        container_id: some(entry.container_id),
        pod_uid: some(entry.pod_uid),
        namespace: some(entry.namespace),
        labels: entry.labels,
        qos_class: class.ok_or_else(|| Problem::new("qos_class", "is not known", ""))?,
        source: None,
        ttl: ttl.map_err(|error| Problem::new("ttl", error.to_string(), ""))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn parse(text: &str) -> Result<Vec<WorkloadSpec>, String> {
        documents::parse(text, LIST, spec).map_err(|problems| {
            problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        })
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
            ("[1]", "1: record 1: it must be an object, and is a number"),
            (
                r#"{"name": "a"} {"cgroup": "/a"}"#,
                "1: record 2: name '' is not a valid name for a workload",
            ),
            (r#"{"name": "a b"}"#, "1: record 1: name 'a b' is not a valid name for a workload"),
            (
                r#"{"name": "a", "qos_class": "x"}"#,
                "1: record 1: qos_class is \"x\", which is not known; write \"lsr\" or",
            ),
            (r#"{"name": "a", "ttl": "-1s"}"#, "1: record 1: ttl"),
            (
                r#"{"name": "a", "ttl_seconds": 1}"#,
                "1: record 1: ttl_seconds is not known; known here: name",
            ),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
