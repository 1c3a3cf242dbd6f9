//! Memory bounds of records, whatever clients ask for.

use super::{workloads::workload, *};
use numaloc_api::value::{
    CreateSchedule, EventFilter, ListEvents, MemberResult, MemberState, Page, Schedule, ScheduleId,
    ScheduleSpec, ScheduleState,
};

const HOUR: Duration = Duration::from_secs(3600);

/// The members of a target that names `count` pids, in this state.
fn members(count: i32, state: MemberState) -> Vec<MemberResult> {
    let one = |pid| MemberResult::left_out(target(&[pid]), state, "no process has it".to_owned());
    (1..=count).map(one).collect()
}

async fn schedule(rig: &Rig, caller: Caller, pids: i32) -> Arc<Schedule> {
    let migration = request(&(1..=pids).collect::<Vec<_>>()).spec;
    let spec = ScheduleSpec { migration, interval: HOUR, ..ScheduleSpec::default() };
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(caller, request, pins(&[1])).await.expect("it is taken")
}

/// Plays the engine: a probe has found process 1, and these members.
async fn answer(rig: &mut Rig, members: Vec<MemberResult>) -> ScheduleId {
    let probe = rig.probes.recv().await.expect("a probe");
    let found = Ok(FoundTarget { members, ..found(&[1], "0") });
    let probed = ProbeAnswer { schedule: probe.schedule.clone(), etag: probe.etag, found };
    rig.probed.send(probed).expect("the dispatcher is there");
    probe.schedule
}

async fn state(rig: &Rig, id: &ScheduleId) -> (ScheduleState, String) {
    // The clock of these tests moves only when no task has anything else to do.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let known = rig.handle.get_schedule(id.clone()).await.expect("it is known");
    (known.state, known.state_message.clone())
}

#[tokio::test(start_paused = true)]
async fn runs_of_schedules_count_for_the_owner_of_the_schedules() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.bytes = 470 << 10;
    let mut rig = Rig::with(&dir, config);
    let (mut runs, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let id = schedule(&rig, operator(), 200).await.id.clone();
        answer(&mut rig, members(200, MemberState::Waiting)).await;
        match state(&rig, &id).await {
            (ScheduleState::Active, _) => runs.push(id),
            (ScheduleState::Waiting, why) => {
                assert!(why.contains("quota used up") && why.contains("uid:1000"), "{why}");
                waiting.push(id);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((1..=4).contains(&runs.len()), "{} runs, {} wait", runs.len(), waiting.len());
    // They count for their owner's other records, too, and for no other client's.
    let large = FoundTarget { members: members(400, MemberState::Waiting), ..found(&[1000], "1") };
    let create = |by| rig.handle.create_job(by, request(&[1000]), pins(&[1000]), large.clone());
    let refused = create(operator()).await.map(drop);
    assert_refused!(refused, Refusal::Quota { .. });
    let other = create(caller("uid:1001", Role::Operator)).await;
    other.map(drop).expect("it has a quota of its own");
    // A restart counts them again.
    let config = rig.config.borrow().clone();
    rig.kill().await;
    let mut rig = Rig::with(&dir, (*config).clone());
    let next = answer(&mut rig, members(200, MemberState::Waiting)).await;
    assert_eq!(
        (state(&rig, &next).await.0, waiting.contains(&next)),
        (ScheduleState::Waiting, true)
    );
    // Once a run has ended, one that waits begins.
    let last = runs.pop().expect("some runs");
    let last = rig.handle.get_schedule(last).await.expect("it is known");
    let job = last.last_job.clone().expect("a run");
    rig.handle.cancel_job(operator(), job).await.expect("it ends");
    let next = answer(&mut rig, members(200, MemberState::Waiting)).await;
    assert_eq!(state(&rig, &next).await.0, ScheduleState::Active);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn all_clients_together_have_a_bound() {
    let dir = dir();
    let mut config = Config::default();
    (config.quota.bytes, config.quota.all_bytes) = (1 << 20, 64 << 10);
    let rig = Rig::with(&dir, config);
    let mut taken = 0;
    let refusal = loop {
        let uid = if taken % 2 == 0 { "uid:1000" } else { "uid:1001" };
        match rig.register(caller(uid, Role::Operator), workload(&taken.to_string())).await {
            Ok(_) => taken += 1,
            Err(refusal) => break refusal,
        }
        assert!(taken < 100, "there is no bound");
    };
    assert!(taken > 20, "{taken}");
    assert!(refusal.to_string().contains("all clients together"), "{refusal}");
    rig.kill().await;
}

/// A target may name thousands of processes that do not exist.
#[tokio::test(start_paused = true)]
async fn a_job_keeps_few_of_the_members_that_are_missing() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut all = members(4000, MemberState::Missing);
    all.push(MemberResult { member: target(&[7]), ..MemberResult::default() });
    let found = FoundTarget { members: all, ..found(&[7], "0") };
    let (job, _) = rig
        .handle
        .create_job(operator(), request(&[7]), pins(&[7]), found.clone())
        .await
        .expect("it is taken");
    let counts = |job: &Job| (job.members.len(), job.more_members);
    assert_eq!(counts(&job), (Job::LEFT_OUT + 1, 4000 - Job::LEFT_OUT));
    assert_eq!(job.members.last().map(|last| last.state), Some(MemberState::Waiting));
    let order = rig.order().await;
    let planned = Planned { found, ..planned(&[7], "0") };
    rig.report(EngineReport::Planned(order.job.clone(), Ok(planned)));
    let _ = told(order).await;
    assert_eq!(counts(&*rig.reaches(&job.id, JobState::Running).await), counts(&job));
    let mut ended = outcome(4096, None);
    ended.members = members(4000, MemberState::Missing);
    rig.report(EngineReport::Ended(job.id.clone(), Ok(ended)));
    let job = rig.reaches(&job.id, JobState::Succeeded).await;
    assert_eq!(counts(&job), (Job::LEFT_OUT, 4000 - Job::LEFT_OUT));
    assert!(job.state_message.ends_with("3936 more take no part"), "{}", job.state_message);
    let page = Page { size: 10, token: None };
    let filter = EventFilter { job: Some(job.id.clone()), ..EventFilter::default() };
    let events = rig.handle.list_events(ListEvents { filter, page }).await.expect("events");
    let event = events.entries.first().expect("an event");
    assert_eq!(event.members.len() + event.more_members, 4000);
    rig.kill().await;
}

/// A job that has been paused stays in memory for as long as its owner likes.
#[tokio::test(start_paused = true)]
async fn a_paused_job_that_has_grown_beyond_the_quota_ends() {
    for (processes, expected) in [(1, JobState::Paused), (1000, JobState::Failed)] {
        let dir = dir();
        let mut config = Config::default();
        config.quota.bytes = 64 << 10;
        let mut rig = Rig::with(&dir, config);
        let pids = [7];
        let made =
            rig.handle.create_job(operator(), request(&pids), pins(&pids), found(&pids, "0"));
        let id = made.await.expect("it is taken").0.id.clone();
        let order = rig.order().await;
        rig.planned(&order, &pids, "0");
        let _ = told(order).await;
        rig.handle.pause_job(operator(), id.clone()).await.expect("it is paused");
        let mut ended = outcome(4096, Some((Reason::Cancelled, 4096)));
        let whole = Arc::make_mut(&mut ended.outcome);
        whole.processes = vec![whole.processes[0].clone(); processes];
        rig.report(EngineReport::Ended(id.clone(), Ok(ended)));
        let job = rig.reaches(&id, expected).await;
        assert_eq!(job.state_message.contains("quota used up"), processes > 1, "{job:?}");
        rig.kill().await;
    }
}

/// Each probe has all members of its target, and after a restart many schedules may be due at once.
#[tokio::test(start_paused = true)]
async fn few_probes_are_under_way_at_a_time() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for _ in 0..100 {
        schedule(&rig, operator(), 1).await;
    }
    rig.kill().await;
    rig = Rig::at(&dir);
    let mut probed = Vec::new();
    let mut seen = 0;
    while seen < 100 {
        while let Ok(Some(probe)) =
            tokio::time::timeout(Duration::from_millis(1), rig.probes.recv()).await
        {
            probed.push(probe);
        }
        assert!((1..=16).contains(&probed.len()), "{} at a time", probed.len());
        seen += probed.len();
        for Probe { schedule, etag, .. } in probed.drain(..) {
            let found = Err(Refusal::TargetNotFound { message: "it is gone".to_owned() });
            rig.probed
                .send(ProbeAnswer { schedule, etag, found })
                .expect("the dispatcher is there");
        }
    }
    rig.kill().await;
}

/// Kept ended jobs are bounded by what they take in the store, which has all processes of each, not by what lists show.
#[tokio::test(start_paused = true)]
async fn ended_jobs_are_weighed_as_they_are_stored() {
    let dir = dir();
    let mut config = Config::default();
    config.retention.bytes = 300 << 10;
    let mut rig = Rig::with(&dir, config);
    for _ in 0..10 {
        let (id, _) = rig.moving(&[7], "0").await;
        let mut ended = outcome(4096, None);
        let whole = Arc::make_mut(&mut ended.outcome);
        whole.processes = vec![whole.processes[0].clone(); 4000];
        rig.report(EngineReport::Ended(id.clone(), Ok(ended)));
        rig.reaches(&id, JobState::Succeeded).await;
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    let page = Page { size: 100, token: None };
    let all = ListJobs { filter: JobFilter::default(), page };
    let kept = listed_jobs(&rig.handle.list::<Job>(all).await.expect("a list"));
    assert!((1..=5).contains(&kept.len()), "{} jobs are left", kept.len());
    rig.kill().await;
}
