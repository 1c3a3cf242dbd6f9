//! Offload as the engine receives it, and the events when it fails, or cannot be prepared.

use super::*;
use numaloc_api::value::{Event, EventFilter, EventType, Policy};
use numaloc_core::{Offload, OffloadUse};
use numaloc_dma::{Dma, kernel::Settings};

async fn create(rig: &Rig, owner: &Caller, pid: i32, offload: Offload) -> JobId {
    let mut asked = request(&[pid]);
    asked.spec.policy = Policy { offload, ..Policy::default() };
    let made = rig.handle.create_job(owner.clone(), asked, pins(&[pid]), found(&[pid], "0")).await;
    made.expect("it is taken").0.id.clone()
}

async fn events(rig: &Rig) -> Vec<Arc<Event>> {
    let filter = EventFilter { types: vec![EventType::OffloadFailed], ..EventFilter::default() };
    rig.handle.events_after(filter, 0, 10).await.expect("events").0
}

#[tokio::test(start_paused = true)]
async fn an_order_says_what_is_asked_for_and_allowed() {
    let dir = dir();
    let rules = Dma::Enabled(Settings { polling: true, channels_max: Some(2) });
    let of = |uid, offload| Grant {
        to: Grantee::Uid(uid),
        role: Role::Operator,
        cgroups: vec!["/".to_owned()],
        files: Vec::new(),
        ceilings: Ceilings { offload, ..Ceilings::default() },
    };
    let grants = vec![of(7, true), of(1000, false)];
    let mut rig = Rig::with(&dir, Config { offload: rules, grants, ..Config::default() });
    for (pid, (name, offload, is_granted)) in (1..).zip([
        ("uid:0", Offload::Require, true),
        ("uid:7", Offload::Off, true),
        ("uid:1000", Offload::Auto, false),
    ]) {
        let owner = caller(name, Role::Operator);
        let id = create(&rig, &owner, pid, offload).await;
        let order = rig.order().await;
        assert_eq!((&order.job, order.run.offload.policy), (&id, offload));
        assert_eq!(
            (order.run.offload.rules, order.run.offload.is_granted),
            (rules, is_granted),
            "{name}"
        );
        rig.report(EngineReport::Planned(
            id.clone(),
            Err(Refusal::TargetNotFound { message: "x".into() }),
        ));
        rig.reaches(&id, JobState::Failed).await;
    }
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_fails_is_an_event_and_a_refusal_is_none() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let reason = "failed: an engine could not copy 3 folios".to_owned();
    let given_up = OffloadUse { used: true, failed: true, reason, ..OffloadUse::default() };
    let refused = OffloadUse { reason: "unavailable: none".into(), ..OffloadUse::default() };
    let mut failed = None;
    for (pid, offload) in [(1, Some(refused)), (2, None), (3, Some(given_up))] {
        let (id, _) = rig.moving(&[pid], "0").await;
        let Ended { outcome, members, trail } = outcome(4096, None);
        let outcome = Arc::new(Outcome { offload, ..Outcome::clone(&outcome) });
        rig.report(EngineReport::Ended(id.clone(), Ok(Ended { outcome, members, trail })));
        rig.reaches(&id, JobState::Succeeded).await;
        failed = Some(id);
    }
    let events = events(&rig).await;
    assert_eq!((events.len(), &events[0].job), (1, &failed));
    assert!(events[0].message.contains("3 folios; copied by CPU"), "{events:?}");
    let job = rig.handle.get_job(failed.expect("a job")).await.expect("it is there");
    assert!(job.outcome.as_ref().expect("an outcome").offload.as_ref().expect("told").failed);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_there_is_to_tell_of_the_host_is_told_once() {
    let dir = dir();
    let line = "dsa0: no work queue is set up: another program has enabled it".to_owned();
    let news = vec![(EventType::DsaQueueFailed, line.clone())];
    let rig = Rig::telling(&dir, Config::default(), SystemTime::now, news);
    let all = || rig.handle.events_after(EventFilter::default(), 0, 10);
    let (events, _) = all().await.expect("events");
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.kind, &event.message), (EventType::DsaQueueFailed, &line));
    let about = (&event.job, &event.schedule, event.creator.as_str(), &event.target);
    assert_eq!(about, (&None, &None, "", &Target::default()));
    rig.stop().await;
    // It can be read again, and the next start has no news.
    let rig = Rig::at(&dir);
    let (again, _) = rig.handle.events_after(EventFilter::default(), 0, 10).await.expect("events");
    assert_eq!(again, events);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn news_waits_until_it_can_be_stored() {
    let dir = dir();
    let news = vec![(EventType::DsaQueueFailed, "dsa0: no".to_owned())];
    let rig = Rig::telling(&dir, Config::default(), SystemTime::now, news);
    // The first commit is that of the news: nothing else was asked for.
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let told = async {
        loop {
            let found = rig.handle.events_after(EventFilter::default(), 0, 10).await;
            if found.is_ok_and(|(events, _)| events.len() == 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is told");
    rig.stop().await;
}
