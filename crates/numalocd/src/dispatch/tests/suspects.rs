//! Work that daemons have ended with: it waits longer each time, and other work does not.

use super::{
    schedules::{MINUTE, get, schedule, spec},
    *,
};
use numaloc_api::value::{OnInterrupt, ScheduleId, ScheduleState};
use tokio::time::Instant;

/// The next probe, and how long it took to come.
async fn probe(rig: &mut Rig) -> (Probe, Duration) {
    let begin = Instant::now();
    (rig.probes.recv().await.expect("a probe"), begin.elapsed())
}

/// Answers probes of other schedules until that of `of` comes, and says how long that took.
async fn waits_for(rig: &mut Rig, of: &ScheduleId) -> Duration {
    let begin = Instant::now();
    loop {
        let (Probe { schedule, etag, .. }, _) = probe(rig).await;
        if schedule == *of {
            return begin.elapsed();
        }
        let found = Err(Refusal::TargetNotFound { message: "gone".to_owned() });
        rig.probed.send(ProbeAnswer { schedule, etag, found }).expect("it listens");
    }
}

/// The answer for one of two schedules never comes: the daemon dies.
#[tokio::test(start_paused = true)]
async fn a_schedule_whose_probe_ends_the_daemon_holds_up_no_other() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let [bad, good] = [schedule(&rig, spec(MINUTE)).await, schedule(&rig, spec(MINUTE)).await];
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(waits_for(&mut rig, &bad).await.as_secs());
        rig.kill().await;
        rig = Rig::at(&dir);
    }
    assert_eq!(waits, [0, 0, 10, 20, 40]);
    let took = waits_for(&mut rig, &good).await;
    assert!(took < Duration::from_secs(11), "{took:?}");
    assert_eq!(get(&rig, &good).await.state, ScheduleState::TargetGone);
    rig.kill().await;
}

/// When a schedule is first looked at after each of some starts, if the daemon dies each time.
async fn waits(dir: &TempDir, starts: usize) -> Vec<u64> {
    let mut waits = Vec::new();
    for _ in 0..starts {
        let mut rig = Rig::at(dir);
        waits.push(probe(&mut rig).await.1.as_secs());
        rig.kill().await;
    }
    waits
}

#[tokio::test(start_paused = true)]
async fn the_waits_double_and_an_answer_ends_them() {
    let dir = dir();
    let rig = Rig::at(&dir);
    schedule(&rig, spec(MINUTE)).await;
    rig.stop().await;
    assert_eq!(waits(&dir, 6).await, [0, 0, 10, 20, 40, 80]);
    let mut rig = Rig::at(&dir);
    let (Probe { schedule, etag, .. }, _) = probe(&mut rig).await;
    let found = Err(Refusal::TargetNotFound { message: "gone".to_owned() });
    rig.probed.send(ProbeAnswer { schedule, etag, found }).expect("it listens");
    tokio::time::sleep(Duration::from_millis(1)).await;
    rig.stop().await;
    assert_eq!(waits(&dir, 3).await, [0, 0, 10]);
}

/// A stop in order, with a probe under way, is not a reason to wait.
#[tokio::test(start_paused = true)]
async fn a_stop_counts_for_nothing() {
    let dir = dir();
    let rig = Rig::at(&dir);
    schedule(&rig, spec(MINUTE)).await;
    rig.stop().await;
    for _ in 0..4 {
        let mut rig = Rig::at(&dir);
        let (_, took) = probe(&mut rig).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        rig.stop().await;
    }
}

/// A job that was planned when the daemon died is planned again, but not for ever.
#[tokio::test(start_paused = true)]
async fn a_job_with_which_the_daemon_ends_again_and_again_fails() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut resumed = request(&[1]);
    resumed.spec.policy.on_interrupt = OnInterrupt::Resume;
    let made = rig.handle.create_job(admin(), resumed, pins(&[1]), found(&[1], "0")).await;
    let id = made.expect("it is taken").0.id.clone();
    for ends in 0..3 {
        let order = rig.order().await;
        assert_eq!(order.job, id, "after {ends} ends");
        rig.kill().await;
        rig = Rig::at(&dir);
    }
    let job = rig.reaches(&id, JobState::Failed).await;
    assert!(job.state_message.contains("has ended 3 times"), "{}", job.state_message);
    rig.assert_no_order().await;
    rig.kill().await;
}
