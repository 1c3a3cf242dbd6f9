//! Schedules that run no more, or are paused, and are to be removed after their targets.

use super::{
    schedules::{MINUTE, get, gone, schedule, spec},
    *,
};
use numaloc_api::value::{ScheduleSpec, ScheduleState};
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);

fn lasting(ttl: Duration, spec: ScheduleSpec) -> ScheduleSpec {
    ScheduleSpec { ttl_after_gone: Some(ttl), ..spec }
}

#[tokio::test(start_paused = true)]
async fn what_has_run_once_goes_after_its_target() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, lasting(24 * HOUR, spec(Duration::ZERO))).await;
    let job = rig.run(outcome(4096, None)).await;
    rig.reaches(&job, JobState::Succeeded).await;
    for _ in 0..3 {
        let begin = Instant::now();
        let probe = rig.probe().await;
        assert!(begin.elapsed() > HOUR - MINUTE, "{:?}", begin.elapsed());
        rig.answer(&probe, Ok(found(&[1], "0")));
    }
    rig.stop().await;
    // Also after a start, from which the time counts anew.
    let mut rig = Rig::at(&dir);
    let (begin, mut looks) = (Instant::now(), 0);
    while begin.elapsed() < 26 * HOUR {
        let Ok(Some(probe)) = tokio::time::timeout(2 * HOUR, rig.probes.recv()).await else {
            break;
        };
        assert_eq!(get(&rig, &id).await.state, ScheduleState::Completed);
        rig.answer(&probe, gone());
        looks += 1;
    }
    assert!((24..=26).contains(&looks), "{looks} looks");
    assert!(rig.handle.get_schedule(id).await.is_err(), "it is removed");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_one_goes_and_one_without_a_time_stays() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let paused = ScheduleSpec { paused: true, ..spec(MINUTE) };
    let stays = schedule(&rig, paused.clone()).await;
    let goes = schedule(&rig, lasting(Duration::ZERO, paused)).await;
    let probe = rig.probe().await;
    assert_eq!(probe.schedule, goes);
    rig.answer(&probe, gone());
    assert!(tokio::time::timeout(100 * HOUR, rig.probes.recv()).await.is_err());
    assert!(rig.handle.get_schedule(goes).await.is_err());
    assert_eq!(get(&rig, &stays).await.state, ScheduleState::Paused);
    rig.stop().await;
}
