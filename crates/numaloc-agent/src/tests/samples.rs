//! Objects as the API server has them.

use numaloc_api::v1;
use serde_json::{Value, json};

/// The uid of a pod.
pub fn uid(number: usize) -> String {
    format!("5f2a60c1-d3b4-4e89-8f00-{number:012}")
}

/// The id of a container.
pub fn container_id(number: usize, letter: char) -> String {
    format!("{number:04}{}", letter.to_string().repeat(60))
}

/// A pod `shop/web-<number>` with a container and a sidecar that run, and no policy.
pub fn pod(number: usize) -> Value {
    let mut pod: Value = serde_json::from_str(include_str!("../../tests/pod.json")).expect("JSON");
    pod["metadata"]["name"] = format!("web-{number}").into();
    pod["metadata"]["uid"] = uid(number).into();
    pod["metadata"]["annotations"] = json!({});
    let running = |name: &str, letter| {
        let id = format!("containerd://{}", container_id(number, letter));
        json!({"name": name, "containerID": id, "state": {"running": {}}})
    };
    pod["spec"]["containers"].as_array_mut().expect("a list").truncate(1);
    pod["status"]["containerStatuses"] = json!([running("web", 'a')]);
    pod["status"]["initContainerStatuses"] = json!([running("proxy", 'c')]);
    pod
}

/// A ConfigMap with this value of `resource-qos-config`.
pub fn config_map(text: &str) -> Value {
    json!({
        "metadata": {"name": "ack-slo-config", "namespace": "kube-system"},
        "data": {"resource-qos-config": text, "other": "x"},
    })
}

/// The end of a run of a schedule.
pub fn end(schedule: &v1::Schedule, number: u64, kind: v1::EventType, seconds: i64) -> v1::Event {
    v1::Event {
        name: format!("events/{number}"),
        r#type: kind.into(),
        create_time: Some(prost_types::Timestamp { seconds, nanos: 500_000_000 }),
        job: format!("jobs/{number}"),
        schedule: schedule.name.clone(),
        schedule_number: 1,
        target: schedule.spec.clone().and_then(|spec| spec.target),
        from_node_ids: vec![1],
        to_node_ids: vec![0],
        message: "moved 1 MiB".to_owned(),
        creator: "uid:990".to_owned(),
        labels: schedule.labels.clone(),
        ..v1::Event::default()
    }
}
