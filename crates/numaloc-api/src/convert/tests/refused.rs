//! Wrong requests are refused, with the name of the wrong field.

use super::{one, spec};
use crate::{Violations, v1, value};
use std::collections::BTreeMap;
use tonic::{Code, Status};
use tonic_types::StatusExt;

fn refused(request: v1::CreateJobRequest) -> String {
    value::CreateJob::try_from(request).unwrap_err().to_string()
}

fn target(target: v1::Target) -> String {
    refused(v1::CreateJobRequest { spec: Some(spec(target)), ..Default::default() })
}

fn policy(policy: v1::Policy) -> String {
    let spec = v1::MigrationSpec { policy: Some(policy), ..spec(one()) };
    refused(v1::CreateJobRequest { spec: Some(spec), ..Default::default() })
}

fn limits(limits: v1::Limits) -> String {
    let spec = v1::MigrationSpec { limits: Some(limits), ..spec(one()) };
    refused(v1::CreateJobRequest { spec: Some(spec), ..Default::default() })
}

#[test]
fn what_is_required() {
    assert_eq!(refused(Default::default()), "spec is required");
    let request = v1::CreateJobRequest { spec: Some(Default::default()), ..Default::default() };
    assert_eq!(refused(request), "spec.target is required");
    assert_eq!(target(Default::default()), "spec.target is required");
    let labels = Some(v1::LabelSelector::default());
    let text = target(v1::Target { labels, ..Default::default() });
    assert_eq!(text, "spec.target.labels is required");
    let text = target(v1::Target { units: vec![String::new()], ..Default::default() });
    assert_eq!(text, "spec.target.units[0] is required");
}

#[test]
fn pids() {
    for pid in [0, -1, i32::MIN] {
        let text = target(v1::Target { pids: vec![1, pid], ..Default::default() });
        assert_eq!(text, "spec.target.pids[1] must be from 1 to 2147483647");
    }
    let process = |pid, start_time_ticks, boot_id: &str| {
        let process = v1::TargetProcess { pid, start_time_ticks, boot_id: boot_id.to_owned() };
        target(v1::Target { processes: vec![process], ..Default::default() })
    };
    for (text, field) in [
        (process(0, 1, "b"), "pid must be from 1"),
        (process(7, -1, "b"), "start_time_ticks must be from 0"),
        (process(7, 1, ""), "boot_id is required"),
        (process(7, 1, "a b"), "boot_id must be made of"),
    ] {
        assert!(text.starts_with(&format!("spec.target.processes[0].{field}")), "{text}");
    }
    let many = |count| v1::Target { pids: (1..=count).collect(), ..Default::default() };
    assert_eq!(target(many(100_000)), "spec.target.pids must have at most 4096 entries");
    let request = v1::PlanMigrationRequest { spec: Some(spec(many(4096))) };
    let spec = value::MigrationSpec::try_from(request).unwrap();
    assert_eq!(spec.target.pids.len(), 4096);
}

#[test]
fn path_tricks() {
    let long = format!("/{}", "a".repeat(4096));
    for path in [
        "a", "a/b", "/..", "/a/../b", "/a/..", "/./a", "/a//b", "//", "/a/", "/a\n", "/a\0b", "..",
        &long,
    ] {
        let text = target(v1::Target { cgroups: vec![path.to_owned()], ..Default::default() });
        assert!(text.starts_with("spec.target.cgroups[0] must"), "{path:?}: {text}");
    }
    for path in ["/", "/a", "/system.slice/a\\x2db.service", "/...", "/ä b/kubepods:x"] {
        let target = v1::Target { cgroups: vec![path.to_owned()], ..Default::default() };
        let request = v1::PlanMigrationRequest { spec: Some(spec(target)) };
        assert!(value::MigrationSpec::try_from(request).is_ok(), "{path:?} was refused");
    }
}

#[test]
fn names() {
    for name in ["a b", "a/b", "redis\n", "ü", &"a".repeat(300)] {
        let names = vec![name.to_owned()];
        let target = target(v1::Target { units: names.clone(), ..Default::default() });
        assert!(target.contains("[0] must"), "{name:?} was taken");
    }
    let no_key = v1::Target { container_labels: vec!["=a".to_owned()], ..Default::default() };
    assert!(target(no_key).contains("container_labels[0] must be of the form KEY=VALUE"));
    for name in ["redis\n", &"a".repeat(513)] {
        let names = vec![name.to_owned()];
        for target in [
            v1::Target { containers: names.clone(), ..Default::default() },
            v1::Target { pods: names.clone(), ..Default::default() },
            v1::Target { virtual_machines: names.clone(), ..Default::default() },
            v1::Target { container_labels: names.clone(), ..Default::default() },
        ] {
            assert!(self::target(target).contains("[0] must"), "{name:?} was taken");
        }
    }
    let creators = |names: Vec<String>| v1::Target { workload_creators: names, ..one() };
    for (names, expected) in [
        (vec!["uid:1".to_owned(), "a\n".to_owned()], "spec.target.workload_creators[1] must"),
        (vec!["a".repeat(257)], "spec.target.workload_creators[0] must"),
        (vec![String::new()], "spec.target.workload_creators[0] is required"),
        (vec!["a".to_owned(); 1025], "spec.target.workload_creators must have at most 1024"),
    ] {
        let text = target(creators(names));
        assert!(text.starts_with(expected), "{text}");
    }
    // They say whose workloads are meant, and not which.
    let workload_creators = vec!["uid:1".to_owned()];
    let text = target(v1::Target { workload_creators, ..Default::default() });
    assert_eq!(text, "spec.target is required");
    let units = vec!["a".to_owned(); 1025];
    let text = target(v1::Target { units, ..Default::default() });
    assert_eq!(text, "spec.target.units must have at most 1024 entries");
    let match_labels = BTreeMap::from([(String::new(), String::new())]);
    let labels = Some(v1::LabelSelector { match_labels, ..Default::default() });
    let text = target(v1::Target { labels, ..Default::default() });
    assert_eq!(text, "spec.target.labels.match_labels must be without an empty key");
}

#[test]
fn files_stand_alone_and_have_no_home() {
    let files = |paths: &[&str]| v1::Target {
        files: paths.iter().map(|&path| path.to_owned()).collect(),
        ..Default::default()
    };
    let ask = |target, policy, limits| {
        let spec = Some(v1::MigrationSpec { target: Some(target), policy, limits });
        let asked = value::CreateJob::try_from(v1::CreateJobRequest { spec, ..Default::default() });
        asked.map(drop).map_err(|bad| bad.to_string())
    };
    let on = || v1::Policy {
        placement: Some(v1::policy::Placement::Nodes(v1::NodesPlacement { node_ids: vec![1] })),
        ..Default::default()
    };
    assert_eq!(ask(files(&["/srv/a", "/srv/b c"]), Some(on()), None), Ok(()));
    for (target, policy, limits, expected) in [
        (files(&["srv"]), on(), None, "spec.target.files[0] must be an absolute path"),
        (files(&["/a/../b"]), on(), None, "spec.target.files[0] must be an absolute path"),
        (files(&[""]), on(), None, "spec.target.files[0] is required"),
        (
            v1::Target { pids: vec![1], ..files(&["/a"]) },
            on(),
            None,
            "spec.target must be files alone",
        ),
        (files(&["/a"]), v1::Policy::default(), None, "spec.policy.nodes is required"),
        (
            files(&["/a"]),
            v1::Policy { exclude_file: true, ..on() },
            None,
            "spec.policy.exclude_file must not be set together with target.files",
        ),
        (
            files(&["/a"]),
            on(),
            Some(v1::Limits { workers: Some(2), ..Default::default() }),
            "spec.limits.workers must not be set together with target.files",
        ),
    ] {
        let refused = ask(target, Some(policy), limits).expect_err(expected);
        assert!(refused.starts_with(expected), "{refused}");
    }
    // Page cache is shown once, and no advice is given for it.
    let request = v1::GetLocalityRequest { target: Some(files(&["/a"])), ..Default::default() };
    value::GetLocality::try_from(request).expect("files can be looked at");
    let request = v1::WatchLocalityRequest { target: Some(files(&["/a"])), ..Default::default() };
    let refused = value::WatchLocality::try_from(request).expect_err("no processes").to_string();
    assert_eq!(refused, "target.files must be empty here");
}

#[test]
fn policies() {
    for ratio in [-1, 101, i32::MAX] {
        let text = policy(v1::Policy { target_ratio_percent: Some(ratio), ..Default::default() });
        assert_eq!(text, "spec.policy.target_ratio_percent must be from 0 to 100");
    }
    let text = policy(v1::Policy { reserve_bytes: Some(-1), ..Default::default() });
    assert!(text.starts_with("spec.policy.reserve_bytes must be from 0 to"));
    let text = policy(v1::Policy { qos_class: 17, ..Default::default() });
    assert_eq!(text, "spec.policy.qos_class has the unknown value 17");
    let nodes = |node_ids| {
        let placement = Some(v1::policy::Placement::Nodes(v1::NodesPlacement { node_ids }));
        policy(v1::Policy { placement, ..Default::default() })
    };
    assert_eq!(nodes(vec![]), "spec.policy.nodes.node_ids is required");
    assert_eq!(nodes(vec![0, -1]), "spec.policy.nodes.node_ids[1] must be from 0 to 65535");
    assert_eq!(nodes(vec![65_536]), "spec.policy.nodes.node_ids[0] must be from 0 to 65535");
    assert!(nodes(vec![0; 1025]).contains("at most 1024 entries"));
    let interleave = |node_ids| {
        let placement =
            Some(v1::policy::Placement::Interleave(v1::InterleavePlacement { node_ids }));
        policy(v1::Policy { placement, ..Default::default() })
    };
    assert_eq!(interleave(vec![3]), "spec.policy.interleave.node_ids must be two nodes or more");
    let text = interleave(vec![0, -1]);
    assert!(text.starts_with("spec.policy.interleave.node_ids[1] must be from 0 to 65535"));
    let weighted = |weights: &[(i32, i32)]| {
        let weight = |&(node_id, weight): &(i32, i32)| v1::NodeWeight { node_id, weight };
        let weights = weights.iter().map(weight).collect();
        let placement = Some(v1::policy::Placement::Weighted(v1::WeightedPlacement { weights }));
        policy(v1::Policy { placement, ..Default::default() })
    };
    let field = "spec.policy.weighted.weights";
    assert_eq!(weighted(&[]), format!("{field} is required"));
    assert_eq!(weighted(&[(0, 1)]), format!("{field} must be two nodes or more"));
    for weight in [i32::MIN, 0, 256] {
        let text = weighted(&[(0, 1), (1, weight)]);
        assert_eq!(text, format!("{field}[1].weight must be from 1 to 255"));
    }
    assert_eq!(weighted(&[(2, 1), (2, 3)]), format!("{field}[1].node_id is there twice"));
    let text = weighted(&[(0, 1), (-1, 3)]);
    assert_eq!(text, format!("{field}[1].node_id must be from 0 to 65535"));
}

#[test]
fn placements_of_mappings() {
    use v1::map_rule::Placement as Rule;
    let local = || Some(Rule::Local(v1::LocalPlacement {}));
    let maps = |rules: Vec<(&str, Option<Rule>)>, placement| {
        let rule = |(pattern, placement): (&str, _)| v1::MapRule {
            pattern: pattern.to_owned(),
            placement,
        };
        let maps = rules.into_iter().map(rule).collect();
        policy(v1::Policy { maps, placement, ..Default::default() })
    };
    let (one, field) = (|pattern| maps(vec![(pattern, local())], None), "spec.policy.maps[0]");
    assert_eq!(one(""), format!("{field}.pattern is required"));
    assert!(one("anon>x").starts_with(&format!("{field}.pattern must be a file's path")));
    assert!(one("sysv:").contains("sysv:KEY") && one("a\nb").contains("must be a file's path"));
    let long = one(&"a".repeat(4097));
    assert_eq!(long, format!("{field}.pattern must have at most 4096 bytes"));
    let twice = maps(vec![("heap", local()), ("heap", None)], None);
    assert_eq!(twice, "spec.policy.maps[1].pattern is there twice");
    let many = maps((0..65).map(|_| ("heap", None)).collect(), None);
    assert!(many.starts_with("spec.policy.maps must have at most 64 entries"), "{many}");
    let interleave = |node_ids| Some(Rule::Interleave(v1::InterleavePlacement { node_ids }));
    let text = maps(vec![("heap", interleave(vec![3]))], None);
    assert_eq!(text, format!("{field}.interleave.node_ids must be two nodes or more"));
    let weighted = Some(Rule::Weighted(v1::WeightedPlacement::default()));
    let text = maps(vec![("heap", weighted)], None);
    assert_eq!(text, format!("{field}.weighted.weights is required"));
    let weights = vec![v1::NodeWeight { node_id: 0, weight: 1 }];
    let text = maps(vec![("heap", Some(Rule::Balance(v1::BalancePlacement { weights })))], None);
    assert_eq!(text, format!("{field}.balance.weights must be two nodes or more"));
    let spread = v1::policy::Placement::Interleave(v1::InterleavePlacement::default());
    let text = maps(vec![("heap", None)], Some(spread));
    let excludes =
        "must not be set together with nodes, interleave, weighted, balance, block or tiers";
    assert_eq!(text, format!("spec.policy.maps {excludes}"));
}

#[test]
fn bounds() {
    for workers in [0, -1, 257] {
        let text = limits(v1::Limits { workers: Some(workers), ..Default::default() });
        assert_eq!(text, "spec.limits.workers must be from 1 to 256");
    }
    for batch in [0, 4095, (1 << 30) + 1, -1, i64::MIN] {
        let text = limits(v1::Limits { batch_bytes: Some(batch), ..Default::default() });
        assert_eq!(text, "spec.limits.batch_bytes must be from 4096 to 1073741824");
    }
    for (seconds, nanos) in [
        (0, 0),
        (-1, 0),
        (0, -1),
        (1, -1),
        (1, 1_000_000_000),
        (i64::MAX, 999_999_999),
        (i64::MIN, 0),
    ] {
        let timeout = Some(prost_types::Duration { seconds, nanos });
        let text = limits(v1::Limits { timeout, ..Default::default() });
        assert_eq!(text, "spec.limits.timeout must be from 1ns to 31622400s");
    }
}

#[test]
fn lists() {
    let list = |request: v1::ListJobsRequest| {
        value::ListJobs::try_from(request).map_err(|bad: Violations| bad.to_string())
    };
    let page = list(v1::ListJobsRequest::default()).unwrap().page;
    assert_eq!((page.size, page.token), (100, None));
    for page_size in [-1, i32::MIN] {
        let text = list(v1::ListJobsRequest { page_size, ..Default::default() }).unwrap_err();
        assert_eq!(text, "page_size must be from 0 to 2147483647");
    }
    let filter = Some(v1::JobFilter {
        states: vec![1, 99, 0],
        schedule: "jobs/1".to_owned(),
        created_since: Some(prost_types::Timestamp { seconds: -1, nanos: 0 }),
        ..Default::default()
    });
    let text = list(v1::ListJobsRequest { filter, ..Default::default() }).unwrap_err();
    assert_eq!(
        text,
        "filter.states[1] has the unknown value 99; filter.states[2] has the unknown value 0; \
         filter.schedule must be a name of the form schedules/{id}; \
         filter.created_since must be from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59Z"
    );
}

#[test]
fn resource_names() {
    let get = |name: &str| value::JobId::try_from(v1::GetJobRequest { name: name.to_owned() });
    assert_eq!(get("jobs/a-1").unwrap().to_string(), "jobs/a-1");
    assert_eq!(get("").unwrap_err().to_string(), "name is required");
    for name in ["a", "jobs/", "jobs", "jobs/a/b", "Jobs/a", "jobs/a ", "jobs/../a", "schedules/a"]
    {
        let text = get(name).unwrap_err().to_string();
        assert_eq!(text, "name must be a name of the form jobs/{id}", "{name:?}");
    }
    let watch = |after: &str| {
        let request = v1::WatchEventsRequest { after: after.to_owned(), ..Default::default() };
        value::WatchEvents::try_from(request).map(|watch| watch.after)
    };
    assert_eq!(watch("").unwrap(), None);
    assert_eq!(watch("events/18446744073709551615").unwrap(), Some(u64::MAX));
    for after in ["events/", "events/-1", "events/+1", "events/18446744073709551616", "1"] {
        assert!(watch(after).is_err(), "{after:?} was taken");
    }
}

#[test]
fn few_violations_stand_for_many() {
    let bad = v1::Target { pids: vec![0; 4096], ..Default::default() };
    let request = v1::PlanMigrationRequest { spec: Some(spec(bad)) };
    let violations: Violations = value::MigrationSpec::try_from(request).unwrap_err();
    assert_eq!(violations.iter().count(), 16);
    let status = Status::from(violations);
    assert_eq!(status.code(), Code::InvalidArgument);
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("INVALID_FIELD", "numaloc.io"));
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields.len(), 16);
    assert_eq!(fields[3].field, "spec.target.pids[3]");
}

/// As in the validation of Kubernetes (k8s.io/apimachinery, ValidateLabelSelectorRequirement).
#[test]
fn conditions_on_labels() {
    use v1::LabelSelectorOperator as Operator;
    let with = |key: &str, operator: i32, values: &[&str]| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        let condition = v1::LabelSelectorRequirement { key: key.to_owned(), operator, values };
        let labels = v1::LabelSelector { match_expressions: vec![condition], ..Default::default() };
        let target = v1::Target { labels: Some(labels), ..Default::default() };
        let request = v1::PlanMigrationRequest { spec: Some(spec(target)) };
        value::MigrationSpec::try_from(request).map_err(|bad| bad.to_string())
    };
    for operator in [Operator::In, Operator::NotIn] {
        for values in [&["a"][..], &["a", "b"], &[""]] {
            assert!(with("app", operator.into(), values).is_ok(), "{operator:?} {values:?}");
        }
    }
    for operator in [Operator::Exists, Operator::DoesNotExist] {
        assert!(with("app", operator.into(), &[]).is_ok(), "{operator:?}");
    }
    let many: Vec<_> = (0..65).map(|_| "a").collect();
    for (key, operator, values, expected) in [
        ("app", Operator::In as i32, &[][..], "values is required"),
        ("app", Operator::NotIn as i32, &[], "values is required"),
        ("app", Operator::Exists as i32, &["a"], "values must be empty here"),
        ("app", Operator::DoesNotExist as i32, &["a"], "values must be empty here"),
        ("app", 0, &["a"], "operator is required"),
        ("app", 9, &["a"], "operator has the unknown value 9"),
        ("", Operator::Exists as i32, &[], "key is required"),
        ("a\n", Operator::Exists as i32, &[], "key must be without control"),
        ("app", Operator::In as i32, &["a", "\0"], "values[1] must be without control"),
        ("app", Operator::In as i32, &many, "values must have at most 64"),
    ] {
        let text = with(key, operator, values).expect_err(expected);
        let expected = format!("spec.target.labels.match_expressions[0].{expected}");
        assert!(text.starts_with(&expected), "{text}");
    }
    let labels = v1::LabelSelector { namespace: "a b".to_owned(), ..Default::default() };
    let text = target(v1::Target { labels: Some(labels), ..Default::default() });
    assert!(text.starts_with("spec.target.labels.namespace must be made of"), "{text}");
}

#[test]
fn leases_have_bounds() {
    for (seconds, nanos) in [(0, 0), (0, 999_999_999), (-1, 0), (367 * 24 * 3600, 0)] {
        let ttl = Some(prost_types::Duration { seconds, nanos });
        let request = v1::ReplaceWorkloadsRequest { ttl, ..Default::default() };
        let text = value::WorkloadsPart::try_from(request).unwrap_err().to_string();
        assert_eq!(text, "ttl must be from 1s to 31622400s");
    }
}
