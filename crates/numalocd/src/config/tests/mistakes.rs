//! Refused configurations, and the messages that name the mistakes.

use super::*;

#[test]
fn each_mistake_is_told_with_its_line_and_key() {
    let cases = [
        (
            "[queue]\nmove = 1",
            "2: queue.move: unknown field `move`, expected one of `moves`, `plans`,",
        ),
        ("\n[que]", "2: que: unknown field `que`, expected one of `listen`, `queue`,"),
        ("queue = 3", "1: queue: expected a table"),
        ("[queue]\nmoves = 0", "2: queue.moves: 0 is out of range: 1 to 256"),
        ("[queue]\nmoves = -1", "2: queue.moves: -1 is out of range"),
        ("[queue]\nmoves = 99999999999999999999", "2: queue.moves: 99999999999999999999 is out"),
        ("[queue]\nmoves = \"2\"", "2: queue.moves: expected a whole number from 1 to"),
        ("[queue]\nrate_bytes_per_second = 0", "2: queue.rate_bytes_per_second: 0 is out of range"),
        (
            "[mover]\nscheduling = \"fifo\"",
            "2: mover.scheduling: unknown policy of sched(7) 'fifo', expected one of",
        ),
        ("[mover]\nnice = -1", "2: mover.nice: -1 is out of range: 0 to 19"),
        ("[queue]\nmoves = 1.5", "2: queue.moves: expected a whole number"),
        ("[queue]\nmoves = 1\nmoves = 2", "3: not TOML: duplicate key"),
        ("[queue\nmoves = 1", "1: not TOML: "),
        ("[limits]\nbatch_bytes = \"1K\"", "2: limits.batch_bytes: 1K is out of range: 4096 to"),
        ("[limits]\nbatch_bytes = \"2G\"", "2: limits.batch_bytes: 2G is out of range"),
        (
            "[limits]\nbatch_bytes = \"16X\"",
            "2: limits.batch_bytes: invalid size '16X': expected a size such as",
        ),
        ("[limits]\ntimeout = \"0s\"", "2: limits.timeout: 0s is out of range"),
        ("[limits]\ntimeout = 30", "2: limits.timeout: expected a duration such as"),
        ("[limits]\nworkers = 257", "2: limits.workers: 257 is out of range: 1 to 256"),
        ("[quota]\nwatches = 0", "2: quota.watches: 0 is out of range"),
        ("[calls]\ntimeout = \"0s\"", "2: calls.timeout: 0s is out of range: 1s to 1h"),
        ("[calls]\nlong_timeout = \"2h\"", "2: calls.long_timeout: 2h is out of range"),
        ("[calls]\ntake_timeout = \"999ms\"", "2: calls.take_timeout: 999ms is out of range"),
        (
            "[retention]\nage = \"1w\"",
            "2: retention.age: invalid duration '1w': expected a duration such as",
        ),
        ("[retention]\njobs = 0", "2: retention.jobs: 0 is out of range"),
        ("[listen]\nmode = 660", "2: listen.mode: expected a mode in octal such as \"0660\""),
        ("[listen]\nmode = \"0999\"", "2: listen.mode: '0999' is not a valid mode"),
        ("[listen]\nmode = \"1660\"", "2: listen.mode: '1660' is not a valid mode"),
        ("[listen]\nmode = \"0440\"", "2: listen.mode: mode 0440 keeps the daemon itself out"),
        ("[listen]\ngroup = \"no such\"", "2: listen.group: group 'no such' does not exist here"),
        ("[listen]\nsocket = \"run/x\"", "2: listen.socket: 'run/x' is not an absolute path"),
        (
            "[listen]\nsocket = \"/run/../x\"",
            "2: listen.socket: '/run/../x' is not an absolute path",
        ),
        ("[listen]\nsocket = \"/\"", "2: listen.socket: '/' is not a valid path of a socket"),
        ("[listen]\ntcp = \"0.0.0.0:1\"", "2: listen.tcp: TCP needs TLS"),
        ("[listen]\ntcp = \"localhost:1\"", "2: listen.tcp: 'localhost:1' is not a valid address"),
        ("[listen]\ntcp = \"127.0.0.1:0\"", "2: listen.tcp: '127.0.0.1:0' is not a valid address"),
        (
            "[listen]\ntcp = \"10.0.0.1:1\"\nplain_loopback = true",
            "2: listen.tcp: 10.0.0.1:1 is not a loopback address",
        ),
        ("[listen]\nplain_loopback = true", "2: listen.plain_loopback: has no effect without"),
        (
            "[metrics]\nlisten = \"0.0.0.0:9464\"",
            "2: metrics.listen: 0.0.0.0:9464 is not a loopback",
        ),
        ("[log]\nlevel = \"inof\"", "2: log.level: 'inof' is not a valid log level"),
        ("[tiers]\norder = [\"0\", \"0-1\"]", "2: tiers.order: node 0 is in two tiers"),
        ("[dsa]\nmanage_work_queue = 1", "2: dsa.manage_work_queue: expected true or false"),
        ("[dsa]\ndevices = \"dsa0\"", "2: dsa.devices: expected a list"),
        (
            "[dsa]\ndevices = [\"iax1\"]",
            "2: dsa.devices: 'iax1' is not a valid DSA device: expected for example dsa0",
        ),
        ("[dsa]\ndevices = [\"dsa0\"]", "2: dsa.devices: has no effect without dsa.manage_"),
        (
            "[dsa]\nmanage = true",
            "2: dsa.manage: unknown field `manage`, expected `manage_work_queue` or `devices`",
        ),
        ("[stop]\ngrace = \"1h\"", "2: stop.grace: 1h is out of range"),
        ("grants = 1", "1: grants: expected a list"),
        ("grants = [1]", "1: grants[0]: expected a table"),
        ("[[grants]]\nuser = 1", "1: grants[0].role: missing"),
        (
            "[[grants]]\nrole = \"viewer\"",
            "1: grants[0]: a grant is for a user, group, certificate or spiffe",
        ),
        (
            "[[grants]]\nuser = 1\ngroup = 1\nrole = \"viewer\"",
            "1: grants[0]: a grant is for a user, group, certificate or spiffe",
        ),
        ("[[grants]]\nuser = 65534\nrole = \"viewer\"", "1: grants[0]: stands for all users that"),
        ("[[grants]]\ngroup = 65534\nrole = \"viewer\"", "1: grants[0]: stands for all users that"),
        ("[[listen.sockets]]\npath = \"/a/n\"", "1: listen.sockets[0]: missing field `max_role`"),
        ("[[listen.sockets]]\nmax_role = \"viewer\"", "1: listen.sockets[0]: missing field `path`"),
        (
            "[[listen.sockets]]\npath = \"/a/n\"\nmax_role = \"root\"",
            "3: listen.sockets[0].max_role: unknown variant `root`, expected one of `viewer`",
        ),
        (
            "[[listen.sockets]]\npath = \"a/n\"\nmax_role = \"viewer\"",
            "2: listen.sockets[0].path: 'a/n' is not an absolute path",
        ),
        (
            "[[listen.sockets]]\npath = \"/run/numaloc/n\"\nmax_role = \"viewer\"",
            "2: listen.sockets[0].path: there is another socket in this directory",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"root\"",
            "3: grants[0].role: unknown variant `root`, expected one of `viewer`",
        ),
        ("[[grants]]\nuser = 0\nrole = \"viewer\"", "1: grants[0]: root is always an admin"),
        (
            "[[grants]]\nuser = 4294967295\nrole = \"viewer\"",
            "2: grants[0].user: 4294967295 is out of range",
        ),
        (
            "[[grants]]\ncertificate = \"\"\nrole = \"viewer\"",
            "2: grants[0].certificate: a certificate's name",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"admin\"\ncgroups = [\"/a\"]",
            "4: grants[0].cgroups: cgroups widen what an operator",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"viewer\"\nnames = [\"a-\"]",
            "4: grants[0].names: names are kept for an operator",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"operator\"\nnames = [\"a/\"]",
            "4: grants[0].names: 'a/' is not a valid beginning of names",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"operator\"\nnames = [\"12\"]",
            "4: grants[0].names: '12' is not a valid beginning of names",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"admin\"\nceilings.workers = 2",
            "4: grants[0].ceilings: ceilings bound what an operator",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"operator\"\nceilings.profile = \"x\"",
            "4: grants[0].ceilings.profile: unknown profile 'x', expected one of gentle",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"operator\"\nceilings.qos_class = \"LS\"",
            "4: grants[0].ceilings.qos_class: unknown class 'LS', expected one of lsr",
        ),
        (
            "[[grants]]\nuser = 1\nrole = \"viewer\"\n[[grants]]\nuser = 1\nrole = \"admin\"",
            "4: grants[1]: an earlier grant",
        ),
    ];
    for (text, expect) in cases {
        check(text, expect);
    }
    for path in ["a", "", "/a/", "//a", "/a/../b", "/./a", "/a\\u0000", &"/a".repeat(3000)] {
        let text = format!("[[grants]]\nuser = 1\nrole = \"operator\"\ncgroups = [\"{path}\"]");
        check(&text, "4: grants[0].cgroups: '");
    }
}

#[test]
fn each_socket_has_a_directory_of_its_own() {
    let text = |paths: &[&str]| -> String {
        let each =
            |path: &&str| format!("[[listen.sockets]]\npath = \"{path}\"\nmax_role = \"viewer\"\n");
        "[listen]\nsocket = \"/run/n/n.sock\"\n".to_owned()
            + &paths.iter().map(each).collect::<String>()
    };
    for good in [&["/run/n/a/n.sock", "/run/n/b/n.sock"][..], &["/run/n/ab/s", "/run/n/a/s"]] {
        assert_eq!(config(&text(good)).listen.sockets.len(), good.len());
    }
    check(&text(&["/run/n/other.sock"]), "4: listen.sockets[0].path: there is another socket");
    check(&text(&["/run/other.sock"]), "4: listen.sockets[0].path: there is another socket");
    for second in ["/run/n/a/n.sock", "/run/n/a/m.sock", "/run/n/a/b/n.sock"] {
        let found = problems(&text(&["/run/n/a/n.sock", second]));
        let expect =
            "7: listen.sockets[1].path: there is another socket in this directory or below";
        assert!(found.len() == 1 && found[0].starts_with(expect), "{second}: {found:?}");
    }
}

#[test]
fn a_spiffe_id_has_the_form_of_the_standard() {
    let text = |id: &str| format!("[[grants]]\nspiffe = \"{id}\"\nrole = \"viewer\"");
    for good in ["spiffe://a", "spiffe://example.org/ns/web", "spiffe://a-b_c.1/A.b/_-9"] {
        assert_eq!(config(&text(good)).grants[0].to, Grantee::Spiffe(good.to_owned()));
    }
    let long = format!("spiffe://a/{}", "b".repeat(256));
    for bad in [
        "",
        "a",
        "spiffe://",
        "spiffe:///a",
        "spiffe://A/b",
        "spiffe://a/",
        "spiffe://a//b",
        "spiffe://a/..",
        "spiffe://a/b%20",
        "spiffe://a:1/b",
        "SPIFFE://a/b",
        "https://a/b",
        &long,
    ] {
        check(&text(bad), &format!("2: grants[0].spiffe: '{bad}' is not a valid SPIFFE ID"));
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_lines() {
    let found = problems(
        "[stop]\ngrace = 1\n[queue]\nmoves = 0\nspeed = 1\n[listen]\nmode = \"x\"\ntcp = \"1.1.1.1:1\"\n",
    );
    let begins: Vec<_> = found.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(
        begins,
        ["stop.grace:", "queue.moves:", "queue.speed:", "listen.mode:", "listen.tcp:"]
    );
}

#[test]
fn a_mistake_in_one_grant_hides_none_in_another() {
    let text = "[[grants]]\nuser = 4294967295\nrole = \"viewer\"\nname = 1\n\
                [[grants]]\nuser = 1\n[[grants]]\nrole = \"root\"\n";
    let found = problems(text);
    let begins = [
        "2: grants[0].user: 4294967295 is out of range",
        "4: grants[0].name: unknown field",
        "5: grants[1].role: missing",
        "7: grants[2]: a grant is for a user, group",
        "8: grants[2].role: unknown variant",
    ];
    let fits = found.iter().zip(begins).all(|(line, begin)| line.starts_with(begin));
    assert!(found.len() == begins.len() && fits, "{found:#?}");
}

#[test]
fn a_socket_path_leaves_room_for_the_name_while_it_is_made() {
    let path = |length: usize| format!("[listen]\nsocket = \"/{}\"", "a".repeat(length - 1));
    assert_eq!(config(&path(102)).listen.socket.as_os_str().len(), 102);
    check(&path(103), "2: listen.socket: longer than 102 bytes");
}

#[test]
fn tls_files_are_looked_into() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(at("cert"), certificate.pem()).unwrap();
    fs::write(at("key"), key.serialize_pem()).unwrap();
    fs::write(at("other"), rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    fs::write(at("text"), "not PEM").unwrap();
    let text = |certificate: &str, key: &str, ca: &str| {
        format!(
            "[listen]\ntcp = \"0.0.0.0:7430\"\n[listen.tls]\n\
             certificate = \"{}\"\nkey = \"{}\"\nclient_ca = \"{}\"",
            at(certificate),
            at(key),
            at(ca)
        )
    };
    let tls = config(&text("cert", "key", "cert")).listen.tls.unwrap();
    assert_eq!(tls.key.display().to_string(), at("key"));

    check(&text("missing", "key", "cert"), "4: listen.tls.certificate: ");
    check(&text("cert", "text", "cert"), "5: listen.tls.key: ");
    check(&text("cert", "cert", "cert"), "5: listen.tls.key: ");
    check(&text("cert", "key", "key"), "6: listen.tls.client_ca: ");
    check(&text("cert", "other", "cert"), "3: listen.tls: ");
    let whole = text("cert", "key", "cert");
    check(&whole.replace("tcp = ", "#"), "3: listen.tls: has no effect without listen.tcp");
    let at = |address: &str| format!("{whole}\n[metrics]\nlisten = \"{address}:9464\"");
    for (address, is_beyond) in [("127.0.0.1", false), ("10.0.0.1", true)] {
        let listen = config(&at(address)).metrics.unwrap();
        assert_eq!(listen.ip().is_loopback(), !is_beyond);
        // Keys are also allowed for metrics beyond loopback without TCP.
        let found = problems(&at(address).replace("tcp = ", "#"));
        assert_eq!(found.is_empty(), is_beyond, "{found:?}");
    }
    check(
        &whole.replace("[listen.tls]", "plain_loopback = true\n[listen.tls]"),
        "3: listen.plain_loopback: contradicts",
    );
    check("[listen]\ntcp = \"0.0.0.0:1\"\ntls = 1", "3: listen.tls: expected a table");
}
