//! Records of every kind, in every state, with every field set: what a fixture is made of.

use numaloc_api::{
    samples,
    value::{
        Event, EventType, Job, JobId, JobState, MemberResult, MemberState, MigrationSpec, Schedule,
        ScheduleId, ScheduleSpec, ScheduleState, Target, Workload, WorkloadId, WorkloadSpec,
    },
};
use numalocd::store::{Holds, Write};
use std::{sync::Arc, time::SystemTime};

/// The states that a schedule may be in.
const SCHEDULE_STATES: [ScheduleState; 5] = [
    ScheduleState::Waiting,
    ScheduleState::Active,
    ScheduleState::TargetGone,
    ScheduleState::Paused,
    ScheduleState::Completed,
];

/// All of them, and that the daemon is drained and paused.
pub fn all() -> Vec<Write> {
    let mut writes = vec![Write::Holds(Holds { drained: Some(at(1)), paused: Some(at(2)) })];
    let schedules = SCHEDULE_STATES.iter().zip(1..).map(|(&state, number)| schedule(number, state));
    writes.extend(schedules.map(|schedule| Write::Schedule(Arc::new(schedule))));
    let jobs = JobState::ALL.iter().zip(1..).map(|(&state, number)| job(number, state));
    writes.extend(jobs.chain([little_job(100)]).map(|job| Write::Job(Arc::new(job))));
    let workloads =
        [workload(), little_workload()].map(|workload| Write::Workload(Arc::new(workload)));
    writes.extend(workloads);
    let events = EventType::ALL.iter().zip(1..).map(|(&kind, number)| event(number, kind));
    writes.extend(events.map(|event| Write::event(&event)));
    writes
}

fn at(seconds: u64) -> SystemTime {
    samples::at(1000 * seconds)
}

/// The id of the first job, which a client has chosen.
fn first_job() -> JobId {
    JobId::new("job-1").expect("an id")
}

/// The same of a schedule.
fn first_schedule() -> ScheduleId {
    ScheduleId::new("schedule-1").expect("an id")
}

/// A member in each state.
fn members() -> Vec<MemberResult> {
    let states = MemberState::ALL.iter().zip(0..);
    let member = |(&state, number): (&MemberState, u32)| MemberResult {
        member: Target::cgroup(&format!("/kubepods.slice/{number}")),
        state,
        ..samples::member()
    };
    states.map(member).collect()
}

fn job(number: u64, state: JobState) -> Job {
    // What a client wants of one that is under way outlasts the daemon.
    let under_way = matches!(state, JobState::Planning | JobState::Running);
    Job {
        id: JobId::new(&format!("job-{number}")).expect("an id").with_number(number),
        state,
        wanted: under_way.then_some(JobState::Paused),
        schedule: Some(first_schedule()),
        request_id: Some(format!("request-{number}")),
        members: members(),
        created: at(10 + number),
        started: Some(at(20 + number)),
        ended: state.is_end().then(|| at(30 + number)),
        ..samples::job()
    }
}

/// One with nothing but what has to be there.
fn little_job(number: u64) -> Job {
    let spec = MigrationSpec { target: Target::cgroup("/a"), ..MigrationSpec::default() };
    Job::new(JobId::numbered(number), spec, "uid:0".to_owned(), at(number))
}

fn schedule(number: u64, state: ScheduleState) -> Schedule {
    let sample = samples::schedule();
    Schedule {
        id: ScheduleId::new(&format!("schedule-{number}")).expect("an id").with_number(number),
        spec: ScheduleSpec { paused: state == ScheduleState::Paused, ..sample.spec },
        state,
        last_job: Some(first_job()),
        request_id: Some(format!("request-{number}")),
        ..sample
    }
}

/// One with a lease. When this ends means nothing in a store.
fn workload() -> Workload {
    Workload { expires: None, ..samples::workload() }
}

fn little_workload() -> Workload {
    let creator = "uid:1000@/run/numaloc/web/numalocd.sock".to_owned();
    let spec = WorkloadSpec::new(WorkloadId::numbered(7), "/");
    Workload { etag: "1".to_owned(), ..Workload::new(spec, creator, at(9)) }
}

fn event(number: u64, kind: EventType) -> Event {
    Event {
        number,
        kind,
        time: at(40 + number),
        job: Some(first_job()),
        schedule: Some(first_schedule()),
        members: members(),
        ..samples::event()
    }
}
