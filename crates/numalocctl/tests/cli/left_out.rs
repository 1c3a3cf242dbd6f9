//! Reports on targets of which members or processes are left out, or of which nothing can move.

use crate::{
    answers::ended,
    fake::{Fake, Script},
    run::{json, numalocctl, program, refused, text},
};
use numaloc_api::{
    DOMAIN,
    v1::{JobState, LeftReason, MemberResult, MemberState, MissingMember, Target},
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    process::{Child, Command},
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn cgroup(path: &str) -> Option<Target> {
    Some(Target { cgroups: vec![path.to_owned()], ..Target::default() })
}

/// The reasons for which two processes of a cgroup, and a pid, are left out.
fn missing() -> Vec<MissingMember> {
    let pid = Some(Target { pids: vec![9], ..Target::default() });
    vec![
        MissingMember { member: cgroup("/a"), reason: "no right to read".into(), process_count: 2 },
        MissingMember { member: pid, reason: "no process 9".into(), process_count: 0 },
    ]
}

fn check(shown: &Value, words: &str) {
    let (first, second) = (&shown["missing"][0], &shown["missing"][1]);
    assert_eq!((&first["member"]["cgroups"], &first["process_count"]), (&json!(["/a"]), &json!(2)));
    assert_eq!((&second["member"]["pids"], &second["process_count"]), (&json!([9]), &json!(0)));
    assert_eq!(second["reason"], "no process 9");
    assert!(words.contains("left out: 2 processes of cgroup /a: no right to read\n"), "{words}");
    assert!(words.contains("left out: pid 9: no process 9\n"), "{words}");
}

#[test]
fn the_daemon_says_what_is_left_out() {
    let fake = Fake::start(Script { missing: missing(), ..Script::default() });
    for line in ["locality --cgroup /a --pid 9", "plan --cgroup /a --pid 9", "advise --pid 9"] {
        let shown = json(&fake.run(&format!("{line} -o json")), 1);
        check(&shown, &text(&fake.run(line), 1));
    }
}

#[test]
fn rows_alone_leave_what_is_left_out_to_standard_error() {
    let fake = Fake::start(Script { missing: missing(), ..Script::default() });
    for form in ["--no-headers", "-o csv"] {
        let output = fake.run(&format!("locality --pid 4711 {form}"));
        assert!(!text(&output, 1).contains("left out"));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("numalocctl: left out: pid 9: no process 9\n"), "{message}");
    }
}

/// A part of a cgroup is a part of the target; a misspelt name is an error, as with kubectl.
#[test]
fn what_is_left_out_in_part_is_told_from_what_is_missing() {
    let missing = vec![missing().remove(0)];
    let fake = Fake::start(Script { missing, ..Script::default() });
    for line in ["locality --cgroup /a", "plan --cgroup /a", "advise --cgroup /a"] {
        assert!(text(&fake.run(line), 6).contains("left out: 2 processes of cgroup /a"));
    }
}

#[test]
fn a_job_that_was_done_in_part_does_not_end_with_0() {
    let member = |path, state: MemberState, unreadable_process_count| MemberResult {
        member: cgroup(path),
        state: state.into(),
        reason: "why".to_owned(),
        unreadable_process_count,
        ..MemberResult::default()
    };
    let done = ended(JobState::Succeeded, 600, LeftReason::Busy);
    let cases = [
        (member("/b", MemberState::Missing, 0), 0, 1),
        (member("/b", MemberState::Refused, 0), 0, 1),
        (member("/b", MemberState::Partial, 3), 3, 6),
    ];
    for (left, count, code) in cases {
        let members = vec![member("/a", MemberState::Succeeded, 0), left];
        let job = numaloc_api::v1::Job { members, ..done.clone() };
        let fake = Fake::start(Script { watch: vec![vec![job]], ..Script::default() });
        let shown = json(&fake.run("migrate --cgroup /a --cgroup /b -o json"), code);
        assert_eq!(shown["state"], "JOB_STATE_SUCCEEDED");
        let left = &shown["members"][1];
        assert_eq!((&left["member"]["cgroups"], &left["reason"]), (&json!(["/b"]), &json!("why")));
        assert_eq!(left["unreadable_process_count"], count);
        let words = text(&fake.run("migrate --cgroup /a --cgroup /b"), code);
        assert!(words.contains("cgroup /b") && words.contains("why"), "{words}");
    }
}

/// As without the daemon: a process that may run everywhere is skipped, and a node that does not exist is a wrong
/// command line.
#[test]
fn a_job_without_a_node_to_go_to_ends_as_without_the_daemon() {
    let refusing = |node: Option<&str>| {
        let about = node.map(|node| ("node".to_owned(), node.to_owned()));
        let about = about.into_iter().collect::<std::collections::HashMap<_, _>>();
        let details = ErrorDetails::with_error_info("NO_TARGET_NODE", DOMAIN, about);
        let code = Code::FailedPrecondition;
        let status = Status::with_error_details(code, "no target node for process 7", details);
        Fake::start(Script { refuse: Some(status), ..Script::default() })
    };
    let everywhere = refusing(None);
    let shown = json(&everywhere.run("migrate --pid 7 -o json"), 0);
    let expected = (&json!("JOB_STATE_SKIPPED"), &json!(""));
    assert_eq!((&shown["state"], &shown["name"]), expected);
    let words = text(&everywhere.run("migrate --pid 7"), 0);
    assert_eq!(words, "skipped: no target node for process 7\n");
    // These ask for a job, and there is none.
    for line in ["migrate --pid 7 --detach", "migrate --pid 7 --validate-only"] {
        refused(line, &everywhere.run(line), 1, "no target node");
    }
    refused("migrate", &refusing(Some("99")).run("migrate --pid 7"), 2, "no target node");
    refused("migrate", &refusing(Some("only")).run("migrate --pid 7"), 1, "no target node");
}

/// A process that does nothing, of another user if this one is root.
struct Asleep(Child);

impl Asleep {
    fn new(user: Option<u32>) -> Self {
        let mut command = Command::new("sleep");
        user.map(|user| command.uid(user).gid(user));
        Self(command.arg("600").spawn().unwrap())
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_is_gone_is_left_out() {
    let asleep = Asleep::new(None);
    for command in ["locality", "advise --seconds 1"] {
        let line = format!("{command} --standalone --pid {},999999999", asleep.0.id());
        let shown = json(&numalocctl(&format!("{line} -o json")), 1);
        assert_eq!(shown["missing"][0]["member"]["pids"], json!([999_999_999]));
        let words = text(&numalocctl(&line), 1);
        assert!(words.contains("left out: pid 999999999: no process"), "{words}");
    }
}

/// An ordinary user sees his own process in the cgroup of this test, and root's are left out.
#[test]
fn processes_of_others_in_a_cgroup_are_left_out() {
    const OTHER: u32 = 65_534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        numaloc_sys::fixture::skipped("only root can have processes of another user");
        return;
    }
    let asleep = Asleep::new(Some(OTHER));
    let own = fs::read_to_string(format!("/proc/{}/cgroup", asleep.0.id())).unwrap();
    // The path of the last line: that of v2, if it is mounted.
    let path = own.lines().last().unwrap().splitn(3, ':').nth(2).unwrap();
    // Other users may not reach the directory of the build.
    let open = tempfile::tempdir().unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(open.path(), mode(0o755)).unwrap();
    let copy = open.path().join("numalocctl");
    let built = program().get_program().to_owned();
    assert!(Command::new("cp").arg(built).arg(&copy).status().unwrap().success());
    let run = |format: &str| {
        let mut command = Command::new(&copy);
        command.uid(OTHER).gid(OTHER).env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME");
        command.env_remove("NUMALOC_ENDPOINT");
        command.args(["locality", "--standalone", "--cgroup", path, "-o", format]);
        command.output().unwrap()
    };
    let shown = json(&run("json"), 6);
    let [left] = &shown["missing"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert!(left["process_count"].as_u64() > Some(0), "{shown}");
    assert!(left["reason"].as_str().unwrap().starts_with("no right to read"), "{shown}");
    let processes = shown["locality"]["processes"].as_array().unwrap().iter();
    let pids = processes.map(|process| &process["process"]["pid"]);
    assert!(pids.clone().any(|pid| *pid == json!(asleep.0.id())), "{shown}");
    let words = text(&run("table"), 6);
    assert!(words.contains("left out: ") && words.contains(" of cgroup "), "{words}");
}
