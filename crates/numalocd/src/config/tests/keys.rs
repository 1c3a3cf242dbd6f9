//! All keys, and the files that document them.

use super::*;
use numaloc_config::samples::uncommented;
use numaloc_core::{DomainValues, GroupName, Notation};

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
        node_bandwidth_max_bytes_per_second = "80GB/s"
        [quota]
        open_jobs = 1
        schedules = 2
        workloads = 3
        bytes = "2M"
        all_bytes = "3M"
        written_bytes_per_minute = "4M"
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
        include_network = true
        include_bound = true
        include_gigantic = true
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
        [tiers]
        order = ["0-1", "2"]
        [resctrl]
        group = "numaloc"
        memory_bandwidth = "20"
        l3 = "0=f;16=ff"
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
            hourly_budget_bytes: None,
        },
        node_bandwidth_max: Some(80 << 30),
        quota: Quota {
            open_jobs: 1,
            schedules: 2,
            workloads: 3,
            bytes: 2 << 20,
            all_bytes: 3 << 20,
            written_bytes_per_minute: 4 << 20,
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
                files: Vec::new(),
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
                files: Vec::new(),
                ceilings: Ceilings::default(),
            },
            Grant {
                to: Grantee::Certificate("node-agent".into()),
                role: Role::Viewer,
                cgroups: vec![],
                files: Vec::new(),
                ceilings: Ceilings::default(),
            },
            Grant {
                to: Grantee::Spiffe("spiffe://example.org/ns/web/sa/agent".into()),
                role: Role::Viewer,
                cgroups: vec![],
                files: Vec::new(),
                ceilings: Ceilings::default(),
            },
        ],
        missing_accounts: Vec::new(),
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
        tiers: Tiers { order: ["0-1", "2"].map(|nodes| nodes.parse().expect("a list")).into() },
        resctrl: Resctrl {
            group: Some(GroupName::parse("numaloc").expect("a name")),
            memory_bandwidth: Some(DomainValues::parse("20", Notation::Number).expect("a number")),
            l3: Some(DomainValues::parse("0=f;16=ff", Notation::Mask).expect("masks")),
        },
    };
    assert_eq!(config, expected);
}

/// The full names of all keys in the table that begins after `header`, as the reader lists them where it finds a key
/// that it does not know; `None` if the table does not exist.
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
    let page = include_str!("../../../../../docs/configuration.md");
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
    let example = include_str!("../../../../../systemd/numalocd.toml");
    assert_eq!(config(example), Config::default());

    let set =
        uncommented(example).replace("\"numaloc\"", "\"root\"").replace("postgres\"", "daemon\"");
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
    assert_eq!((all.log, all.dsa, all.tiers), (default.log, default.dsa, default.tiers));
    assert_eq!(all.grants.len(), 4);
}
