use super::{certificate, grant};
use crate::{
    access::{Authority, Caller, Ceilings, Grants, Peer, Role},
    config::{Grant, Grantee},
};
use proptest::prelude::*;

const NOTHING: Authority = Authority::Of { uid: None, cgroups: Vec::new() };

fn grants() -> Vec<Grant> {
    let cgroups = vec!["/web.slice".to_owned()];
    let ceilings = Ceilings::default();
    vec![
        grant(Grantee::Uid(1), Role::Viewer),
        Grant { to: Grantee::Uid(2), role: Role::Operator, cgroups: cgroups.clone(), ceilings },
        grant(Grantee::Uid(3), Role::Admin),
        Grant { to: Grantee::Gid(100), role: Role::Operator, cgroups: cgroups.clone(), ceilings },
        Grant { to: certificate("agent"), role: Role::Operator, cgroups, ceilings },
        grant(certificate("boss.example"), Role::Admin),
        grant(Grantee::Uid(4), Role::Admin),
    ]
}

fn who(peer: &Peer) -> Option<Caller> {
    Grants::new(&grants()).caller(peer)
}

fn user(uid: u32, groups: &[u32]) -> Peer {
    Peer::User { uid, groups: groups.to_vec() }
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
        (user(0, &[0]), "uid:0", None, Role::Admin, Authority::All),
        (user(1, &[1]), "uid:1", None, Role::Viewer, NOTHING),
        (user(1, &[100]), "uid:1", None, Role::Viewer, NOTHING),
        (user(2, &[2]), "uid:2", None, Role::Operator, web(Some(2))),
        (user(3, &[100]), "uid:3", None, Role::Admin, Authority::All),
        (user(4, &[50, 100, 4]), "uid:4", Some(100), Role::Operator, web(Some(4))),
        (user(4, &[4]), "uid:4", None, Role::Admin, Authority::All),
        (user(5, &[100]), "uid:5", Some(100), Role::Operator, web(Some(5))),
        (holder(&["agent"]), "cert:agent", None, Role::Operator, web(None)),
        (holder(&["x", "boss.example"]), "cert:boss.example", None, Role::Admin, Authority::All),
        (holder(&["boss.example", "agent"]), "cert:agent", None, Role::Operator, web(None)),
        (Peer::Plain, "tcp:plain", None, Role::Viewer, NOTHING),
    ];
    for (peer, name, gid, role, authority) in expected {
        let ceilings = if role == Role::Admin { Ceilings::NONE } else { Ceilings::default() };
        let caller = Caller { name: name.to_owned(), gid, role, authority, ceilings };
        assert_eq!(who(&peer), Some(caller), "{peer:?}");
    }
}

#[test]
fn who_has_no_grant_has_no_role() {
    let strangers = [
        user(5, &[5]),
        user(5, &[]),
        user(u32::MAX, &[u32::MAX]),
        holder(&[]),
        holder(&["uid:0", "0", "root", "uid:3", "Agent", "agent\0", "*", "*.example", ""]),
    ];
    for peer in strangers {
        assert_eq!(who(&peer), None, "{peer:?}");
    }
}

#[test]
fn a_creator_may_what_it_may_now() {
    let grants = grants();
    let now =
        |creator, gid| Grants::new(&grants).creator(creator, gid).map(|caller| caller.authority);
    assert_eq!(now("uid:0", None), Some(Authority::All));
    assert_eq!(now("uid:2", None), Some(web(Some(2))));
    assert_eq!(now("uid:5", Some(100)), Some(web(Some(5))));
    assert_eq!(now("cert:agent", None), Some(web(None)));
    assert_eq!(now("cert:boss.example", None), Some(Authority::All));
    let none =
        ["uid:1", "uid:5", "cert:uid:0", "cert:", "tcp:plain", "uid:", "uid:02", "uid:+2", ""];
    for creator in none {
        assert_eq!(now(creator, None), None, "{creator}");
    }
    assert_eq!(now("uid:5", Some(101)), None);
    assert_eq!(Grants::new(&[]).creator("uid:5", Some(100)), None);
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
    fn a_caller_is_who_it_was(
        uid in 0_u32..6,
        groups in prop::collection::vec(98_u32..102, 0..4),
        names in prop::collection::vec("(agent|boss.example|x)", 0..3),
    ) {
        for peer in [Peer::User { uid, groups }, Peer::Certificate { names }] {
            if let Some(caller) = who(&peer) {
                let now = Grants::new(&grants()).creator(&caller.name, caller.gid);
                prop_assert_eq!(now, (caller.role >= Role::Operator).then_some(caller));
            }
        }
    }
}
