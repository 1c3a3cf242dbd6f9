//! Tenants whose records are kept, and the names of these records.

use super::*;

/// Creates a job of `of` that fails, and so makes an event.
async fn fails(rig: &mut Rig, of: Caller, pid: i32) {
    let pids = [pid];
    let made = rig.handle.create_job(of, request(&pids), pins(&pids), found(&pids, "0")).await;
    let id = made.expect("it is taken").0.id.clone();
    let _order = rig.order().await;
    let why = Refusal::TargetEmpty { message: "gone".into() };
    rig.report(EngineReport::Planned(id.clone(), Err(why)));
    rig.reaches(&id, JobState::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn the_records_of_one_push_out_no_others() {
    let dir = dir();
    let mut config = config();
    (config.retention.jobs, config.retention.events) = (4, 4);
    let mut rig = Rig::with(&dir, config.clone());
    fails(&mut rig, other(), 1).await;
    for pid in 2..=9 {
        fails(&mut rig, agent(), pid).await;
    }
    tokio::time::sleep(Duration::from_secs(200)).await;
    let page = Page { size: 100, token: None };
    let all = ListJobs { filter: JobFilter::default(), page };
    let listed = rig.handle.list::<Job>(all).await.expect("a list");
    let numbers: Vec<_> = listed_jobs(&listed).iter().filter_map(|job| job.id.number()).collect();
    assert_eq!(numbers, [9, 8, 7, 1]);
    // Not all events before number 7 are kept, so a watcher cannot continue from there; also after a restart.
    for restart in [false, true] {
        if restart {
            rig.stop().await;
            rig = Rig::with(&dir, config.clone());
        }
        let filter = value::EventFilter::default;
        let (events, _) = rig.handle.events_after(filter(), 0, 100).await.expect("readable");
        let creators: Vec<_> = events.iter().map(|event| (event.number, &*event.creator)).collect();
        let [agent, other] = ["uid:1000", "uid:1001"];
        assert_eq!(creators, [(1, other), (7, agent), (8, agent), (9, agent)]);
        for after in [0, 6, 9] {
            rig.handle.check_cursor(after).await.expect("all are kept that come after it");
        }
        for after in [1, 5, 10] {
            let answer = rig.handle.check_cursor(after).await;
            assert_refused!(answer, Refusal::Cursor { oldest: 7, last: 9, .. });
        }
    }
    rig.stop().await;
}

/// A record from before groups were stored gets its creator's group with the next change that the creator makes.
#[tokio::test(start_paused = true)]
async fn the_group_of_a_creator_is_kept_up_to_date() {
    let dir = dir();
    let rig = Rig::with(&dir, config());
    let migration = MigrationSpec { target: target(&[2]), ..MigrationSpec::default() };
    let spec = ScheduleSpec { migration, paused: true, ..ScheduleSpec::default() };
    let request =
        CreateSchedule { id: None, spec, request_id: Some("a".to_owned()), validate_only: false };
    let made = rig.handle.create_schedule(agent(), request.clone(), pins(&[2])).await;
    let id = made.expect("it is taken").id.clone();
    let now = Caller { gid: Some(500), ..agent() };
    for (who, gid) in [(admin(), None), (now.clone(), Some(500)), (admin(), Some(500))] {
        let update = ScheduleUpdate { jitter: Some(Duration::ZERO), ..ScheduleUpdate::default() };
        let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
        let changed = rig.handle.update_schedule(who, update, Pins::new()).await;
        assert_eq!(changed.expect("it may").creator_gid, gid);
    }
    // The same with workloads.
    let own = || redis("own", "/pods/redis", QosClass::Be);
    for (who, gid) in [(agent(), None), (now.clone(), Some(500)), (admin(), Some(500))] {
        let known = rig.register(who, own()).await.expect("it may");
        assert_eq!((&*known.creator, known.creator_gid), ("uid:1000", gid));
    }
    // A request is recognized without a look at its target, which may have gone.
    let again = rig.handle.find_schedule_request(agent(), request.clone()).await;
    assert_eq!(again.expect("it is known").expect("it is known").id, id);
    assert_eq!(rig.handle.find_schedule_request(other(), request).await, Ok(None));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn names_that_are_kept_for_one_client_are_taken_by_no_other() {
    let dir = dir();
    let kept = Reserved { prefix: "nri-".to_owned(), to: Grantee::Uid(1000) };
    let rig = Rig::with(&dir, Config { reserved: vec![kept], ..config() });
    let job = || CreateJob { id: JobId::new("nri-a"), ..request(&[1]) };
    let schedule = || CreateSchedule {
        id: ScheduleId::new("nri-a"),
        spec: ScheduleSpec::default(),
        request_id: None,
        validate_only: false,
    };
    let workload = |cgroup: &str| redis("nri-a", cgroup, QosClass::Be);
    let set = |cgroup: &str| WorkloadSet {
        source: None,
        specs: vec![workload(cgroup)],
        validate_only: false,
    };

    let made = rig.handle.create_job(other(), job(), pins(&[1]), found(&[1], "0")).await;
    assert_refused!(made, Refusal::NotPermitted { .. });
    let made = rig.handle.create_schedule(other(), schedule(), Pins::new()).await;
    assert_refused!(made, Refusal::NotPermitted { .. });
    let made = rig.register(other(), workload("/other/redis")).await;
    assert_refused!(made, Refusal::NotPermitted { .. });
    let made = rig.handle.replace_workloads(other(), set("/other/redis")).await;
    assert_refused!(made, Refusal::NotPermitted { .. });

    let made = rig.handle.create_job(agent(), job(), pins(&[1]), found(&[1], "0")).await;
    made.expect("it is its own name");
    rig.handle.create_schedule(agent(), schedule(), Pins::new()).await.expect("it is its own name");
    rig.register(agent(), workload("/pods/redis")).await.expect("it is its own name");
    rig.handle.replace_workloads(agent(), set("/pods/redis")).await.expect("it is its own name");
    // A record made before the name was reserved stays its maker's.
    let kept = Reserved { prefix: "nri-".to_owned(), to: Grantee::Uid(1001) };
    rig.config.send_replace(Arc::new(Config { reserved: vec![kept], ..config() }));
    rig.register(agent(), workload("/pods/other")).await.expect("it has that name already");
    rig.stop().await;
}
