//! Output about the daemon, as snapshots.

use super::{NARROW, WIDE, machine, tables};
use crate::{fixture, text};
use numaloc_api::{
    samples::{self, at},
    timestamp, v1,
    value::{
        Event, EventType, Job, JobId, JobState, MemberResult, MemberState, ScheduleId, Target,
        Workload, WorkloadId, WorkloadSpec,
    },
};
use numaloc_core::Options;
use std::sync::Arc;

fn replaced() -> v1::ReplaceWorkloadsResponse {
    let missing = vec!["workloads/gone".to_owned()];
    let (written_count, unchanged_count, removed_count) = (2, 3, 1);
    v1::ReplaceWorkloadsResponse { written_count, unchanged_count, removed_count, missing }
}

#[test]
fn what_became_of_a_set_is_told() {
    let expected = "2 written, 3 unchanged, 1 removed\nworkloads/gone left out: no cgroup of its container, or several\n";
    assert_eq!(text::replaced(&replaced(), NARROW), expected);
    let renewed =
        |workload_count| text::renewed(&v1::RenewWorkloadsResponse { workload_count }, NARROW);
    assert_eq!(renewed(5), "5 renewed\n");
    assert!(renewed(0).contains("register them again"));
}

/// Four members: one that was moved, one without a target node, one that is gone, and one that belongs to another user.
fn members() -> Vec<MemberResult> {
    let container = |id| Target { containers: [format!("c-{id}")].into(), ..Target::default() };
    let unpinned = MemberResult {
        state: MemberState::Skipped,
        reason: "no target node".to_owned(),
        member: container("b"),
        processes: 1,
        home: "0,2,8".parse().unwrap(),
        before: Some(samples::locality(100, 0)),
        after: Some(samples::locality(100, 0)),
        ..MemberResult::default()
    };
    let left_out =
        |id, state, reason: &str| MemberResult::left_out(container(id), state, reason.to_owned());
    vec![
        samples::member().settled(100),
        unpinned,
        left_out("c", MemberState::Missing, "cgroup /pods/c is not there"),
        left_out("d", MemberState::Refused, "process 7 (x) of user 0 is not yours"),
    ]
}

fn a_job(id: u64, state: JobState) -> Job {
    let sample = samples::job();
    Job {
        id: JobId::numbered(id),
        state,
        wanted: None,
        state_message: String::new(),
        members: members(),
        ended: sample.ended.filter(|_| state.is_end()),
        plan: Some(Arc::new((&fixture::inspection(Options::default()).plan).into())),
        outcome: sample.outcome.filter(|_| state.is_end()),
        ..sample
    }
}

pub fn jobs() -> v1::ListJobsResponse {
    let waiting = Job {
        state_message: "waits for jobs/41, which is at work on process 4711".to_owned(),
        started: None,
        progress: None,
        plan: None,
        schedule: None,
        ..a_job(43, JobState::Queued)
    };
    let listed = [a_job(44, JobState::Partial), waiting, a_job(42, JobState::Running)];
    let jobs = listed.iter().map(|each| each.listed()).collect();
    v1::ListJobsResponse { jobs, ..Default::default() }
}

pub fn schedules() -> v1::ListSchedulesResponse {
    v1::ListSchedulesResponse {
        schedules: vec![(&samples::schedule()).into()],
        ..Default::default()
    }
}

pub fn events() -> v1::ListEventsResponse {
    let event = Event { members: members(), ..samples::event() };
    let removed = Event {
        number: 13,
        kind: EventType::ScheduleRemoved,
        job: None,
        schedule: Some(ScheduleId::numbered(7)),
        members: Vec::new(),
        more_members: 0,
        failed: Vec::new(),
        message: "removed by uid:0".to_owned(),
        ..event.clone()
    };
    let unscheduled = Event { number: 14, schedule: None, ..event.clone() };
    let events = [event, removed, unscheduled].iter().map(Into::into).collect();
    v1::ListEventsResponse { events, ..Default::default() }
}

pub fn workloads() -> v1::ListWorkloadsResponse {
    let sample = samples::workload();
    let id = WorkloadId::new("bare").expect("a name");
    let bare = Workload { spec: WorkloadSpec::new(id, "/bare"), ..sample.clone() };
    let workloads = [sample, bare].iter().map(Into::into).collect();
    v1::ListWorkloadsResponse { workloads, ..Default::default() }
}

fn status() -> v1::GetStatusResponse {
    let count = |state: v1::JobState, count| v1::JobStateCount { state: state.into(), count };
    v1::GetStatusResponse {
        version: "0.1.0".to_owned(),
        start_time: Some(timestamp(at(0))),
        jobs: vec![count(v1::JobState::Queued, 2), count(v1::JobState::Succeeded, 14)],
        schedules: 3,
        workloads: 12,
        watches: 1,
        moved_bytes: 5 << 30,
        problems: vec!["the disk is full: free some of /var/lib/numaloc".to_owned()],
        caller: "uid:1000".to_owned(),
        role: "operator".to_owned(),
        boot_id: String::new(),
        store_id: String::new(),
        holds: Some(v1::Holds { drain_time: Some(timestamp(at(3_600_000))), pause_time: None }),
        ceilings: Some(v1::Ceilings {
            profile: v1::Profile::Balanced.into(),
            qos_class: v1::QosClass::Ls.into(),
            rate_bytes_per_second: Some(1 << 30),
            workers: 2,
            include_shared: true,
            ..v1::Ceilings::default()
        }),
    }
}

#[test]
fn jobs_in_both_tables() {
    insta::assert_snapshot!(tables(|view| text::jobs(&jobs(), view)));
}

#[test]
fn a_job_in_full() {
    let shown = |state, view| text::job(&(&a_job(42, state)).into(), &machine(), view);
    let texts = [
        shown(JobState::Running, NARROW),
        shown(JobState::Partial, NARROW),
        shown(JobState::Cancelled, WIDE),
    ];
    insta::assert_snapshot!(texts.join("\n----\n"));
}

#[test]
fn schedules_in_both_tables() {
    let full = text::schedule(&schedules().schedules[0], NARROW);
    let tables = tables(|view| text::schedules(&schedules(), view));
    insta::assert_snapshot!(tables + "\nin full:\n" + &full);
}

#[test]
fn events_in_both_tables() {
    let event = &events().events[0];
    let line = |view| text::event_header(view) + &text::event_line(event, view);
    let watched = format!("\nwatched:\n{}\nwide:\n{}", line(NARROW), line(WIDE));
    insta::assert_snapshot!(tables(|view| text::events(&events(), view)) + &watched);
}

#[test]
fn an_event_about_the_host_names_nobody() {
    let event = v1::Event {
        name: "events/14".to_owned(),
        r#type: v1::EventType::DsaQueueFailed.into(),
        message: "dsa0: no work queue is set up".to_owned(),
        ..v1::Event::default()
    };
    let line = text::event_line(&event, WIDE);
    let words: Vec<&str> = line.split_whitespace().collect();
    // After the time, which is not set: type, job, name, schedule, target.
    let named = ["dsa_queue_failed", "-", "events/14", "-", "-"];
    assert!(words.windows(named.len()).any(|words| words == named), "{line}");
    assert!(line.ends_with("dsa0: no work queue is set up\n"), "{line}");
}

#[test]
fn workloads_in_both_tables() {
    let full = text::workload(&workloads().workloads[0], NARROW);
    let tables = tables(|view| text::workloads(&workloads(), view));
    insta::assert_snapshot!(tables + "\nin full:\n" + &full);
}

#[test]
fn status_as_text() {
    let endpoint = "unix:///run/numaloc/numalocd.sock";
    insta::assert_snapshot!(text::status(&status(), endpoint, at(7_300_000)));
}

#[test]
fn what_only_a_newer_daemon_knows_is_shown_all_the_same() {
    let account = v1::Account {
        found_bytes: 5,
        left: vec![v1::LeftBytes { reason: 99, bytes: 5 }],
        ..v1::Account::default()
    };
    let share = Some(v1::Share::default());
    let outcome = v1::Outcome {
        account: Some(account),
        movable_before: share,
        overall_before: share,
        ..v1::Outcome::default()
    };
    let state = v1::JobState::Partial.into();
    let job = v1::Job { state, outcome: Some(outcome), ..v1::Job::default() };
    let shown = text::migration(&job, NARROW);
    assert!(shown.contains("left: 5 B: reason 99, which this numalocctl is too old"), "{shown}");
    let newer = v1::Job { name: "jobs/1".to_owned(), state: 99, ..v1::Job::default() };
    assert!(text::job(&newer, &machine(), NARROW).starts_with("jobs/1 unknown\n"));
}
