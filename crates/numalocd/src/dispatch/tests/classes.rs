//! Effects of classes and the configuration on jobs under way.

use super::*;
use crate::dispatch::queue::makes_room;
use numaloc_api::value::QosClass;
use std::sync::atomic::Ordering::Relaxed;

use QosClass::{Be, Ls, Lsr};

#[test]
fn best_effort_makes_room_for_all_others_and_for_nobody_else() {
    for (own, active, yields) in [
        (Be, vec![Be], false),
        (Be, vec![Be, Be], false),
        (Be, vec![Be, Ls], true),
        (Be, vec![Lsr, Be], true),
        (Ls, vec![Ls, Lsr, Be], false),
        (Lsr, vec![Lsr, Ls], false),
    ] {
        assert_eq!(makes_room(own, &active), yields, "{own:?} among {active:?}");
    }
}

async fn create(rig: &Rig, pid: i32, qos_class: QosClass) -> JobId {
    let mut request = request(&[pid]);
    request.spec.policy.qos_class = Some(qos_class);
    let node = pid.to_string();
    let created = rig.handle.create_job(admin(), request, pins(&[pid]), found(&[pid], &node)).await;
    created.expect("it is taken").0.id.clone()
}

/// Waits until the dispatcher has done all its work.
async fn settled(rig: &Rig) {
    rig.handle.status().await.expect("it is there");
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn best_effort_waits_from_the_planning_of_others_to_their_end() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let best_effort = create(&rig, 1, Be).await;
    let order = rig.order().await;
    rig.planned(&order, &[1], "1");
    let control = told(order).await;
    settled(&rig).await;
    assert!(!control.yielding.load(Relaxed), "nobody else is there");

    let mut watch = rig.handle.watch_job(best_effort.clone()).await.unwrap();
    let other = create(&rig, 2, Ls).await;
    let order = rig.order().await;
    settled(&rig).await;
    assert!(control.yielding.load(Relaxed), "while the other is planned");
    assert!(!order.run.control.yielding.load(Relaxed));
    // Watchers are notified, although no byte has been settled since.
    let seen = watch.wait_for(|now| held_back(now).contains("class"));
    tokio::time::timeout(Duration::from_secs(9), seen).await.expect("they are told").unwrap();
    let listed = rig.handle.get_job(best_effort.clone()).await.unwrap();
    assert!(!listed.progress.as_ref().unwrap().held_back.is_empty());

    rig.planned(&order, &[2], "2");
    told(order).await;
    settled(&rig).await;
    assert!(control.yielding.load(Relaxed), "while it moves");
    rig.report(EngineReport::Ended(other.clone(), Ok(outcome(4096, None))));
    rig.reaches(&other, JobState::Succeeded).await;
    settled(&rig).await;
    assert!(!control.yielding.load(Relaxed), "after its end");
    let seen = watch.wait_for(|now| held_back(now).is_empty());
    tokio::time::timeout(Duration::from_secs(9), seen).await.expect("they are told").unwrap();
    rig.stop().await;
}

/// The reason why a watched job is held back, by the progress that watchers are shown.
fn held_back(now: &crate::dispatch::JobNow) -> String {
    now.whole().progress.clone().expect("it moves").held_back
}

#[tokio::test(start_paused = true)]
async fn no_record_keeps_what_held_a_job_back() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let id = create(&rig, 1, Be).await;
    let order = rig.order().await;
    rig.planned(&order, &[1], "1");
    let control = told(order).await;
    create(&rig, 2, Lsr).await;
    let _other = rig.order().await;
    settled(&rig).await;
    assert!(!control.held_back().is_empty());
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    let ended = rig.reaches(&id, JobState::Succeeded).await;
    assert_eq!(ended.progress.as_ref().unwrap().held_back, "");
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_share_the_rate_that_holds_when_they_begin() {
    let dir = dir();
    let mut config = Config::default();
    (config.queue.moves, config.queue.plans) = (4, 4);
    config.queue.rate_bytes_per_second = Some(1 << 30);
    let mut rig = Rig::with(&dir, config.clone());
    let mut orders = Vec::new();
    for pid in 1..=2 {
        create(&rig, pid, Ls).await;
        orders.push(rig.order().await);
    }
    let [first, second] = &orders[..] else { panic!("two orders") };
    assert!(first.run.limits.shared_rate.is_some());
    assert_eq!(first.run.limits.shared_rate, second.run.limits.shared_rate, "one for both");
    assert!(first.run.limits.rooms.is_some());
    assert_eq!(first.run.limits.rooms, second.run.limits.rooms, "one for all");
    assert_eq!(first.run.limits.rate_bytes_per_second, None, "no bound of its own");

    config.queue.rate_bytes_per_second = Some(1 << 20);
    rig.config.send_replace(Arc::new(config.clone()));
    create(&rig, 3, Be).await;
    let third = rig.order().await;
    assert!(third.run.limits.shared_rate.is_some());
    assert_ne!(third.run.limits.shared_rate, first.run.limits.shared_rate, "another rate");
    assert_eq!(third.run.limits.rate_bytes_per_second, Some(1 << 19), "best effort has half of it");

    config.queue.rate_bytes_per_second = None;
    rig.config.send_replace(Arc::new(config));
    create(&rig, 4, Ls).await;
    assert_eq!(rig.order().await.run.limits.shared_rate, None);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn best_effort_is_put_back_for_a_job_that_waits_for_its_node() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut asked = request(&[1]);
    asked.spec.policy.qos_class = Some(Be);
    let made = rig.handle.create_job(admin(), asked, pins(&[1]), found(&[1], "0")).await;
    let best_effort = made.expect("it is taken").0.id.clone();
    let order = rig.order().await;
    rig.planned(&order, &[1], "0");
    let control = told(order).await;
    let urgent = rig.create(&[2], "0").await;
    settled(&rig).await;
    assert!(control.cancel.load(Relaxed), "it continues though another waits");
    rig.assert_no_order().await;
    let left = Some((Reason::Cancelled, 4096));
    rig.report(EngineReport::Ended(best_effort.clone(), Ok(outcome(4096, left))));
    let order = rig.order().await;
    assert_eq!(order.job, urgent);
    rig.reaches(&best_effort, JobState::Queued).await;
    rig.planned(&order, &[2], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(urgent, Ok(outcome(4096, None))));
    // The best-effort job continues where it was. Its outcome accounts for both runs.
    let order = rig.order().await;
    assert_eq!(order.job, best_effort);
    rig.planned(&order, &[1], "0");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(best_effort.clone(), Ok(outcome(4096, None))));
    rig.reaches(&best_effort, JobState::Succeeded).await;
    let job = rig.handle.get_job(best_effort).await.expect("it is known");
    assert_eq!(job.outcome.as_ref().expect("an outcome").account().moved_bytes(), 8192);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_much_does_not_keep_others_waiting() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    for pid in 1..=4 {
        create(&rig, pid, Ls).await;
    }
    let order = rig.order().await;
    let second = rig.order().await;
    let made = rig.handle.create_job(operator(), request(&[9]), pins(&[9]), found(&[9], "9")).await;
    let other = made.expect("it is taken").0.id.clone();
    rig.planned(&order, &[1], "1");
    order.go.await.expect("it is ordered to move");
    rig.report(EngineReport::Ended(order.job, Ok(outcome(4096, None))));
    assert_eq!(rig.order().await.job, other, "two of the first one's come before it");
    drop(second);
    rig.kill().await;
}

/// Creates a job of the operator; the other jobs are the admin's.
async fn create_of_another(rig: &Rig, pid: i32, node: &str) -> JobId {
    let (request, found) = (request(&[pid]), found(&[pid], node));
    let made = rig.handle.create_job(operator(), request, pins(&[pid]), found).await;
    made.expect("it is taken").0.id.clone()
}

#[tokio::test(start_paused = true)]
async fn slow_jobs_take_turns_with_those_of_others() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (first, _) = rig.moving(&[1], "1").await;
    let (_, second) = rig.moving(&[2], "2").await;
    let other = create_of_another(&rig, 3, "3").await;
    rig.assert_no_order().await;
    // Both have moved for a whole slice. One of them makes room.
    tokio::time::sleep(Duration::from_secs(121)).await;
    settled(&rig).await;
    assert!(!second.cancel.load(Relaxed), "one of them is enough");
    let left = Some((Reason::Cancelled, 4096));
    rig.report(EngineReport::Ended(first.clone(), Ok(outcome(4096, left))));
    let order = rig.order().await;
    assert_eq!(order.job, other, "it waits for days");
    let waits = rig.reaches(&first, JobState::Queued).await;
    assert!(waits.state_message.contains("turn of others"), "{}", waits.state_message);
    rig.planned(&order, &[3], "3");
    told(order).await;
    rig.assert_no_order().await;
    // The first job continues once the other one is done.
    rig.report(EngineReport::Ended(other, Ok(outcome(4096, None))));
    let order = rig.order().await;
    assert_eq!(order.job, first, "it does not continue");
    drop(order);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_look_keeps_nobody_from_moving() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    let (slow, quick) = (rig.create(&[1], "1").await, create_of_another(&rig, 2, "2").await);
    let (slow_order, order) = (rig.order().await, rig.order().await);
    assert_eq!((&slow_order.job, &order.job), (&slow, &quick));
    rig.planned(&order, &[2], "2");
    told(order).await;
    // The slow job is planned now. It keeps its plan until there is a place to move.
    rig.planned(&slow_order, &[1], "1");
    settled(&rig).await;
    let waits = rig.handle.get_job(slow.clone()).await.expect("it is known");
    assert_eq!(waits.state, JobState::Planning);
    assert!(waits.state_message.contains("limit of moving jobs"), "{}", waits.state_message);
    rig.report(EngineReport::Ended(quick, Ok(outcome(4096, None))));
    told(slow_order).await;
    rig.reaches(&slow, JobState::Running).await;
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_place_is_cancelled_and_held_at_once() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    for (hold, state) in [(false, JobState::Cancelled), (true, JobState::Paused)] {
        let (one, other) = (rig.create(&[1], "1").await, rig.create(&[2], "2").await);
        let orders = [rig.order().await, rig.order().await];
        rig.planned(&orders[0], &[1], "1");
        rig.planned(&orders[1], &[2], "2");
        let [moves, waits] = orders;
        told(moves).await;
        settled(&rig).await;
        if hold {
            rig.handle.pause_job(admin(), other.clone()).await
        } else {
            rig.handle.cancel_job(admin(), other.clone()).await
        }
        .expect("it is under way");
        rig.reaches(&other, state).await;
        assert!(waits.go.await.is_err(), "it moves all the same");
        rig.report(EngineReport::Ended(one, Ok(outcome(4096, None))));
        rig.assert_no_order().await;
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_what_waits_for_a_place() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    let (one, other) = (rig.create(&[1], "1").await, rig.create(&[2], "2").await);
    let orders = [rig.order().await, rig.order().await];
    rig.planned(&orders[0], &[1], "1");
    rig.planned(&orders[1], &[2], "2");
    settled(&rig).await;
    rig.handle.stop().await;
    // If the end of the first job came in before the stop, the other job would move.
    settled(&rig).await;
    rig.report(EngineReport::Ended(one, Ok(outcome(4096, None))));
    let begin = tokio::time::Instant::now();
    rig.task.await.expect("it ends");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let rig = Rig::at(&dir);
    let job = rig.handle.get_job(other).await.expect("it is known");
    assert!(!job.state.is_end(), "{:?}", job.state);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_all_legs() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let mut asked = request(&[1]);
    asked.spec.limits.timeout = Some(Duration::from_secs(60));
    let made = rig.handle.create_job(admin(), asked, pins(&[1]), found(&[1], "1")).await;
    let id = made.expect("it is taken").0.id.clone();
    for (left, elapsed) in [(60_000, 45), (15_000, 30), (1, 0)] {
        let order = rig.order().await;
        assert_eq!(order.run.limits.timeout, Some(Duration::from_millis(left)));
        rig.planned(&order, &[1], "1");
        told(order).await;
        rig.handle.pause_job(admin(), id.clone()).await.expect("it is under way");
        let Ended { outcome, members, trail } = outcome(4096, Some((Reason::Cancelled, 4096)));
        let elapsed = Duration::from_secs(elapsed);
        let outcome = Arc::new(Outcome { elapsed, ..Outcome::clone(&outcome) });
        rig.report(EngineReport::Ended(id.clone(), Ok(Ended { outcome, members, trail })));
        rig.reaches(&id, JobState::Paused).await;
        rig.handle.resume_job(admin(), id.clone()).await.expect("it is paused");
    }
    rig.kill().await;
}
