//! Schedules whose runs may move only so much in an hour.

use super::{
    schedules::{MINUTE, get, spec},
    *,
};
use numaloc_api::value::{CreateSchedule, ScheduleState};
use std::sync::atomic::{AtomicU64, Ordering};

const MIB: u64 = 1 << 20;
/// By how many seconds the wall clock has been set forward.
static FORWARD: AtomicU64 = AtomicU64::new(0);

fn clock() -> SystemTime {
    SystemTime::now() + Duration::from_secs(FORWARD.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn runs_of_an_hour_share_a_budget_that_outlives_the_daemon() {
    let dir = dir();
    let mut rig = Rig::by(&dir, Config::default(), clock);
    let mut spec = spec(MINUTE);
    spec.migration.limits.hourly_budget_bytes = Some(100 * MIB);
    let request = CreateSchedule { spec, ..CreateSchedule::default() };
    let created = rig.handle.create_schedule(admin(), request, pins(&[1])).await;
    let id = created.expect("it is taken").id.clone();
    // The budget of each run, and what it moves.
    for (left, moved) in [(100, 60), (40, 0), (40, 40)] {
        let probe = rig.probe().await;
        rig.answer(&probe, Ok(found(&[1], "0")));
        let JobOrder { job, go, run } = rig.order().await;
        assert_eq!(run.limits.budget_bytes, Some(left * MIB));
        rig.report(EngineReport::Planned(job.clone(), Ok(planned(&[1], "0"))));
        go.await.expect("it is ordered to move");
        rig.report(EngineReport::Ended(job.clone(), Ok(outcome(moved * MIB, None))));
        rig.reaches(&job, JobState::Succeeded).await;
        rig.stop().await;
        rig = Rig::by(&dir, Config::default(), clock);
    }
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    rig.assert_no_order().await;
    let waits = get(&rig, &id).await;
    assert_eq!(
        (waits.state, waits.state_message.as_str(), waits.hour_moved_bytes),
        (ScheduleState::Waiting, "100.0 MiB have moved in an hour", 100 * MIB)
    );
    FORWARD.store(3600, Ordering::Relaxed);
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    assert_eq!(rig.order().await.run.limits.budget_bytes, Some(100 * MIB));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_has_the_budget_for_itself() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut request = request(&[1]);
    request.spec.limits.hourly_budget_bytes = Some(7 * MIB);
    let created = rig.handle.create_job(admin(), request, pins(&[1]), found(&[1], "0")).await;
    created.expect("it is taken");
    assert_eq!(rig.order().await.run.limits.budget_bytes, Some(7 * MIB));
    rig.stop().await;
}
