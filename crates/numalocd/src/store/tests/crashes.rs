//! Tests of daemons that are killed.

use super::*;
use crate::store::{OpenError, restore};
use std::{
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

/// A command that runs the test binary `program` again, to do what [`child`] does in a process of its own.
fn again(program: &Path, role: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--exact", "store::tests::crashes::child", "--ignored", "--nocapture"]);
    command.env("NUMALOCD_TEST_ROLE", role).env("NUMALOCD_TEST_DIR", dir);
    command
}

/// The role of the other process.
#[test]
#[ignore = "started by the tests below, with a role"]
fn child() {
    let role = std::env::var("NUMALOCD_TEST_ROLE").unwrap();
    let dir = std::env::var_os("NUMALOCD_TEST_DIR").unwrap();
    match role.as_str() {
        "commit" => commit_for_ever(Path::new(&dir)),
        "restore" => restore_for_ever(Path::new(&dir)),
        "open" => match Store::open(Path::new(&dir)) {
            Err(OpenError::Denied { .. }) => println!("\ndenied"),
            other => println!("\n{other:?}"),
        },
        other => panic!("no role {other}"),
    }
}

/// In a loop: commits a job and drops the tenth before it. Prints each number once it is stored.
fn commit_for_ever(dir: &Path) {
    let (mut store, contents) = Store::open(dir).unwrap();
    for number in contents.last.job + 1.. {
        let forgotten = JobId::numbered(number.saturating_sub(10));
        let writes = [write_job(number), write_event(number), Write::DropJob(forgotten)];
        store.commit(&writes).unwrap();
        println!("\nstored {number}");
    }
}

/// In a loop: replaces one of two stores by the other. Prints a line each time it begins.
fn restore_for_ever(dir: &Path) {
    for from in ["one", "other"].into_iter().cycle() {
        println!("\nrestoring {from}");
        restore(&dir.join("state"), &dir.join(from).join("numalocd.redb")).unwrap();
    }
}

#[test]
fn killed_while_a_store_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for (name, numbers) in [("one", 1..4), ("other", 11..14), ("state", 1..4)] {
        let (mut store, _) = Store::open(&dir.path().join(name)).unwrap();
        store.commit(&numbers.map(write_job).collect::<Vec<_>>()).unwrap();
    }
    let mut random = fastrand::Rng::with_seed(12);
    let program = std::env::current_exe().unwrap();
    let (mut ones, mut others) = (0, 0);
    for round in 0..40 {
        let mut process =
            again(&program, "restore", dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut begun = lines.filter(|line| line.starts_with("restoring "));
        for _ in 0..random.usize(1..4) {
            begun.next().expect("the child ended on its own");
        }
        for _ in 0..random.usize(..2_000_000) {
            std::hint::black_box(round);
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let jobs = stored_jobs(&dir.path().join("state"));
        match jobs[..] {
            [1, 2, 3] => ones += 1,
            [11, 12, 13] => others += 1,
            _ => panic!("{jobs:?}"),
        }
    }
    assert!(ones > 0 && others > 0, "{ones} and {others}");
}

#[test]
fn killed_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let program = std::env::current_exe().unwrap();
    let mut acknowledged = 0;
    for round in 0..40 {
        let mut process =
            again(&program, "commit", dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut numbers =
            lines.filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok());
        // Some children are killed while they open the store.
        for _ in 0..random.usize(..8) {
            acknowledged = numbers.next().expect("the child ended on its own");
        }
        // Wait for a random time, so that the child is killed in the middle of a commit and not right after one.
        for _ in 0..random.usize(..200_000) {
            std::hint::black_box(round);
        }
        process.kill().unwrap();
        process.wait().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);
        let (mut store, contents) = Store::open(dir.path()).unwrap();
        let stored = contents.last.job;
        // The job whose commit was under way may be there. If so, it is complete.
        assert!((acknowledged..=acknowledged + 1).contains(&stored), "{stored}, {acknowledged}");
        let expected: Vec<_> = (stored.saturating_sub(9).max(1)..=stored).collect();
        let found: Vec<_> =
            contents.jobs.iter().map(|kept| kept.job.id.number().unwrap()).collect();
        assert_eq!(found, expected);
        assert_eq!(contents.last.event, stored);
        assert_eq!(contents.events.len() as u64, stored);
        all(&mut store, &contents);
        acknowledged = stored;
    }
    assert!(acknowledged > 40, "only {acknowledged} commits");
}

/// Another user's directory: the kernel lets the process read it, but not write to it.
#[test]
fn missing_rights() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        numaloc_sys::fixture::skipped("only root can run as another user");
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("state");
    drop(Store::open(&dir).unwrap());
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(root.path(), 0o755);
    // A copy of the program that the other user can run. Another process writes it: a child that another test starts
    // meanwhile would hold our own descriptor for a moment, and the kernel runs no file that is open for writing
    // (ETXTBSY).
    let program = root.path().join("tests");
    let mut copy = Command::new("cp");
    copy.arg(std::env::current_exe().unwrap()).arg(&program);
    assert!(copy.status().unwrap().success());
    let denied = || {
        let mut command = again(&program, "open", &dir);
        let output = command.current_dir("/").uid(65_534).gid(65_534).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("\ndenied\n"), "{text}");
    };
    denied();
    open(&dir, 0o755);
    denied();
}
