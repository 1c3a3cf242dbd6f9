use super::client;
use crate::{
    access::{Authority, Caller, Client, Cohort, Quotas},
    config::{Config, Quota, Role},
    refusal::Refusal,
};
use proptest::prelude::*;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;

fn config(requests_per_second: u32, watches: usize) -> Arc<Config> {
    let quota = Quota { requests_per_second, watches, ..Quota::default() };
    Arc::new(Config { quota, ..Config::default() })
}

fn quotas(requests_per_second: u32, watches: usize) -> Quotas {
    Quotas::new(watch::channel(config(requests_per_second, watches)).1)
}

fn caller(name: &str) -> Caller {
    Caller {
        name: name.to_owned(),
        gid: None,
        role: Role::Viewer,
        authority: Authority::All,
        ceilings: crate::config::Ceilings::NONE,
    }
}

/// How long the refused caller is to wait.
fn wait(refused: Result<(), Refusal>) -> Option<Duration> {
    match refused {
        Err(Refusal::TooFast { retry_after, .. }) => Some(retry_after),
        _ => None,
    }
}

proptest! {
    /// In any period no more calls pass than the burst and what the rate adds meanwhile, and no fewer than an exact model lets
    /// pass.
    #[test]
    fn the_rate_is_kept(rate in 1_u32..50, gaps in prop::collection::vec(0_u64..200_000_000, 1..400)) {
        let (quotas, start) = (quotas(rate, 0), Instant::now());
        let (mut now, mut passed) = (0, Vec::new());
        // The model's tokens, in billionths of a call.
        let mut left = u128::from(rate) * 1_000_000_000;
        for gap in gaps {
            now += gap;
            left = (left + u128::from(gap) * u128::from(rate)).min(u128::from(rate) * 1_000_000_000);
            let admitted = quotas.admit(&client("a"), start + Duration::from_nanos(now)).is_ok();
            prop_assert_eq!(admitted, left >= 1_000_000_000);
            if admitted {
                left -= 1_000_000_000;
                passed.push(now);
            }
        }
        for (first, from) in passed.iter().enumerate() {
            for (last, until) in passed.iter().enumerate().skip(first) {
                let most = u64::from(rate) + (until - from) * u64::from(rate) / 1_000_000_000 + 1;
                prop_assert!((last - first + 1) as u64 <= most);
            }
        }
    }

    /// A caller that is refused and waits as long as the answer names passes then, however it called before.
    #[test]
    fn nobody_starves(rate in 1_u32..=u32::MAX, tries in 1_usize..200) {
        let (quotas, start) = (quotas(rate.min(150), 0), Instant::now());
        for _ in 0..tries {
            let _ = quotas.admit(&client("a"), start);
        }
        if let Some(wait) = wait(quotas.admit(&client("a"), start)) {
            prop_assert!(wait <= Duration::from_secs(1));
            prop_assert!(quotas.admit(&client("a"), start + wait - Duration::from_nanos(1)).is_err());
            prop_assert!(quotas.admit(&client("a"), start + wait).is_ok());
        }
    }

    /// No rate, no pause and no clock that runs backwards overflows.
    #[test]
    fn extremes_are_survived(rate: u32, later: u32, gaps: Vec<u32>) {
        let (sender, receiver) = watch::channel(config(rate, 0));
        let quotas = Quotas::new(receiver);
        let start = Instant::now();
        for gap in gaps {
            let _ = quotas.admit(&client("a"), start + Duration::from_secs(u64::from(gap)));
            let _ = quotas.admit(&client("a"), start);
            let _ = sender.send(config(later, 0));
        }
        let full = start + Duration::from_secs(1 << 33);
        prop_assert_eq!(quotas.admit(&client("a"), full).is_ok(), sender.borrow().quota.requests_per_second > 0);
    }
}

#[test]
fn callers_do_not_use_up_each_others_calls() {
    let (quotas, now) = (quotas(3, 0), Instant::now());
    for name in ["a", "b"] {
        for _ in 0..3 {
            assert_eq!(quotas.admit(&client(name), now), Ok(()));
        }
        assert_eq!(
            quotas.admit(&client(name), now),
            Err(Refusal::TooFast {
                limit: 3,
                caller: name.to_owned(),
                retry_after: Duration::from_nanos(333_333_334),
            })
        );
    }
}

#[test]
fn a_new_rate_holds_at_once() {
    let (sender, receiver) = watch::channel(config(100, 0));
    let (quotas, now) = (Quotas::new(receiver), Instant::now());
    assert_eq!(quotas.admit(&client("a"), now), Ok(()));
    sender.send(config(2, 0)).expect("it listens");
    let passed = (0..10).filter(|_| quotas.admit(&client("a"), now).is_ok()).count();
    assert_eq!(passed, 2);
}

#[test]
fn idle_callers_are_forgotten() {
    let (quotas, start) = (quotas(10, 1), Instant::now());
    let watcher = caller("watcher");
    let watching = quotas.watch(&watcher).expect("the first one");
    for number in 0..100_000_u64 {
        // A new caller each 10 ms, so that 100 of them have used something in any second.
        let now = start + Duration::from_millis(number * 10);
        quotas.admit(&client(&format!("caller {number}")), now).expect("its first call");
        assert!(quotas.remembered() <= 300, "{} after {number}", quotas.remembered());
    }
    assert!(quotas.watch(&watcher).is_err(), "who watches is not idle");
    drop(watching);
    assert_eq!(quotas.watches(), 0);
    assert!(quotas.watch(&watcher).is_ok());
}

#[test]
fn who_is_remembered_is_not_reset() {
    let (quotas, now) = (quotas(1, 0), Instant::now());
    assert_eq!(quotas.admit(&client("a"), now), Ok(()));
    for number in 0..1000 {
        quotas.admit(&client(&number.to_string()), now).expect("its first call");
    }
    assert!(quotas.admit(&client("a"), now).is_err());
}

#[test]
fn watches_are_given_back() {
    let quotas = quotas(1, 2);
    let (one, other) = (caller("a"), caller("b"));
    let first = quotas.watch(&one).expect("none yet");
    let _second = quotas.watch(&one).expect("one");
    let refused = Refusal::Quota { what: "watches", limit: 2, caller: "a".to_owned() };
    assert_eq!(quotas.watch(&one).err(), Some(refused));
    let _third = quotas.watch(&other).expect("others have their own");
    assert_eq!(quotas.watches(), 3);
    drop(first);
    let _fourth = quotas.watch(&one).expect("one was given back");
    assert_eq!(quotas.watches(), 3);
}

#[test]
fn many_threads_count_right() {
    let quotas = quotas(1, 1000);
    thread::scope(|scope| {
        for name in ["a", "b", "a", "b"] {
            let quotas = &quotas;
            scope.spawn(move || {
                for _ in 0..1000 {
                    let kept = quotas.watch(&caller(name)).expect("room");
                    assert!(quotas.watches() >= 1);
                    drop(kept);
                }
            });
        }
    });
    assert_eq!(quotas.watches(), 0);
}

#[test]
fn all_callers_together_have_so_many_watches_and_root_its_own() {
    let quotas = quotas(1000, 2);
    let watch = |name: &str| quotas.watch(&caller(name));
    let names: Vec<String> = (0..8).map(|number| format!("uid:{}", 70_000 + number / 2)).collect();
    let mut held: Vec<_> = names.iter().map(|name| watch(name).expect("there is room")).collect();
    let refused = watch("cert:a");
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 8, .. })), "{refused:?}");
    drop(watch("uid:0").expect("root waits for nobody"));
    held.pop();
    drop(watch("cert:a").expect("there is room again"));
}

/// Who may use many user ids is as many callers with one grant.
#[test]
fn members_of_one_group_have_twice_what_one_caller_has() {
    let (quotas, now) = (quotas(3, 2), Instant::now());
    let member = |uid: u32| Caller { gid: Some(8), ..caller(&format!("uid:{uid}")) };
    let passed = |uid| quotas.admit(&member(uid).client(), now).is_ok();
    assert_eq!((100_000..100_100).filter(|&uid| passed(uid)).count(), 6);
    let watching = |uid| quotas.watch(&member(uid));
    let held: Vec<_> = (100_000..100_100).filter_map(|uid| watching(uid).ok()).collect();
    assert_eq!(held.len(), 4);
    let refused = watching(200_000);
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 4, .. })), "{refused:?}");
    let other = caller("uid:70000");
    assert_eq!(quotas.admit(&other.client(), now), Ok(()));
    drop(quotas.watch(&other).expect("others have their own"));
    // Callers without a role have no quotas of their own beyond that.
    let without =
        |uid: u32| Client { name: format!("uid:{uid}"), cohort: Some(Cohort::WithoutRole) };
    let passed = (0..100).filter(|&uid| quotas.admit(&without(uid), now).is_ok()).count();
    assert_eq!(passed, 6);
    drop(held);
    drop(watching(200_000).expect("they were given back"));
}
