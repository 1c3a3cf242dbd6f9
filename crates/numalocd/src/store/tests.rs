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
use numaloc_api::value::{
    Event, EventType, Job, JobId, JobState, MigrationSpec, Outcome, ProcessOutcome, Schedule,
    ScheduleId, ScheduleSpec, ScheduleState, Target, Workload, WorkloadId, WorkloadSpec,
};
use numaloc_core::{Account, Identity, NodeSet};
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
        wanted: None,
        id: JobId::numbered(number),
        spec: migration(),
        state,
        state_message: "m".repeat(number as usize % 700),
        schedule: None,
        creator: "uid:0".to_owned(),
        creator_gid: None,
        pins: Default::default(),
        members: Vec::new(),
        labels: Default::default(),
        more_members: 0,
        requester: None,
        request_id: None,
        created: at(number),
        started: None,
        ended: None,
        progress: None,
        plan: None,
        outcome: Some(Arc::new(Outcome { processes: vec![process], ..Outcome::default() })),
    }
}

fn schedule(number: u64) -> Schedule {
    Schedule {
        id: ScheduleId::numbered(number),
        spec: ScheduleSpec { migration: migration(), ..ScheduleSpec::default() },
        state: ScheduleState::Waiting,
        state_message: String::new(),
        last_job: None,
        last_run: None,
        next_run: Some(at(number)),
        gone: None,
        created: at(1),
        updated: at(2),
        creator: "uid:0".to_owned(),
        creator_gid: None,
        pins: Default::default(),
        request_id: None,
        request_digest: 0,
        etag: "1".to_owned(),
    }
}

fn workload(id: &str) -> Workload {
    let spec = WorkloadSpec {
        id: WorkloadId::new(id).unwrap(),
        cgroup: "/a".to_owned(),
        container_id: None,
        pod_uid: None,
        namespace: None,
        labels: Default::default(),
        qos_class: None,
        source: None,
        ttl: None,
    };
    let (creator, etag) = ("uid:0".to_owned(), "1".to_owned());
    let request_id = None;
    Workload { spec, created: at(3), creator, creator_gid: None, etag, request_id, expires: None }
}

fn event(number: u64) -> Event {
    Event {
        number,
        kind: EventType::Completed,
        time: at(number),
        job: Some(JobId::numbered(number)),
        schedule: Some(ScheduleId::numbered(1)),
        creator: "uid:0".to_owned(),
        labels: [("app".to_owned(), "redis".to_owned())].into(),
        target: target(),
        from: NodeSet::new(),
        to: NodeSet::new(),
        before_percent: None,
        after_percent: Some(12.5),
        remote_bytes: None,
        failed: Vec::new(),
        members: Vec::new(),
        more_members: 0,
        message: "moved".to_owned(),
    }
}

fn write_job(number: u64) -> Write {
    Write::Job(Arc::new(job(number, JobState::Queued)))
}

fn write_event(number: u64) -> Write {
    Write::Event(Arc::new(event(number)))
}

/// Everything that can be read of a store, as text.
fn all(store: &mut Store, contents: &Contents) -> String {
    let numbers: Vec<_> = contents.jobs.iter().map(|kept| kept.job.id.clone()).collect();
    let jobs: Vec<_> = numbers.iter().map(|id| store.job(id).unwrap().unwrap()).collect();
    let events: Vec<_> = contents.events.iter().map(|head| head.number).collect();
    let events = store.events(&events).unwrap();
    format!("{contents:?}\n{jobs:?}\n{events:?}")
}

/// Opens a store and returns the numbers of its jobs.
fn stored_jobs(dir: &Path) -> Vec<u64> {
    let (_, contents) = Store::open(dir).unwrap();
    contents.jobs.iter().map(|kept| kept.job.id.number().unwrap()).collect()
}
