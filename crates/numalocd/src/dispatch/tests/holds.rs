//! Draining the daemon, and pausing all moves.

use super::*;
use crate::{dispatch::Hold, store::Holds};
use std::sync::atomic::Ordering::Relaxed;

async fn set(rig: &Rig, hold: Hold, on: bool) -> Holds {
    rig.handle.set_hold(admin(), hold, on).await.expect("it is stored")
}

#[tokio::test(start_paused = true)]
async fn a_drained_daemon_ends_what_moves_and_begins_nothing() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (moving, control) = rig.moving(&[1], "0").await;
    let planning = rig.create(&[2], "1").await;
    let order = rig.order().await;
    set(&rig, Hold::Drain, true).await;
    assert!(!control.cancel.load(Relaxed), "what moves continues");
    // A job that is planned meanwhile goes back into the queue.
    rig.planned(&order, &[2], "1");
    rig.reaches(&planning, JobState::Queued).await;
    assert!(order.go.await.is_err(), "it was told to move");
    let late = rig.handle.create_job(admin(), request(&[3]), pins(&[3]), found(&[3], "2")).await;
    let late = late.expect("requests are taken").0;
    let why = (late.state, late.state_message.as_str());
    assert_eq!(why, (JobState::Queued, "waits: the daemon is drained"));
    rig.report(EngineReport::Ended(moving.clone(), Ok(outcome(4096, None))));
    rig.reaches(&moving, JobState::Succeeded).await;
    rig.assert_no_order().await;
    set(&rig, Hold::Drain, false).await;
    let begun = [rig.order().await.job, rig.order().await.job];
    assert_eq!(begun, [planning, late.id.clone()]);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_only_waits_for_a_place_is_queued_again() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    let waits = rig.create(&[2], "1").await;
    let order = rig.order().await;
    let first = rig.create(&[1], "0").await;
    let other = rig.order().await;
    rig.planned(&other, &[1], "0");
    let _control = told(other).await;
    rig.planned(&order, &[2], "1");
    rig.handle.status().await.expect("it has been planned");
    set(&rig, Hold::Drain, true).await;
    assert!(order.go.await.is_err());
    assert_eq!(rig.handle.get_job(waits).await.unwrap().state, JobState::Queued);
    assert_eq!(rig.handle.get_job(first).await.unwrap().state, JobState::Running);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn paused_moves_go_on_with_the_rest_also_after_a_restart() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, control) = rig.moving(&[1], "0").await;
    let mut watch = rig.handle.watch_job(id.clone()).await.expect("it is there");
    set(&rig, Hold::Pause, true).await;
    assert!(control.cancel.load(Relaxed), "it continues");
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 4096))))));
    let job =
        watch.wait_for(|now| now.job.state == JobState::Queued).await.expect("it is held").clone();
    assert_eq!(job.job.state_message, "waits: all moves are paused");
    rig.assert_no_order().await;
    rig.stop().await;

    let mut rig = Rig::at(&dir);
    let holds = rig.handle.status().await.expect("an answer").holds;
    assert!(holds.paused.is_some() && holds.drained.is_none(), "{holds:?}");
    rig.assert_no_order().await;
    assert_eq!(set(&rig, Hold::Pause, false).await, Holds::default());
    let order = rig.order().await;
    assert_eq!(order.job, id);
    rig.planned(&order, &[1], "0");
    told(order).await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    let job = rig.reaches(&id, JobState::Succeeded).await;
    assert_eq!(job.outcome.as_ref().expect("it moved").account().moved_bytes(), 8192);
    rig.stop().await;
    let rig = Rig::at(&dir);
    assert_eq!(rig.handle.status().await.expect("an answer").holds, Holds::default());
    rig.stop().await;
}

/// A client can cancel its job also while all moves are paused.
#[tokio::test(start_paused = true)]
async fn a_held_job_can_be_cancelled() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _control) = rig.moving(&[1], "0").await;
    rig.handle.cancel_job(admin(), id.clone()).await.expect("it is ordered to end");
    set(&rig, Hold::Pause, true).await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, Some((Reason::Cancelled, 4096))))));
    rig.reaches(&id, JobState::Cancelled).await;
    let queued = rig.create(&[2], "0").await;
    rig.handle.cancel_job(admin(), queued.clone()).await.expect("it ends at once");
    rig.reaches(&queued, JobState::Cancelled).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_hold_is_by_itself_and_stays_as_it_is() {
    let dir = dir();
    let rig = Rig::at(&dir);
    let drained = set(&rig, Hold::Drain, true).await;
    assert_eq!(set(&rig, Hold::Drain, true).await, drained);
    let both = set(&rig, Hold::Pause, true).await;
    assert_eq!(both.drained, drained.drained);
    assert_eq!(set(&rig, Hold::Drain, false).await, Holds { drained: None, ..both });
    let id = rig.create(&[1], "0").await;
    let job = rig.handle.get_job(id.clone()).await.expect("it is there");
    assert_eq!(job.state_message, "waits: all moves are paused");
    assert_eq!(rig.only_listed().await.state_message, job.state_message);
    // A watcher is notified, too.
    let mut watch = rig.handle.watch_job(id).await.expect("it is there");
    watch.mark_unchanged();
    set(&rig, Hold::Drain, true).await;
    set(&rig, Hold::Pause, false).await;
    assert_eq!(watch.borrow_and_update().job.state_message, "waits: the daemon is drained");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_cannot_be_stored_has_not_begun() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let answer = rig.handle.set_hold(admin(), Hold::Drain, true).await;
    assert_refused!(answer, Refusal::StoreFull { .. });
    assert_eq!(rig.handle.status().await.expect("an answer").holds, Holds::default());
    rig.create(&[1], "0").await;
    rig.order().await;
    rig.kill().await;
}
