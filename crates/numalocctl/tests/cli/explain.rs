//! `explain`: why the daemon moves the memory of a target, or not.

use crate::{
    answers::{ended, job, schedule},
    fake::{Fake, Script},
    run::{json, refused, text},
};
use numaloc_api::v1::{Job, JobState, LeftReason, MigrationSpec, Schedule, ScheduleState, Target};

/// A schedule for a unit, whose last run has left pinned memory.
fn redis() -> (Schedule, Job) {
    let target =
        Some(Target { units: vec!["redis-server.service".to_owned()], ..Target::default() });
    let schedule = schedule();
    let spec = schedule.spec.clone().map(|spec| MigrationSpec { target, ..spec });
    let last_job = "jobs/42".to_owned();
    (Schedule { spec, last_job, ..schedule }, ended(JobState::Partial, 500, LeftReason::Pinned))
}

#[test]
fn what_nothing_moves_is_said_with_what_would() {
    let fake =
        Fake::start(Script { schedules: vec![schedule()], drained: true, ..Script::default() });
    let shown = text(&fake.run("explain --unit redis-server"), 0);
    for part in [
        "held: drained since ",
        "no schedule and no job under way moves it: see numalocctl schedules create",
        "not known: the processes of schedules/7, ",
        "\na migration now:\nwould move: 600.0 MiB",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let document = json(&fake.run("explain --unit redis-server -o json"), 0);
    assert_eq!(document["schedules"].as_array().map(Vec::len), Some(0));
    assert_eq!(document["unknown"][0], "schedules/7");
    assert_eq!(document["plan"]["plan"]["processes"][0]["comm"], "redis-server");
}

#[test]
fn a_schedule_is_shown_with_its_last_run_and_what_to_do() {
    let (schedule, last) = redis();
    let fake =
        Fake::start(Script { schedules: vec![schedule], jobs: vec![last], ..Script::default() });
    let shown = text(&fake.run("explain --unit redis-server"), 0);
    for part in [
        "schedule: schedules/7 waiting",
        "  last run: jobs/42 partial",
        "moved 500.0 MiB of 600.0 MiB remote",
        "  last run left: 100.0 MiB: pinned",
        "\na migration now, with the policy of schedules/7:\n",
        "\nhint: pinned (DMA or I/O in flight): it moves once",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    assert!(!shown.contains("no schedule") && !shown.contains("not known"), "{shown}");
    // The plan has the target of the command line, and the policy of the schedule.
    let asked = fake.seen("PlanMigration").pop().unwrap();
    assert!(asked.contains("redis-server") && asked.contains("Some(95)"), "{asked}");
    let document = json(&fake.run("explain --unit redis-server -o json"), 0);
    assert_eq!(document["policy_of"], "schedules/7");
    assert_eq!(document["schedules"][0]["last_job"]["state"], "JOB_STATE_PARTIAL");
}

#[test]
fn a_job_under_way_is_shown_by_its_processes() {
    let jobs = vec![job(JobState::Queued, 0)];
    // A target that is gone has no processes, so none of this one.
    let gone = Schedule { state: ScheduleState::TargetGone.into(), ..schedule() };
    let fake = Fake::start(Script { schedules: vec![gone], jobs, ..Script::default() });
    let shown = text(&fake.run("explain --pid 4711"), 0);
    assert!(shown.contains("job: jobs/42 queued\n"), "{shown}");
    assert!(!shown.contains("no schedule") && !shown.contains("not known"), "{shown}");
    let asked = fake.seen("ListJobs").pop().unwrap();
    assert!(asked.contains("Queued") && !asked.contains("Succeeded"), "{asked}");
}

#[test]
fn it_needs_a_target_and_the_daemon() {
    let fake = Fake::start(Script::default());
    refused("explain", &fake.run("explain"), 2, "no target");
    refused("explain", &fake.run("explain --pid 1 --standalone"), 2, "explain needs the daemon");
}
