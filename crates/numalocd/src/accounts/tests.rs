use super::*;
use crate::{config::Quota, refusal::Refusal};
use proptest::prelude::*;
use std::thread;

fn config(requests_per_second: u32, watches: usize) -> Arc<Config> {
    let quota = Quota { requests_per_second, watches, ..Quota::default() };
    Arc::new(Config { quota, ..Config::default() })
}

fn accounts(requests_per_second: u32, watches: usize) -> Accounts {
    Accounts::new(watch::channel(config(requests_per_second, watches)).1)
}

fn client(name: &str) -> Client {
    Client { name: name.to_owned(), cohort: None }
}

fn member(name: &str, cohort: Cohort) -> Client {
    Client { cohort: Some(cohort), ..client(name) }
}

/// Time that the refused caller is to wait.
fn wait(refused: Result<(), Refusal>) -> Option<Duration> {
    match refused {
        Err(Refusal::TooFast { retry_after, .. }) => Some(retry_after),
        _ => None,
    }
}

proptest! {
    /// In any period no more calls pass than the burst and what the rate adds meanwhile, and no fewer than an exact
    /// model lets pass.
    #[test]
    fn the_rate_is_kept(rate in 1_u32..50, gaps in prop::collection::vec(0_u64..200_000_000, 1..400)) {
        let (accounts, start) = (accounts(rate, 0), Instant::now());
        let (mut now, mut passed) = (0, Vec::new());
        // The model's tokens, in billionths of a call.
        let mut left = u128::from(rate) * 1_000_000_000;
        for gap in gaps {
            now += gap;
            left = (left + u128::from(gap) * u128::from(rate)).min(u128::from(rate) * 1_000_000_000);
            let admitted = accounts.admit(&client("a"), start + Duration::from_nanos(now)).is_ok();
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
        let (accounts, start) = (accounts(rate.min(150), 0), Instant::now());
        for _ in 0..tries {
            let _ = accounts.admit(&client("a"), start);
        }
        if let Some(wait) = wait(accounts.admit(&client("a"), start)) {
            prop_assert!(wait <= Duration::from_secs(1));
            prop_assert!(accounts.admit(&client("a"), start + wait - Duration::from_nanos(1)).is_err());
            prop_assert!(accounts.admit(&client("a"), start + wait).is_ok());
        }
    }

    /// No rate, no pause and no clock that runs backwards overflows.
    #[test]
    fn extremes_are_survived(rate: u32, later: u32, gaps: Vec<u32>) {
        let (sender, receiver) = watch::channel(config(rate, 0));
        let accounts = Accounts::new(receiver);
        let start = Instant::now();
        for gap in gaps {
            let _ = accounts.admit(&client("a"), start + Duration::from_secs(u64::from(gap)));
            let _ = accounts.admit(&client("a"), start);
            let _ = sender.send(config(later, 0));
        }
        let full = start + Duration::from_secs(1 << 33);
        prop_assert_eq!(accounts.admit(&client("a"), full).is_ok(), sender.borrow().quota.requests_per_second > 0);
    }
}

#[test]
fn callers_do_not_use_up_each_others_calls() {
    let (accounts, now) = (accounts(3, 0), Instant::now());
    for name in ["a", "b"] {
        for _ in 0..3 {
            assert_eq!(accounts.admit(&client(name), now), Ok(()));
        }
        assert_eq!(
            accounts.admit(&client(name), now),
            Err(Refusal::TooFast {
                what: "calls per second",
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
    let (accounts, now) = (Accounts::new(receiver), Instant::now());
    assert_eq!(accounts.admit(&client("a"), now), Ok(()));
    sender.send(config(2, 0)).expect("it listens");
    let passed = (0..10).filter(|_| accounts.admit(&client("a"), now).is_ok()).count();
    assert_eq!(passed, 2);
}

#[test]
fn idle_callers_are_forgotten() {
    let (accounts, start) = (accounts(10, 1), Instant::now());
    let watcher = client("watcher");
    let watching = accounts.watch(&watcher).expect("the first one");
    for number in 0..100_000_u64 {
        // A new caller each 10 ms, so that 100 of them have used something in any second.
        let now = start + Duration::from_millis(number * 10);
        accounts.admit(&client(&format!("caller {number}")), now).expect("its first call");
        assert!(accounts.remembered() <= 300, "{} after {number}", accounts.remembered());
    }
    assert!(accounts.watch(&watcher).is_err(), "who watches is not idle");
    drop(watching);
    assert_eq!(accounts.held(Resource::Watches), 0);
    assert!(accounts.watch(&watcher).is_ok());
}

#[test]
fn who_is_remembered_is_not_reset() {
    let (accounts, now) = (accounts(1, 0), Instant::now());
    assert_eq!(accounts.admit(&client("a"), now), Ok(()));
    for number in 0..1000 {
        accounts.admit(&client(&number.to_string()), now).expect("its first call");
    }
    assert!(accounts.admit(&client("a"), now).is_err());
}

#[test]
fn watches_are_given_back() {
    let accounts = accounts(1, 2);
    let (one, other) = (client("a"), client("b"));
    let first = accounts.watch(&one).expect("none yet");
    let _second = accounts.watch(&one).expect("one");
    let refused = Refusal::Quota { what: "watches", limit: 2, caller: "a".to_owned() };
    assert_eq!(accounts.watch(&one).err(), Some(refused));
    let _third = accounts.watch(&other).expect("others have their own");
    assert_eq!(accounts.held(Resource::Watches), 3);
    drop(first);
    let _fourth = accounts.watch(&one).expect("one was given back");
    assert_eq!(accounts.held(Resource::Watches), 3);
}

#[test]
fn many_threads_count_right() {
    let accounts = accounts(1, 1000);
    thread::scope(|scope| {
        for name in ["a", "b", "a", "b"] {
            let accounts = &accounts;
            scope.spawn(move || {
                for _ in 0..1000 {
                    let kept = accounts.watch(&client(name)).expect("room");
                    assert!(accounts.held(Resource::Watches) >= 1);
                    drop(kept);
                }
            });
        }
    });
    assert_eq!(accounts.held(Resource::Watches), 0);
}

#[test]
fn all_callers_together_have_so_many_watches_and_root_its_own() {
    let accounts = accounts(1000, 2);
    let watch = |name: &str| accounts.watch(&client(name));
    let names: Vec<String> = (0..8).map(|number| format!("uid:{}", 70_000 + number / 2)).collect();
    let mut held: Vec<_> = names.iter().map(|name| watch(name).expect("there is room")).collect();
    let refused = watch("cert:a");
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 8, .. })), "{refused:?}");
    drop(watch("uid:0").expect("root waits for nobody"));
    held.pop();
    drop(watch("cert:a").expect("there is room again"));
}

/// A user with many user ids is many callers with one grant.
#[test]
fn members_of_one_group_have_twice_what_one_caller_has() {
    let (accounts, now) = (accounts(3, 2), Instant::now());
    let member = |uid: u32| member(&format!("uid:{uid}"), Cohort::Group(8));
    let passed = |uid| accounts.admit(&member(uid), now).is_ok();
    assert_eq!((100_000..100_100).filter(|&uid| passed(uid)).count(), 6);
    let watching = |uid| accounts.watch(&member(uid));
    let held: Vec<_> = (100_000..100_100).filter_map(|uid| watching(uid).ok()).collect();
    assert_eq!(held.len(), 4);
    let refused = watching(200_000);
    assert!(matches!(&refused, Err(Refusal::Quota { limit: 4, .. })), "{refused:?}");
    let other = client("uid:70000");
    assert_eq!(accounts.admit(&other, now), Ok(()));
    drop(accounts.watch(&other).expect("others have their own"));
    // Callers without a role have no quotas of their own beyond that.
    let without =
        |uid: u32| Client { name: format!("uid:{uid}"), cohort: Some(Cohort::WithoutRole) };
    let passed = (0..100).filter(|&uid| accounts.admit(&without(uid), now).is_ok()).count();
    assert_eq!(passed, 6);
    drop(held);
    drop(watching(200_000).expect("they were given back"));
}

/// With twenty users of each kind the others get in.
#[test]
fn users_that_are_very_many_get_two_parts_together() {
    let accounts = Accounts::with_connections(64);
    let all_of = |client: &Client| -> Vec<HeldShare> {
        std::iter::from_fn(|| accounts.take(client, Resource::Connections, 1).ok()).collect()
    };
    let held = |cohort, from: u32| -> Vec<HeldShare> {
        let users = (from..from + 20).map(|uid| member(&format!("uid:{uid}"), cohort));
        users.flat_map(|user| all_of(&user)).collect()
    };
    let strangers = held(Cohort::WithoutRole, 1_000);
    let members = held(Cohort::Group(7), 2_000);
    assert_eq!((strangers.len(), members.len()), (16, 16));
    assert_eq!(all_of(&client("uid:7")).len(), 8, "a user with a grant of its own");
    assert_eq!(all_of(&client("192.0.2.1")).len(), 8, "an address");
    let others: Vec<_> =
        (70_000..70_010).flat_map(|uid| all_of(&client(&format!("uid:{uid}")))).collect();
    assert_eq!(others.len(), 64 - 32, "all together");
    assert_eq!(all_of(&client("uid:0")).len(), 16, "root");
    drop((strangers, members, others));
    assert_eq!(
        (accounts.held(Resource::Connections), accounts.remembered()),
        (0, 0),
        "who has left is remembered"
    );
}

#[test]
fn root_and_the_daemons_own_user_are_not_the_same_client_and_both_the_host() {
    let own = format!("uid:{}", nix::unistd::geteuid());
    assert!(is_host_name("uid:0") && is_host_name(&own));
    for other in ["uid:4294967294", "uid:0@/run/n.sock", "cert:uid:0", "0"] {
        assert!(!is_host_name(other), "{other}");
    }
}

/// Operators need not search for it: the problem names the client with the most.
#[test]
fn a_bound_of_all_that_refuses_is_a_problem_for_some_minutes() {
    let accounts = accounts(1000, 2);
    let now = Instant::now();
    let take = |client: &Client| accounts.take(client, Resource::Watches, 1);
    let mut held = Vec::new();
    for uid in 0..3 {
        held.extend(take(&member(&format!("uid:{}", 70_000 + uid), Cohort::Group(7))));
    }
    for uid in [80_000, 80_000, 80_001, 80_001] {
        held.extend(take(&client(&format!("uid:{uid}"))));
    }
    assert_eq!(accounts.problems(now), [""; 0]);
    held.extend(take(&member("uid:70001", Cohort::Group(7))));
    assert!(take(&member("uid:70001", Cohort::Group(7))).is_err(), "its own bound");
    assert_eq!(accounts.problems(now), [""; 0], "a bound of some is no problem of all");
    assert!(take(&client("uid:80002")).is_err(), "all have 8");
    let problems = accounts.problems(now);
    assert!(
        matches!(&problems[..], [one] if one.contains("their 8 watches") && one.contains("of them by gid:7") && one.contains("quota.watches")),
        "{problems:?}"
    );
    assert_eq!(accounts.largest(Resource::Watches, now), Some(("gid:7".to_owned(), 4)));
    let bounds = Bound::ALL.map(|bound| accounts.refused(Resource::Watches, bound));
    assert_eq!(bounds, [1, 0, 1]);
    let later = now + Duration::from_secs(600);
    assert_eq!(accounts.problems(later), [""; 0]);
    assert_eq!(accounts.largest(Resource::Watches, later), None);
}

/// The written bytes are known only afterwards: the next change waits for them.
#[test]
fn who_has_written_much_waits_and_others_and_root_do_not() {
    let quota = Quota { written_bytes_per_minute: 6 << 20, ..Quota::default() };
    let config = Arc::new(Config { quota, ..Config::default() });
    let (accounts, start) = (Accounts::new(watch::channel(config).1), Instant::now());
    let one = client("uid:70000");
    let mut written = 0;
    while accounts.check_written(&one, start).is_ok() {
        accounts.charge_written(&one, 1 << 20, start);
        written += 1;
    }
    assert_eq!(written, 7);
    let late = wait(accounts.check_written(&one, start)).expect("it waits");
    assert_eq!(late, Duration::from_secs(10), "for 1 MiB of 6 a minute");
    assert!(accounts.check_written(&one, start + late / 2).is_err());
    assert_eq!(accounts.check_written(&one, start + late), Ok(()));
    assert_eq!(accounts.check_written(&client("uid:70001"), start), Ok(()));
    // All together have four times as much, and root is not asked.
    let (accounts, mut written) = (Accounts::new(accounts.config.clone()), 0);
    for uid in 0..10 {
        let other = client(&format!("uid:{}", 80_000 + uid));
        while accounts.check_written(&other, start).is_ok() {
            accounts.charge_written(&other, 1 << 20, start);
            written += 1;
        }
    }
    assert_eq!(written, 25);
    assert!(accounts.problems(start)[0].contains("bytes written per minute"));
    accounts.charge_written(&client("uid:0"), 1 << 40, start);
    assert_eq!(accounts.check_written(&client("uid:0"), start), Ok(()));
    let later = start + Duration::from_secs(70);
    assert_eq!(accounts.check_written(&client("uid:90000"), later), Ok(()));
}

#[test]
fn a_share_grows_and_shrinks_with_what_it_is_for() {
    let accounts = Accounts::default();
    let one = client("uid:70000");
    let mut watching = accounts.watch(&one).expect("the first");
    assert_eq!(watching.keep(10 << 20), Ok(()));
    assert_eq!(watching.keep(1 << 20), Ok(()));
    assert_eq!(accounts.held(Resource::Kept), 1 << 20);
    assert!(watching.keep(17 << 20).is_err(), "more than one client may keep");
    assert_eq!(accounts.held(Resource::Kept), 1 << 20, "a refusal has changed something");
    drop(watching);
    assert_eq!((accounts.held(Resource::Kept), accounts.remembered()), (0, 0));
}
