//! Records after the daemon was stopped or killed, and the removal of old ones.

use super::*;
use numaloc_api::value::{CreateSchedule, EventFilter, OnInterrupt, ScheduleSpec, ScheduleState};

fn resuming(pids: &[i32]) -> CreateJob {
    let mut request = request(pids);
    request.spec.policy.on_interrupt = OnInterrupt::Resume;
    request
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_batches_in_hand() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, control) = rig.moving(&[1], "0").await;
    let mut watch = rig.handle.watch_job(id.clone()).await.unwrap();
    rig.handle.stop().await;
    let change = rig.handle.pause_job(admin(), id.clone()).await;
    assert_refused!(change, Refusal::Unavailable { .. });
    // Questions are answered to the end.
    assert_eq!(rig.handle.status().await.expect("an answer").jobs, [(JobState::Running, 1)]);
    assert!(control.cancel.load(std::sync::atomic::Ordering::Relaxed));
    assert!(!rig.task.is_finished());
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 4096))))));
    while watch.changed().await.is_ok() {}
    assert_eq!(watch.borrow().job.state, JobState::Interrupted);
    rig.task.await.unwrap();
    let rig = Rig::at(&dir);
    let job = rig.handle.get_job(id).await.unwrap();
    assert_eq!(job.state, JobState::Interrupted);
    assert_eq!(job.outcome.as_ref().unwrap().account().moved_bytes(), 4096);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_ever() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _control) = rig.moving(&[1], "0").await;
    let begin = tokio::time::Instant::now();
    rig.stop().await;
    assert!(begin.elapsed() <= Duration::from_secs(10), "{:?}", begin.elapsed());
    let rig = Rig::at(&dir);
    assert_eq!(rig.reaches(&id, JobState::Interrupted).await.state, JobState::Interrupted);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cancel_does_not_wait_for_ever_either() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _control) = rig.moving(&[1], "0").await;
    let begin = tokio::time::Instant::now();
    rig.handle.cancel_job(admin(), id.clone()).await.unwrap();
    // Each wait of this test's rig is shorter than that of the dispatcher.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(rig.handle.get_job(id.clone()).await.unwrap().state, JobState::Running);
    rig.reaches(&id, JobState::Cancelled).await;
    let waited = begin.elapsed();
    assert!((29..=31).contains(&waited.as_secs()), "{waited:?}");
    // Others have its place by now, and what its thread reports at last is about a job that has ended.
    let (next, _) = rig.moving(&[2], "0").await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.report(EngineReport::Ended(next.clone(), Ok(outcome(4096, None))));
    rig.reaches(&next, JobState::Succeeded).await;
    assert_eq!(rig.handle.get_job(id).await.unwrap().state, JobState::Cancelled);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_goes_on_where_it_was_asked_to() {
    let dir = dir();
    let mut config = Config::default();
    (config.queue.moves, config.queue.moves_per_node) = (8, 8);
    let mut rig = Rig::with(&dir, config);
    let stops = rig.create(&[1], "0").await;
    let goes = rig
        .handle
        .create_job(admin(), resuming(&[2]), pins(&[2]), found(&[2], "0"))
        .await
        .unwrap()
        .0
        .id
        .clone();
    let cancelled = rig
        .handle
        .create_job(admin(), resuming(&[3]), pins(&[3]), found(&[3], "0"))
        .await
        .unwrap()
        .0
        .id
        .clone();
    let paused = rig.create(&[4], "0").await;
    for pid in 1..=4 {
        let order = rig.order().await;
        rig.planned(&order, &[pid], "0");
        order.go.await.unwrap();
    }
    let planning = rig.create(&[5], "0").await;
    rig.order().await;
    rig.handle.cancel_job(admin(), cancelled.clone()).await.unwrap();
    rig.handle.pause_job(admin(), paused.clone()).await.unwrap();
    rig.kill().await;

    let mut rig = Rig::at(&dir);
    assert_eq!(rig.handle.get_job(stops.clone()).await.unwrap().state, JobState::Interrupted);
    assert_eq!(rig.handle.get_job(cancelled).await.unwrap().state, JobState::Cancelled);
    assert_eq!(rig.handle.get_job(paused).await.unwrap().state, JobState::Paused);
    let again = [rig.order().await, rig.order().await];
    let jobs: Vec<_> = again.iter().map(|order| order.job.clone()).collect();
    assert_eq!(jobs, [goes.clone(), planning]);
    rig.planned(&again[0], &[2], "0");
    rig.report(EngineReport::Ended(goes.clone(), Ok(outcome(4096, None))));
    rig.reaches(&goes, JobState::Succeeded).await;
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 10).await.unwrap();
    let jobs: Vec<_> = events.iter().filter_map(|event| event.job.as_ref()?.number()).collect();
    assert!(
        jobs.contains(&stops.number().unwrap()) && jobs.contains(&goes.number().unwrap()),
        "{jobs:?}"
    );
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_run_of_a_schedule_is_not_doubled() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let migration = resuming(&[1]).spec;
    let spec =
        ScheduleSpec { migration, interval: Duration::from_secs(60), ..ScheduleSpec::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let id = rig.handle.create_schedule(operator(), request, pins(&[1])).await.unwrap().id.clone();
    let probe = rig.probes.recv().await.unwrap();
    let found = Ok(found(&[1], "0"));
    rig.probed.send(ProbeAnswer { schedule: probe.schedule, etag: probe.etag, found }).unwrap();
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    order.go.await.unwrap();
    rig.handle.stop().await;
    // Once this is answered, the dispatcher has begun to stop.
    rig.handle.get_schedule(id.clone()).await.unwrap();
    rig.report(EngineReport::Ended(
        order.job.clone(),
        Ok(outcome(4096, Some((Reason::Cancelled, 4096)))),
    ));
    rig.task.await.unwrap();
    // SUSPENDED is not an end and causes no event.
    let store = Store::open(dir.path()).expect("the store opens").1;
    assert_eq!(store.jobs[0].job.state, JobState::Suspended);
    assert!(store.events.is_empty() && store.jobs[0].job.ended.is_none());

    let mut rig = Rig::at(&dir);
    let again = rig.order().await;
    assert_eq!(again.job, order.job);
    assert!(tokio::time::timeout(Duration::from_secs(600), rig.probes.recv()).await.is_err());
    assert_eq!(rig.handle.get_schedule(id).await.unwrap().state, ScheduleState::Active);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn old_records_are_forgotten() {
    let dir = dir();
    let mut config = Config::default();
    config.retention.jobs = 5;
    config.retention.events = 3;
    let mut rig = Rig::with(&dir, config.clone());
    for pid in 1..=8 {
        let id = rig.create(&[pid], "0").await;
        let _order = rig.order().await;
        let why = Refusal::TargetEmpty { message: "gone".into() };
        rig.report(EngineReport::Planned(id.clone(), Err(why)));
        rig.reaches(&id, JobState::Failed).await;
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    let page = Page { size: 100, token: None };
    let listed =
        rig.handle.list::<Job>(ListJobs { filter: JobFilter::default(), page }).await.unwrap();
    let numbers: Vec<_> = listed_jobs(&listed).iter().filter_map(|job| job.id.number()).collect();
    assert_eq!(numbers, [8, 7, 6, 5, 4]);
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 100).await.unwrap();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [6, 7, 8]);
    // A watcher that continues after one of these events misses none. One that has missed events, or names an event
    // that never was, is notified.
    for after in [0, 5, 6, 8] {
        rig.handle.check_cursor(after).await.expect("all are kept that come after it");
    }
    for after in [1, 4, 9, u64::MAX] {
        let answer = rig.handle.check_cursor(after).await;
        assert_refused!(answer, Refusal::Cursor { oldest: 6, last: 8, .. });
    }
    // Room is bounded, too: an event takes about a kilobyte, an ended job less.
    config.retention.bytes = 2500;
    rig.config.send_replace(Arc::new(config));
    tokio::time::sleep(Duration::from_secs(100)).await;
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 100).await.unwrap();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [7, 8]);
    config = Config::default();
    config.retention.bytes = 0;
    rig.config.send_replace(Arc::new(config));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(rig.handle.status().await.unwrap().jobs.is_empty());
    // Numbers are never used again.
    rig.stop().await;
    let rig = Rig::at(&dir);
    assert_eq!(rig.create(&[1], "0").await.number(), Some(9));
    rig.stop().await;
}

/// The processes of a job are not stored, so they are looked up again.
#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_is_known_again_after_a_restart() {
    let dir = dir();
    let mut config = Config { grants: super::grants(), ..Config::default() };
    config.queue.plans = 1;
    let mut rig = Rig::with(&dir, config.clone());
    let first = rig.create(&[1], "0").await;
    let second = rig.create(&[2], "0").await;
    assert_eq!(rig.order().await.job, first);
    rig.kill().await;
    let mut rig = Rig::with(&dir, config);
    for (id, pid) in [(&first, 1), (&second, 2)] {
        let lookup = rig.lookups.recv().await.expect("it is looked up");
        assert_eq!((&lookup.job, lookup.aim.members.len()), (id, 1));
        rig.looked_up
            .send((lookup.job, Some(found(&[pid], "0"))))
            .expect("the dispatcher is there");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let pids = [2];
    let answer =
        rig.handle.create_job(operator(), request(&pids), pins(&pids), found(&pids, "0")).await;
    assert_refused!(answer, Refusal::Conflict { job } if job == second);
    rig.kill().await;
}
