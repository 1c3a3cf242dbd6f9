//! Results of runs as clients see them: by member, and as events.

use super::{
    schedules::{MINUTE, schedule, spec},
    *,
};
use numaloc_api::value::{
    DeleteSchedule, Emit, Event, EventFilter, EventType, MemberResult, MemberState, ScheduleSpec,
    ScheduleUpdate, UpdateSchedule,
};

fn member(path: &str, state: MemberState, account: Account) -> MemberResult {
    let before = Some(locality(0, account.found_bytes()));
    MemberResult {
        member: Target::cgroup(path),
        state,
        account,
        before,
        after: before,
        ..MemberResult::default()
    }
}

fn moved(path: &str, bytes: u64) -> MemberResult {
    let mut account = Account::default();
    account.found(bytes);
    account.moved(bytes);
    MemberResult { after: Some(locality(bytes, 0)), ..member(path, MemberState::Waiting, account) }
        .settled(100)
}

fn with(members: &[MemberResult], ended: Ended) -> Ended {
    Ended { members: members.to_vec(), ..ended }
}

async fn events(rig: &Rig) -> Vec<Arc<Event>> {
    rig.handle.events_after(EventFilter::default(), 0, 100).await.expect("a list").0
}

async fn kinds(rig: &Rig) -> Vec<EventType> {
    events(rig).await.iter().map(|event| event.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn the_results_of_members_go_on_over_a_break() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1], "0").await;
    rig.handle.pause_job(admin(), id.clone()).await.expect("it is under way");
    let mut cancelled = Account::default();
    cancelled.found(8192);
    cancelled.moved(4096);
    cancelled.left(Reason::Cancelled, 4096);
    let half = member("/a", MemberState::Waiting, cancelled).settled(100);
    let first = with(&[half, moved("/b", 4096)], outcome(8192, Some((Reason::Cancelled, 4096))));
    rig.report(EngineReport::Ended(id.clone(), Ok(first)));
    let job = rig.reaches(&id, JobState::Paused).await;
    assert_eq!(job.members[0].state, MemberState::Partial);
    rig.handle.resume_job(admin(), id.clone()).await.expect("it is paused");
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    let gone = MemberResult::left_out(Target::cgroup("/b"), MemberState::Missing, "gone".into());
    let second = with(&[moved("/a", 4096), gone], outcome(4096, None));
    rig.report(EngineReport::Ended(id.clone(), Ok(second)));
    let job = rig.reaches(&id, JobState::Succeeded).await;
    let [a, b] = &job.members[..] else { panic!("{job:?}") };
    assert_eq!((a.state, a.account.moved_bytes()), (MemberState::Succeeded, 8192));
    assert_eq!((b.state, b.account.moved_bytes()), (MemberState::Missing, 4096));
    assert_eq!(job.state_message, "not there: cgroup /b");
    let expected = [EventType::Paused, EventType::Resumed, EventType::Completed];
    assert_eq!(kinds(&rig).await, expected);
    assert_eq!(events(&rig).await[0].message, "paused by uid:0");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_member_waits_when_the_job_has_ended() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let waiting = member("/a", MemberState::Waiting, Account::default());
    let gone = MemberResult::left_out(Target::cgroup("/b"), MemberState::Missing, "gone".into());
    let found = FoundTarget { members: vec![waiting, gone], ..found(&[1], "0") };
    let make = async |rig: &Rig| {
        let made = rig.handle.create_job(admin(), request(&[1]), pins(&[1]), found.clone()).await;
        made.expect("it is taken").0.id.clone()
    };
    let states = async |rig: &Rig, id: JobId| {
        let job = rig.handle.get_job(id).await.expect("it is known");
        job.members.iter().map(|member| (member.state, member.reason.clone())).collect::<Vec<_>>()
    };
    let missing = || (MemberState::Missing, "gone".to_owned());
    let id = make(&rig).await;
    let order = rig.order().await;
    assert_eq!(states(&rig, id.clone()).await[0].0, MemberState::Waiting);
    let why = Refusal::TargetEmpty { message: "nobody is there".to_owned() };
    rig.report(EngineReport::Planned(order.job, Err(why)));
    rig.reaches(&id, JobState::Failed).await;
    let ended = states(&rig, id).await;
    assert_eq!((ended[0].0, &ended[1]), (MemberState::Failed, &missing()));
    assert!(ended[0].1.starts_with("nobody is there"), "{ended:?}");
    let id = make(&rig).await;
    let order = rig.order().await;
    rig.handle.cancel_job(admin(), id.clone()).await.expect("it is under way");
    rig.planned(&order, &[1], "0");
    rig.reaches(&id, JobState::Cancelled).await;
    let ended = states(&rig, id).await;
    assert_eq!((ended[0].0, &ended[1]), (MemberState::Skipped, &missing()));
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn the_event_of_very_many_members_is_small() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1], "0").await;
    let mut members: Vec<_> = (0..1000).map(|number| moved(&format!("/{number}"), 4096)).collect();
    let name = Target::cgroup("/refused");
    members.push(MemberResult::left_out(name.clone(), MemberState::Refused, "no".to_owned()));
    rig.report(EngineReport::Ended(id.clone(), Ok(with(&members, outcome(4096, None)))));
    let job = rig.reaches(&id, JobState::Succeeded).await;
    assert_eq!(job.members.len(), 1001);
    assert_eq!(job.state_message, "left out: cgroup /refused");
    let event = &events(&rig).await[0];
    assert_eq!((event.members.len(), event.more_members), (256, 1001 - 256));
    assert_eq!(event.members[0].member, name, "what is not well comes first");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_run_is_told_where_that_is_asked_for() {
    for (emit, expected) in [
        (Emit::OnChange, &[EventType::Completed][..]),
        (Emit::Always, &[EventType::Started, EventType::Completed].repeat(3)),
    ] {
        let dir = dir();
        let mut rig = Rig::at(&dir);
        let mut every_minute = spec(MINUTE);
        every_minute.migration.policy.emit = emit;
        schedule(&rig, every_minute).await;
        for _ in 0..3 {
            rig.run(outcome(4096, None)).await;
        }
        rig.probe().await;
        assert_eq!(kinds(&rig).await, expected, "{emit:?}");
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_well_any_more_is_news() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    schedule(&rig, spec(MINUTE)).await;
    let refused =
        |path| MemberResult::left_out(Target::cgroup(path), MemberState::Refused, "no".to_owned());
    for members in [
        [moved("/a", 4096), moved("/b", 4096)],
        [moved("/b", 4096), moved("/a", 8192)],
        [moved("/a", 4096), refused("/b")],
        [refused("/b"), moved("/a", 4096)],
        [refused("/a"), moved("/b", 4096)],
    ] {
        rig.run(with(&members, outcome(4096, None))).await;
    }
    rig.probe().await;
    let told: Vec<_> =
        events(&rig).await.iter().map(|event| event.job.clone().expect("a job")).collect();
    assert_eq!(told, [1, 3, 5].map(JobId::numbered));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_schedule_is_told() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let gone = || Err(Refusal::TargetEmpty { message: "unit a has no processes".to_owned() });
    let id = schedule(&rig, spec(MINUTE)).await;
    // Twice: a target that is still gone makes no second event.
    for _ in 0..2 {
        let probe = rig.probe().await;
        rig.answer(&probe, gone());
    }
    let hold = |paused| {
        let update = ScheduleUpdate { paused: Some(paused), ..ScheduleUpdate::default() };
        UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false }
    };
    for paused in [true, true, false] {
        let changed = rig.handle.update_schedule(operator(), hold(paused), Pins::new()).await;
        changed.expect("it is changed");
    }
    let delete = DeleteSchedule::new(id.clone());
    rig.handle.delete_schedule(admin(), delete).await.expect("it is there");
    let short = ScheduleSpec { ttl_after_gone: Some(Duration::ZERO), ..spec(MINUTE) };
    let brief = schedule(&rig, short).await;
    loop {
        let probe = rig.probe().await;
        if probe.schedule == brief {
            rig.answer(&probe, gone());
            break;
        }
    }
    while rig.handle.get_schedule(brief.clone()).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let expected = [
        (EventType::TargetGone, &id, "unit a has no processes"),
        (EventType::Paused, &id, "paused by uid:1000"),
        (EventType::Resumed, &id, "resumed by uid:1000"),
        (EventType::ScheduleRemoved, &id, "removed by uid:0"),
        (
            EventType::ScheduleRemoved,
            &brief,
            "removed: its target has been gone for long enough: unit a has no processes",
        ),
    ];
    let events = events(&rig).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.kind, event.schedule.as_ref().expect("one"), event.message.as_str()))
        .collect();
    assert_eq!(told, expected);
    assert!(events.iter().all(|event| event.job.is_none()));
    // The events are read again after a restart.
    rig.stop().await;
    let rig = Rig::at(&dir);
    assert_eq!(kinds(&rig).await.len(), expected.len());
    rig.stop().await;
}
