use super::{certificate, grant};
use crate::{
    access::{Caller, Grants, Peer},
    config::{Ceilings, Config, Grant, Grantee, Listen, Role, Socket},
};
use numaloc_engine::Authority;
use proptest::prelude::*;

const NOTHING: Authority = Authority::NONE;

fn grants() -> Vec<Grant> {
    let cgroups = vec!["/web.slice".to_owned()];
    let ceilings = Ceilings::default();
    vec![
        grant(Grantee::Uid(1), Role::Viewer),
        Grant {
            to: Grantee::Uid(2),
            role: Role::Operator,
            cgroups: cgroups.clone(),
            files: Vec::new(),
            ceilings,
        },
        grant(Grantee::Uid(3), Role::Admin),
        Grant {
            to: Grantee::Gid(100),
            role: Role::Operator,
            cgroups: cgroups.clone(),
            files: Vec::new(),
            ceilings,
        },
        Grant {
            to: certificate("agent"),
            role: Role::Operator,
            cgroups,
            files: Vec::new(),
            ceilings,
        },
        grant(certificate("boss.example"), Role::Admin),
        grant(Grantee::Uid(4), Role::Admin),
        grant(Grantee::Uid(65_534), Role::Admin),
        grant(Grantee::Gid(65_534), Role::Admin),
        grant(Grantee::Spiffe("spiffe://test/agent".to_owned()), Role::Operator),
    ]
}

fn who(peer: &Peer) -> Option<Caller> {
    Grants::new(&grants()).caller(peer)
}

fn user(uid: u32, groups: &[u32]) -> Peer {
    Peer::User { uid, groups: groups.to_vec() }
}

fn holder(names: &[&str]) -> Peer {
    Peer::Certificate { names: names.iter().map(ToString::to_string).collect(), spiffe: None }
}

fn web(uid: Option<u32>) -> Authority {
    Authority::Of { uid, cgroups: vec!["/web.slice".to_owned()], files: Vec::new() }
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
        // Users and groups without an id here, such as those of other user namespaces.
        user(65_534, &[100]),
        user(5, &[65_534]),
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

#[test]
fn a_spiffe_id_is_the_name_of_who_has_it() {
    let peer = Peer::Certificate {
        names: vec!["x".to_owned()],
        spiffe: Some("spiffe://test/agent".to_owned()),
    };
    let caller = who(&peer).expect("it has a grant");
    assert_eq!((caller.name.as_str(), caller.role), ("spiffe://test/agent", Role::Operator));
    assert_eq!(Grants::new(&grants()).creator(&caller.name, None), Some(caller));
    assert_eq!(Grants::new(&grants()).creator("spiffe://test/other", None), None);
    assert_eq!(Grants::new(&grants()).creator("cert:spiffe://test/agent", None), None);
    assert_eq!(who(&holder(&["spiffe://test/agent"])), None);
}

/// A record made at an additional socket by a caller with a higher role elsewhere is never carried out with more rights
/// later.
#[test]
fn who_is_less_at_a_further_socket_is_another_one() {
    let at =
        |path: &str, max_role| Socket { path: path.into(), mode: 0o660, group: None, max_role };
    let with = |sockets| {
        let grants = grants().into_iter().chain([grant(certificate("me@/o/s"), Role::Operator)]);
        let listen = Listen { sockets, ..Listen::default() };
        Config { grants: grants.collect(), listen, ..Config::default() }
    };
    let config = with(vec![at("/v/s", Role::Viewer), at("/o/s", Role::Operator)]);
    let grants = Grants::from(&config);
    let [viewers, operators] = [0, 1].map(|index| config.listen.sockets.get(index));
    let caller = grants.caller_at(&user(0, &[0]), operators).expect("it has a role");
    let authority = Authority::Of { uid: Some(0), cgroups: Vec::new(), files: Vec::new() };
    let expected = Caller {
        name: "uid:0@/o/s".to_owned(),
        gid: None,
        role: Role::Operator,
        authority,
        ceilings: Ceilings::default(),
    };
    assert_eq!(caller, expected);
    assert_eq!(grants.creator("uid:0@/o/s", None), Some(expected));
    // With a grant to a group, the record keeps the group.
    let by_group = grants.caller_at(&user(5, &[100]), viewers).expect("it has a role");
    assert_eq!((by_group.name.as_str(), by_group.gid), ("uid:5@/v/s", Some(100)));
    assert_eq!((by_group.role, by_group.authority), (Role::Viewer, NOTHING));
    assert_eq!(grants.creator("uid:5@/v/s", Some(100)), None);
    // A peer whose role is not above the socket's keeps its name.
    for peer in [user(2, &[2]), user(1, &[1])] {
        assert_eq!(grants.caller_at(&peer, operators), grants.caller(&peer));
    }
    assert_eq!(grants.caller_at(&user(9, &[9]), operators), None);
    assert!(grants.creator("cert:me@/o/s", None).is_some(), "a name with @ is not a socket");
    // When the socket is removed, the creators of its records have no rights. When its upper role is raised, they are
    // other callers.
    for sockets in [Vec::new(), vec![at("/o/s", Role::Viewer)], vec![at("/o/s", Role::Admin)]] {
        assert_eq!(Grants::from(&with(sockets)).creator("uid:0@/o/s", None), None);
    }
}

proptest! {
    /// Whatever is in a certificate, it has the rights of a grant to a certificate or none, and never passes for a
    /// user.
    #[test]
    fn a_certificate_is_never_a_user(names in prop::collection::vec("(uid:[0-9]|agent|boss.example|[a-z:0.]{0,6})", 0..4)) {
        let peer = Peer::Certificate { names: names.clone(), spiffe: None };
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

    /// As long as nothing changes, the creator of a record has the same rights when the record is used as when it was
    /// made.
    #[test]
    fn a_caller_is_who_it_was(
        uid in 0_u32..6,
        groups in prop::collection::vec(98_u32..102, 0..4),
        names in prop::collection::vec("(agent|boss.example|x)", 0..3),
    ) {
        for peer in [Peer::User { uid, groups }, Peer::Certificate { names, spiffe: None }] {
            if let Some(caller) = who(&peer) {
                let now = Grants::new(&grants()).creator(&caller.name, caller.gid);
                prop_assert_eq!(now, (caller.role >= Role::Operator).then_some(caller));
            }
        }
    }
}
