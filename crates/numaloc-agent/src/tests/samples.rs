//! Objects as the API server has them.

use numaloc_api::{
    samples, v1,
    value::{Event, EventType, Job, JobId, JobState, MemberState, ScheduleId},
};
use numaloc_core::{Locality, Share};
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

/// The end of a run of a schedule at this time: its memory was moved, or there was nothing to do, and these numbers of
/// pages are local and remote.
pub fn end(
    schedule: &v1::Schedule,
    number: u64,
    seconds: u64,
    has_moved: bool,
    (local, remote): (u64, u64),
) -> v1::Event {
    let share =
        Share { local_bytes: local * 4096, remote_bytes: remote * 4096, ..Share::default() };
    let locality = Locality { movable: share, overall: share };
    let mut member = samples::member();
    member.failed.clear();
    (member.before, member.after) = (Some(locality), Some(locality));
    let (kind, state) = match has_moved {
        true => (EventType::Completed, MemberState::Succeeded),
        false => (EventType::Skipped, MemberState::Skipped),
    };
    member.state = state;
    let (job, members) = (Some(JobId::numbered(number)), vec![member]);
    let id = ScheduleId::from_name(&schedule.name);
    let labels = schedule.labels.clone().into_iter().collect();
    let event = Event {
        number,
        kind,
        time: samples::at(1000 * seconds + 500),
        job,
        schedule: id,
        labels,
        members,
        more_members: 0,
        after_percent: Some(share.percent()),
        message: format!("run {number}"),
        ..samples::event()
    };
    (&event).into()
}

/// The job of a run of a schedule that has moved all memory, and ended at this time.
pub fn job(schedule: &v1::Schedule, number: u64, seconds: u64) -> v1::Job {
    let share = Share { local_bytes: 100 * 4096, remote_bytes: 0, ..Share::default() };
    let mut member = samples::member();
    member.failed.clear();
    member.after = Some(Locality { movable: share, overall: share });
    member.state = MemberState::Succeeded;
    let job = Job {
        id: JobId::numbered(number),
        state: JobState::Succeeded,
        state_message: format!("run {number}"),
        schedule: ScheduleId::from_name(&schedule.name),
        members: vec![member],
        more_members: 0,
        ended: Some(samples::at(1000 * seconds)),
        ..samples::job()
    };
    (&job).into()
}
