//! For clients that declare a wanted state: checks without a change, labels, filters, and runs on demand.

use super::{
    schedules::{MINUTE, get, schedule, spec},
    workloads::workload,
    *,
};
use numaloc_api::value::{
    CreateSchedule, DeleteJob, DeleteSchedule, EventFilter, EventType, ListEvents, ListSchedules,
    RunSchedule, Schedule, ScheduleFilter, ScheduleId, ScheduleSpec, ScheduleState, ScheduleUpdate,
    UpdateSchedule, WorkloadId,
};
use std::collections::BTreeMap;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn paused() -> ScheduleSpec {
    ScheduleSpec { paused: true, ..spec(MINUTE) }
}

fn run_of(id: &ScheduleId) -> RunSchedule {
    RunSchedule { id: id.clone(), request_id: None }
}

#[tokio::test(start_paused = true)]
async fn what_is_only_checked_changes_nothing() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let only = CreateJob { validate_only: true, ..request(&[1]) };
    let checked = rig.handle.create_job(admin(), only.clone(), pins(&[1]), found(&[1], "0")).await;
    assert!(!checked.expect("it could be made").1);
    rig.assert_no_order().await;
    let asked = CreateSchedule { spec: spec(MINUTE), validate_only: true, ..Default::default() };
    rig.handle.create_schedule(admin(), asked, pins(&[1])).await.expect("it could be made");
    let id = schedule(&rig, paused()).await;
    let before = get(&rig, &id).await;
    let update = ScheduleUpdate { paused: Some(false), ..ScheduleUpdate::default() };
    let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: true };
    let checked = rig.handle.update_schedule(operator(), update, Pins::new()).await;
    assert_eq!(checked.expect("it could be changed").state, ScheduleState::Waiting);
    assert_eq!(get(&rig, &id).await, before);
    assert!(tokio::time::timeout(2 * MINUTE, rig.probes.recv()).await.is_err());
    // A job that could not be made is refused as it is without `validate_only`.
    let (_busy, _) = rig.moving(&[1], "0").await;
    let refused = rig.handle.create_job(admin(), only, pins(&[1]), found(&[1], "0")).await;
    assert_refused!(refused, Refusal::Conflict { .. });
    assert_eq!(rig.handle.status().await.expect("an answer").jobs, [(JobState::Running, 1)]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn clients_choose_ids_that_last() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let job_id = JobId::new("nightly").expect("an id");
    let named = |pid: i32| CreateJob { id: Some(job_id.clone()), ..request(&[pid]) };
    let make = async |rig: &Rig, pid, request| {
        let made = rig.handle.create_job(admin(), request, pins(&[pid]), found(&[pid], "0")).await;
        made.map(|(job, _)| job.id.clone())
    };
    assert_eq!(make(&rig, 1, named(1)).await.expect("it is taken").to_string(), "jobs/nightly");
    let taken = make(&rig, 2, named(2)).await;
    assert_refused!(taken, Refusal::NameTaken { name } if name == "jobs/nightly");
    // A job with a chosen id counts like any other, but its number is not an id.
    assert_eq!(rig.create(&[3], "1").await, JobId::numbered(2));
    let by_number = rig.handle.get_job(JobId::numbered(1)).await;
    assert_refused!(by_number, Refusal::NotFound { .. });
    let schedule_id = ScheduleId::new("redis.1").expect("an id");
    let create =
        |spec| CreateSchedule { id: Some(schedule_id.clone()), spec, ..Default::default() };
    let made = rig.handle.create_schedule(operator(), create(spec(MINUTE)), pins(&[1])).await;
    assert_eq!(made.expect("it is taken").id, schedule_id);
    let taken = rig.handle.create_schedule(operator(), create(paused()), pins(&[1])).await;
    assert_refused!(taken, Refusal::NameTaken { name } if name == "schedules/redis.1");
    // Job and schedule are known by their ids after a restart, and run.
    rig.kill().await;
    let mut rig = Rig::at(&dir);
    let order = rig.order().await;
    assert_eq!(order.job, job_id);
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(order.job, Ok(outcome(4096, None))));
    rig.reaches(&job_id, JobState::Succeeded).await;
    assert!(rig.handle.get_job(job_id).await.expect("it is known").outcome.is_some());
    let other = rig.order().await;
    rig.report(EngineReport::Planned(
        other.job,
        Err(Refusal::TargetEmpty { message: "gone".into() }),
    ));
    let run = rig.run(outcome(4096, None)).await;
    let job = rig.reaches(&run, JobState::Succeeded).await;
    assert_eq!(job.schedule, Some(schedule_id.clone()));
    assert_eq!(get(&rig, &schedule_id).await.last_job, Some(run));
    let delete = DeleteSchedule::new(schedule_id.clone());
    rig.handle.delete_schedule(operator(), delete).await.expect("it is there");
    assert_refused!(rig.handle.get_schedule(schedule_id.clone()).await, Refusal::NotFound { .. });
    // The id of the removed schedule is free again.
    let again = rig.handle.create_schedule(operator(), create(paused()), pins(&[1])).await;
    assert_eq!(again.expect("it is taken").id.number(), Some(2));
    rig.kill().await;
}

/// A request_id stands for what was asked for with it, also after the schedule has been changed.
#[tokio::test(start_paused = true)]
async fn a_request_is_compared_with_what_was_asked_for_first() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let request_id = || Some("r".to_owned());
    let asked = |spec| CreateSchedule { spec, request_id: request_id(), ..Default::default() };
    let make =
        async |rig: &Rig, spec| rig.handle.make_schedule(operator(), asked(spec), pins(&[1])).await;
    let (made, existing) = make(&rig, paused()).await.expect("it is taken");
    assert!(!existing);
    let update = ScheduleUpdate { interval: Some(2 * MINUTE), ..ScheduleUpdate::default() };
    let changed = ScheduleSpec { interval: 2 * MINUTE, ..paused() };
    let update = UpdateSchedule { id: made.id.clone(), etag: None, update, validate_only: false };
    rig.handle.update_schedule(operator(), update, Pins::new()).await.expect("it is taken");
    rig.kill().await;
    let rig = Rig::at(&dir);
    let (again, existing) = make(&rig, paused()).await.expect("it is the same request");
    assert!(existing && again.id == made.id && again.spec == changed, "{again:?}");
    // Not even what the schedule is by now.
    for other in [changed, spec(MINUTE)] {
        assert_refused!(make(&rig, other).await, Refusal::AlreadyExists { .. });
    }
    rig.kill().await;
}

/// A schedule under an id that was used before begins without the past of the one that had it.
#[tokio::test(start_paused = true)]
async fn a_schedule_inherits_nothing_from_one_of_its_name() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = ScheduleId::new("nightly").expect("an id");
    let create = || CreateSchedule {
        id: Some(id.clone()),
        spec: ScheduleSpec { ttl_after_gone: None, ..spec(MINUTE) },
        ..Default::default()
    };
    rig.handle.create_schedule(operator(), create(), pins(&[1])).await.expect("it is taken");
    let first = rig.run(outcome(4096, None)).await;
    rig.reaches(&first, JobState::Succeeded).await;
    let delete = DeleteSchedule::new(id.clone());
    rig.handle.delete_schedule(operator(), delete).await.expect("it is there");
    let other = caller("uid:1001", Role::Operator);
    rig.handle.create_schedule(other.clone(), create(), pins(&[1])).await.expect("it is free");
    // Records read from the store are distinguished as well.
    rig.kill().await;
    let mut rig = Rig::at(&dir);
    let second = rig.run(outcome(4096, None)).await;
    rig.reaches(&second, JobState::Succeeded).await;
    let of_schedule = JobFilter { schedule: Some(id.clone()), ..JobFilter::default() };
    assert_eq!(jobs(&rig, of_schedule).await, [second.number().expect("it has one")]);
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 10).await.expect("events");
    let ends: Vec<_> = events.iter().filter(|event| event.kind.is_end()).collect();
    assert_eq!(ends.len(), 2, "the first end of the second one was left out");
    // The first one's job is not the second owner's.
    let delete =
        |id: &JobId| DeleteJob { id: id.clone(), allow_missing: false, validate_only: false };
    let refused = rig.handle.delete_job(other.clone(), delete(&first)).await;
    assert_refused!(refused, Refusal::NotPermitted { .. });
    assert_eq!(rig.handle.delete_job(other, delete(&second)).await, Ok(()));
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_filtered_by_their_owner() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for (number, who) in ["uid:1000", "uid:1001"].into_iter().enumerate() {
        let pid = i32::try_from(number).expect("small") + 1;
        let caller = caller(who, Role::Operator);
        let made = rig.handle.create_job(caller, request(&[pid]), pins(&[pid]), found(&[pid], "0"));
        let id = made.await.expect("it is taken").0.id.clone();
        let order = rig.order().await;
        rig.planned(&order, &[pid], "0");
        told(order).await;
        rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
        rig.reaches(&id, JobState::Succeeded).await;
    }
    let of =
        |creator: &str| EventFilter { creator: Some(creator.to_owned()), ..Default::default() };
    for (creator, expected) in [("uid:1001", &["uid:1001"][..]), ("uid:7", &[])] {
        let (told, seen) = rig.handle.events_after(of(creator), 0, 10).await.expect("events");
        let creators: Vec<_> = told.iter().map(|event| event.creator.as_str()).collect();
        assert_eq!((&creators[..], seen), (expected, 2));
        let page = Page { size: 10, token: None };
        let listed = rig.handle.list_events(ListEvents { filter: of(creator), page }).await;
        assert_eq!(listed.expect("a list").entries.len(), expected.len());
    }
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_filtered_by_labels_of_their_jobs_and_schedules() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let old = labels(&[("app", "redis"), ("tier", "db")]);
    let request = CreateJob { labels: old.clone(), ..request(&[1]) };
    let made = rig.handle.create_job(admin(), request, pins(&[1]), found(&[1], "0")).await;
    let job = made.expect("it is taken").0.id.clone();
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    told(order).await;
    rig.report(EngineReport::Ended(job.clone(), Ok(outcome(4096, None))));
    rig.reaches(&job, JobState::Succeeded).await;
    // Two events of a schedule, between which its labels change.
    let spec = ScheduleSpec { labels: old.clone(), ..spec(MINUTE) };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let made = rig.handle.create_schedule(admin(), request, Pins::new()).await.expect("taken");
    let update = |paused, labels| UpdateSchedule {
        id: made.id.clone(),
        etag: None,
        update: ScheduleUpdate { paused: Some(paused), labels, ..ScheduleUpdate::default() },
        validate_only: false,
    };
    rig.handle
        .update_schedule(admin(), update(true, None), Pins::new())
        .await
        .expect("it is paused");
    let new = labels(&[("app", "mysql"), ("tier", "db")]);
    let resumed =
        rig.handle.update_schedule(admin(), update(false, Some(new.clone())), Pins::new());
    resumed.await.expect("it continues");

    // Without those of the schedule's own runs.
    let types = [EventType::Completed, EventType::Paused, EventType::Resumed];
    let of = |pairs| {
        let (types, labels) = (types.to_vec(), labels(pairs));
        EventFilter { types, labels, ..EventFilter::default() }
    };
    let expected = [
        (of(&[("tier", "db")]), vec![&old, &old, &new]),
        (of(&[("app", "redis")]), vec![&old, &old]),
        (of(&[("app", "mysql"), ("tier", "db")]), vec![&new]),
        (of(&[("app", "mysql"), ("tier", "web")]), vec![]),
        (of(&[("app", "db")]), vec![]),
    ];
    for restarted in [false, true] {
        for (filter, expected) in &expected {
            let (told, _) = rig.handle.events_after(filter.clone(), 0, 10).await.expect("events");
            let found: Vec<_> = told.iter().map(|event| &event.labels).collect();
            assert_eq!(&found, expected, "{filter:?}");
            let list = ListEvents { filter: filter.clone(), page: Page { size: 10, token: None } };
            let listed = rig.handle.list_events(list).await.expect("a list");
            assert_eq!(listed.entries.len(), expected.len(), "{filter:?}");
        }
        rig.kill().await;
        if restarted {
            return;
        }
        rig = Rig::at(&dir);
    }
}

async fn jobs(rig: &Rig, filter: JobFilter) -> Vec<u64> {
    let page = Page { size: 100, token: None };
    let listed = rig.handle.list::<Job>(ListJobs { filter, page }).await.expect("a list");
    listed_jobs(&listed).iter().filter_map(|job| job.id.number()).collect()
}

async fn schedules(rig: &Rig, filter: ScheduleFilter) -> Vec<u64> {
    let page = Page { size: 100, token: None };
    let listed = rig.handle.list::<Schedule>(ListSchedules { filter, page }).await.expect("a list");
    listed.entries.iter().filter_map(|schedule: &Arc<Schedule>| schedule.id.number()).collect()
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_labels_and_workload() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.register(admin(), workload("a")).await.expect("it is taken");
    let of = |target| MigrationSpec { target, ..MigrationSpec::default() };
    let none = Target::default;
    let targets = [
        Target::container("c-a"),
        Target::cgroup("/pods/a"),
        Target { pods: ["pod".to_owned()].into(), ..none() },
        Target { labels: [("app".to_owned(), "a".to_owned())].into(), ..none() },
        Target { labels: [("app".to_owned(), "b".to_owned())].into(), ..none() },
        target(&[1]),
    ];
    for (number, target) in (0..).zip(targets) {
        let team = labels(&[("team", if number % 2 == 0 { "db" } else { "web" }), ("x", "")]);
        let request =
            CreateJob { spec: of(target.clone()), labels: team.clone(), ..CreateJob::default() };
        let found = found(&[100 + number], "0");
        rig.handle.create_job(admin(), request, Pins::new(), found).await.expect("it is taken");
        let spec = ScheduleSpec { migration: of(target), labels: team, ..paused() };
        let request = CreateSchedule { spec, ..CreateSchedule::default() };
        rig.handle.create_schedule(operator(), request, Pins::new()).await.expect("it is taken");
    }
    let a = || WorkloadId::new("a");
    let by_job = |labels, workload| JobFilter { labels, workload, ..JobFilter::default() };
    let by_schedule =
        |labels, workload| ScheduleFilter { labels, workload, ..ScheduleFilter::default() };
    for (wanted, workload, expected) in [
        (labels(&[]), None, &[6, 5, 4, 3, 2, 1][..]),
        (labels(&[("team", "db")]), None, &[5, 3, 1]),
        (labels(&[("team", "db"), ("x", "")]), None, &[5, 3, 1]),
        (labels(&[("team", "db"), ("y", "")]), None, &[]),
        (labels(&[]), a(), &[4, 3, 2, 1]),
        (labels(&[("team", "web")]), a(), &[4, 2]),
        (labels(&[]), WorkloadId::new("b"), &[]),
    ] {
        assert_eq!(jobs(&rig, by_job(wanted.clone(), workload.clone())).await, expected);
        assert_eq!(schedules(&rig, by_schedule(wanted, workload)).await, expected);
    }
    let by = |creator: &str| ScheduleFilter {
        creator: Some(creator.to_owned()),
        states: vec![ScheduleState::Paused],
        ..ScheduleFilter::default()
    };
    assert_eq!(schedules(&rig, by("uid:1000")).await.len(), 6);
    assert_eq!(schedules(&rig, by("uid:0")).await, [0; 0]);
    let waiting = ScheduleFilter { states: vec![ScheduleState::Waiting], ..by("uid:1000") };
    assert_eq!(schedules(&rig, waiting).await, [0; 0]);
    // A page token works only with the same filter.
    let page = |token| Page { size: 2, token };
    let filter = ScheduleFilter { labels: labels(&[("team", "db")]), ..Default::default() };
    let first = ListSchedules { filter: filter.clone(), page: page(None) };
    let first = rig.handle.list::<Schedule>(first).await.expect("a list");
    let rest = ListSchedules { filter, page: page(first.next.clone()) };
    assert_eq!(rig.handle.list::<Schedule>(rest).await.expect("a list").entries.len(), 1);
    let other = ListSchedules { filter: ScheduleFilter::default(), page: page(first.next) };
    assert_refused!(rig.handle.list::<Schedule>(other).await, Refusal::PageToken);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_schedule_have_its_labels() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let team = labels(&[("team", "db")]);
    schedule(&rig, ScheduleSpec { labels: team.clone(), ..spec(MINUTE) }).await;
    let job = rig.run(outcome(4096, None)).await;
    assert_eq!(rig.handle.get_job(job).await.expect("it is known").labels, team);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_now_and_never_twice_at_once() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    // A paused schedule runs only when a client asks for it.
    let id = schedule(&rig, paused()).await;
    let run = |rig: &Rig| {
        tokio::spawn({
            let (handle, request) = (rig.handle.clone(), run_of(&id));
            async move { handle.run_schedule(operator(), request).await }
        })
    };
    let stranger = rig.handle.run_schedule(caller("uid:7", Role::Operator), run_of(&id)).await;
    assert_refused!(stranger, Refusal::NotPermitted { .. });
    // If the target does not exist, the caller is notified, and the schedule stays paused.
    let asked = run(&rig);
    let probe = rig.probe().await;
    rig.answer(&probe, Err(Refusal::TargetEmpty { message: "gone".to_owned() }));
    assert_refused!(asked.await.expect("no panic"), Refusal::TargetEmpty { .. });
    assert_eq!(get(&rig, &id).await.state, ScheduleState::Paused);
    let both = [run(&rig), run(&rig)];
    for _ in 0..2 {
        let probe = rig.probe().await;
        rig.answer(&probe, Ok(found(&[1], "0")));
    }
    let order = rig.order().await;
    for asked in both {
        let (job, _) = asked.await.expect("no panic").expect("it runs");
        assert_eq!(job.id, order.job);
    }
    let (job, existing) =
        rig.handle.run_schedule(operator(), run_of(&id)).await.expect("one is under way");
    assert_eq!((&job.id, existing), (&order.job, true));
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(order.job.clone(), Ok(outcome(4096, None))));
    rig.reaches(&order.job, JobState::Succeeded).await;
    assert_eq!(get(&rig, &id).await.state, ScheduleState::Paused);
    rig.assert_no_order().await;
    // If the schedule is changed meanwhile, the caller has to ask again.
    let asked = run(&rig);
    rig.probe().await;
    let update = ScheduleUpdate { interval: Some(2 * MINUTE), ..ScheduleUpdate::default() };
    let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    rig.handle.update_schedule(operator(), update, Pins::new()).await.expect("it is changed");
    assert_refused!(asked.await.expect("no panic"), Refusal::Etag { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_is_the_same_for_the_same_request_id() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, paused()).await;
    let once = RunSchedule { request_id: Some("r".to_owned()), ..run_of(&id) };
    let ask = |rig: &Rig, caller: Caller, request: &RunSchedule| {
        let (handle, request) = (rig.handle.clone(), request.clone());
        tokio::spawn(async move { handle.run_schedule(caller, request).await })
    };
    // One who names no request does not take the place of one who does.
    let (any, asked) = (ask(&rig, admin(), &run_of(&id)), ask(&rig, operator(), &once));
    let probe = rig.probe().await;
    rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    let order = rig.order().await;
    let first = order.job.clone();
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(first.clone(), Ok(outcome(4096, None))));
    rig.reaches(&first, JobState::Succeeded).await;
    for asked in [any, asked] {
        let (job, existing) = asked.await.expect("no panic").expect("it runs");
        assert_eq!((&job.id, existing), (&first, false));
        let by = (job.requester.as_deref(), job.request_id.as_deref());
        assert_eq!((job.creator.as_str(), by), ("schedule", (Some("uid:1000"), Some("r"))));
    }
    // It has ended, and the daemon has started again.
    rig.stop().await;
    let mut rig = Rig::at(&dir);
    let again = rig.handle.run_schedule(operator(), once.clone()).await;
    let (again, existing) = again.expect("it is known");
    assert_eq!((&again.id, existing), (&first, true));
    rig.assert_no_order().await;
    assert!(rig.probes.try_recv().is_err(), "nobody looks for its target");
    // Ids are each caller's own.
    let asked = ask(&rig, admin(), &once);
    let second = rig.run(outcome(4096, None)).await;
    let (job, existing) = asked.await.expect("no panic").expect("it runs");
    assert_eq!((&job.id, existing), (&second, false));
    assert_ne!(first, second);
    rig.reaches(&second, JobState::Succeeded).await;
    // Another request with the same id is refused.
    let other = RunSchedule { id: schedule(&rig, paused()).await, ..once };
    let refused = rig.handle.run_schedule(operator(), other).await;
    assert_refused!(refused, Refusal::AlreadyExists { .. });
    let job = CreateJob { request_id: Some("r".to_owned()), ..request(&[1]) };
    let made = rig.handle.create_job(operator(), job, pins(&[1]), found(&[1], "0")).await;
    assert_refused!(made, Refusal::AlreadyExists { .. });
    rig.stop().await;
}
