//! When schedules run, by a clock that the tests advance.

use super::*;
use numaloc_api::value::{
    CreateSchedule, DeleteSchedule, EventFilter, EventType, Schedule, ScheduleId, ScheduleSpec,
    ScheduleState, ScheduleUpdate, UpdateSchedule,
};
use tokio::time::Instant;

pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn spec(interval: Duration) -> ScheduleSpec {
    let migration = MigrationSpec { target: target(&[1]), ..MigrationSpec::default() };
    ScheduleSpec { migration, interval, ..ScheduleSpec::default() }
}

pub(super) async fn schedule(rig: &Rig, spec: ScheduleSpec) -> ScheduleId {
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    rig.handle.create_schedule(operator(), request, pins(&[1])).await.unwrap().id.clone()
}

pub(super) async fn get(rig: &Rig, id: &ScheduleId) -> Arc<Schedule> {
    rig.handle.get_schedule(id.clone()).await.unwrap()
}

impl Rig {
    pub(super) async fn probe(&mut self) -> Probe {
        self.probes.recv().await.expect("a probe")
    }

    pub(super) fn answer(&self, probe: &Probe, found: Result<FoundTarget, Refusal>) {
        let (schedule, etag) = (probe.schedule.clone(), probe.etag.clone());
        self.probed.send(ProbeAnswer { schedule, etag, found }).expect("the dispatcher is there");
    }

    /// Plays one run of a schedule that is due. It ends with this outcome.
    pub(super) async fn run(&mut self, outcome: Ended) -> JobId {
        self.run_as(planned(&[1], "0"), outcome).await.job
    }

    /// As [`Self::run`], with this plan. Gives back what was ordered.
    pub(super) async fn run_as(&mut self, planned: Planned, outcome: Ended) -> Ordered {
        let probe = self.probe().await;
        self.answer(&probe, Ok(found(&[1], "0")));
        let JobOrder { job, go, run: numaloc_engine::RunOrder { trail, .. } } = self.order().await;
        let moves = planned.nothing.is_none();
        self.report(EngineReport::Planned(job.clone(), Ok(planned)));
        if moves {
            go.await.expect("it is ordered to move");
            self.report(EngineReport::Ended(job.clone(), Ok(outcome)));
        }
        Ordered { job, trail }
    }
}

/// An order as the engine received it.
pub(super) struct Ordered {
    pub(super) job: JobId,
    pub(super) trail: Option<Arc<Trail>>,
}

pub(super) fn gone() -> Result<FoundTarget, Refusal> {
    Err(Refusal::TargetNotFound { message: "no cgroup /a".into() })
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_again_and_again() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    let first = rig.run(outcome(4096, None)).await;
    rig.reaches(&first, JobState::Succeeded).await;
    let waiting = get(&rig, &id).await;
    assert_eq!((waiting.state, waiting.last_job.as_ref()), (ScheduleState::Waiting, Some(&first)));
    assert!(waiting.next_run.is_some());
    let begin = Instant::now();
    let second = rig.run(outcome(4096, None)).await;
    assert!(begin.elapsed() >= MINUTE, "{:?}", begin.elapsed());
    let job = rig.reaches(&second, JobState::Succeeded).await;
    assert_eq!((job.schedule.as_ref(), job.creator.as_str()), (Some(&id), "schedule"));
    rig.stop().await;
}

/// By how many seconds the wall clock of the next test has been set forward.
static AHEAD: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(DAYS);
const DAYS: u64 = 30 * 24 * 3600;

fn jumping() -> SystemTime {
    let ahead = AHEAD.load(std::sync::atomic::Ordering::Relaxed);
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + ahead)
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_neither_hastens_nor_delays_a_run() {
    let dir = dir();
    let mut rig = Rig::by(&dir, Config::default(), jumping);
    let id = schedule(&rig, spec(MINUTE)).await;
    for ahead in [2 * DAYS, 0, DAYS] {
        let job = rig.run(outcome(4096, None)).await;
        let begin = Instant::now();
        rig.reaches(&job, JobState::Succeeded).await;
        AHEAD.store(ahead, std::sync::atomic::Ordering::Relaxed);
        let probe = rig.probe().await;
        let waited = begin.elapsed();
        assert!(waited >= MINUTE && waited < MINUTE + Duration::from_secs(2), "{waited:?}");
        // The target is not there just now, so it is looked for again.
        rig.answer(&probe, gone());
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(get(&rig, &id).await.state, ScheduleState::TargetGone);
    }
    // If the clock is set back by a month while the daemon is down, the schedule waits no longer than its interval.
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    rig.stop().await;
    AHEAD.store(0, std::sync::atomic::Ordering::Relaxed);
    let mut rig = Rig::by(&dir, Config::default(), jumping);
    let begin = Instant::now();
    rig.probe().await;
    assert!(begin.elapsed() <= MINUTE + Duration::from_secs(1), "{:?}", begin.elapsed());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn never_two_runs_at_once() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(Duration::from_secs(1))).await;
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    order.go.await.unwrap();
    assert_eq!(get(&rig, &id).await.state, ScheduleState::Active);
    let none = tokio::time::timeout(10 * MINUTE, rig.probes.recv()).await;
    assert!(none.is_err(), "looked at while it runs");
    rig.report(EngineReport::Ended(order.job.clone(), Ok(outcome(4096, None))));
    rig.probe().await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn once_is_once() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(Duration::ZERO)).await;
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    assert_eq!(get(&rig, &id).await.state, ScheduleState::Completed);
    assert!(tokio::time::timeout(100 * MINUTE, rig.probes.recv()).await.is_err());
    rig.stop().await;
    let mut rig = Rig::at(&dir);
    assert!(tokio::time::timeout(100 * MINUTE, rig.probes.recv()).await.is_err());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jitter_only_adds() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    schedule(&rig, ScheduleSpec { jitter: MINUTE, ..spec(MINUTE) }).await;
    rig.run(outcome(4096, None)).await;
    for _ in 0..10 {
        let begin = Instant::now();
        rig.run(outcome(4096, None)).await;
        let waited = begin.elapsed();
        assert!(waited >= MINUTE && waited <= 2 * MINUTE + Duration::from_secs(1), "{waited:?}");
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_gone_is_waited_for() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    for _ in 0..3 {
        let probe = rig.probe().await;
        rig.answer(&probe, gone());
    }
    rig.probe().await;
    let known = get(&rig, &id).await;
    assert_eq!(
        (known.state, known.state_message.as_str()),
        (ScheduleState::TargetGone, "no cgroup /a")
    );
    assert!(known.gone.is_some() && known.last_job.is_none());
    rig.stop().await;
    // The target is still gone after a restart, and then comes back.
    let mut rig = Rig::at(&dir);
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    let known = get(&rig, &id).await;
    assert_eq!((known.state, known.gone), (ScheduleState::Waiting, None));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_schedule_goes_with_its_target_only_when_asked_to() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let ttl_after_gone = Some(Duration::from_secs(25));
    let id = schedule(&rig, ScheduleSpec { ttl_after_gone, ..spec(MINUTE) }).await;
    let begin = Instant::now();
    while rig.handle.get_schedule(id.clone()).await.is_ok() {
        let probe = tokio::time::timeout(MINUTE, rig.probes.recv()).await;
        let Ok(Some(probe)) = probe else { continue };
        rig.answer(&probe, gone());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(begin.elapsed() >= Duration::from_secs(25), "{:?}", begin.elapsed());
    rig.stop().await;
    let rig = Rig::at(&dir);
    assert_refused!(rig.handle.get_schedule(id).await, Refusal::NotFound { .. });
    rig.stop().await;
}

/// While the daemon or the host is off, the daemon does not look whether the target is back.
#[tokio::test(start_paused = true)]
async fn time_in_which_the_daemon_was_off_does_not_count() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let ttl_after_gone = Some(Duration::from_secs(2));
    let id = schedule(&rig, ScheduleSpec { ttl_after_gone, ..spec(MINUTE) }).await;
    let probe = rig.probe().await;
    rig.answer(&probe, gone());
    rig.probe().await;
    assert_eq!(get(&rig, &id).await.state, ScheduleState::TargetGone);
    rig.stop().await;
    // By the wall clock, which the daemon compares with that of the record.
    std::thread::sleep(Duration::from_secs(3));
    let mut rig = Rig::at(&dir);
    let probe = rig.probe().await;
    rig.answer(&probe, gone());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(get(&rig, &id).await.state, ScheduleState::TargetGone);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn events_are_told_when_they_are_news() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    schedule(&rig, spec(MINUTE)).await;
    // 100 % local each time; then it cannot all be moved; then the same again; then a little better.
    let busy = |bytes| Some((Reason::Busy, bytes));
    for outcome in [
        outcome(4096, None),
        outcome(4096, None),
        outcome(4096, busy(65536)),
        outcome(4096, busy(65536)),
        outcome(4096, busy(61440)),
        outcome(4096, None),
    ] {
        rig.run(outcome).await;
    }
    rig.probe().await;
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 100).await.unwrap();
    let ratios: Vec<u64> = events.iter().map(|event| event.after_percent.unwrap() as u64).collect();
    assert_eq!(ratios, [100, 15, 100]);
    assert!(events.iter().all(|event| event.kind == EventType::Completed));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn schedules_are_changed() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(60 * MINUTE)).await;
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    let known = get(&rig, &id).await;
    let update = |etag: Option<&str>, update| UpdateSchedule {
        id: id.clone(),
        etag: etag.map(str::to_owned),
        update,
        validate_only: false,
    };
    // A shorter interval counts from now at the latest.
    let shorter = ScheduleUpdate { interval: Some(MINUTE), ..ScheduleUpdate::default() };
    let stale = update(Some("0"), shorter.clone());
    assert_refused!(
        rig.handle.update_schedule(operator(), stale, Pins::new()).await,
        Refusal::Etag { .. }
    );
    let other = caller("uid:7", Role::Operator);
    assert_refused!(
        rig.handle.update_schedule(other, update(None, shorter.clone()), Pins::new()).await,
        Refusal::NotPermitted { .. }
    );
    let changed = rig
        .handle
        .update_schedule(operator(), update(Some(&known.etag), shorter), Pins::new())
        .await
        .unwrap();
    assert_ne!(changed.etag, known.etag);
    let begin = Instant::now();
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    assert!(begin.elapsed() <= MINUTE + Duration::from_secs(1), "{:?}", begin.elapsed());
    // A paused schedule does not run; a resumed one does.
    let paused = |paused| ScheduleUpdate { paused: Some(paused), ..ScheduleUpdate::default() };
    let changed = rig
        .handle
        .update_schedule(operator(), update(None, paused(true)), Pins::new())
        .await
        .unwrap();
    assert_eq!((changed.state, changed.next_run), (ScheduleState::Paused, None));
    assert!(tokio::time::timeout(100 * MINUTE, rig.probes.recv()).await.is_err());
    rig.handle.update_schedule(operator(), update(None, paused(false)), Pins::new()).await.unwrap();
    rig.probe().await;
    let too_much = ScheduleUpdate { jitter: Some(2 * MINUTE), ..ScheduleUpdate::default() };
    assert_refused!(
        rig.handle.update_schedule(operator(), update(None, too_much), Pins::new()).await,
        Refusal::Invalid(_)
    );
    let delete = |etag: Option<&str>| DeleteSchedule {
        etag: etag.map(str::to_owned),
        ..DeleteSchedule::new(id.clone())
    };
    assert_refused!(
        rig.handle.delete_schedule(operator(), delete(Some("0"))).await,
        Refusal::Etag { .. }
    );
    let only = DeleteSchedule { validate_only: true, ..delete(None) };
    rig.handle.delete_schedule(operator(), only).await.unwrap();
    rig.handle.delete_schedule(operator(), delete(None)).await.unwrap();
    assert_refused!(
        rig.handle.delete_schedule(operator(), delete(None)).await,
        Refusal::NotFound { .. }
    );
    let again = DeleteSchedule { allow_missing: true, ..delete(None) };
    assert_eq!(rig.handle.delete_schedule(operator(), again).await, Ok(()));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_creator_without_rights_is_told_so() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let request = CreateSchedule {
        spec: spec(MINUTE),
        request_id: Some("r".into()),
        ..CreateSchedule::default()
    };
    let nobody = caller("uid:9", Role::Operator);
    let made =
        rig.handle.create_schedule(nobody.clone(), request.clone(), pins(&[1])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let known = get(&rig, &made.id).await;
    assert!(known.state_message.contains("uid:9"), "{}", known.state_message);
    assert_eq!(known.state, ScheduleState::Waiting);
    // The same request gives the schedule back; another request with the same request_id is refused.
    assert_eq!(
        rig.handle.create_schedule(nobody.clone(), request.clone(), pins(&[1])).await.unwrap().id,
        made.id
    );
    let other = CreateSchedule { spec: spec(2 * MINUTE), ..request };
    assert_refused!(
        rig.handle.create_schedule(nobody, other, pins(&[1])).await,
        Refusal::AlreadyExists { .. }
    );
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removing_a_schedule_ends_its_queued_run_and_no_other() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    let client = rig.create(&[5], "0").await;
    let _busy = rig.order().await;
    let id = schedule(&rig, spec(MINUTE)).await;
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    while get(&rig, &id).await.last_job.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let run = get(&rig, &id).await.last_job.clone().unwrap();
    rig.handle.delete_schedule(operator(), DeleteSchedule::new(id)).await.unwrap();
    assert_eq!(rig.handle.get_job(run).await.unwrap().state, JobState::Cancelled);
    assert_eq!(rig.handle.get_job(client).await.unwrap().state, JobState::Planning);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_without_its_schedule_as_its_owners_own() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    let job = rig.order().await.job.clone();
    rig.handle.delete_schedule(operator(), DeleteSchedule::new(id)).await.unwrap();
    let run = rig.handle.get_job(job.clone()).await.unwrap();
    assert_eq!((run.state, &run.schedule), (JobState::Planning, &None));
    assert_eq!(run.creator, operator().name);
    // Its owner can pause and cancel it.
    rig.handle.pause_job(operator(), job.clone()).await.unwrap();
    rig.report(EngineReport::Planned(job.clone(), Ok(planned(&[1], "0"))));
    rig.reaches(&job, JobState::Paused).await;
    rig.handle.cancel_job(operator(), job.clone()).await.unwrap();
    assert_eq!(rig.handle.get_job(job).await.unwrap().state, JobState::Cancelled);
    rig.stop().await;
}

/// If the host cannot be read for a moment, a weekly run is delayed by seconds only. If it stays so, it is not asked
/// all the time.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_looked_at_is_looked_at_again_soon() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let week = 7 * 24 * 60 * MINUTE;
    schedule(&rig, spec(week)).await;
    let mut waits = Vec::new();
    for _ in 0..9 {
        let begin = Instant::now();
        let probe = rig.probe().await;
        waits.push(begin.elapsed().as_secs());
        let refusal = Refusal::HostUnavailable { message: "systemd gives no answer".into() };
        rig.answer(&probe, Err(refusal));
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
    rig.run(outcome(4096, None)).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn removing_a_schedule_ends_its_run_that_is_paused() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    let order = rig.order().await;
    let job = order.job.clone();
    rig.handle.pause_job(operator(), job.clone()).await.unwrap();
    rig.report(EngineReport::Planned(job.clone(), Ok(planned(&[1], "0"))));
    rig.reaches(&job, JobState::Paused).await;
    rig.handle.delete_schedule(operator(), DeleteSchedule::new(id)).await.unwrap();
    assert_eq!(rig.handle.get_job(job).await.unwrap().state, JobState::Cancelled);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_has_been_gone_for_long_is_looked_for_less_often() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    schedule(&rig, spec(Duration::from_secs(1))).await;
    let begin = Instant::now();
    let mut looks = 0;
    while begin.elapsed() < 60 * MINUTE {
        let probe = rig.probe().await;
        rig.answer(&probe, gone());
        looks += 1;
    }
    assert!((60..150).contains(&looks), "{looks} looks in an hour");
    rig.stop().await;
}
