//! Jobs from request to end.

use super::*;
use numaloc_api::value::{EventFilter, EventType, OnInterrupt};

#[tokio::test(start_paused = true)]
async fn a_job_goes_its_way() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = rig.create(&[1], "0").await;
    let mut order = rig.order().await;
    assert_eq!(order.job, id);
    assert_eq!(rig.handle.get_job(id.clone()).await.unwrap().state, JobState::Planning);
    assert!(order.go.try_recv().is_err(), "told to move before it is planned");
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    let running = rig.reaches(&id, JobState::Running).await;
    assert!(running.started.is_some() && running.plan.is_some());
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    let done = rig.reaches(&id, JobState::Succeeded).await;
    assert!(done.ended.is_some());
    let whole = rig.handle.get_job(id.clone()).await.unwrap();
    assert_eq!(whole.outcome.as_ref().unwrap().processes.len(), 1);
    assert!(whole.plan.is_some());
    let (events, seen) = rig.handle.events_after(EventFilter::default(), 0, 10).await.unwrap();
    assert_eq!((events.len(), seen), (1, 1));
    assert_eq!((events[0].kind, &events[0].job), (EventType::Completed, &Some(id)));
    assert_eq!(events[0].to, "0".parse().unwrap());
    assert_eq!(rig.handle.status().await.unwrap().moved_bytes, 4096);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ends_are_told_apart() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let busy = Some((Reason::Busy, 4096));
    let gone = Some((Reason::ProcessGone, 4096));
    let shared = Some((Reason::Shared, 4096));
    for (outcome, state) in [
        (outcome(4096, None), JobState::Succeeded),
        (outcome(4096, shared), JobState::Succeeded),
        (outcome(4096, busy), JobState::Partial),
        (late(4096, 4096), JobState::Partial),
        (outcome(0, gone), JobState::Failed),
    ] {
        let (id, _) = rig.moving(&[1], "0").await;
        rig.report(EngineReport::Ended(id.clone(), Ok(outcome)));
        rig.reaches(&id, state).await;
    }
    let refusal = Refusal::TargetNotFound { message: "no process 1".into() };
    let nowhere = Refusal::NoTargetNode { message: "no target node".into(), node: None };
    for (planned, state) in [
        (Err(refusal), JobState::Failed),
        (Err(nowhere), JobState::Skipped),
        (
            Ok(Planned {
                nothing: Some((JobState::Skipped, "all is local".into())),
                ..planned(&[1], "0")
            }),
            JobState::Skipped,
        ),
        (
            Ok(Planned {
                nothing: Some((JobState::Partial, "it stays".into())),
                ..planned(&[1], "0")
            }),
            JobState::Partial,
        ),
    ] {
        let id = rig.create(&[1], "0").await;
        let order = rig.order().await;
        rig.report(EngineReport::Planned(id.clone(), planned));
        let job = rig.reaches(&id, state).await;
        assert!(!job.state_message.is_empty());
        assert!(order.go.await.is_err(), "told to move");
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_cancelled_and_held_at_once() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let first = rig.create(&[1], "0").await;
    let order = rig.order().await;
    let id = rig.create(&[2], "0").await;
    rig.assert_no_order().await;
    let paused = rig.handle.pause_job(admin(), id.clone()).await.unwrap();
    assert_eq!(paused.state, JobState::Paused);
    assert_eq!(rig.handle.pause_job(admin(), id.clone()).await.unwrap().state, JobState::Paused);
    // Its turn does not come while it is paused.
    rig.report(EngineReport::Planned(first, Err(Refusal::TargetEmpty { message: "gone".into() })));
    rig.assert_no_order().await;
    assert_eq!(rig.handle.resume_job(admin(), id.clone()).await.unwrap().state, JobState::Queued);
    assert_eq!(rig.order().await.job, id);
    drop(order);
    let other = rig.create(&[3], "0").await;
    let cancelled = rig.handle.cancel_job(admin(), other.clone()).await.unwrap();
    assert_eq!(cancelled.state, JobState::Cancelled);
    assert_eq!(
        rig.handle.cancel_job(admin(), other.clone()).await.unwrap().state,
        JobState::Cancelled
    );
    assert_refused!(rig.handle.pause_job(admin(), other.clone()).await, Refusal::WrongState { .. });
    assert_refused!(rig.handle.resume_job(admin(), other).await, Refusal::WrongState { .. });
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_job_is_held_and_goes_on() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, control) = rig.moving(&[1], "0").await;
    let paused = rig.handle.pause_job(admin(), id.clone()).await.unwrap();
    assert_eq!((paused.state, paused.wanted), (JobState::Running, Some(JobState::Paused)));
    assert!(control.cancel.load(std::sync::atomic::Ordering::Relaxed));
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 8192))))));
    let paused = rig.reaches(&id, JobState::Paused).await;
    assert_eq!(paused.outcome.as_ref().unwrap().account().moved_bytes(), 4096);
    rig.handle.resume_job(admin(), id.clone()).await.unwrap();
    let order = rig.order().await;
    assert!(!order.run.control.cancel.load(std::sync::atomic::Ordering::Relaxed));
    rig.planned(&order, &[1], "0");
    order.go.await.unwrap();
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(8192, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    let account = rig.handle.get_job(id).await.unwrap().outcome.as_ref().unwrap().account();
    assert_eq!((account.found_bytes(), account.moved_bytes()), (12288, 12288));
    assert!(account.closes());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_cancelled_wherever_it_is() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    // While it is planned.
    let id = rig.create(&[1], "0").await;
    let order = rig.order().await;
    rig.handle.cancel_job(admin(), id.clone()).await.unwrap();
    rig.planned(&order, &[1], "0");
    rig.reaches(&id, JobState::Cancelled).await;
    assert!(order.go.await.is_err(), "told to move");
    // While it moves. After that it is too late to pause or resume it.
    let (id, _) = rig.moving(&[1], "0").await;
    rig.handle.cancel_job(admin(), id.clone()).await.unwrap();
    let still = rig.handle.pause_job(admin(), id.clone()).await.unwrap();
    assert_eq!(still.wanted, Some(JobState::Cancelled));
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 4096))))));
    let job = rig.reaches(&id, JobState::Cancelled).await;
    assert_eq!(job.state_message, "cancelled by uid:0");
    // A job that was finished before it could be cancelled has succeeded.
    let (id, _) = rig.moving(&[1], "0").await;
    rig.handle.cancel_job(admin(), id.clone()).await.unwrap();
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_safe_to_repeat() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let once = CreateJob { request_id: Some("r".into()), ..request(&[1]) };
    let (job, existing) =
        rig.handle.create_job(admin(), once.clone(), pins(&[1]), found(&[1], "0")).await.unwrap();
    assert!(!existing);
    let again =
        rig.handle.create_job(admin(), once.clone(), pins(&[1]), found(&[1], "0")).await.unwrap();
    assert_eq!((&again.0.id, again.1), (&job.id, true));
    let found_by = rig.handle.find_request(admin(), once.clone()).await.unwrap();
    assert_eq!(found_by.unwrap().id, job.id);
    let other = CreateJob { request_id: Some("r".into()), ..request(&[2]) };
    let answer = rig.handle.create_job(admin(), other.clone(), pins(&[2]), found(&[2], "0")).await;
    assert_refused!(answer, Refusal::AlreadyExists { .. });
    // Each caller has request_ids of its own.
    let (own, existing) =
        rig.handle.create_job(operator(), other, pins(&[2]), found(&[2], "0")).await.unwrap();
    assert!(!existing && own.id != job.id);
    // Also after a restart.
    rig.stop().await;
    let rig = Rig::at(&dir);
    let again = rig.handle.create_job(admin(), once, pins(&[1]), found(&[1], "0")).await.unwrap();
    assert_eq!((&again.0.id, again.1), (&job.id, true));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_job_an_address_space() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = rig.create(&[1, 2], "0").await;
    let answer = rig
        .handle
        .create_job(operator(), request(&[2, 3]), pins(&[2, 3]), found(&[2, 3], "0"))
        .await;
    assert_refused!(answer, Refusal::Conflict { job } if job == id);
    let join = CreateJob { on_conflict: OnConflict::Join, ..request(&[2]) };
    let (joined, existing) =
        rig.handle.create_job(operator(), join, pins(&[2]), found(&[2], "0")).await.unwrap();
    assert_eq!((&joined.id, existing), (&id, true));
    // A job that is paused is not in the way.
    let order = rig.order().await;
    rig.handle.pause_job(admin(), id.clone()).await.unwrap();
    // A job that is still to be paused or cancelled is in the way, and no request can join it.
    let join = CreateJob { on_conflict: OnConflict::Join, ..request(&[2]) };
    let answer = rig.handle.create_job(operator(), join, pins(&[2]), found(&[2], "0")).await;
    assert_refused!(answer, Refusal::Conflict { job } if job == id);
    rig.planned(&order, &[1, 2], "0");
    rig.reaches(&id, JobState::Paused).await;
    rig.create(&[2], "0").await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_others_are_not_to_be_changed() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let id = rig.create(&[1], "0").await;
    assert_refused!(
        rig.handle.cancel_job(operator(), id.clone()).await,
        Refusal::NotPermitted { .. }
    );
    assert_refused!(rig.handle.pause_job(operator(), id).await, Refusal::NotPermitted { .. });
    let own = rig
        .handle
        .create_job(operator(), request(&[2]), pins(&[2]), found(&[2], "0"))
        .await
        .unwrap()
        .0;
    rig.handle.cancel_job(operator(), own.id.clone()).await.unwrap();
    let none = JobId::new("no-number").unwrap();
    assert_refused!(rig.handle.cancel_job(admin(), none).await, Refusal::NotFound { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn open_jobs_have_a_quota() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.open_jobs = 1;
    let rig = Rig::with(&dir, config);
    let id = rig.create(&[1], "0").await;
    let answer = rig.handle.create_job(admin(), request(&[2]), pins(&[2]), found(&[2], "0")).await;
    assert_refused!(answer, Refusal::Quota { what: "open jobs", limit: 1, .. });
    rig.handle.create_job(operator(), request(&[2]), pins(&[2]), found(&[2], "0")).await.unwrap();
    rig.handle.pause_job(admin(), id.clone()).await.unwrap();
    let answer = rig.handle.create_job(admin(), request(&[3]), pins(&[3]), found(&[3], "0")).await;
    assert_refused!(answer, Refusal::Quota { .. });
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_end_is_logged_with_its_reason() {
    let (log, _guard) = crate::access::tests::Log::start();
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = rig.create(&[1], "0").await;
    let _order = rig.order().await;
    let why = Refusal::TargetEmpty { message: "it is gone".into() };
    rig.report(EngineReport::Planned(id.clone(), Err(why)));
    rig.reaches(&id, JobState::Failed).await;
    let text = log.text();
    let line = text.lines().find(|line| line.contains("job ended")).expect("it is logged");
    assert!(line.contains("state=\"FAILED\" why=\"it is gone\""), "{line}");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn bytes_have_a_quota_and_are_given_back() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.bytes = 4000;
    let mut rig = Rig::with(&dir, config);
    let own = || caller("uid:7", Role::Operator);
    async fn create(rig: &Rig, caller: Caller, pid: i32) -> Result<JobId, Refusal> {
        let mut request = request(&[pid]);
        request.spec.target.cgroups.insert(format!("/{}", "a".repeat(2000)));
        let made = rig.handle.create_job(caller, request, pins(&[pid]), found(&[pid], "0"));
        Ok(made.await?.0.id.clone())
    }
    let first = create(&rig, own(), 1).await.expect("there is room");
    let answer = create(&rig, own(), 2).await;
    assert_refused!(answer, Refusal::Quota { what: "bytes of records", limit: 4000, .. });
    create(&rig, operator(), 3).await.expect("others have their own");
    // A job under way takes as much of the quota as before, and one that has ended takes nothing.
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    told(order).await;
    assert_refused!(create(&rig, own(), 2).await, Refusal::Quota { .. });
    rig.report(EngineReport::Ended(first.clone(), Ok(outcome(4096, None))));
    rig.reaches(&first, JobState::Succeeded).await;
    create(&rig, own(), 2).await.expect("there is room again");
    // The same after a restart.
    rig.kill().await;
    let mut config = Config::default();
    config.quota.bytes = 4000;
    let rig = Rig::with(&dir, config);
    assert_refused!(create(&rig, own(), 4).await, Refusal::Quota { .. });
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages() {
    let dir = dir();
    let rig = Rig::at(&dir);
    for pid in 1..=25 {
        rig.create(&[pid], "0").await;
    }
    let mut seen = Vec::new();
    let mut token = None;
    loop {
        let page = Page { size: 10, token };
        let request = ListJobs { filter: JobFilter::default(), page };
        let listed = rig.handle.list::<Job>(request).await.unwrap();
        seen.extend(listed_jobs(&listed).iter().filter_map(|job| job.id.number()));
        token = listed.next;
        if token.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=25).rev().collect::<Vec<u64>>());
    let page = |token: &str| Page { size: 10, token: Some(token.into()) };
    let list = |filter, page| rig.handle.list::<Job>(ListJobs { filter, page });
    let first = list(JobFilter::default(), Page { size: 1, token: None }).await.unwrap();
    let token = first.next.unwrap();
    let queued = JobFilter { states: vec![JobState::Queued], ..JobFilter::default() };
    assert_refused!(list(queued, page(&token)).await, Refusal::PageToken);
    for token in ["", "x", "0.1", ".", "00000000.18446744073709551616"] {
        assert_refused!(list(JobFilter::default(), page(token)).await, Refusal::PageToken);
    }
    rig.stop().await;
}

/// Lists show a job as it is at that moment, also when a stop has interrupted it and it is queued again.
#[tokio::test(start_paused = true)]
async fn lists_show_jobs_as_they_are() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut resuming = request(&[1]);
    resuming.spec.policy.on_interrupt = OnInterrupt::Resume;
    resuming.request_id = Some("r".into());
    let (job, _) = rig
        .handle
        .create_job(admin(), resuming.clone(), pins(&[1]), found(&[1], "0"))
        .await
        .unwrap();
    let id = job.id.clone();
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    rig.reaches(&id, JobState::Running).await;
    order.run.control.moved_bytes.store(1024, std::sync::atomic::Ordering::Relaxed);
    let shown = rig.only_listed().await;
    assert_eq!((shown.state, shown.progress.unwrap().moved_bytes), (JobState::Running, 1024));
    rig.handle.stop().await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 4096))))));
    rig.task.await.unwrap();

    // Interrupted by the stop, and then queued again.
    let mut rig = Rig::at(&dir);
    let order = rig.order().await;
    assert_eq!(rig.only_listed().await.state, JobState::Planning);
    rig.planned(&order, &[1], "0");
    rig.reaches(&id, JobState::Running).await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    for _ in 0..2 {
        let shown = rig.only_listed().await;
        assert_eq!((shown.state, &shown.plan), (JobState::Succeeded, &None));
        let outcome = shown.outcome.unwrap();
        assert_eq!((outcome.account().moved_bytes(), outcome.processes.len()), (8192, 0));
        // A caller that asks for this one job gets the whole record.
        let again = rig.handle.find_request(admin(), resuming.clone()).await.unwrap().unwrap();
        assert_eq!(again, rig.handle.get_job(id.clone()).await.unwrap());
        assert!(again.plan.is_some() && !again.outcome.as_ref().unwrap().processes.is_empty());
        rig.stop().await;
        rig = Rig::at(&dir);
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watchers_see_progress_and_the_end() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, control) = rig.moving(&[1], "0").await;
    let mut watch = rig.handle.watch_job(id.clone()).await.unwrap();
    let idle = rig.handle.watch_job(id.clone()).await.unwrap();
    let before = watch.borrow_and_update().clone();
    control.settled_bytes.store(4096, std::sync::atomic::Ordering::Relaxed);
    watch.changed().await.unwrap();
    let after = watch.borrow_and_update().clone();
    assert_eq!(after.progress.as_ref().unwrap().settled_bytes, 4096);
    assert!(Arc::ptr_eq(&before.job, &after.job) && before.serial == after.serial, "no copy");
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    while watch.changed().await.is_ok() {
        watch.borrow_and_update();
    }
    assert_eq!(watch.borrow().job.state, JobState::Succeeded);
    // A watcher that never looked before sees the end all the same.
    assert_eq!(idle.borrow().job.state, JobState::Succeeded);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_note_is_told_at_the_end() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for (left, message) in [
        (None, "mind this"),
        (Some((Reason::Busy, 4096)), "left: 4.0 KiB busy in the kernel; mind this"),
    ] {
        let id = rig.create(&[1], "0").await;
        let order = rig.order().await;
        let note = Some("mind this".to_owned());
        rig.report(EngineReport::Planned(id.clone(), Ok(Planned { note, ..planned(&[1], "0") })));
        told(order).await;
        rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, left))));
        let state = if left.is_some() { JobState::Partial } else { JobState::Succeeded };
        assert_eq!(rig.reaches(&id, state).await.state_message, message);
    }
    rig.stop().await;
}
