//! `jobs`.

use crate::{
    answers::{ended, job},
    fake::{Fake, Script},
    run::{json, refused, text},
};
use numaloc_api::v1::{Job, JobState, LeftReason};

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
    assert_eq!(listed["jobs"][1]["target"]["pids"][0], 4711);
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
    refused("jobs get 9", &fake.run("jobs get 1 9"), 3, "jobs/9 does not exist");
    refused("jobs get x/y", &fake.run("jobs get x/y"), 2, "is no job");
    assert_eq!(text(&fake.run("jobs pause 1"), 0), "jobs/1 queued\n");
    assert_eq!(text(&fake.run("jobs resume 1"), 0), "jobs/1 queued\n");
    assert_eq!(text(&fake.run("jobs cancel 1 2"), 0), "jobs/1 queued\njobs/2 queued\n");
    assert_eq!(fake.seen("CancelJob").len(), 2);
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
    assert_eq!(states[3]["outcome"]["result"], "partly_moved");
    assert_eq!(states[3]["plan"]["routes"][0]["to_nodes"][0]["distance"], 21);
    assert!(message.contains("broke off") && message.lines().count() == 1, "{message}");
}
