//! `jobs`: lists, cancellation, deletion and watches.

use crate::{
    answers::{ended, job},
    fake::{Fake, Script},
    run::{json, refused, text},
};
use numaloc_api::v1::{Job, JobState, LeftReason, RecordChange, WatchJobsResponse};
use std::io::{BufRead, BufReader};

fn many(count: usize) -> Fake {
    let jobs = (0..count).map(|n| Job { name: format!("jobs/{n}"), ..job(JobState::Queued, 0) });
    Fake::start(Script { jobs: jobs.collect(), ..Script::default() })
}

#[test]
fn all_pages_are_read() {
    let fake = many(2500);
    let names = text(&fake.run("jobs ls -q"), 0);
    assert_eq!(names.lines().count(), 2500);
    assert_eq!(names.lines().last(), Some("jobs/2499"));
    assert_eq!(fake.seen("ListJobs").len(), 3);
    assert_eq!(text(&fake.run("jobs ls -q --limit 1200"), 0).lines().count(), 1200);
    assert_eq!(text(&fake.run("jobs ls --no-headers --limit 1"), 0).lines().count(), 1);
    let listed = json(&fake.run("jobs list -o json --limit 2"), 0);
    assert_eq!(listed["jobs"][1]["spec"]["target"]["pids"][0], 4711);
}

#[test]
fn filters_arrive() {
    let fake = many(0);
    let line = "jobs ls --state running,queued --schedule 7 --creator uid:1000 --since 2026-11-20T08:00:00Z --label team=db --workload a";
    assert_eq!(text(&fake.run(line), 0), "");
    let asked = fake.seen("ListJobs").remove(0);
    for words in [
        "states: [Running, Queued]",
        "schedule: \"schedules/7\"",
        "creator: \"uid:1000\"",
        "seconds: 1795161600",
        "labels: {\"team\": \"db\"}",
        "workload: \"workloads/a\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
}

#[test]
fn jobs_are_named_with_and_without_their_kind() {
    let fake = many(3);
    let shown = text(&fake.run("jobs get 1 jobs/2"), 0);
    assert!(shown.contains("jobs/1 queued") && shown.contains("jobs/2 queued"), "{shown}");
    refused("jobs get 9", &fake.run("jobs get 9"), 3, "jobs/9 does not exist");
    let some = fake.run("jobs get 1 9 2 8");
    let shown = text(&some, 1);
    assert!(shown.contains("jobs/1 queued") && shown.contains("jobs/2 queued"), "{shown}");
    let message = String::from_utf8_lossy(&some.stderr);
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(message.contains("jobs/9 does not exist"), "{message}");
    refused("jobs get x/y", &fake.run("jobs get x/y"), 2, "is not a valid job");
    assert_eq!(text(&fake.run("jobs pause 1"), 0), "jobs/1 queued\n");
    assert_eq!(text(&fake.run("jobs resume 1"), 0), "jobs/1 queued\n");
    assert_eq!(text(&fake.run("jobs cancel 1 2"), 0), "jobs/1 queued\njobs/2 queued\n");
    assert_eq!(fake.seen("CancelJob").len(), 2);
}

#[test]
fn jobs_are_deleted() {
    let fake = many(3);
    assert_eq!(text(&fake.run("jobs delete 1 jobs/2"), 0), "jobs/1 removed\njobs/2 removed\n");
    assert_eq!(json(&fake.run("jobs delete 1 -o json"), 0)["removed"][0], "jobs/1");
    refused("jobs delete 9", &fake.run("jobs delete 9"), 3, "jobs/9 does not exist");
    assert_eq!(text(&fake.run("jobs delete 9 2"), 1), "jobs/2 removed\n");
    text(&fake.run("jobs delete 9 --allow-missing"), 0);
    let taken = text(&fake.run("jobs delete 1 --dry-run"), 0);
    assert!(taken.contains("nothing has changed"), "{taken}");
    let asked = fake.seen("DeleteJob");
    let last = "DeleteJobRequest { name: \"jobs/1\", allow_missing: false, validate_only: true }";
    assert_eq!(asked.last().map(String::as_str), Some(last));
}

#[test]
fn a_watch_is_a_line_per_change_and_goes_on_after_a_break() {
    let running = |moved| job(JobState::Running, moved);
    let fake = Fake::start(Script {
        watch: vec![
            vec![running(1), running(2)],
            vec![running(3), ended(JobState::Partial, 500, LeftReason::Busy)],
        ],
        ..Script::default()
    });
    let output = fake.run("jobs watch 42 -o json");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = text(&output, 6);
    let states: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(states.len(), 4, "{lines}");
    assert_eq!(states[2]["progress"]["moved_bytes"], 3 << 20);
    assert_eq!(states[3]["state"], "JOB_STATE_PARTIAL");
    assert_eq!(states[3]["plan"]["routes"][0]["to_node_ids"][0], 0);
    assert!(message.contains("broke off") && message.lines().count() == 1, "{message}");
}

/// A change of a job, with the token of this number.
fn change(change: RecordChange, job: Option<Job>, number: u64) -> WatchJobsResponse {
    WatchJobsResponse { change: change.into(), job, resume_token: format!("r.{number}") }
}

/// A list of one job, and then its end and that it is forgotten, after a break.
fn breaking() -> Vec<Vec<WatchJobsResponse>> {
    let removed = Job { name: "jobs/42".to_owned(), ..Job::default() };
    vec![
        vec![
            change(RecordChange::Present, Some(job(JobState::Running, 1)), 1),
            change(RecordChange::CaughtUp, None, 2),
        ],
        vec![
            change(RecordChange::Present, Some(job(JobState::Cancelled, 2)), 3),
            change(RecordChange::Removed, Some(removed), 4),
        ],
    ]
}

/// The first lines of a watch, which is then ended.
fn first_lines(fake: &Fake, line: &str, count: usize) -> Vec<String> {
    let mut child = fake.command(line).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let lines: Vec<String> = lines.take(count).map(|line| line.unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[test]
fn all_jobs_are_watched_and_the_watch_goes_on_where_it_was() {
    let fake = Fake::start(Script { changes: breaking(), ..Script::default() });
    let lines = first_lines(&fake, "jobs ls -w -o json --state running --creator uid:0", 4);
    let told: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let changes: Vec<_> = told.iter().map(|told| told["change"].as_str().unwrap()).collect();
    assert_eq!(
        changes,
        ["PRESENT", "CAUGHT_UP", "PRESENT", "REMOVED"].map(|name| format!("RECORD_CHANGE_{name}"))
    );
    assert_eq!(told[0]["job"]["progress"]["moved_bytes"], 1 << 20);
    assert!(told[1]["job"].is_null(), "{}", lines[1]);
    assert_eq!(told[2]["job"]["state"], "JOB_STATE_CANCELLED");
    assert_eq!(told[3]["job"]["name"], "jobs/42");
    let asked = fake.seen("WatchJobs");
    assert!(asked[0].contains("states: [Running]") && asked[0].contains("\"uid:0\""), "{asked:?}");
    assert!(asked[0].contains("resume_token: \"\""), "{asked:?}");
    assert!(asked[1].contains("resume_token: \"r.2\""), "{asked:?}");
    assert!(asked[1].contains("states: [Running]"), "{asked:?}");
}

#[test]
fn all_is_told_anew_when_the_daemon_has_forgotten() {
    let fake = Fake::start(Script { changes: breaking(), forgets: true, ..Script::default() });
    let lines = first_lines(&fake, "jobs ls --watch", 4);
    assert!(lines[0].starts_with("NAME ") && lines[0].contains("STATE"), "{lines:?}");
    assert!(lines[1].starts_with("jobs/42") && lines[1].contains("running"), "{lines:?}");
    assert!(lines[2].starts_with("jobs/42") && lines[2].contains("cancelled"), "{lines:?}");
    assert_eq!(lines[3], "jobs/42 removed");
    let asked = fake.seen("WatchJobs");
    let tokens: Vec<_> = asked.iter().map(|asked| asked.contains("resume_token: \"\"")).collect();
    assert_eq!(tokens, [true, false, true], "{asked:?}");
    for other in ["--quiet", "--limit 3"] {
        refused(other, &fake.run(&format!("jobs ls --watch {other}")), 2, "cannot be used with");
    }
}
