//! Schedules whose placement is contested: other movers undo their work.

use super::{
    schedules::{MINUTE, get, schedule, spec},
    *,
};
use numaloc_api::value::{EventFilter, EventType, ScheduleUpdate, UpdateSchedule};
use tokio::time::Instant;

/// A run that has moved 4096 bytes and leaves a trail of them.
fn trailing() -> Ended {
    let trail = Trail { moved_bytes: 4096, ..Trail::default() };
    Ended { trail: Some(Arc::new(trail)), ..outcome(4096, None) }
}

/// A plan that found this many of those bytes moved back.
fn undone(bytes: u64) -> Planned {
    let by = vec!["numad (process 7)".to_owned()];
    let returned = Some(Returned { bytes, moved_bytes: 4096, by, process: None });
    Planned { returned, ..planned(&[1], "0") }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_with_a_contested_placement_reports_it_and_slows_down() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    let first = rig.run_as(planned(&[1], "0"), trailing()).await;
    assert_eq!(first.trail, None);
    let mut waits = Vec::new();
    let runs = [2048, 4096, 1024, 4096, 4096, 4096, 4096, 1023, 0];
    for (index, bytes) in runs.into_iter().enumerate() {
        let (begin, run) = (Instant::now(), rig.run_as(undone(bytes), trailing()).await);
        waits.push(begin.elapsed().as_secs() / 60);
        assert_eq!(run.trail.expect("what the run before has moved").moved_bytes, 4096);
        rig.reaches(&run.job, JobState::Succeeded).await;
        let known = get(&rig, &id).await;
        let contested = (2..7).contains(&index);
        assert_eq!(
            known.state_message.contains("placement contested, probably by numad"),
            contested,
            "{known:?}"
        );
        let next = known.next_run.expect("it repeats");
        let wait = next.duration_since(SystemTime::now()).expect("to come");
        assert_eq!(wait > MINUTE, contested, "{wait:?}");
    }
    assert_eq!(waits, [1, 1, 1, 2, 4, 8, 16, 16, 1]);
    let (events, _) = rig.handle.events_after(EventFilter::default(), 0, 99).await.expect("a list");
    let contests = events.iter().filter(|event| !event.kind.is_end());
    let contests: Vec<_> = contests.map(|event| (event.kind, event.message.as_str())).collect();
    let [(EventType::PlacementContested, begun), (EventType::PlacementStable, _)] = contests[..]
    else {
        panic!("{contests:?}")
    };
    assert!(begun.starts_with("placement contested, probably by numad"), "{begun}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_contest_is_over_with_a_run_that_has_nothing_to_do_a_change_or_a_restart() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = schedule(&rig, spec(MINUTE)).await;
    let contest = async |rig: &mut Rig| {
        for _ in 0..3 {
            let run = rig.run_as(undone(4096), trailing()).await;
            rig.reaches(&run.job, JobState::Succeeded).await;
        }
        assert_ne!(get(rig, &id).await.state_message, "");
    };
    contest(&mut rig).await;
    // Everything is still where it was moved to.
    let nothing = Some((JobState::Skipped, "all memory is local".to_owned()));
    let run = rig.run_as(Planned { nothing, ..undone(0) }, trailing()).await;
    rig.reaches(&run.job, JobState::Skipped).await;
    assert_eq!(get(&rig, &id).await.state_message, "");

    contest(&mut rig).await;
    let update = ScheduleUpdate { interval: Some(MINUTE), ..ScheduleUpdate::default() };
    let update = UpdateSchedule { id: id.clone(), etag: None, update, validate_only: false };
    rig.handle.update_schedule(operator(), update, Pins::new()).await.expect("it is changed");
    let (begin, run) = (Instant::now(), rig.run_as(undone(4096), trailing()).await);
    assert!(begin.elapsed() <= MINUTE + Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(run.trail, None);

    contest(&mut rig).await;
    rig.stop().await;
    let mut rig = Rig::at(&dir);
    let (begin, run) = (Instant::now(), rig.run_as(undone(4096), trailing()).await);
    assert!(begin.elapsed() <= MINUTE + Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(run.trail, None);
    rig.stop().await;
}

/// The second run of the job would find only what the first one has just moved.
#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_does_not_look_at_its_own_work() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    schedule(&rig, spec(MINUTE)).await;
    rig.run_as(planned(&[1], "0"), trailing()).await;
    let probe = rig.probe().await;
    rig.answer(&probe, Ok(found(&[1], "0")));
    let order = rig.order().await;
    assert!(order.run.trail.is_some());
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.handle.pause_job(admin(), order.job.clone()).await.expect("it is paused");
    let left = Some((Reason::Cancelled, 4096));
    rig.report(EngineReport::Ended(order.job.clone(), Ok(outcome(4096, left))));
    rig.reaches(&order.job, JobState::Paused).await;
    rig.handle.resume_job(admin(), order.job).await.expect("it continues");
    assert_eq!(rig.order().await.run.trail, None);
    rig.kill().await;
}
