use super::*;
use numaloc_dma::kernel::Settings;
use proptest::prelude::*;
use std::fs;

/// The problems of a text, one string each.
fn problems(text: &str) -> Vec<String> {
    match text.parse::<Config>() {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn config(text: &str) -> Config {
    text.parse().unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Checks that `text` has one problem, which begins with `expect`.
#[track_caller]
fn check(text: &str, expect: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].starts_with(expect), "{text}\n{found:#?}\nnot {expect}");
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(config(""), Config::default());
    assert_eq!(config("[listen]\n[queue]\n[log]\n[stop]\n"), Config::default());
}

#[test]
fn every_key_is_read() {
    let config = config(
        r#"
        [listen]
        socket = "/run/other.sock"
        mode = "0666"
        group = "root"
        tcp = "[::1]:7430"
        plain_loopback = true
        [[listen.sockets]]
        path = "/run/numaloc/web/n.sock"
        mode = "0666"
        group = "root"
        max_role = "operator"
        [[listen.sockets]]
        path = "/run/numaloc/db/n.sock"
        max_role = "viewer"
        [queue]
        moves = 4
        plans = 5
        moves_per_node = 3
        rate_bytes_per_second = "1G"
        [mover]
        scheduling = "other"
        nice = 7
        [limits]
        batch_bytes = "16M"
        workers = 2
        timeout = "5m"
        rate_bytes_per_second = 1_000_000
        [quota]
        open_jobs = 1
        schedules = 2
        workloads = 3
        bytes = "2M"
        all_bytes = "3M"
        watches = 4
        requests_per_second = 5
        [calls]
        timeout = "2500ms"
        long_timeout = "1h"
        take_timeout = "90s"
        [retention]
        age = "12h"
        jobs = 6
        events = 7
        bytes = "8M"
        [offload]
        enable = true
        polling = true
        channels_max = 4
        [[grants]]
        user = "daemon"
        role = "operator"
        cgroups = ["/", "/a.slice/b c"]
        names = ["agent-", "a.b_"]
        [grants.ceilings]
        profile = "fast"
        qos_class = "lsr"
        include_shared = true
        include_bound = true
        named_nodes = true
        fresh_hugetlb = true
        reserve_bytes = true
        rate_bytes_per_second = "1G"
        workers = 8
        pause_numa_balancing = true
        offload = true
        [[grants]]
        group = 0
        role = "admin"
        [[grants]]
        certificate = "node-agent"
        role = "viewer"
        [[grants]]
        spiffe = "spiffe://example.org/ns/web/sa/agent"
        role = "viewer"
        [metrics]
        listen = "127.0.0.1:9464"
        host = { enable = false, period = "5m", cpu = "1.5%", series = 7 }
        [log]
        level = "warn,numalocd=debug"
        [stop]
        grace = "1500ms"
        [dsa]
        manage_work_queue = true
        devices = ["dsa0", "dsa12"]
        "#,
    );
    let daemon = nix::unistd::User::from_name("daemon").unwrap().unwrap().uid.as_raw();
    let expected = Config {
        listen: Listen {
            socket: "/run/other.sock".into(),
            mode: 0o666,
            group: Some("root".into()),
            sockets: vec![
                Socket {
                    path: "/run/numaloc/web/n.sock".into(),
                    mode: 0o666,
                    group: Some("root".into()),
                    max_role: Role::Operator,
                },
                Socket {
                    path: "/run/numaloc/db/n.sock".into(),
                    mode: 0o660,
                    group: None,
                    max_role: Role::Viewer,
                },
            ],
            tcp: Some("[::1]:7430".parse().unwrap()),
            plain_loopback: true,
            tls: None,
        },
        queue: Queue {
            moves: 4,
            plans: 5,
            moves_per_node: 3,
            rate_bytes_per_second: Some(1 << 30),
        },
        mover: Scheduling { batch: false, nice: Some(7) },
        limits: Limits {
            batch_bytes: Some(16 << 20),
            workers: Some(2),
            timeout: Some(Duration::from_secs(300)),
            rate_bytes_per_second: Some(1_000_000),
        },
        quota: Quota {
            open_jobs: 1,
            schedules: 2,
            workloads: 3,
            bytes: 2 << 20,
            all_bytes: 3 << 20,
            watches: 4,
            requests_per_second: 5,
        },
        calls: Calls {
            timeout: Duration::from_millis(2500),
            long_timeout: Duration::from_secs(3600),
            take_timeout: Duration::from_secs(90),
        },
        retention: Retention {
            age: Duration::from_secs(12 * 3600),
            jobs: 6,
            events: 7,
            bytes: 8 << 20,
        },
        offload: Dma::Enabled(Settings { polling: true, channels_max: Some(4) }),
        grants: vec![
            Grant {
                to: Grantee::Uid(daemon),
                role: Role::Operator,
                cgroups: vec!["/".into(), "/a.slice/b c".into()],
                ceilings: Ceilings {
                    rate_bytes_per_second: Some(1 << 30),
                    workers: 8,
                    ..Ceilings::NONE
                },
            },
            Grant {
                to: Grantee::Gid(0),
                role: Role::Admin,
                cgroups: vec![],
                ceilings: Ceilings::default(),
            },
            Grant {
                to: Grantee::Certificate("node-agent".into()),
                role: Role::Viewer,
                cgroups: vec![],
                ceilings: Ceilings::default(),
            },
            Grant {
                to: Grantee::Spiffe("spiffe://example.org/ns/web/sa/agent".into()),
                role: Role::Viewer,
                cgroups: vec![],
                ceilings: Ceilings::default(),
            },
        ],
        reserved: ["agent-", "a.b_"]
            .map(|prefix| Reserved { prefix: prefix.into(), to: Grantee::Uid(daemon) })
            .into(),
        schedules: Vec::new(),
        metrics: Some("127.0.0.1:9464".parse().unwrap()),
        host_metrics: HostMetrics {
            enable: false,
            period: Duration::from_secs(300),
            cpu_percent: 1.5,
            series: 7,
        },
        log: "warn,numalocd=debug".parse().unwrap(),
        stop: Stop { grace: Duration::from_millis(1500) },
        dsa: WorkQueues::Enabled(vec!["dsa0".into(), "dsa12".into()]),
    };
    assert_eq!(config, expected);
}

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
        ("[listen]\ngroup = \"no such\"", "2: listen.group: there is no group 'no such'"),
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
            "1: grants[0]: one of user, group, certificate and spiffe",
        ),
        (
            "[[grants]]\nuser = 1\ngroup = 1\nrole = \"viewer\"",
            "1: grants[0]: one of user, group, certificate and spiffe",
        ),
        ("[[grants]]\nuser = 65534\nrole = \"viewer\"", "1: grants[0]: stands for everybody whom"),
        ("[[grants]]\ngroup = 65534\nrole = \"viewer\"", "1: grants[0]: stands for everybody whom"),
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
            "[[grants]]\nuser = \"no such\"\nrole = \"viewer\"",
            "2: grants[0].user: there is no user 'no such'",
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
    let text = "[[grants]]\nuser = \"no such\"\nrole = \"viewer\"\nname = 1\n\
                [[grants]]\nuser = 1\n[[grants]]\nrole = \"root\"\n";
    let found = problems(text);
    let begins = [
        "2: grants[0].user: there is no user",
        "4: grants[0].name: unknown field",
        "5: grants[1].role: missing",
        "7: grants[2]: one of user, group",
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

#[test]
fn a_missing_file_is_the_defaults_unless_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("numalocd.toml");
    let read = |path: &std::path::Path, explicit| Loaded::read(path, explicit, DropIns::Beside);
    assert_eq!(read(&path, false).unwrap(), Loaded::default());
    let error = read(&path, true).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
    assert!(read(directory.path(), false).is_err(), "a directory was taken for a file");

    fs::write(&path, "[queue]\nmoves = 0\nfast = true\n").unwrap();
    let error = read(&path, false).unwrap_err().to_string();
    let path = path.display();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert_eq!(lines[0], format!("{path}:2: queue.moves: 0 is out of range: 1 to 256"));
    assert!(lines[1].starts_with(&format!("{path}:3: queue.fast: unknown field")), "{error}");
}

/// A main file and drop-ins in a directory of their own.
fn read_files(files: &[(&str, &str)]) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(DropIns::NAME)).unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let root = format!("{}/", directory.path().display());
    let loaded = Loaded::read(&directory.path().join("numalocd.toml"), false, DropIns::Beside);
    let mut loaded = loaded.map_err(|error| error.to_string().replace(&root, ""))?;
    loaded.notes.iter_mut().for_each(|note| *note = note.replace(&root, ""));
    Ok(loaded)
}

#[test]
fn drop_ins_add_grants_and_replace_values_in_the_order_of_their_names() {
    let files = [
        (
            "numalocd.toml",
            "[queue]\nmoves = 3\nplans = 4\n[[grants]]\nuser = 1\nrole = \"viewer\"\n",
        ),
        ("conf.d/50-b.toml", "queue.moves = 5\n[[grants]]\nuser = 3\nrole = \"admin\"\n"),
        (
            "conf.d/10-a.toml",
            "[queue]\nmoves = 9\n[[grants]]\nuser = 2\nrole = \"operator\"\nceilings.workers = 7\n",
        ),
        ("conf.d/README", "not read"),
    ];
    let Loaded { config, files, notes } = read_files(&files).unwrap();
    assert_eq!((config.queue.moves, config.queue.plans), (5, 4));
    let to: Vec<_> = config.grants.iter().map(|grant| grant.to.clone()).collect();
    assert_eq!(to, [1, 2, 3].map(Grantee::Uid));
    assert_eq!(config.grants[1].ceilings.workers, 7);
    assert_eq!(files.len(), 3);
    assert_eq!(
        notes,
        [
            "conf.d/10-a.toml:2: queue.moves: replaces the value at numalocd.toml:2",
            "conf.d/50-b.toml:1: queue.moves: replaces the value at conf.d/10-a.toml:2",
        ]
    );
}

#[test]
fn mistakes_in_drop_ins_are_named_with_their_file() {
    let grant = "[[grants]]\nuser = 1\nrole = \"viewer\"\n";
    let error = read_files(&[
        ("numalocd.toml", "[queue]\nmoves = 0\n"),
        ("conf.d/a.toml", grant),
        ("conf.d/b.toml", &format!("# b\n{}[[grants]]\nuser = 2\n", grant.replace('1', "5"))),
        ("conf.d/c.toml", "[queue]\nplan = 1\n"),
    ]);
    let error = error.unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert_eq!(lines[0], "numalocd.toml:2: queue.moves: 0 is out of range: 1 to 256");
    assert_eq!(lines[1], "conf.d/b.toml:5: grants[1].role: missing; it has to be given here");
    assert!(lines[2].starts_with("conf.d/c.toml:2: queue.plan: unknown field"), "{error}");
}

#[test]
fn a_grant_that_another_file_has_before_is_noted() {
    let grant =
        |to: &str| format!("[[grants]]\n{to}\nrole = \"operator\"\nnames = [\"{}-\"]\n", &to[..1]);
    let files = [("numalocd.toml", grant("user = 7")), ("conf.d/a.toml", grant("user = 7"))];
    let loaded = read_files(&files.each_ref().map(|(path, text)| (*path, text.as_str()))).unwrap();
    assert_eq!((loaded.config.grants.len(), loaded.config.reserved.len()), (1, 1));
    let [note] = &loaded.notes[..] else { panic!("{:?}", loaded.notes) };
    assert!(note.starts_with("conf.d/a.toml:1: this grant has no effect, "), "{note}");
    assert!(
        note.ends_with("The grant to the same one, which comes first: numalocd.toml:1"),
        "{note}"
    );

    // The user `daemon` is in the group `daemon` on every host that has both.
    let group = grant("group = \"daemon\"").replace("names = [\"g-\"]", "");
    let files = [("conf.d/2.toml", &grant("user = \"daemon\"")), ("conf.d/1.toml", &group)];
    let loaded = read_files(&files.map(|(path, text)| (path, text.as_str()))).unwrap();
    assert_eq!(loaded.config.grants.len(), 2, "it holds for those outside of the group");
    let [note] = &loaded.notes[..] else { panic!("{:?}", loaded.notes) };
    assert!(note.starts_with("conf.d/2.toml:1: ") && note.ends_with(": conf.d/1.toml:1"), "{note}");
    let files = [("conf.d/1.toml", files[0].1), ("conf.d/2.toml", files[1].1)];
    let loaded = read_files(&files.map(|(path, text)| (path, text.as_str()))).unwrap();
    assert!(loaded.notes.is_empty(), "{:?}", loaded.notes);
}

#[test]
fn a_named_directory_of_drop_ins_has_to_exist() {
    let directory = tempfile::tempdir().unwrap();
    let (main, other) = (directory.path().join("numalocd.toml"), directory.path().join("other.d"));
    assert!(Loaded::read(&main, false, DropIns::In(&other)).is_err());
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a.toml"), "queue.moves = 4\n").unwrap();
    assert_eq!(Loaded::read(&main, false, DropIns::In(&other)).unwrap().config.queue.moves, 4);
    assert_eq!(Loaded::read(&main, false, DropIns::Beside).unwrap(), Loaded::default());
}

#[test]
fn schedules_are_messages_of_the_api() {
    let text = r#"
[[schedule]]
name = "redis"
interval = "10m"
jitter = "500ms"
labels = { team = "db" }
spec.target.units = ["redis-server.service"]
spec.policy.target_ratio_percent = "95%"
spec.limits.rate_bytes_per_second = "1.5G/s"
[[schedule]]
name = "schedules/jvm"
paused = true
[schedule.spec.target]
cgroups = ["/system.slice/jvm.service"]
"#;
    let config = config(text);
    let [redis, jvm] = &config.schedules[..] else { panic!("{:?}", config.schedules) };
    assert_eq!((redis.id.id(), jvm.id.id()), ("redis", "jvm"));
    assert_eq!((redis.spec.interval.as_secs(), redis.spec.jitter.as_millis()), (600, 500));
    assert_eq!(redis.spec.migration.limits.rate_bytes_per_second, Some(3 << 29));
    assert_eq!(redis.spec.labels["team"], "db");
    assert!(redis.spec.migration.target.units.contains("redis-server.service"));
    assert!(!redis.spec.paused && jvm.spec.paused && jvm.spec.interval.is_zero());
}

#[test]
fn wrong_schedules_are_named_with_their_lines() {
    let whole = "[[schedule]]\nname = \"a\"\nspec.target.cgroups = [\"/a\"]\n";
    assert_eq!(problems(whole), [""; 0]);
    let with = |line: &str| format!("{whole}{line}\n");
    check(
        &with("interval = \"5x\""),
        "4: schedule[0].interval: is \"5x\"; expected a duration such",
    );
    check(&with("intervals = \"5s\""), "4: schedule[0].intervals: is not known; known here: name,");
    check(&with("spec.policy.x = 1"), "4: schedule[0].spec.policy.x: is not known; known here: ");
    check(
        &with("spec.limits.timeout = 5"),
        "4: schedule[0].spec.limits.timeout: must be a duration such as \"10m\", and is a number",
    );
    check(&with("interval = \"0.5s\""), "4: schedule[0].interval: must be from 1s to ");
    check(&with("jitter = \"5s\""), "4: schedule[0].jitter: must not be longer than interval");
    check(&with("spec.policy.profile = \"x\""), "4: schedule[0].spec.policy.profile: ");
    check(&with("spec.target.pids = [1]"), "4: schedule[0].spec.target.pids: a pid means another");
    check(
        &whole.replace("\"/a\"", "\"a\""),
        "3: schedule[0].spec.target.cgroups[0]: must be an absolute path",
    );
    check(&whole.replace("name = \"a\"", "name = \"7\""), "2: schedule[0].name: expected letters");
    check(&whole.replace("name = \"a\"\n", ""), "1: schedule[0].name: expected letters");
    check("[[schedule]]\nname = \"a\"\n", "1: schedule[0].spec");
    check(&whole.repeat(2), "5: schedule[1].name: ");
    check("schedule = 5", "1: schedule: expected ");

    let files = [("conf.d/1.toml", whole), ("conf.d/2.toml", whole)];
    let error = read_files(&files).unwrap_err();
    assert!(error.starts_with("conf.d/2.toml:2: schedule[0].name: "), "{error}");
    assert!(error.contains("conf.d/1.toml declares schedules/a already"), "{error}");
    let declared = read_files(&files[..1]).unwrap().config.schedules;
    assert!(declared[0].file.starts_with('/') && declared[0].file.ends_with("/conf.d/1.toml"));
}

/// The full names of all keys in the table that begins after `header`, as the reader lists them where it finds a key that it does not
/// know; `None` if there is no such table.
fn keys(header: &str, table: &str) -> Option<Vec<String>> {
    let found = problems(&format!("{header}surely_not = 1"));
    let refusal = "unknown field `surely_not`, expected ";
    let known = found.iter().find_map(|problem| problem.split_once(refusal))?.1;
    let below = known.split('`').skip(1).step_by(2).flat_map(|key| {
        let name = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        let one = keys(&format!("{header}[{name}]\n"), &name);
        let some = one.or_else(|| keys(&format!("{header}[[{name}]]\n"), &name));
        some.unwrap_or_else(|| vec![name])
    });
    Some(below.collect())
}

#[test]
fn documented_keys_are_those_that_are_read() {
    let page = include_str!("../../../../docs/configuration.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut documented: Vec<String> = rows.map(|(key, _)| key.to_owned()).collect();
    let mut read = keys("", "").unwrap();
    documented.sort();
    read.sort();
    assert!(read.len() > 40, "{read:?}");
    assert_eq!(documented, read);
}

/// The values shown in the example file are the defaults, and the lines marked as examples are accepted.
#[test]
fn the_example_file_shows_the_defaults() {
    let example = include_str!("../../../../systemd/numalocd.toml");
    assert_eq!(config(example), Config::default());

    let set: Vec<_> = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
            _ => line,
        })
        .collect();
    let set = set.join("\n").replace("\"numaloc\"", "\"root\"").replace("postgres\"", "daemon\"");
    let found = problems(&set);
    let files = ["listen.tls.certificate: ", "listen.tls.key: ", "listen.tls.client_ca: "];
    let only_files = found.iter().zip(files).all(|(problem, file)| problem.contains(file));
    assert!(found.len() == files.len() && only_files, "{found:#?}");

    let tls = set.lines().position(|line| line == "[listen.tls]").unwrap();
    let mut lines: Vec<_> = set.lines().collect();
    lines.drain(tls..tls + 4);
    let plain = lines.join("\n").replace("0.0.0.0:7430", "127.0.0.1:7430");
    let all = config(&plain.replace("plain_loopback = false", "plain_loopback = true"));
    let default = Config::default();
    let Listen { socket, mode, group, sockets, tcp, plain_loopback, tls } = &all.listen;
    assert_eq!((socket, mode), (&default.listen.socket, &default.listen.mode));
    assert_eq!((sockets.len(), *plain_loopback, tls), (1, true, &None));
    assert!(group.is_some() && tcp.is_some() && all.metrics.is_some());
    let queue = Queue { rate_bytes_per_second: None, ..all.queue };
    assert_eq!((queue, all.quota), (default.queue, default.quota));
    assert!(all.queue.rate_bytes_per_second.is_some() && all.mover.nice.is_some());
    assert_eq!(all.mover.batch, default.mover.batch);
    assert_eq!((all.retention, all.stop), (default.retention, default.stop));
    assert_eq!((all.calls, all.host_metrics), (default.calls, default.host_metrics));
    assert_eq!(all.offload, default.offload);
    assert_eq!((all.log, all.dsa), (default.log, default.dsa));
    assert_eq!(all.grants.len(), 4);
}

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
         [quota]\nwatches = 9\n[calls]\ntimeout = \"9s\"\n[retention]\njobs = 9\n[limits]\nworkers = 9",
    );
    let (now, later) = reload(&old, new.clone());
    let (listen, dsa) = (old.listen.clone(), WorkQueues::default());
    assert_eq!(now, Config { listen, metrics: None, dsa, ..new.clone() });
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
            "dsa.devices"
        ]
    );
    assert_eq!(
        later[1],
        "listen.mode stays 0660 until numalocd is restarted; the configuration file says 0600"
    );
    assert_eq!(reload(&old, old.clone()), (old.clone(), Vec::new()));
    let socket =
        |path: &str| Socket { path: path.into(), mode: 0o660, group: None, max_role: Role::Viewer };
    let mut more = old.clone();
    more.listen.sockets = vec![socket("/run/c/n")];
    let (now, later) = reload(&old, more.clone());
    let line = "listen.sockets stays unset until numalocd is restarted; the configuration file says /run/c/n (0660, \
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

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(\\[{0,2}(listen|queue|grants|tls|limits)(\\.tls)?\\]{0,2}\n|[a-z_]{1,8} ?= ?[\"0-9a-z\\[\\]{}/:.]{0,12}\n|\\PC{0,10}\n){0,12}") {
        let _ = problems(&text);
    }
}
