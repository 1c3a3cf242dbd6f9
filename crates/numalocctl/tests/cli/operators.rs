//! Commands for operators of the daemon: `drain`, `pause-all`, `backup`.

use crate::{
    fake::{Fake, Script},
    run::{json, refused, text},
};
use std::fs;

#[test]
fn each_hold_is_one_call_and_says_what_holds_now() {
    let fake = Fake::start(Script::default());
    for (line, call, words) in [
        ("drain", "DrainDaemon", &["until numalocctl undrain"][..]),
        ("pause-all", "PauseDaemon", &["until numalocctl undrain", "until numalocctl resume-all"]),
        ("resume-all", "ResumeDaemon", &["drained since"]),
        ("undrain", "UndrainDaemon", &["moves begin as their turns come"]),
    ] {
        let shown = text(&fake.run(line), 0);
        assert_eq!(shown.lines().count(), words.len(), "{line}: {shown}");
        for (shown, words) in shown.lines().zip(words) {
            assert!(shown.contains(words), "{line}: {shown}");
        }
        assert_eq!(fake.seen(call).len(), 1, "{line}");
    }
    let shown = json(&fake.run("drain -o json"), 0);
    assert!(shown["drain_time"].is_string() && shown["pause_time"].is_null(), "{shown}");
}

#[test]
fn doctor_says_that_the_daemon_is_drained() {
    let fake = Fake::start(Script { drained: true, ..Script::default() });
    let output = fake.run("doctor -o json");
    let shown = json(&output, output.status.code().expect("it ended on its own"));
    let checks = shown["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "daemon").expect("the daemon's");
    assert_eq!(check["level"], "warning");
    assert!(
        check["found"].as_str().is_some_and(|found| found.contains("drained since")),
        "{check}"
    );
    let advice = check["advice"].as_str();
    assert!(advice.is_some_and(|advice| advice.contains("numalocctl undrain")), "{check}");
}

#[test]
fn without_a_role_nothing_is_held() {
    let refuse = Some(tonic::Status::permission_denied("DrainDaemon needs the role admin"));
    let fake = Fake::start(Script { refuse, ..Script::default() });
    refused("drain", &fake.run("drain"), 4, "needs the role admin");
}

#[test]
fn a_backup_appears_only_when_it_is_whole() {
    let fake = Fake::start(Script::default());
    let file = fake.folder().join("copy.redb");
    let line = format!("backup {} -o json", file.display());
    assert_eq!(json(&fake.run(&line), 0)["bytes"], 6);
    assert_eq!(fs::read(&file).unwrap(), b"onetwo");
    refused(&line, &fake.run(&line), 1, "exists");
    assert_eq!(fake.seen("BackupStore").len(), 1, "what would not be written was asked for");

    let fake = Fake::start(Script { dies: true, ..Script::default() });
    let file = fake.folder().join("copy.redb");
    let line = format!("backup {}", file.display());
    assert_ne!(fake.run(&line).status.code(), Some(0));
    let left = fs::read_dir(fake.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name != "numalocd.sock").collect();
    assert!(left.is_empty(), "{left:?}");
}
