//! The search for the daemon, and messages if it does not answer or refuses.

use crate::{
    fake::{Fake, Script},
    run::{fails, json, numalocctl, program, refused, text},
};
use std::{fs, os::unix::net::UnixListener, path::Path};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn daemon(version: &'static str) -> Fake {
    Fake::start(Script { version, ..Script::default() })
}

#[test]
fn flag_then_environment_then_configuration() {
    let [flag, environment, config] = ["1.0.1", "1.0.2", "1.0.3"].map(daemon);
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("numaloc")).unwrap();
    let file = home.path().join("numaloc/numalocctl.toml");
    fs::write(&file, format!("endpoint = \"{}\"\n", config.endpoint)).unwrap();
    let asked = |variable: Option<&Fake>, line: &str| {
        let mut command = program();
        command.env("XDG_CONFIG_HOME", home.path()).args(line.split_whitespace());
        variable.into_iter().for_each(|fake| {
            command.env("NUMALOC_ENDPOINT", &fake.endpoint);
        });
        command.output().unwrap()
    };
    let version = |variable, line: &str| json(&asked(variable, line), 0)["version"].clone();
    assert_eq!(version(None, "status -o json"), "1.0.3");
    assert_eq!(version(Some(&environment), "status -o json"), "1.0.2");
    let by_flag = format!("--endpoint {} status -o json", flag.endpoint);
    assert_eq!(version(Some(&environment), &by_flag), "1.0.1");
    // The same for commands that also work without a daemon. This one has nodes 0 and 2.
    let nodes = json(&asked(None, "topology -o json"), 0)["topology"]["nodes"].clone();
    assert_eq!(nodes[1]["node_id"], 2);
    assert!(!config.seen("GetTopology").is_empty() && flag.seen("GetTopology").is_empty());
    // --standalone reads no configuration.
    fs::write(&file, "server = 1\n").unwrap();
    text(&asked(None, "topology --standalone"), 0);
    refused("topology", &asked(None, "topology"), 2, ":1: server: unknown field `server`");
    text(&asked(None, "version"), 0);
    assert!(text(&asked(None, "doctor --no-headers"), 1).contains("unknown field"));
}

#[test]
fn a_daemon_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let dead = folder.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let missing = folder.path().join("missing.sock");
    for (socket, why) in [(&dead, "Connection refused"), (&missing, "No such file")] {
        for command in ["status", "jobs ls", "topology", "locality --pid 1", "migrate --pid 1"] {
            let line = format!("{command} --endpoint unix://{}", socket.display());
            fails(&line, 5, why);
            fails(&line, 5, "start it, or correct the path of its socket");
            let offers = !["status", "jobs ls"].contains(&command);
            let message = String::from_utf8(numalocctl(&line).stderr).unwrap();
            assert_eq!(message.contains("--standalone"), offers, "{message}");
            assert!(!message.contains("os error"), "{message}");
        }
        let line = format!("version -o json --endpoint unix://{}", socket.display());
        assert!(json(&numalocctl(&line), 0)["daemon_version"].is_null());
        let line = format!("doctor -o json --endpoint unix://{}", socket.display());
        let output = numalocctl(&line);
        let checks = json(&output, output.status.code().unwrap())["checks"].clone();
        let check = checks.as_array().unwrap().iter().find(|check| check["name"] == "daemon");
        assert_eq!(check.unwrap()["level"], "warning");
    }
    if !Path::new("/run/numaloc/numalocd.sock").exists() {
        fails(
            "status",
            5,
            "numalocd.sock: No such file or directory; start it (systemctl start numalocd)",
        );
        for option in [
            "--detach",
            "--validate-only",
            "--qos be",
            "--namespace prod",
            "--selector a=b",
            "--id x",
        ] {
            let word = option.split(' ').next().unwrap();
            let line = format!("migrate --pid 1 {option}");
            fails(&line, 5, &format!("{word} needs the daemon, and none listens at /run/numaloc"));
            let alone = format!("{line} --standalone");
            fails(
                &alone,
                2,
                &format!("{word} needs the daemon: leave out --standalone, or {word}"),
            );
        }
        fails("plan --selector a=b", 5, "--selector needs the daemon, and none listens");
        fails(
            "migrate --pid 1 --detach --dry-run",
            5,
            "--detach needs the daemon, and none listens",
        );
    }
    fails("status --endpoint http://127.0.0.1:1", 5, "check the address");
    fails("status --standalone", 2, "leave out --standalone");
    fails("topology --standalone --endpoint unix:///x", 2, "exclude each other");
    fails("status --endpoint http://node1.example:7000", 2, "this machine only");
    fails("status --endpoint https://localhost:1", 2, "--tls-ca");
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("silent.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let line = format!("status --request-timeout 200ms --endpoint unix://{}", socket.display());
    fails(&line, 124, "--request-timeout");
}

#[test]
fn each_code_has_an_exit_code() {
    let cases = [
        (Code::NotFound, 3),
        (Code::PermissionDenied, 4),
        (Code::Unauthenticated, 4),
        (Code::InvalidArgument, 2),
        (Code::Unavailable, 5),
        (Code::DeadlineExceeded, 124),
        (Code::FailedPrecondition, 1),
        (Code::ResourceExhausted, 1),
        (Code::Aborted, 1),
        (Code::AlreadyExists, 1),
        (Code::Internal, 1),
        (Code::Unknown, 1),
        (Code::Cancelled, 1),
        (Code::DataLoss, 1),
        (Code::OutOfRange, 1),
    ];
    for (code, exit) in cases {
        let refuse = Some(Status::new(code, "the words\nof the daemon"));
        let fake = Fake::start(Script { refuse, ..Script::default() });
        for line in ["jobs get 42", "locality --pid 1", "migrate --pid 1", "schedules ls"] {
            refused(line, &fake.run(line), exit, "the words of the daemon");
        }
        // An error that may pass is retried first, with a message.
        let output = fake.run("jobs watch 42 --reconnect-timeout 1ms");
        assert_eq!(output.status.code(), Some(if code == Code::Aborted { 5 } else { exit }));
    }
}

#[test]
fn a_host_that_gives_no_answer_is_no_daemon_that_is_away() {
    let details = ErrorDetails::with_error_info(
        "HOST_UNAVAILABLE",
        numaloc_api::DOMAIN,
        std::collections::HashMap::new(),
    );
    let said = "cannot ask systemd for unit a.service: no answer within 10s";
    let refuse = Some(Status::with_error_details(Code::Unavailable, said, details));
    let fake = Fake::start(Script { refuse, ..Script::default() });
    refused("plan", &fake.run("plan --unit a"), 1, said);
}

#[test]
fn fields_that_are_wrong_are_named() {
    let details = ErrorDetails::with_bad_request(vec![
        tonic_types::FieldViolation::new("spec.target.pids[3]", "must be from 1 to 9"),
        tonic_types::FieldViolation::new("spec.limits.workers", "must be from 1 to 256"),
    ]);
    let said = "spec.target.pids[3] must be from 1 to 9; 1 more in the details";
    let refuse = Some(Status::with_error_details(Code::InvalidArgument, said, details));
    let fake = Fake::start(Script { refuse, ..Script::default() });
    let words =
        "spec.target.pids[3] must be from 1 to 9; spec.limits.workers must be from 1 to 256";
    refused("plan", &fake.run("plan --pid 1"), 2, words);
}

#[test]
fn the_daemon_is_shown() {
    let fake = daemon("9.8.7");
    let status = text(&fake.run("status"), 0);
    assert!(status.starts_with(&format!("numalocd 9.8.7 at {}\n", fake.endpoint)), "{status}");
    assert!(status.contains("jobs: 2 running\n") && status.contains("uid:0 (admin)"), "{status}");
    assert_eq!(text(&fake.run("metrics"), 0), "# EOF\n");
    assert!(text(&fake.run("version"), 0).ends_with("numalocd 9.8.7\n"));
    assert!(fake.run("doctor").stdout.windows(15).any(|part| part == b"numalocd 9.8.7,"));
    assert_eq!(text(&fake.run("version --standalone"), 0).lines().count(), 1);
}

#[test]
fn certificates_are_shown_and_checked() {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use tonic::transport::{Certificate, Identity, ServerTlsConfig};
    let issuer = |name: &str| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (pem, Issuer::new(params, key))
    };
    let signed = |issuer: &Issuer<'_, KeyPair>| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
    };
    let (ours, stranger) = (issuer("ours"), issuer("stranger"));
    let (certificate, key) = signed(&ours.1);
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(&ours.0));
    let fake = Fake::start_tls(Script::default(), tls);
    let write = |name: &str, text: &str| fs::write(fake.folder().join(name), text).unwrap();
    write("ca", &ours.0);
    write("other-ca", &stranger.0);
    for (name, issuer) in [("me", &ours.1), ("stranger", &stranger.1)] {
        let (certificate, key) = signed(issuer);
        write(&format!("{name}.pem"), &certificate);
        write(&format!("{name}.key"), &key);
    }
    let ask = |line: &str, ca: &str, who: &str| {
        let mut command = fake.command(&format!("{line} --request-timeout 20s"));
        for (option, file) in [
            ("--tls-ca", ca),
            ("--tls-cert", &format!("{who}.pem")),
            ("--tls-key", &format!("{who}.key")),
        ] {
            command.arg(option).arg(fake.folder().join(file));
        }
        command.output().unwrap()
    };
    let asked = |ca: &str, who: &str| ask("status", ca, who);
    assert!(text(&asked("ca", "me"), 0).contains("numalocd 9.8.7"));
    // Its devices are those of another host.
    let device = ask("migrate --pid 1 --to iface:lo", "ca", "me");
    refused("a device", &device, 2, "iface:lo is a device of this host");
    refused("other ca", &asked("other-ca", "me"), 5, "certificate");
    refused("other certificate", &asked("ca", "stranger"), 5, "");
    refused("no file", &asked("none", "me"), 2, "none: No such file");
}
