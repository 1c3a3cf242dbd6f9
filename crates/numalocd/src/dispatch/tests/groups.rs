//! Changes that wait together: they share one commit, all or none are made, and no watcher sees them before.

use super::{workloads::workload, *};
use crate::store::{DiskFault, Weight};
use numaloc_api::value::{
    CreateSchedule, ListSchedules, Page, Schedule, ScheduleFilter, ScheduleSpec, WorkloadSpec,
};

pub(super) fn commits(rig: &Rig) -> u64 {
    rig.commits.load(Relaxed)
}

/// Asks for changes in one go, before the dispatcher has its turn.
async fn together(rig: &Rig, pids: &[i32]) -> Vec<Result<JobId, Refusal>> {
    let asked = pids.iter().map(|&pid| {
        let (handle, nodes) = (rig.handle.clone(), pid.to_string());
        tokio::spawn(async move {
            let found = found(&[pid], &nodes);
            let made = handle.create_job(admin(), request(&[pid]), pins(&[pid]), found).await;
            made.map(|(job, _)| job.id.clone())
        })
    });
    let mut answers = Vec::new();
    for asked in asked.collect::<Vec<_>>() {
        answers.push(asked.await.expect("no panic"));
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn changes_that_wait_together_share_a_commit() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.handle.status().await.expect("it is there");
    let before = commits(&rig);
    let made = together(&rig, &(1..=50).collect::<Vec<_>>()).await;
    let mut ids: Vec<u64> = made.iter().map(|id| id.as_ref().unwrap().number().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=50).collect::<Vec<_>>());
    // One commit for all of them, and those of the jobs that begin.
    assert!(commits(&rig) - before <= 5, "{} commits", commits(&rig) - before);
    rig.kill().await;
}

#[tokio::test(start_paused = true)]
async fn those_of_a_group_see_each_other() {
    let dir = dir();
    let mut config = Config::default();
    config.quota.open_jobs = 3;
    let rig = Rig::with(&dir, config);
    // The same process twice, and one more than the quota.
    let made = together(&rig, &[1, 1, 2, 3, 4]).await;
    let refusals: Vec<_> = made.into_iter().filter_map(Result::err).collect();
    assert!(
        matches!(&refusals[..], [Refusal::Conflict { .. }, Refusal::Quota { .. }]),
        "{refusals:?}"
    );
    rig.kill().await;
}

/// If a group cannot be stored, none of its changes has happened. Later changes are as if it had never been asked for.
#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_stored_leaves_nothing_behind() {
    let dir = dir();
    let mut config = Config::default();
    config.queue.moves = 1;
    let mut rig = Rig::with(&dir, config);
    let (busy, control) = rig.moving(&[100], "100").await;
    rig.register(admin(), workload("a")).await.expect("it is taken");
    let spec = ScheduleSpec {
        migration: request(&[100]).spec,
        interval: Duration::from_secs(3600),
        paused: true,
        ..ScheduleSpec::default()
    };
    let asked = CreateSchedule { spec, request_id: Some("r".into()), ..CreateSchedule::default() };
    let before = snapshot(&rig).await;
    let watch = rig.handle.watch_job(busy.clone()).await.expect("it is known");
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let (handle, schedule) = (rig.handle.clone(), asked.clone());
    let create = async |pid: i32| {
        let found = found(&[pid], &pid.to_string());
        rig.handle.create_job(admin(), request(&[pid]), pins(&[pid]), found).await
    };
    // All are asked for before the dispatcher has its turn.
    let (paused, scheduled, dropped, first, second) = tokio::join!(
        handle.pause_job(admin(), busy.clone()),
        handle.create_schedule(admin(), schedule, pins(&[100])),
        rig.unregister(admin(), workload("a").id),
        create(1),
        create(2),
    );
    assert_refused!(paused, Refusal::StoreFull { .. });
    assert_refused!(scheduled, Refusal::StoreFull { .. });
    assert_refused!(dropped, Refusal::StoreFull { .. });
    for answer in [first, second] {
        assert_refused!(answer, Refusal::StoreFull { .. });
    }
    assert_eq!(snapshot(&rig).await, before);
    assert!(
        !watch.has_changed().expect("it continues"),
        "a watcher was told of what is not stored"
    );
    assert!(!control.cancel.load(std::sync::atomic::Ordering::Relaxed), "it was paused after all");
    // There is room again.
    let made = together(&rig, &[1]).await.remove(0).expect("it is taken");
    assert_eq!(made.number(), busy.number().map(|number| number + 1));
    let schedule = rig.handle.create_schedule(admin(), asked, pins(&[100])).await;
    assert_eq!(schedule.expect("it is taken").id.number(), Some(1));
    rig.kill().await;
}

/// An answer that follows from changes which are not stored must not name what does not exist.
#[tokio::test(start_paused = true)]
async fn a_refusal_for_what_is_not_stored_is_none() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.handle.status().await.expect("it is there");
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    // The second one is for the same process as the first one, which there is not in the end.
    for answer in together(&rig, &[1, 1]).await {
        assert_refused!(answer, Refusal::StoreFull { .. });
    }
    together(&rig, &[1]).await.remove(0).expect("nothing is in its way");
    rig.kill().await;
}

/// Clients whose changes wait together with a large one of another client do not pay for it.
#[tokio::test(start_paused = true)]
async fn a_large_change_fails_alone() {
    let dir = dir();
    let rig = Rig::at(&dir);
    rig.handle.status().await.expect("it is there");
    let large = |number: i32| WorkloadSpec {
        labels: (0..20).map(|label| (format!("l{label}"), "x".repeat(60))).collect(),
        ..workload(&number.to_string())
    };
    let large: Vec<_> = (0..1000).map(large).collect();
    assert!(large.weight() > 1 << 20);
    let create = async |pid: i32| {
        let found = found(&[pid], &pid.to_string());
        rig.handle.create_job(admin(), request(&[pid]), pins(&[pid]), found).await
    };
    let before = commits(&rig);
    (rig.fail)(DiskFault { after: 0, takes_effect: false, errno: nix::libc::ENOSPC });
    let set = async || rig.replace(admin(), None, large.clone()).await;
    let (declared, first, second) = tokio::join!(set(), create(1), create(2));
    assert_refused!(declared, Refusal::StoreFull { .. });
    first.expect("it is small");
    second.expect("it is small");
    assert_eq!(rig.workloads(Page { size: 1000, token: None }).await.expect("a list").entries, []);
    // Changes before a large one are stored before it, too.
    let (third, declared, fourth) = tokio::join!(create(3), set(), create(4));
    assert_eq!(declared.expect("there is room").written, 1000);
    let number = |made: Result<(Arc<Job>, bool), _>| made.expect("it is taken").0.id.number();
    assert_eq!((number(third), number(fourth)), (Some(3), Some(4)));
    assert!(commits(&rig) - before >= 5, "each has a commit of its own");
    rig.kill().await;
}

/// Everything that clients can read, as text.
async fn snapshot(rig: &Rig) -> String {
    let page = || Page { size: 100, token: None };
    let jobs = ListJobs { filter: JobFilter::default(), page: page() };
    let jobs = listed_jobs(&rig.handle.list::<Job>(jobs).await.expect("a list"));
    let schedules = ListSchedules { filter: ScheduleFilter::default(), page: page() };
    let schedules = rig.handle.list::<Schedule>(schedules).await.expect("a list").entries;
    let workloads = rig.workloads(page()).await.expect("a list").entries;
    let jobs: Vec<_> = jobs.iter().map(|job| (&job.id, job.state, job.wanted)).collect();
    format!("{jobs:?} {schedules:?} {workloads:?}")
}

/// Questions that wait behind changes are answered first, so they do not wait for the commit.
#[tokio::test(start_paused = true)]
async fn questions_do_not_wait_for_changes() {
    let dir = dir();
    let mut rig = Rig::at(&dir);
    let (id, _) = rig.moving(&[1], "0").await;
    let asked = async |job: JobId| rig.handle.get_job(job).await.expect("it is known");
    let (paused, before) =
        tokio::join!(rig.handle.pause_job(admin(), id.clone()), asked(id.clone()));
    assert_eq!(paused.expect("it is taken").wanted, Some(JobState::Paused));
    assert_eq!(before.wanted, None, "the question waited for the commit");
    assert_eq!(asked(id).await.wanted, Some(JobState::Paused));
    rig.kill().await;
}
