//! Records are read as they were written, and the file stays small.

use super::*;

#[test]
fn everything_survives() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("a/b");
    let (mut store, contents) = Store::open(&dir).unwrap();
    assert_eq!(format!("{contents:?}"), format!("{:?}", Contents::default()));
    store.commit(&[]).unwrap();
    store
        .commit(&[
            Write::Job(Arc::new(job(9, JobState::Running))),
            Write::Job(Arc::new(job(10, JobState::Succeeded))),
            Write::Schedule(Arc::new(schedule(3))),
            Write::Workload(Arc::new(workload("w"))),
            Write::Workload(Arc::new(workload("b"))),
            write_event(7),
            write_event(8),
        ])
        .unwrap();
    store.commit(&[write_job(11), Write::DropJob(JobId::numbered(11))]).unwrap();
    drop(store);
    for _ in 0..2 {
        let (mut store, contents) = Store::open(&dir).unwrap();
        let succeeded = job(10, JobState::Succeeded);
        let jobs = [job(9, JobState::Running), succeeded.clone()];
        assert_eq!(contents.jobs, jobs.map(|job| Kept::from(Arc::new(job))));
        let encoded = Some(Encoded::from(&succeeded));
        assert_eq!(store.encoded_job(&succeeded.id).unwrap(), encoded);
        assert_eq!(store.job(&succeeded.id).unwrap(), Some(succeeded));
        assert_eq!(store.job(&JobId::numbered(11)).unwrap(), None);
        assert_eq!(store.job(&JobId::new("x").unwrap()).unwrap(), None);
        assert_eq!(contents.schedules, [schedule(3)]);
        assert_eq!(contents.workloads, [workload("b"), workload("w")]);
        assert_eq!(contents.events, [7, 8].map(|number| head(&event(number))));
        assert_eq!(contents.last, Last { job: 11, schedule: 3, event: 8 });
    }
}

use crate::store::{EventHead, Kept, Last};

fn head(event: &Event) -> EventHead {
    EventHead::new(event, event.encoded_len())
}

#[test]
fn labels_of_events_count_for_their_size() {
    let labels = [("k".repeat(300), "v".repeat(200))];
    let large = Event { labels: labels.into(), ..event(1) };
    let bytes = |event: &Event| head(event).bytes;
    assert!(bytes(&large) >= bytes(&event(1)) + 450, "{} {}", bytes(&large), bytes(&event(1)));
}

#[test]
fn a_store_keeps_its_id() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let id = Store::open(one.path()).unwrap().0.id();
    for round in 1..3 {
        let (mut store, _) = Store::open(one.path()).unwrap();
        assert_eq!(store.id(), id, "in round {round}");
        store.commit(&[write_event(round)]).unwrap();
    }
    assert_ne!(Store::open(other.path()).unwrap().0.id(), id);
}

#[test]
fn everything_can_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let workload = workload("w");
    let id = workload.spec.id.clone();
    store.commit(&[write_job(1), write_event(2), Write::Workload(Arc::new(workload))]).unwrap();
    store.commit(&[Write::Schedule(Arc::new(schedule(3)))]).unwrap();
    let drops = [
        Write::DropJob(JobId::numbered(1)),
        Write::DropEvent(2),
        Write::DropSchedule(ScheduleId::numbered(3)),
        Write::DropWorkload(id),
    ];
    store.commit(&drops).unwrap();
    drop(store);
    let (_, contents) = Store::open(dir.path()).unwrap();
    let last = Last { job: 1, schedule: 3, event: 2 };
    assert_eq!(format!("{contents:?}"), format!("{:?}", Contents { last, ..Contents::default() }));
}

#[test]
fn events_are_read_by_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&(1..=9).map(write_event).collect::<Vec<_>>()).unwrap();
    assert_eq!(read(&mut store, &[9, 0, 3, u64::MAX]), [event(9), event(3)]);
    assert_eq!(read(&mut store, &[]), []);
}

/// A commit with something that cannot be stored stores nothing.
#[test]
fn all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let nameless = Job { id: JobId::new("x").unwrap(), ..job(1, JobState::Queued) };
    let text = store.commit(&[write_job(2), Write::Job(Arc::new(nameless))]).unwrap_err();
    assert!(text.to_string().ends_with("jobs/x is not a name that the daemon gives"), "{text}");
    assert_eq!(store.job(&JobId::numbered(2)).unwrap(), None);
    store.commit(&[write_job(3)]).unwrap();
    drop(store);
    assert_eq!(stored_jobs(dir.path()), [3]);
}

#[test]
fn ten_thousand_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let jobs: Vec<_> = (1..=10_000).map(|n| Arc::new(job(n, JobState::Succeeded))).collect();
    store.commit(&jobs.into_iter().map(Write::Job).collect::<Vec<_>>()).unwrap();
    drop(store);
    let (mut store, contents) = Store::open(dir.path()).unwrap();
    assert_eq!(contents.jobs.len(), 10_000);
    let bare = |kept: &Kept| kept.job.outcome.is_none() && kept.listed.is_some();
    assert!(contents.jobs.iter().all(bare));
    let whole = store.job(&JobId::numbered(4711)).unwrap().unwrap();
    assert_eq!(whole, job(4711, JobState::Succeeded));
}

/// Fifty thousand events come and go. The file needs room only for events that exist at one time.
#[test]
fn the_file_does_not_grow_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    let size = || dir.path().join("numalocd.redb").metadata().unwrap().len();
    let mut largest = 0;
    for round in 0..50_u64 {
        let numbers = round * 1000 + 1..=(round + 1) * 1000;
        for part in numbers.clone().collect::<Vec<_>>().chunks(100) {
            store.commit(&part.iter().copied().map(write_event).collect::<Vec<_>>()).unwrap();
        }
        store.commit(&numbers.map(Write::DropEvent).collect::<Vec<_>>()).unwrap();
        largest = largest.max(size());
    }
    assert!(largest < 4 << 20, "{largest} bytes");
    drop(store);
    assert_eq!(Store::open(dir.path()).unwrap().1.last.event, 50_000);
}
