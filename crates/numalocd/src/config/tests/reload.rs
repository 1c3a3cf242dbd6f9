//! Bounds of the look at the host, and what a reload takes over.

use super::*;

#[test]
fn the_look_at_the_host_is_bounded() {
    check_fails(
        "[metrics.host]\ncpu = \"0\"",
        "2: metrics.host.cpu: 0 is out of range: 0.01% to 20%",
    );
    check_fails(
        "[metrics.host]\ncpu = \"x\"",
        "2: metrics.host.cpu: invalid value 'x': expected a percentage",
    );
    check_fails(
        "[metrics.host]\nperiod = \"1s\"",
        "2: metrics.host.period: 1s is out of range: 10s to 1d",
    );
    check_fails(
        "[metrics.host]\nseries = 0",
        "2: metrics.host.series: 0 is out of range: 1 to 1000",
    );
}

fn check_fails(text: &str, expected: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
}

#[test]
fn a_reload_keeps_what_takes_a_restart_and_says_so() {
    let old = config("[listen]\nsocket = \"/run/a\"\n[queue]\nmoves = 3");
    let new = config(
        "[listen]\nsocket = \"/run/b\"\nmode = \"0600\"\ngroup = \"root\"\n\
         tcp = \"127.0.0.1:1\"\nplain_loopback = true\n\
         [metrics]\nlisten = \"127.0.0.1:2\"\n[queue]\nmoves = 5\n[log]\nlevel = \"debug\"\n\
         [stop]\ngrace = \"2s\"\n[[grants]]\nuser = 1\nrole = \"viewer\"\n\
         [dsa]\nmanage_work_queue = true\ndevices = [\"dsa0\"]\n\
         [tiers]\norder = [\"0\", \"1\"]\n\
         [resctrl]\ngroup = \"numaloc\"\nmemory_bandwidth = \"20\"\nl3 = \"f\"\n\
         [quota]\nwatches = 9\n[calls]\ntimeout = \"9s\"\n[retention]\njobs = 9\n[limits]\nworkers = 9",
    );
    let (now, later) = reload(&old, new.clone());
    let (listen, dsa) = (old.listen.clone(), WorkQueues::default());
    let (tiers, resctrl) = (Tiers::default(), Resctrl::default());
    assert_eq!(now, Config { listen, metrics: None, dsa, tiers, resctrl, ..new.clone() });
    let keys: Vec<_> = later.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(
        keys,
        [
            "listen.socket",
            "listen.mode",
            "listen.group",
            "listen.tcp",
            "metrics.listen",
            "dsa.manage_work_queue",
            "dsa.devices",
            "tiers.order",
            "resctrl.group",
            "resctrl.memory_bandwidth",
            "resctrl.l3"
        ]
    );
    assert_eq!(
        later[1],
        "listen.mode stays 0660 until numalocd is restarted; the configuration file has 0600"
    );
    assert_eq!(reload(&old, old.clone()), (old.clone(), Vec::new()));
    let socket =
        |path: &str| Socket { path: path.into(), mode: 0o660, group: None, max_role: Role::Viewer };
    let mut more = old.clone();
    more.listen.sockets = vec![socket("/run/c/n")];
    let (now, later) = reload(&old, more.clone());
    let line = "listen.sockets stays unset until numalocd is restarted; the configuration file has /run/c/n (0660, \
                group unset, viewer at most)";
    assert_eq!((now.listen.sockets.len(), later), (0, vec![line.to_owned()]));
    // A reload takes over other TLS files. It switches TLS neither on nor off.
    let tls =
        |name: &str| Tls { certificate: name.into(), key: name.into(), client_ca: name.into() };
    let with = |tls| Config { listen: Listen { tls, ..old.listen.clone() }, ..old.clone() };
    let (now, later) = reload(&with(Some(tls("/a"))), with(Some(tls("/b"))));
    assert_eq!((now.listen.tls, later), (Some(tls("/b")), Vec::new()));
    for (before, after) in [(None, Some(tls("/a"))), (Some(tls("/a")), None)] {
        let (now, later) = reload(&with(before.clone()), with(after));
        assert_eq!((now.listen.tls, later.len()), (before, 1));
    }
}

/// A directory answers later than the daemon starts, and meanwhile an administrator writes something else.
#[test]
fn only_accounts_that_were_missing_are_taken_over_by_themselves() {
    let grant = |uid| Grant {
        to: Grantee::Uid(uid),
        role: Role::Viewer,
        cgroups: Vec::new(),
        files: Vec::new(),
        ceilings: Ceilings::default(),
    };
    let missing = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let last = Config {
        grants: vec![grant(1), grant(3)],
        missing_accounts: missing(&["a", "b"]),
        ..Config::default()
    };
    let found = Config {
        grants: vec![grant(1), grant(2), grant(3)],
        missing_accounts: missing(&["b"]),
        ..Config::default()
    };
    assert!(has_found_accounts(&last, &found));
    assert!(!has_found_accounts(&last, &last), "nothing was found");
    assert!(!has_found_accounts(&found, &last), "one is gone");
    let quota = Quota { watches: 9, ..Quota::default() };
    for other in [
        Config { quota, ..found.clone() },
        Config { grants: vec![grant(1), grant(2)], ..found.clone() },
        Config { grants: vec![grant(3), grant(2), grant(1)], ..found.clone() },
        Config { missing_accounts: missing(&["c"]), ..found.clone() },
    ] {
        assert!(!has_found_accounts(&last, &other), "{other:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(\\[{0,2}(listen|queue|grants|tls|limits)(\\.tls)?\\]{0,2}\n|[a-z_]{1,8} ?= ?[\"0-9a-z\\[\\]{}/:.]{0,12}\n|\\PC{0,10}\n){0,12}") {
        let _ = problems(&text);
    }
}
