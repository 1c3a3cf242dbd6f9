//! The daemon reads the same values that a client builds.

use crate::{
    samples, v1,
    value::{
        Condition, CreateJob, CreateSchedule, Limits, ListWorkloads, MigrationSpec, OnConflict,
        Page, Policy, RegisterWorkload, Requirement, ScheduleId, ScheduleSpec, Selector, Target,
        TargetProcess, UnregisterWorkload, WorkloadField, WorkloadFilter, WorkloadSet,
        WorkloadSpec, WorkloadsPart,
    },
};
use prost::Message;
use std::{collections::BTreeMap, time::Duration};

fn selector() -> Selector {
    let values = || ["a", ""].map(str::to_owned).into();
    let labels = [
        ("app.io/name", Condition::In([String::new()].into())),
        ("app.io/name", Condition::In(["x".to_owned()].into())),
        ("tier", Condition::In(values())),
        ("tier", Condition::NotIn(values())),
        ("tier", Condition::Exists),
        ("old", Condition::DoesNotExist),
    ];
    let labels = labels.map(|(key, condition)| Requirement { key: key.to_owned(), condition });
    Selector { namespace: Some("prod".to_owned()), ..labels.into_iter().collect() }
}

/// Values at the bounds of their fields.
fn at_bounds() -> MigrationSpec {
    let mut spec = samples::migration();
    spec.target.pids.extend([1, i32::MAX]);
    spec.target.cgroups.insert("/".to_owned());
    spec.target.labels = selector();
    spec.target.processes.insert(TargetProcess { pid: 7, start_time: 0, boot_id: "b".to_owned() });
    let options = &mut spec.policy.options;
    (options.target_ratio, options.reserve_bytes) = (0, Some(0));
    options.pacing.node_cpu_percent_max = Some(100);
    options.node_bandwidth_max_bytes_per_second = Some(4096);
    spec.limits.workers = Some(256);
    spec.limits.rate_bytes_per_second = Some(1 << 40);
    spec
}

/// Encodes and decodes a message.
fn wire<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).unwrap()
}

#[test]
fn jobs() {
    let target = Target { pids: [1].into(), ..Target::default() };
    let least = MigrationSpec { target, ..MigrationSpec::default() };
    for spec in [samples::migration(), at_bounds(), least] {
        for on_conflict in [OnConflict::Refuse, OnConflict::Join] {
            let labels = [("team".to_owned(), "db".to_owned())].into();
            let spec = spec.clone();
            let request = CreateJob { spec, on_conflict, labels, ..CreateJob::default() };
            let sent = v1::CreateJobRequest::from(&request);
            assert_eq!(CreateJob::try_from(wire(&sent)), Ok(request));
        }
    }
}

#[test]
fn what_is_not_said_is_the_default() {
    let request =
        v1::CreateJobRequest { spec: Some(super::spec(super::one())), ..Default::default() };
    let spec = CreateJob::try_from(request).unwrap().spec;
    assert_eq!(spec.policy, Policy::default());
    assert_eq!(spec.limits, Limits::default());
}

#[test]
fn schedules() {
    let spec = ScheduleSpec {
        migration: at_bounds(),
        ttl_after_gone: Some(Duration::ZERO),
        ..samples::schedule().spec
    };
    let once = ScheduleSpec { interval: Duration::ZERO, jitter: Duration::ZERO, ..spec.clone() };
    for spec in [samples::schedule().spec, spec, once] {
        let schedule = Some(v1::Schedule::from(&spec));
        let request_id = "a3d1-7".to_owned();
        let request = v1::CreateScheduleRequest {
            schedule,
            request_id,
            validate_only: true,
            schedule_id: "nightly".to_owned(),
        };
        let read = CreateSchedule::try_from(wire(&request)).unwrap();
        let (id, request_id) = (ScheduleId::new("nightly"), Some("a3d1-7".to_owned()));
        assert_eq!(read, CreateSchedule { id, spec, request_id, validate_only: true });
    }
}

#[test]
fn workloads() {
    for etag in [None, Some("e-1".to_owned())] {
        let request = RegisterWorkload { etag, ..RegisterWorkload::new(samples::workload_spec()) };
        let sent = v1::RegisterWorkloadRequest::from(&request);
        assert_eq!(RegisterWorkload::try_from(wire(&sent)), Ok(request.clone()));
        let id = request.spec.id;
        let forget = UnregisterWorkload {
            id,
            etag: request.etag,
            allow_missing: true,
            validate_only: false,
        };
        let sent = v1::UnregisterWorkloadRequest::from(&forget);
        assert_eq!(UnregisterWorkload::try_from(wire(&sent)), Ok(forget));
    }
}

#[test]
fn workloads_in_part() {
    let mask = [WorkloadField::Labels, WorkloadField::Ttl].into();
    let spec =
        WorkloadSpec { cgroup: String::new(), container_id: None, ..samples::workload_spec() };
    let request = RegisterWorkload {
        mask: Some(mask),
        validate_only: true,
        request_id: Some("r-1".to_owned()),
        ..RegisterWorkload::new(spec)
    };
    let sent = v1::RegisterWorkloadRequest::from(&request);
    assert_eq!(RegisterWorkload::try_from(wire(&sent)), Ok(request));
    let text = |request: v1::RegisterWorkloadRequest| {
        RegisterWorkload::try_from(request).unwrap_err().to_string()
    };
    let either = v1::RegisterWorkloadRequest { allow_missing: true, ..sent.clone() };
    assert_eq!(text(either), "workload.cgroup is required");
    let new = v1::RegisterWorkloadRequest { create_only: true, ..sent.clone() };
    assert_eq!(text(new), "create_only must not be set together with update_mask");
    let paths = |paths: &[&str]| {
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        let update_mask = Some(prost_types::FieldMask { paths });
        v1::RegisterWorkloadRequest { update_mask, ..sent.clone() }
    };
    let unknown = text(paths(&["labels", "etag"]));
    assert_eq!(unknown, "update_mask.paths[1] names a field that cannot be changed");
    let all = RegisterWorkload::try_from(paths(&["*"])).unwrap().mask.unwrap();
    assert_eq!(all.len(), WorkloadField::ALL.len());
    assert_eq!(RegisterWorkload::try_from(paths(&["*", "labels"])).unwrap().mask, Some(all));
}

#[test]
fn sets_are_cut_into_messages_that_are_taken() {
    // One workload with 36 KiB of labels, and one without labels.
    let heavy = (0..64).map(|n| (format!("{n:0317}"), "x".repeat(256))).collect();
    let heavy = WorkloadSpec { labels: heavy, ..samples::workload_spec() };
    let light = WorkloadSpec { labels: BTreeMap::new(), ..samples::workload_spec() };
    for (spec, count, messages) in [(&heavy, 100, 4..8), (&light, 2500, 3..4), (&light, 0, 1..2)] {
        let specs = vec![spec.clone(); count];
        let set = WorkloadSet { source: Some("node".to_owned()), specs, ..Default::default() };
        let ttl = Some(Duration::from_secs(60));
        let workloads = set.specs.iter().map(v1::Workload::from);
        let sent = v1::ReplaceWorkloadsRequest::parts(set.source.as_deref(), workloads, ttl);
        assert!(messages.contains(&sent.len()), "{} messages", sent.len());
        assert!(sent.iter().all(|part| part.encoded_len() < 1 << 20));
        let parts = sent.iter().map(|part| WorkloadsPart::try_from(wire(part)));
        let parts = parts.collect::<Result<Vec<_>, _>>().expect("they are taken");
        assert!(parts.iter().all(|part| (&part.source, part.ttl) == (&set.source, ttl)));
        let last: Vec<_> = parts.iter().map(|part| part.is_last).collect();
        assert_eq!(last.iter().filter(|last| **last).count(), 1);
        assert_eq!(last.last(), Some(&true));
        let specs: Vec<_> = parts.into_iter().flat_map(|part| part.specs).collect();
        assert_eq!(specs, set.specs);
    }
}

#[test]
fn filters() {
    let some = |text: &str| Some(text.to_owned());
    let full = WorkloadFilter {
        creator: some("cert:node agent"),
        source: some("node"),
        id_prefix: some("redis-"),
        selector: selector(),
    };
    for filter in [full, WorkloadFilter::default()] {
        let sent =
            v1::ListWorkloadsRequest { filter: Some((&filter).into()), ..Default::default() };
        let page = Page { size: 100, token: None };
        assert_eq!(ListWorkloads::try_from(wire(&sent)), Ok(ListWorkloads { filter, page }));
    }
    let all = ListWorkloads::try_from(v1::ListWorkloadsRequest::default()).unwrap();
    assert_eq!(all.filter, WorkloadFilter::default());
}

/// Clients see a condition with one value as an entry of match_labels.
#[test]
fn one_value_is_a_label() {
    let message = v1::LabelSelector::from(&selector());
    assert_eq!(message.match_labels, BTreeMap::from([("app.io/name".to_owned(), String::new())]));
    assert_eq!(message.match_expressions.len(), 5);
}

#[test]
fn an_incomplete_workload_is_refused() {
    let text = |workload| {
        let request = v1::RegisterWorkloadRequest { workload, ..Default::default() };
        RegisterWorkload::try_from(request).unwrap_err().to_string()
    };
    assert!(text(None).starts_with("workload is required"));
    let both = "workload.name is required; workload.cgroup is required";
    assert_eq!(text(Some(v1::Workload::default())), both);
}

#[test]
fn a_container_without_a_cgroup_has_its_full_id() {
    let of = |container_id: &str| {
        let name = "workloads/a".to_owned();
        let container_id = container_id.to_owned();
        let workload = Some(v1::Workload { name, container_id, ..Default::default() });
        RegisterWorkload::try_from(v1::RegisterWorkloadRequest { workload, ..Default::default() })
    };
    let full = "0123456789abcdef".repeat(4);
    let spec = of(&full).expect("it is the full id").spec;
    assert_eq!((spec.cgroup.as_str(), spec.container_id), ("", Some(full.clone())));
    for short in [&full[..63], &full[..12], "redis", &full.to_uppercase(), &format!("{full}0")] {
        let text = of(short).unwrap_err().to_string();
        assert!(text.starts_with("workload.container_id must be of 64 hex"), "{text}");
    }
}
