//! Stores of earlier versions, which had no bound for open jobs.

use super::*;
use crate::store::Weight;
use numaloc_api::value::{MemberResult, MemberState};

/// A queued job whose target has `count` members in this state.
fn queued(number: u64, count: i32, state: MemberState) -> Job {
    let member = |pid| {
        let named = Target { pids: [pid].into(), ..Target::default() };
        MemberResult::left_out(named, state, "no process has it".to_owned())
    };
    Job { members: (1..=count).map(member).collect(), ..job(number, JobState::Queued) }
}

#[test]
fn open_jobs_that_are_too_large_by_now_are_read_without_what_can_be_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    // More than 128 MiB together, as they were in memory: mostly members that are there.
    let (missing, there) = (MemberState::Missing, MemberState::Waiting);
    let jobs =
        (1..=70).map(|number| queued(number, 4000, if number > 2 { there } else { missing }));
    let whole: usize = jobs.clone().map(|job| job.weight()).sum();
    assert!(whole > 128 << 20, "{whole}");
    for job in jobs {
        store.commit(&[Write::Job(Arc::new(job))]).unwrap();
    }
    drop(store);
    let (mut store, contents) = Store::open(dir.path()).unwrap();
    let weight: usize = contents.jobs.iter().map(|kept| kept.job.weight()).sum();
    assert!(weight < 129 << 20, "{weight}");
    assert_eq!(contents.jobs.len(), 70);
    for kept in &contents.jobs {
        assert_eq!(kept.job.members.len() + kept.job.more_members, 4000, "{}", kept.job.id);
    }
    let counts = |at: usize| contents.jobs[at].job.members.len();
    assert_eq!((counts(0), counts(2), counts(69)), (Job::LEFT_OUT, 4000, 0));
    assert_eq!(contents.jobs[69].job.spec, migration());
    // The file has the whole job until it changes.
    assert_eq!(store.job(&JobId::numbered(70)).unwrap().unwrap().members.len(), 4000);
}
