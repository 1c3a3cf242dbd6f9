use super::*;
use crate::{result::account::Reason, samples};
use proptest::{collection::vec, prelude::*, sample::select};

const HERE: Identity = Identity { pid: 7, start_time: 1 };

/// An account that closes, with arbitrary amounts.
fn accounts() -> impl Strategy<Value = Account> {
    let amount = || 0..1u64 << 40;
    let left = vec((select(&Reason::ALL[..]), amount()), 0..6);
    (amount(), amount(), amount(), left).prop_map(|(moved, back, vanished, left)| {
        let mut account = Account::default();
        account.found(moved + back + vanished);
        account.moved(moved);
        account.moved_back(back);
        account.vanished(vanished);
        for (reason, bytes) in left {
            account.found(bytes);
            account.left(reason, bytes);
        }
        account
    })
}

fn process(pid: i32, account: Account) -> ProcessOutcome {
    let identity = Identity { pid, ..HERE };
    ProcessOutcome { identity, comm: "a".into(), account, error: None }
}

#[test]
fn numbers_of_workers_add_up() {
    let (one, ms) = (samples::calls(), Duration::from_millis);
    let mut sum =
        CallStats { calls: 1, cache_stop: Some(CacheStop::Stuck), ..CallStats::default() };
    sum.add(&one);
    let after_one = CallStats { calls: 37, cache_stop: Some(CacheStop::Stuck), ..one };
    assert_eq!(sum, after_one, "the first reason stays");
    sum.add(&CallStats { longest: ms(5), ..one });
    let expected = CallStats {
        calls: 73,
        addresses: 286_720,
        retried_addresses: 24,
        hinted_addresses: 6,
        total: ms(360),
        times: [22, 0, 8, 12, 0, 26, 4, 0, 0, 0, 0, 0, 0],
        over_stall: 4,
        rested: ms(60),
        held_back: ms(80),
        huge_page_wait: ms(40),
        split_huge_pages: 10,
        failed_pages: 14,
        cache_bytes: 200 << 20,
        reclaims: 18,
        compactions: 2,
        compaction_wait: ms(16),
        exchanged_bytes: 96 << 20,
        sampled_bytes: 600 << 20,
        ..after_one
    };
    assert_eq!(sum, expected);
}

#[test]
fn accounts_of_all_processes_make_a_total() {
    let moved = |bytes| {
        let mut account = Account::default();
        account.found(bytes);
        account.moved(bytes);
        account
    };
    let total = ProcessOutcome::total(&[process(7, moved(3)), process(8, moved(4))]);
    assert_eq!((total.found_bytes(), total.moved_bytes()), (7, 7));
}

proptest! {
    #[test]
    fn joined_accounts_close_and_count_nothing_twice(first in accounts(), next in accounts()) {
        let joined = first.continued_by(&next);
        prop_assert!(joined.closes(), "{joined:?}");
        prop_assert_eq!(joined.moved_bytes(), first.moved_bytes() + next.moved_bytes());
        prop_assert_eq!(joined.left_for(Reason::Cancelled), next.left_for(Reason::Cancelled));
        prop_assert_eq!(joined.left_for(Reason::Pinned), next.left_for(Reason::Pinned));
        prop_assert_eq!(joined.moved_back_bytes(), next.moved_back_bytes());
        let settled = first.moved_bytes() + first.vanished_bytes() + first.left_for(Reason::ProcessGone);
        prop_assert_eq!(joined.found_bytes(), settled + next.found_bytes());
        let ended = first.ended();
        prop_assert!(ended.closes() && ended.left_for(Reason::Cancelled) == 0);
        prop_assert_eq!(ended.found_bytes(), first.found_bytes());
    }

    #[test]
    fn every_call_is_in_one_bucket(micros in vec(0..3_000_000u64, 0..50)) {
        let mut stats = CallStats::default();
        micros.iter().for_each(|&time| stats.record(2, Duration::from_micros(time)));
        let longer = micros.iter().filter(|&&time| time > 1_000_000).count() as u64;
        prop_assert_eq!(stats.times.iter().sum::<u64>(), stats.calls);
        prop_assert_eq!(stats.times[12], longer);
        prop_assert_eq!(stats.addresses, 2 * stats.calls);
    }
}

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    let mut stats = CallStats::default();
    stats.record(1, Duration::from_micros(100));
    stats.record(1, Duration::from_nanos(100_001));
    assert_eq!(stats.times[..3], [1, 1, 0]);
}

#[test]
fn processes_are_joined_by_identity() {
    let mut cancelled = Account::default();
    cancelled.found(10);
    cancelled.moved(4);
    cancelled.left(Reason::Cancelled, 6);
    let mut whole = Account::default();
    whole.found(6);
    whole.moved(6);
    let refused = |account| ProcessOutcome { error: Some("no".into()), ..process(1, account) };
    let first = [refused(cancelled.clone()), process(2, cancelled.clone())];
    let reused = ProcessOutcome {
        identity: Identity { pid: 2, start_time: 9 },
        ..process(2, whole.clone())
    };
    let joined = ProcessOutcome::continued_by(&first, &[reused.clone(), process(1, whole)]);
    assert_eq!(joined.len(), 3);
    assert_eq!(joined[0].account.moved_bytes(), 10);
    assert_eq!((joined[0].account.found_bytes(), joined[0].error.as_deref()), (10, Some("no")));
    assert_eq!(joined[1].account.left_for(Reason::ProcessGone), 6);
    assert_eq!(joined[2], reused);
    assert!(ProcessOutcome::total(&joined).closes());
}
