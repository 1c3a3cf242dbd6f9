//! Jobs and schedules for the page cache of files.

use super::*;
use crate::{
    cli::{code, json, numalocctl},
    disk::OnDisk,
    settings::Setting,
    truth::Nodes,
};
use serde_json::{Value, json};
use std::os::unix::fs::chown;

const USER: u32 = 60_001;

/// Caches a file on node 0, and returns how much that is.
fn cached(file: &OnDisk) -> u64 {
    file.read(0);
    let on = file.cached();
    let all = on.values().sum();
    assert!(all > 3 * MIB && on[&0] == all, "the scene: {on:?}");
    all
}

fn path(file: &OnDisk) -> &str {
    file.path().to_str().expect("text")
}

/// An operator's schedule for a model: its cache is on the node where it is used, whatever process reads it first.
#[test]
fn a_schedule_of_a_file_brings_cache_back_again_and_again() {
    let _still = Setting::still_host();
    let file = OnDisk::new("scheduled", 32);
    let all = cached(&file);
    let config = r#"
        [[schedule]]
        name = "model"
        interval = "1s"
        spec.target.files = ["/mnt/disk/sched?le*"]
        spec.policy.nodes.node_ids = [1]
    "#;
    let daemon = Daemon::with(config);
    for round in 0..3 {
        until(&format!("it is on node 1, round {round}"), || {
            file.cached() == Nodes::from([(1, all)])
        });
        let back = numalocctl(&["migrate", "--standalone", "--file", path(&file), "--to", "0"]);
        // The daemon may be moving it at the same moment.
        assert!(matches!(code(&back), Some(0 | 6)), "{back:?}");
    }
    until("it is on node 1 at last", || file.cached() == Nodes::from([(1, all)]));
    let output = daemon.ctl(&["schedules", "ls"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("file /mnt/disk/sched?le*"), "{text}");
}

#[test]
fn a_job_spreads_cache_and_says_what_it_moved_of_each_file() {
    let _still = Setting::still_host();
    let daemon = Daemon::start();
    let file = OnDisk::new("spread-by-job", 32);
    let all = cached(&file);
    let migrate = |arguments: &[&str]| {
        let endpoint = daemon.endpoint();
        let file = ["migrate", "--endpoint", &endpoint, "--file", path(&file), "-o", "json"];
        numalocctl(&[&file, arguments].concat())
    };
    let to_be = json(&migrate(&["--place", "interleave", "--validate-only"]));
    let member = &to_be["jobs"][0]["members"][0];
    assert!(member["state"] == "MEMBER_STATE_WAITING" && member["reason"] == "", "{to_be}");
    assert_eq!(member["movable_before"], Value::Null, "{to_be}");
    // Daemon and command line see the same of it.
    let absent = ["--file", "/mnt/disk/absent"];
    let seen = |command: &str, place: &[&str]| {
        let named = [command, "--file", path(&file), "--file", absent[1], "-o", "json"];
        let endpoint = daemon.endpoint();
        let by_daemon = [&["--endpoint", &endpoint], &named[..], place].concat();
        let by_itself = [&["--standalone"], &named[..], place].concat();
        [by_daemon, by_itself].map(|arguments| {
            let output = numalocctl(&arguments);
            assert_eq!(code(&output), Some(1), "one is missing: {output:?}");
            serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
        })
    };
    let files = seen("locality", &[]).map(|looked| looked["locality"]["files"].clone());
    assert_eq!(files[0], files[1]);
    assert_eq!(files[0]["files"][0]["nodes"], json!([{"node_id": 0, "bytes": all}]));
    let planned = seen("plan", &["--place", "interleave"]);
    let planned = planned.map(|looked| looked["plan"]["files"].clone());
    assert_eq!(planned[0], planned[1]);
    let move_bytes = planned[0]["files"][0]["move_bytes"].as_u64().expect("a plan");
    assert!(move_bytes.abs_diff(all / 2) <= 2 * MIB, "{move_bytes} of {all}");
    let job = migrate(&[&["--place", "interleave"], &absent[..]].concat());
    let job: Value = serde_json::from_slice(&job.stdout).expect("a job");
    let half = file.cached()[&1];
    assert!(half.abs_diff(all / 2) <= 2 * MIB, "{half} of {all}: {job}");
    let members = job["members"].as_array().expect("members");
    let of = |name: &str| {
        let is = |member: &&Value| member["member"]["files"][0] == name;
        members.iter().find(is).unwrap_or_else(|| panic!("{name} in {job}"))
    };
    let member = of(path(&file));
    assert_eq!(member["state"], "MEMBER_STATE_SUCCEEDED", "{job}");
    assert_eq!(member["account"]["moved_bytes"], half, "{job}");
    assert_eq!(of("/mnt/disk/absent")["state"], "MEMBER_STATE_MISSING", "{job}");
    let again = json(&migrate(&["--place", "interleave"]));
    assert_eq!(again["state"], "JOB_STATE_SKIPPED", "{again}");
    assert_eq!(again["state_message"], "all of its cache is where it belongs", "{again}");
    // A file has no home.
    let homeless = migrate(&[]);
    let text = String::from_utf8_lossy(&homeless.stderr);
    assert!(code(&homeless) == Some(2) && text.contains("spec.policy.nodes is required"), "{text}");
}

#[test]
fn an_operator_moves_the_cache_of_its_own_files_and_of_those_in_its_grant() {
    let _still = Setting::still_host();
    let [own, granted, foreign] = ["own", "granted", "foreign"].map(|name| OnDisk::new(name, 4));
    chown(own.path(), Some(USER), Some(USER)).expect("root may");
    let config = format!(
        r#"
        [listen]
        mode = "0666"
        [[grants]]
        user = {USER}
        role = "operator"
        files = ["{}"]
        [grants.ceilings]
        named_nodes = true
    "#,
        path(&granted)
    );
    let daemon = Daemon::with(&config);
    let migrate = |file: &OnDisk| {
        let endpoint = daemon.endpoint();
        let arguments = ["migrate", "--endpoint", &endpoint, "--file", path(file), "--to", "1"];
        daemon.ctl_as(USER, &arguments).output().expect("it starts")
    };
    for file in [&own, &granted] {
        let all = cached(file);
        let output = migrate(file);
        assert_eq!(code(&output), Some(0), "{output:?}");
        assert_eq!(file.cached(), Nodes::from([(1, all)]), "{output:?}");
    }
    let all = cached(&foreign);
    let looked = daemon.ctl_as(USER, &["locality", "--file", path(&foreign)]).output();
    let looked = looked.expect("it starts");
    assert_eq!(code(&looked), Some(3), "as if it did not exist: {looked:?}");
    let output = migrate(&foreign);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("you own no file /mnt/disk/foreign"), "{output:?}");
    assert_eq!(foreign.cached(), Nodes::from([(0, all)]));
}
