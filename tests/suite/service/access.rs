//! Tests who may connect, and what they may do.

use super::*;
use crate::{app::Layout, scene::Scene, settings::Cgroup};
use std::{os::unix::process::CommandExt, process::Output};

/// A user that owns nothing and has no grant at first.
const USER: u32 = 1000;

/// Runs numalocctl as that user, with `gid` as its only group.
fn ctl(gid: u32, arguments: &[&str]) -> Output {
    let mut command = Command::new("numalocctl");
    command.env("NUMALOC_ENDPOINT", format!("unix://{SOCKET}")).args(arguments);
    command.uid(USER).gid(gid).output().expect("it starts")
}

fn assert_refused(output: &Output, code: i32, word: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{complaint}");
    assert!(complaint.to_lowercase().contains(word), "{complaint}");
}

#[test]
fn others_get_what_they_are_granted_and_no_more() {
    let installed = Installed::start();
    let cgroup = Cgroup::new("granted");
    let (inside, outside) = (
        Scene::of(Layout::remote(&["anon:8M"]).within(cgroup.path())),
        Scene::remote(&["anon:8M"]),
    );
    let (inner, outer) = (inside.app.pid().to_string(), outside.app.pid().to_string());
    let (_, gid) = ids();

    // A user outside of the group cannot connect.
    assert_refused(&ctl(USER, &["status"]), 4, "no right to use numalocd");
    // A user in the group, without a grant, is refused.
    for arguments in [&["status"][..], &["jobs", "ls"], &["migrate", "--pid", &inner]] {
        assert_refused(&ctl(gid, arguments), 4, "needs the role");
    }

    let grant = "[[grants]]\nuser = 1000\nrole = \"operator\"\ncgroups = [\"/numaloc-granted\"]\n";
    installed.configure(grant);
    systemctl(&["reload", SERVICE]);
    until("the grant is in force", || ctl(gid, &["status"]).status.success());
    assert_refused(&ctl(gid, &["migrate", "--pid", &outer]), 4, "neither yours");
    outside.assert_on("anon", 1, 8 * MIB);
    let output = ctl(gid, &["migrate", "--pid", &inner]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    inside.assert_on("anon", 0, 8 * MIB);
    outside.finish();
    drop(inside.finish());
    drop(cgroup);
}
