//! Jobs and events that are read from the store, beside the dispatcher.

use super::*;
use numaloc_api::value::{EventFilter, EventType};

/// Reading them may take long. The other calls of this test would wait for it forever if the dispatcher read them.
#[tokio::test(start_paused = true)]
async fn ended_jobs_and_old_events_are_read_beside_the_dispatcher() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (small, _) = rig.moving(&[1], "0").await;
    let of_one = outcome(4096, None);
    rig.report(EngineReport::Ended(small.clone(), Ok(of_one.clone())));
    rig.reaches(&small, JobState::Succeeded).await;
    let (ended, _) = rig.moving(&[1], "0").await;
    let processes = vec![of_one.outcome.processes[0].clone(); 1000];
    let of_many = Arc::new(Outcome { processes, ..(*of_one.outcome).clone() });
    rig.report(EngineReport::Ended(ended.clone(), Ok(Ended { outcome: of_many, ..of_one })));
    rig.reaches(&ended, JobState::Succeeded).await;
    rig.stop().await;
    let rig = Rig::at(&dir);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let turns = [(); 2].map(|()| {
        let (handle, held) = (rig.handle.clone(), held.clone());
        let wait = move || Ok(held.lock().recv().is_err());
        tokio::spawn(async move { handle.reading().take(wait).await })
    });
    while rig.handle.reading().free() > 0 {
        tokio::task::yield_now().await;
    }
    let [get, watch] = [rig.handle.clone(), rig.handle.clone()];
    let id = ended.clone();
    let get = tokio::spawn(async move { get.get_job(id).await });
    let watch = tokio::spawn(async move { watch.watch_job(ended).await });
    let old = rig.handle.clone();
    let old = tokio::spawn(async move { old.events_after(EventFilter::default(), 0, 10).await });
    let open = rig.create(&[2], "0").await;
    assert_eq!(rig.handle.get_job(open).await.expect("it is there").creator, "uid:0");
    let small = rig.handle.get_job(small).await.expect("it is there");
    assert!(small.outcome.is_some(), "a small one is read at once");
    assert!(!get.is_finished() && !watch.is_finished() && !old.is_finished());
    drop(release);
    for turn in turns {
        assert_eq!(turn.await.expect("no panic"), Ok(true));
    }
    let whole = get.await.expect("no panic").expect("it is there");
    assert!(whole.plan.is_some() && whole.outcome.is_some());
    let watched = watch.await.expect("no panic").expect("it is there");
    assert_eq!(decoded(&watched.borrow().encoded()), whole);
    let (old, _) = old.await.expect("no panic").expect("they are there");
    assert_eq!(old[0].kind, EventType::Completed);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn new_events_are_not_read_from_the_store() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1], "0").await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    let read = || rig.handle.whole_events_after(EventFilter::default(), 0, 10);
    let (first, _) = read().await.expect("they are there");
    let (second, _) = read().await.expect("they are there");
    assert!(std::ptr::eq(first[0].as_ref(), second[0].as_ref()), "all who watch share one");
    rig.stop().await;
}

/// A failed read closes the database, and only the dispatcher may open it again.
#[tokio::test(start_paused = true)]
async fn a_failed_read_is_tried_again_by_the_dispatcher() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1], "0").await;
    rig.report(EngineReport::Ended(id.clone(), Ok(outcome(4096, None))));
    rig.reaches(&id, JobState::Succeeded).await;
    let fault = DiskFault { after: 0, takes_effect: false, errno: nix::libc::EIO };
    (rig.fail)(fault);
    let failed = rig.handle.create_job(admin(), request(&[2]), pins(&[2]), found(&[2], "0")).await;
    assert!(failed.is_err(), "the disk does not fail");
    let whole = rig.handle.get_job(id).await.expect("it is there");
    assert!(whole.outcome.is_some());
    rig.stop().await;
}
