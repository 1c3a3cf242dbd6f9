//! `migrate` as a job of the fake daemon.

use crate::{
    answers::{self, ended, job},
    fake::{Fake, Script},
    run::{fails, finish, interrupt, json, refused, text, until},
};
use numaloc_api::v1::{JobState, LeftReason};

fn daemon(watch: Vec<numaloc_api::v1::Job>) -> Fake {
    Fake::start(Script { watch: vec![watch], ..Script::default() })
}

#[test]
fn each_end_has_an_exit_code() {
    let running = || job(JobState::Running, 100);
    let failed = || numaloc_api::v1::Job {
        state_message: "the target has ended".to_owned(),
        outcome: None,
        plan: None,
        ..ended(JobState::Failed, 0, LeftReason::Busy)
    };
    let cases = [
        (
            ended(JobState::Succeeded, 600, LeftReason::Busy),
            0,
            "SUCCEEDED",
            "moved: 600.0 MiB of 600.0",
        ),
        (
            ended(JobState::Partial, 500, LeftReason::Pinned),
            6,
            "PARTIAL",
            "left: 100.0 MiB: pinned",
        ),
        (
            ended(JobState::Partial, 500, LeftReason::OutOfTime),
            124,
            "PARTIAL",
            ", then out of time",
        ),
        (
            ended(JobState::Cancelled, 500, LeftReason::Cancelled),
            6,
            "CANCELLED",
            ", then cancelled",
        ),
        (
            ended(JobState::Interrupted, 500, LeftReason::Cancelled),
            1,
            "INTERRUPTED",
            "interrupted: ",
        ),
        (failed(), 1, "FAILED", "failed: the target has ended"),
    ];
    for (end, code, state, words) in cases {
        let fake = daemon(vec![running(), end]);
        let document = json(&fake.run("migrate --pid 4711 -o json"), code);
        assert_eq!(document["state"], format!("JOB_STATE_{state}"));
        assert_eq!(document["name"], "jobs/42");
        let shown = text(&fake.run("migrate --pid 4711"), code);
        assert!(shown.contains(words), "{shown}");
        assert_eq!(fake.run("jobs watch 42").status.code(), Some(code));
    }
}

#[test]
fn what_is_asked_for_arrives() {
    let fake = daemon(vec![ended(JobState::Succeeded, 600, LeftReason::Busy)]);
    let line = "migrate --pid 4711 --container c1 --pod p1 --selector app=redis,tier=db --workloads-of uid:7 --unit a \
        --cgroup /sys/fs/cgroup/x/ --to !0 --include-shared --target-ratio 90 --qos lsr --resume --join \
        --request-id r1 --timeout 5m --rate 1G --profile gentle --max-stall 2500us --include-gigantic \
        --node-cpu-max 80 --order address --numa-balancing pause --emit always --id nightly --label team=db,x= --detach";
    assert_eq!(text(&fake.run(line), 0), "jobs/42\n");
    let asked = fake.seen("CreateJob").remove(0);
    for words in [
        "pids: [4711]",
        "cgroups: [\"/x\"]",
        "units: [\"a\"]",
        "containers: [\"c1\"]",
        "pods: [\"p1\"]",
        "match_labels: {\"app\": \"redis\", \"tier\": \"db\"}",
        "workload_creators: [\"uid:7\"]",
        "node_ids: [2]",
        "include_shared: true",
        "target_ratio_percent: Some(90)",
        "qos_class: Lsr",
        "on_interrupt: Resume",
        "on_conflict: Join",
        "request_id: \"r1\"",
        "seconds: 300",
        "rate_bytes_per_second: Some(1073741824)",
        "profile: Gentle",
        "max_stall: Some(Duration { seconds: 0, nanos: 2500000 })",
        "include_gigantic: true",
        "node_cpu_percent_max: Some(80)",
        "order: Address",
        "numa_balancing: Pause",
        "emit: Always",
        "labels: {\"team\": \"db\", \"x\": \"\"}",
        "validate_only: false",
        "job_id: \"nightly\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    assert!(fake.seen("WatchJob").is_empty());
    let said = text(&fake.run("migrate --pid 4711 --validate-only"), 0);
    assert!(said.contains("nothing has changed"), "{said}");
    assert!(fake.seen("CreateJob").pop().expect("a call").contains("validate_only: true"));
    assert!(fake.seen("WatchJob").is_empty());
    let detached = json(&fake.run("migrate --pid 4711 --detach -o json"), 0);
    assert_eq!(detached["jobs"][0]["state"], "JOB_STATE_QUEUED");
}

#[test]
fn plan_and_locality_are_those_of_the_daemon() {
    let fake = daemon(Vec::new());
    let plan = json(&fake.run("plan --container c1 -o json"), 0);
    assert_eq!(plan["plan"]["moves"][0]["kind"], "MEMORY_KIND_HEAP");
    assert_eq!(plan["plan"]["extent_moves"], serde_json::json!([]));
    let shown = text(&fake.run("plan --pid 4711"), 0);
    assert!(
        shown.contains("would move: 600.0 MiB\nlocal: 40.0 % -> 100.0 % of the movable memory"),
        "{shown}"
    );
    assert!(shown.contains("route: node 2 -> 0 (distance 21)"), "{shown}");
    let locality = json(&fake.run("locality --pid 4711 -o json"), 0);
    assert_eq!(locality["locality"]["processes"][0]["process"]["pid"], 4711);
    assert!(text(&fake.run("locality --pid 4711"), 0).contains("NODE2 MiB"));
    for command in ["locality", "plan"] {
        let shown = text(&fake.run(&format!("{command} --pid 4711 -o wide")), 0);
        assert!(shown.ends_with(&format!("via: numalocd at {}\n", fake.endpoint)), "{shown}");
        assert!(!text(&fake.run(&format!("{command} --pid 4711")), 0).contains("via: "));
    }
    let shown = text(&fake.run("locality --pid 4711 -o wide"), 0);
    let kinds = "
KIND            NODE0 MiB  NODE2 MiB  TOTAL MiB  HUGE MiB
heap                100.0      600.0      700.0     512.0
shmem, hugetlb      300.0        0.0      300.0     300.0
";
    assert!(shown.contains(kinds), "{shown}");
    assert!(!text(&fake.run("locality --pid 4711"), 0).contains("KIND"));
    let own = format!("locality --pid {} --standalone -o wide", std::process::id());
    let shown = text(&fake.run(&own), 0);
    assert!(shown.ends_with("via: this process\n"), "{shown}");
}

#[test]
fn nodes_of_devices_are_those_that_this_host_has() {
    let fake = daemon(Vec::new());
    // No firmware says where it is.
    let asked = fake.run("migrate --pid 1 --to iface:lo");
    refused("a loopback interface", &asked, 2, "iface:lo: the firmware does not report");
    let asked = fake.run("plan --pid 1 --from block:no-such-disk");
    refused("a disk that is missing", &asked, 2, "block:no-such-disk: lsblk");
    fails("plan --pid 1 --to device:17", 2, "PCI address");
    assert!(fake.seen("PlanMigration").is_empty() && fake.seen("CreateJob").is_empty());
}

#[test]
fn a_dry_run_is_the_plan() {
    let fake = daemon(Vec::new());
    let options = "--container c1 --profile gentle --rate 100M --timeout 5s --qos lsr --id nightly --label a=b --join \
        --request-id r1 --detach --no-progress --workers 2";
    let lines = ["migrate --dry-run", "plan"].map(|command| format!("{command} {options}"));
    let [dry, plan] = lines.map(|line| text(&fake.run(&line), 0));
    assert_eq!(dry, plan);
    assert!(
        plan.contains("takes: about 6.0 s at 100.0 MiB/s; --timeout ends it after 5.0 s\n"),
        "{plan}"
    );
    assert!(fake.seen("CreateJob").is_empty());
    let asked = fake.seen("PlanMigration");
    assert_eq!(asked[0], asked[1]);
    for words in ["profile: Gentle", "workers: Some(2)", "qos_class: Lsr", "seconds: 5"] {
        assert!(asked[0].contains(words), "{words} is not in {}", asked[0]);
    }
    for other in ["--validate-only", "--draw a.svg"] {
        refused(
            other,
            &fake.run(&format!("migrate --pid 1 --dry-run {other}")),
            2,
            "cannot be used with",
        );
    }
}

#[test]
fn what_a_plan_is_asked_is_shown() {
    let fake = daemon(Vec::new());
    let shown = text(&fake.run("plan --pid 1 -o wide --profile fast --include-gigantic"), 0);
    assert!(shown.contains("options: include gigantic, profile fast\n"), "{shown}");
    assert!(fake.seen("PlanMigration").remove(0).contains("profile: Fast"));
    let plan = json(&fake.run("plan --pid 1 --max-stall 3ms -o json"), 0);
    assert_eq!(plan["policy"]["max_stall"], "0.003s");
}

#[test]
fn progress_is_shown_where_it_is_wanted() {
    let fake = daemon(vec![
        answers::job(JobState::Queued, 0),
        job(JobState::Running, 100),
        ended(JobState::Succeeded, 600, LeftReason::Busy),
    ]);
    let output = fake.run("migrate --pid 4711 --progress");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("jobs/42 is queued") && message.contains("is running"), "{message}");
    assert!(fake.run("migrate --pid 4711").stderr.is_empty());
}

#[test]
fn ctrl_c_cancels_and_reports() {
    let fake = Fake::start(Script {
        watch: vec![vec![job(JobState::Running, 100)]],
        cancelled: Some(ended(JobState::Cancelled, 100, LeftReason::Cancelled)),
        ..Script::default()
    });
    let child = fake.command("migrate --pid 4711").spawn().unwrap();
    until("the watch", || !fake.seen("WatchJob").is_empty());
    interrupt(&child);
    let output = finish(child);
    let shown = text(&output, 6);
    assert!(shown.contains("moved: 100.0 MiB of 600.0 MiB") && shown.contains("then cancelled"));
    assert_eq!(fake.seen("CancelJob").len(), 1);
}

#[test]
fn a_second_ctrl_c_stops_waiting() {
    let watch = vec![vec![job(JobState::Running, 100)]];
    let fake = Fake::start(Script { watch, ..Script::default() });
    let child = fake.command("migrate --pid 4711").spawn().unwrap();
    until("the watch", || !fake.seen("WatchJob").is_empty());
    interrupt(&child);
    until("the cancellation", || !fake.seen("CancelJob").is_empty());
    interrupt(&child);
    let output = finish(child);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("jobs/42 was cancelled and is ending"), "{message}");
}

#[test]
fn a_job_of_somebody_else_is_left_alone() {
    let watch = vec![vec![job(JobState::Running, 100)]];
    let fake = Fake::start(Script { watch, existing: true, ..Script::default() });
    let child = fake.command("migrate --pid 4711 --join").spawn().unwrap();
    until("the watch", || !fake.seen("WatchJob").is_empty());
    interrupt(&child);
    refused("migrate --join", &finish(child), 130, "jobs/42 was there before and continues");
    assert!(fake.seen("CancelJob").is_empty());
}
