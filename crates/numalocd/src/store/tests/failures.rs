//! A failed write changes nothing, and the next one works.

use super::*;
use crate::store::{StoreError, disk::InjectedFault};

/// Whether the commit with this fault failed. If so, checks that it left no trace, before and after opening the store
/// again.
fn fails(fault: InjectedFault) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(dir.path()).unwrap();
    store.commit(&[write_job(1), write_event(1)]).unwrap();
    store.opened.as_ref().unwrap().disk.fail(fault);
    let large = (2..200).map(|n| Write::Job(Arc::new(job(n, JobState::Running))));
    let writes: Vec<_> =
        large.chain([write_event(2), Write::DropJob(JobId::numbered(1))]).collect();
    let Err(error) = store.commit(&writes) else { return false };
    match error {
        StoreError::Full { .. } => assert!(is_full(fault.errno)),
        StoreError::Failed { .. } => assert!(!is_full(fault.errno)),
    }
    // Reading still works.
    assert_eq!(
        store.job(&JobId::numbered(1)).unwrap(),
        Some(job(1, JobState::Queued)),
        "{fault:?}"
    );
    assert_eq!(store.job(&JobId::numbered(2)).unwrap(), None, "{fault:?}");
    assert_eq!(read(&mut store, &[1, 2]), [event(1)], "{fault:?}");
    store.commit(&[write_job(300)]).unwrap();
    store.commit(&[write_job(301)]).unwrap();
    drop(store);
    assert_eq!(stored_jobs(dir.path()), [1, 300, 301], "{fault:?}");
    true
}

fn is_full(errno: i32) -> bool {
    [nix::libc::ENOSPC, nix::libc::EDQUOT].contains(&errno)
}

/// Each operation of a commit fails in turn, with and without taking effect, until no operation is left to fail.
#[test]
fn every_operation_of_a_commit_may_fail() {
    use nix::libc::{EDQUOT, EFBIG, EIO, ENOSPC};
    for (takes_effect, errno) in [(false, ENOSPC), (true, EIO), (false, EFBIG), (true, EDQUOT)] {
        let fault = |after| InjectedFault { after, takes_effect, errno };
        let failed = (0..).take_while(|&after| fails(fault(after))).count();
        assert!(failed > 5, "only {failed} operations");
    }
}
