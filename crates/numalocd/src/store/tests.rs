//! Tests of the store on real files, with full disks and killed processes.

mod bounds;
mod contents;
mod copies;
mod crashes;
mod damage;
mod failures;
mod refusals;
mod room;

use super::{Contents, Store, Write};
use numaloc_api::{
    Stored,
    encoded::Encoded,
    value::{
        Event, EventType, Job, JobId, JobState, MigrationSpec, Outcome, ProcessOutcome, Schedule,
        ScheduleId, ScheduleSpec, Target, Workload, WorkloadId, WorkloadSpec,
    },
};
use numaloc_core::{Account, Identity};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::new(seconds, 5)
}

fn target() -> Target {
    Target { pids: [4711].into(), ..Target::default() }
}

fn migration() -> MigrationSpec {
    MigrationSpec { target: target(), ..MigrationSpec::default() }
}

/// A job that has moved pages of one process.
fn job(number: u64, state: JobState) -> Job {
    let mut account = Account::default();
    account.found(number);
    account.moved(number);
    let process = ProcessOutcome {
        identity: Identity { pid: 4711, start_time: 1 },
        comm: "redis".to_owned(),
        account,
        error: None,
    };
    Job {
        state,
        state_message: "m".repeat(number as usize % 700),
        outcome: Some(Arc::new(Outcome { processes: vec![process], ..Outcome::default() })),
        ..Job::new(JobId::numbered(number), migration(), "uid:0".to_owned(), at(number))
    }
}

fn schedule(number: u64) -> Schedule {
    let (id, spec) = (
        ScheduleId::numbered(number),
        ScheduleSpec { migration: migration(), ..ScheduleSpec::default() },
    );
    Schedule {
        next_run: Some(at(number)),
        updated: at(2),
        etag: "1".to_owned(),
        ..Schedule::new(id, spec, "uid:0".to_owned(), at(1))
    }
}

fn workload(id: &str) -> Workload {
    let spec = WorkloadSpec::new(WorkloadId::new(id).unwrap(), "/a");
    Workload { etag: "1".to_owned(), ..Workload::new(spec, "uid:0".to_owned(), at(3)) }
}

fn event(number: u64) -> Event {
    Event {
        job: Some(JobId::numbered(number)),
        schedule: Some(ScheduleId::numbered(1)),
        creator: "uid:0".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        target: target(),
        after_percent: Some(12.5),
        ..Event::new(number, EventType::Completed, at(number), "moved".to_owned())
    }
}

fn write_job(number: u64) -> Write {
    Write::Job(Arc::new(job(number, JobState::Queued)))
}

fn write_event(number: u64) -> Write {
    Write::event(&event(number))
}

/// The events with these numbers.
fn read(store: &mut Store, numbers: &[u64]) -> Vec<Event> {
    let events = store.events(numbers).unwrap();
    let one = |(number, event): (u64, Encoded<Event>)| {
        let event = event.decode().unwrap();
        assert_eq!(event.number, number);
        event
    };
    events.into_iter().map(one).collect()
}

/// Everything that can be read of a store, as text.
fn all(store: &mut Store, contents: &Contents) -> String {
    let numbers: Vec<_> = contents.jobs.iter().map(|kept| kept.job.id.clone()).collect();
    let jobs: Vec<_> = numbers.iter().map(|id| store.job(id).unwrap().unwrap()).collect();
    let events: Vec<_> = contents.events.iter().map(|head| head.number).collect();
    let events = read(store, &events);
    format!("{contents:?}\n{jobs:?}\n{events:?}")
}

/// Opens a store and returns the numbers of its jobs.
fn stored_jobs(dir: &Path) -> Vec<u64> {
    let (_, contents) = Store::open(dir).unwrap();
    contents.jobs.iter().map(|kept| kept.job.id.number().unwrap()).collect()
}
