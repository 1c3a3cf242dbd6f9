use super::{certificate, grant};
use crate::{
    access::{Authority, Caller, Grants, Peer, Role, Users},
    config::{Grant, Grantee},
};
use proptest::prelude::*;
use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

const NOTHING: Authority = Authority::Of { uid: None, cgroups: Vec::new() };

fn grants() -> Vec<Grant> {
    let cgroups = vec!["/web.slice".to_owned()];
    vec![
        grant(Grantee::Uid(1), Role::Viewer),
        Grant { to: Grantee::Uid(2), role: Role::Operator, cgroups: cgroups.clone() },
        grant(Grantee::Uid(3), Role::Admin),
        Grant { to: Grantee::Gid(100), role: Role::Operator, cgroups: cgroups.clone() },
        Grant { to: certificate("agent"), role: Role::Operator, cgroups },
        grant(certificate("boss.example"), Role::Admin),
        grant(Grantee::Uid(4), Role::Admin),
    ]
}

/// User 4 is in group 100 by the user database.
fn groups(uid: u32) -> Arc<[u32]> {
    if uid == 4 { Arc::new([50, 100]) } else { Arc::default() }
}

fn who(peer: &Peer) -> Option<Caller> {
    Grants::new(&grants(), &groups).caller(peer)
}

fn user(uid: u32, gid: u32) -> Peer {
    Peer::User { uid, gid: Some(gid) }
}

fn holder(names: &[&str]) -> Peer {
    Peer::Certificate { names: names.iter().map(ToString::to_string).collect() }
}

fn web(uid: Option<u32>) -> Authority {
    Authority::Of { uid, cgroups: vec!["/web.slice".to_owned()] }
}

#[test]
fn the_first_grant_that_fits_decides() {
    let expected = [
        (user(0, 0), "uid:0", Role::Admin, Authority::All),
        (user(1, 1), "uid:1", Role::Viewer, NOTHING),
        (user(1, 100), "uid:1", Role::Viewer, NOTHING),
        (user(2, 2), "uid:2", Role::Operator, web(Some(2))),
        (user(3, 100), "uid:3", Role::Admin, Authority::All),
        (user(4, 4), "uid:4", Role::Operator, web(Some(4))),
        (user(5, 100), "uid:5", Role::Operator, web(Some(5))),
        (holder(&["agent"]), "cert:agent", Role::Operator, web(None)),
        (holder(&["x", "boss.example"]), "cert:boss.example", Role::Admin, Authority::All),
        (holder(&["boss.example", "agent"]), "cert:agent", Role::Operator, web(None)),
        (Peer::Plain, "tcp:plain", Role::Viewer, NOTHING),
    ];
    for (peer, name, role, authority) in expected {
        let caller = Caller { name: name.to_owned(), role, authority };
        assert_eq!(who(&peer), Some(caller), "{peer:?}");
    }
}

#[test]
fn who_has_no_grant_has_no_role() {
    let strangers = [
        user(5, 5),
        user(u32::MAX, u32::MAX),
        holder(&[]),
        holder(&["uid:0", "0", "root", "uid:3", "Agent", "agent\0", "*", "*.example", ""]),
    ];
    for peer in strangers {
        assert_eq!(who(&peer), None, "{peer:?}");
    }
}

#[test]
fn a_creator_has_the_authority_of_now() {
    let grants = grants();
    let now = Grants::new(&grants, &groups);
    assert_eq!(now.authority("uid:0"), Some(Authority::All));
    assert_eq!(now.authority("uid:2"), Some(web(Some(2))));
    assert_eq!(now.authority("uid:4"), Some(web(Some(4))));
    assert_eq!(now.authority("cert:agent"), Some(web(None)));
    assert_eq!(now.authority("cert:boss.example"), Some(Authority::All));
    let none =
        ["uid:1", "uid:5", "cert:uid:0", "cert:", "tcp:plain", "uid:", "uid:02", "uid:+2", ""];
    for creator in none {
        assert_eq!(now.authority(creator), None, "{creator}");
    }
    assert_eq!(Grants::new(&[], &groups).authority("uid:2"), None);
}

#[test]
fn the_user_database_is_asked_only_when_it_matters() {
    let asked = Cell::new(0);
    let count = |_| {
        asked.set(asked.get() + 1);
        Arc::default()
    };
    let two = [grant(Grantee::Gid(7), Role::Viewer), grant(Grantee::Gid(8), Role::Viewer)];
    assert!(Grants::ask_groups(&two));
    assert!(Grants::new(&two, &count).caller(&user(1, 7)).is_some());
    assert!(Grants::new(&two, &count).caller(&user(0, 0)).is_some());
    assert_eq!(asked.get(), 0);
    assert!(Grants::new(&two, &count).caller(&user(1, 1)).is_none());
    assert_eq!(asked.get(), 1, "once for both groups");
    assert!(!Grants::ask_groups(&[grant(Grantee::Uid(1), Role::Viewer)]));
}

#[tokio::test]
async fn answers_of_the_user_database_are_kept_for_seconds() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let users = Users::new(move |uid| {
        count.fetch_add(1, Ordering::Relaxed);
        vec![uid + 1]
    });
    let start = Instant::now();
    for passed in [0, 1, 4] {
        let now = start + Duration::from_secs(passed);
        assert_eq!(*users.groups(7, now), [8]);
        assert_eq!(*users.find(7, now).await, [8]);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert_eq!(*users.find(7, start + Duration::from_secs(5)).await, [8]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    for uid in 0..10_000 {
        assert_eq!(*users.groups(uid, start), [uid + 1]);
    }
}

#[test]
fn the_host_knows_the_groups_of_root_and_not_those_of_strangers() {
    let users = Users::of_host();
    assert!(users.groups(0, Instant::now()).contains(&0));
    assert!(users.groups(u32::MAX - 7, Instant::now()).is_empty());
}

proptest! {
    /// Whatever is in a certificate, it has the rights of a grant to a certificate or none, and never passes for a user.
    #[test]
    fn a_certificate_is_never_a_user(names in prop::collection::vec("(uid:[0-9]|agent|boss.example|[a-z:0.]{0,6})", 0..4)) {
        let peer = Peer::Certificate { names: names.clone() };
        let caller = who(&peer);
        prop_assert_eq!(
            caller.is_some(),
            names.iter().any(|name| name == "agent" || name == "boss.example")
        );
        if let Some(caller) = caller {
            prop_assert!(caller.name.starts_with("cert:"));
            let of_user = matches!(caller.authority, Authority::Of { uid: Some(_), .. });
            prop_assert!(!of_user);
        }
    }

    /// What was granted when a record was made is granted when it is used, as long as nothing changes.
    #[test]
    fn a_caller_keeps_its_authority(uid in 0_u32..6, names in prop::collection::vec("(agent|boss.example|x)", 0..3)) {
        for peer in [Peer::User { uid, gid: None }, Peer::Certificate { names }] {
            if let Some(caller) = who(&peer) {
                let kept = Grants::new(&grants(), &groups).authority(&caller.name);
                prop_assert_eq!(kept, (caller.role >= Role::Operator).then_some(caller.authority));
            }
        }
    }
}
