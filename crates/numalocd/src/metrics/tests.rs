//! Tests of the values of metrics, how they are shown, and who may read them.

mod dashboards;
mod http;

use super::*;
use crate::accounts::Client;
use numaloc_api::value::{CallStats, JobId, MigrationSpec, ProcessOutcome};
use numaloc_core::{
    Account, CALL_BOUNDS_US, Identity, NodeId, NodeKind, Reason, Tier, TierSource,
    live::KernelEvents,
};
use numaloc_host::{
    host_memory::{Nearness, NodeSize, PinnedBytes, ProcessCounts},
    traffic::GroupTraffic,
};
use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

fn job(state: JobState, seconds: u64, outcome: Option<Outcome>) -> Job {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    Job {
        state,
        started: Some(start),
        ended: Some(start + Duration::from_secs(seconds)),
        outcome: outcome.map(Arc::new),
        ..Job::new(JobId::numbered(1), MigrationSpec::default(), "uid:0".into(), start)
    }
}

/// An outcome: 3 MiB went from node 1 to node 0, 4 KiB were busy, one call took 2 ms and two took 20 ms.
fn outcome() -> Outcome {
    let mut account = Account::default();
    account.found((3 << 20) + 4096);
    account.moved(3 << 20);
    account.left(Reason::Busy, 4096);
    let mut times = [0; CALL_BOUNDS_US.len() + 1];
    times[4] = 1;
    times[7] = 2;
    Outcome {
        processes: vec![ProcessOutcome {
            identity: Identity { pid: 7, start_time: 1 },
            comm: "app".into(),
            account,
            error: None,
        }],
        flows: [((NodeId(1), NodeId(0)), 3 << 20)].into(),
        calls: CallStats {
            calls: 3,
            times,
            total: Duration::from_millis(42),
            over_stall: 2,
            held_back: Duration::from_millis(250),
            ..CallStats::default()
        },
        ..Outcome::default()
    }
}

/// Metrics in which everything was counted once.
fn filled() -> Metrics {
    let metrics = Metrics::default();
    metrics.accounts(Accounts::default());
    metrics.job_ended(&job(JobState::Partial, 3, Some(outcome())));
    metrics.workload_local(&WorkloadId::numbered(1), 75.0);
    metrics.rpc("numaloc.v1.MigrationService/GetJob", tonic::Code::NotFound);
    metrics.host_memory(Some(host_memory()));
    metrics.traffic(vec![GroupTraffic {
        control: "a\"b".to_owned(),
        monitoring: Some("pod-7".to_owned()),
        domain: 17,
        local_bytes: 5,
        remote_bytes: 7,
    }]);
    metrics
}

fn node_size() -> NodeSize {
    let tier = Tier { number: 22, source: TierSource::Kernel };
    NodeSize { total_bytes: 4096, kind: NodeKind::Persistent, tier: Some(tier) }
}

fn kernel_events() -> KernelEvents {
    KernelEvents {
        hint_faults: Some(9),
        migrated_pages: Some(2),
        demoted_pages: None,
        promoted_pages: Some(0),
    }
}

/// A host with 1 GiB that is local, and 3 GiB that a program with an odd name has on the wrong node.
fn host_memory() -> HostMemory {
    let bytes = PinnedBytes { local: 1 << 30, remote: 3 << 30, demoted: 5 << 30 };
    let of = |name: &str| [(name.to_owned(), bytes)].into();
    HostMemory {
        nodes: [
            ((NodeId(0), Nearness::Local), 1 << 30),
            ((NodeId(1), Nearness::Remote), 3 << 30),
            ((NodeId(1), Nearness::Unpinned), 0),
            ((NodeId(2), Nearness::Demoted), 5 << 30),
        ]
        .into(),
        lower: "2".parse().expect("a node"),
        sizes: [(NodeId(2), node_size())].into(),
        near: [(NodeId(1), 1 << 30)].into(),
        units: of("redis.service"),
        containers: of("4f5e"),
        programs: of("a\"b\\\n<i>"),
        kernel_by_unit: [("redis.service".to_owned(), kernel_events())].into(),
        kernel_by_container: [("4f5e".to_owned(), kernel_events())].into(),
        processes: ProcessCounts { pinned: 1, unpinned: 40, hidden: 2, unseen: 3 },
        oldest_look: Duration::from_secs(90),
        used: Duration::from_millis(1500),
    }
}

#[test]
fn the_memory_of_the_host_is_shown_until_nobody_looks() {
    let metrics = filled();
    shows(
        &metrics,
        &[
            r#"numaloc_host_memory_bytes{node="0",place="local"} 1073741824"#,
            r#"numaloc_host_near_memory_bytes{node="1"} 1073741824"#,
            r#"numaloc_host_node_memory_bytes{node="2",kind="persistent",tier="22",tier_source="kernel"} 4096"#,
            r#"numaloc_host_memory_bytes{node="1",place="remote"} 3221225472"#,
            r#"numaloc_host_memory_bytes{node="1",place="unpinned"} 0"#,
            r#"numaloc_host_unit_memory_bytes{unit="redis.service",place="remote"} 3221225472"#,
            r#"numaloc_host_memory_bytes{node="2",place="demoted"} 5368709120"#,
            r#"numaloc_host_unit_memory_bytes{unit="redis.service",place="demoted"} 5368709120"#,
            r#"numaloc_host_container_memory_bytes{container="4f5e",place="local"} 1073741824"#,
            r#"numaloc_host_program_memory_bytes{program="a\"b\\\n<i>",place="local"} 1073741824"#,
            r#"numaloc_host_unit_hint_faults_total{unit="redis.service"} 9"#,
            r#"numaloc_host_container_hint_faults_total{container="4f5e"} 9"#,
            r#"numaloc_host_unit_kernel_moved_bytes_total{unit="redis.service",why="balanced"} 8192"#,
            r#"numaloc_host_container_kernel_moved_bytes_total{container="4f5e",why="promoted"} 0"#,
            r#"numaloc_host_processes{state="unpinned"} 40"#,
            r#"numaloc_host_processes{state="unseen"} 3"#,
            "numaloc_host_oldest_look_seconds 90.0",
            "numaloc_host_look_seconds_total 1.5",
            r#"numaloc_host_memory_traffic_bytes_total{group="a\"b",monitoring_group="pod-7",l3="17",place="remote"} 7"#,
        ],
    );
    assert!(!metrics.text().contains("why=\"demoted\""), "it is not counted");
    metrics.host_memory(None);
    metrics.traffic(Vec::new());
    assert!(!metrics.text().contains("numaloc_host_"));
}

#[test]
fn it_is_known_when_the_metrics_were_read() {
    let metrics = Metrics::default();
    assert_eq!(metrics.last_read(), None);
    drop(metrics.text());
    assert!(metrics.last_read().is_some());
}

#[track_caller]
fn shows(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.text();
    for line in lines {
        assert!(text.lines().any(|shown| shown == *line), "no {line} in\n{text}");
    }
}

#[test]
fn a_job_is_counted_with_its_memory_and_calls() {
    let metrics = filled();
    metrics.job_ended(&job(JobState::Partial, 3, Some(outcome())));
    shows(
        &metrics,
        &[
            r#"numaloc_moved_bytes_total{from="1",to="0"} 6291456"#,
            r#"numaloc_offload_bytes_total{by="cpu"} 6291456"#,
            r#"numaloc_left_bytes_total{reason="busy"} 8192"#,
            r#"numaloc_left_bytes_total{reason="pinned"} 0"#,
            r#"numaloc_jobs_ended_total{state="partial"} 2"#,
            r#"numaloc_jobs_ended_total{state="failed"} 0"#,
            "numaloc_job_duration_seconds_sum 6.0",
            r#"numaloc_job_duration_seconds_bucket{le="1.0"} 0"#,
            r#"numaloc_job_duration_seconds_bucket{le="5.0"} 2"#,
            r#"numaloc_move_pages_seconds_bucket{le="0.001"} 0"#,
            r#"numaloc_move_pages_seconds_bucket{le="0.0025"} 2"#,
            r#"numaloc_move_pages_seconds_bucket{le="0.01"} 2"#,
            r#"numaloc_move_pages_seconds_bucket{le="0.025"} 6"#,
            r#"numaloc_move_pages_seconds_bucket{le="+Inf"} 6"#,
            "numaloc_move_pages_seconds_count 6",
            "numaloc_move_pages_seconds_sum 0.084",
            "numaloc_move_pages_stalls_total 4",
            "numaloc_move_pages_over_bound_total 4",
            "numaloc_held_back_seconds_total 0.5",
        ],
    );
}

#[test]
fn a_job_that_never_moved_has_no_duration() {
    let metrics = Metrics::default();
    metrics.job_ended(&Job { started: None, ..job(JobState::Failed, 3, None) });
    shows(
        &metrics,
        &[r#"numaloc_jobs_ended_total{state="failed"} 1"#, "numaloc_job_duration_seconds_count 0"],
    );
}

#[test]
fn a_clock_that_was_set_back_counts_as_no_time() {
    let metrics = Metrics::default();
    let job = job(JobState::Succeeded, 3, None);
    metrics.job_ended(&Job { ended: Some(SystemTime::UNIX_EPOCH), ..job });
    shows(
        &metrics,
        &["numaloc_job_duration_seconds_sum 0.0", "numaloc_job_duration_seconds_count 1"],
    );
}

#[test]
fn jobs_that_left_a_state_are_no_longer_in_it() {
    let metrics = Metrics::default();
    metrics.jobs(&[(JobState::Queued, 3), (JobState::Succeeded, 9)]);
    shows(&metrics, &[r#"numaloc_jobs{state="queued"} 3"#, r#"numaloc_jobs{state="running"} 0"#]);
    metrics.jobs(&[(JobState::Running, 1)]);
    shows(&metrics, &[r#"numaloc_jobs{state="queued"} 0"#, r#"numaloc_jobs{state="running"} 1"#]);
    assert!(!metrics.text().contains(r#"numaloc_jobs{state="succeeded"}"#));
}

#[test]
fn watches_are_counted_where_they_are_kept() {
    let metrics = Metrics::default();
    shows(&metrics, &["numaloc_watches 0"]);
    let accounts = Accounts::default();
    metrics.accounts(accounts.clone());
    let client = Client { name: "uid:70000".to_owned(), cohort: None };
    let _watches = [(); 3].map(|()| accounts.watch(&client).expect("there is room"));
    shows(
        &metrics,
        &[
            "numaloc_watches 3",
            r#"numaloc_quota_used{resource="watches"} 3"#,
            r#"numaloc_quota_limit{resource="watches"} 8000"#,
            r#"numaloc_quota_refusals_total{resource="watches",bound="all"} 0"#,
        ],
    );
    assert!(!metrics.text().contains("numaloc_quota_largest{"));
    for uid in 0..5 {
        let client = Client { name: format!("uid:{}", 80_000 + uid), cohort: None };
        let _ = accounts.take(&client, Resource::Watches, 1999);
        std::mem::forget(accounts.take(&client, Resource::Watches, 1999));
    }
    shows(
        &metrics,
        &[
            r#"numaloc_quota_refusals_total{resource="watches",bound="all"} 2"#,
            r#"numaloc_quota_largest{resource="watches",client="uid:80003"} 1999"#,
        ],
    );
}

#[test]
fn the_process_is_shown_under_the_names_of_all_programs() {
    let text = Metrics::default().text();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    };
    assert!(value("process_resident_memory_bytes") > 0.0);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_threads") >= 1.0);
    assert!(
        value("process_open_fds") >= 1.0 && value("process_max_fds") >= value("process_open_fds")
    );
    let start = value("process_start_time_seconds");
    assert!(start > 0.0 && start <= since_epoch(SystemTime::now()) + 2.0, "{start}");
}

#[test]
fn what_operators_look_at_is_shown() {
    let metrics = Metrics::default();
    let age = |metrics: &Metrics, class: &str| -> f64 {
        let name = format!("numaloc_oldest_queued_job_seconds{{qos_class=\"{class}\"}} ");
        let text = metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("a class").parse().expect("a number")
    };
    assert_eq!(["lsr", "ls", "be"].map(|class| age(&metrics, class)), [0.0; 3]);
    let hour = SystemTime::now() - Duration::from_secs(3600);
    metrics.oldest_queued(&[(QosClass::Lsr, hour)].into());
    assert!((3600.0..3700.0).contains(&age(&metrics, "lsr")));
    assert_eq!(age(&metrics, "ls"), 0.0);
    metrics.oldest_queued(&BTreeMap::new());
    assert_eq!(age(&metrics, "lsr"), 0.0);
    metrics.contested_schedules(2);
    metrics.store_bytes(1 << 20);
    let contested = ["numaloc_contested_schedules 2", "numaloc_fights 2"];
    shows(&metrics, &contested);
    shows(&metrics, &["numaloc_store_bytes 1048576"]);
    shows(&metrics, &["numaloc_config_last_reload_successful 1"]);
    metrics.reloaded(false, SystemTime::UNIX_EPOCH + Duration::from_secs(7));
    let failed = "numaloc_config_last_reload_successful 0";
    shows(&metrics, &[failed, "numaloc_config_last_reload_timestamp_seconds 7.0"]);
}

#[test]
fn holds_are_shown() {
    let metrics = Metrics::default();
    shows(&metrics, &["numaloc_drained 0", "numaloc_paused 0"]);
    metrics.holds(&Holds { drained: Some(SystemTime::UNIX_EPOCH), paused: None });
    shows(&metrics, &["numaloc_drained 1", "numaloc_paused 0"]);
    metrics.holds(&Holds { drained: None, paused: Some(SystemTime::UNIX_EPOCH) });
    shows(&metrics, &["numaloc_drained 0", "numaloc_paused 1"]);
}

#[test]
fn workloads_are_bounded_and_forgotten() {
    let metrics = Metrics::default();
    let series = |metrics: &Metrics| {
        let text = metrics.text();
        text.lines().filter(|line| line.starts_with("numaloc_workload_local_ratio{")).count()
    };
    for number in 0..=MAX_WORKLOADS as u64 {
        metrics.workload_local(&WorkloadId::numbered(number), 50.0);
    }
    assert_eq!(series(&metrics), MAX_WORKLOADS);
    // A shown workload can still change. One that is gone makes room for another.
    metrics.workload_local(&WorkloadId::numbered(3), 25.0);
    shows(&metrics, &[r#"numaloc_workload_local_ratio{workload="3"} 0.25"#]);
    metrics.workload_gone(&WorkloadId::numbered(3));
    assert_eq!(series(&metrics), MAX_WORKLOADS - 1);
    metrics.workload_local(&WorkloadId::numbered(MAX_WORKLOADS as u64), 50.0);
    assert_eq!(series(&metrics), MAX_WORKLOADS);
}

#[test]
fn calls_commits_and_waits_are_counted() {
    let metrics = filled();
    metrics.committed(Duration::from_millis(2), true);
    metrics.committed(Duration::from_millis(2), false);
    metrics.job_dequeued(Duration::from_secs(20));
    metrics.schedules(5);
    metrics.workloads(7);
    shows(
        &metrics,
        &[
            r#"numaloc_rpcs_total{method="numaloc.v1.MigrationService/GetJob",code="NOT_FOUND"} 1"#,
            r#"numaloc_store_commit_seconds_bucket{le="0.0025"} 2"#,
            "numaloc_store_commit_seconds_count 2",
            "numaloc_store_commit_failures_total 1",
            r#"numaloc_job_queue_seconds_bucket{le="30.0"} 1"#,
            r#"numaloc_job_queue_seconds_bucket{le="10.0"} 0"#,
            "numaloc_schedules 5",
            "numaloc_workloads 7",
            concat!("numaloc_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ],
    );
}

/// The name and type of each family, from the lines `# TYPE name type`.
fn families(text: &str) -> BTreeSet<(String, String)> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split_once(' ')).map(|(a, b)| (a.into(), b.into())).collect()
}

#[test]
fn the_documentation_lists_what_there_is() {
    let page = include_str!("../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<_> = rows
        .map(|row| {
            let mut cells = row.split('|').map(|cell| cell.trim().trim_end_matches('`'));
            (cells.next().unwrap_or_default().into(), cells.next().unwrap_or_default().into())
        })
        .collect();
    assert_eq!(documented, families(&filled().text()));
}

#[test]
fn the_text_is_openmetrics() {
    let text = filled().text();
    assert!(text.ends_with("# EOF\n"));
    let names: Vec<_> = families(&text).into_iter().map(|(name, _)| name).collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        assert!(names.iter().any(|name| line.starts_with(name.as_str())), "{line} has no type");
        let value = line.rsplit(' ').next().unwrap_or_default();
        assert!(value.parse::<f64>().is_ok(), "{line} has no value");
    }
}
