//! `schedules` and `workloads`, kept by the fake daemon.

use crate::{
    fake::{Fake, Script},
    run::{json, refused, text},
};
use std::io::{BufRead, BufReader};

#[test]
fn schedules_are_made_with_what_is_given() {
    let fake = Fake::start(Script::default());
    let line = "schedules create --unit redis-server --interval 30s --jitter 5s --ttl-after-gone 1h \
        --paused --request-id r1 --workers 3 --id nightly";
    assert_eq!(text(&fake.run(line), 0), "schedules/7\n");
    let asked = fake.seen("CreateSchedule").remove(0);
    for words in [
        "\"redis-server\"",
        "seconds: 30",
        "seconds: 5,",
        "seconds: 3600",
        "paused: true",
        "\"r1\"",
        "workers: Some(3)",
        "schedule_id: \"nightly\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    refused("create", &fake.run("schedules create --interval 5m"), 2, "--pid");
}

#[test]
fn only_what_is_given_is_changed() {
    let fake = Fake::start(Script::default());
    let update = |options: &str| {
        text(&fake.run(&format!("schedules update 7 {options}")), 0);
        fake.seen("UpdateSchedule").pop().unwrap()
    };
    let asked = update("--interval 5m --ttl-after-gone never");
    assert!(asked.contains("paths: [\"interval\", \"ttl_after_gone\"]"), "{asked}");
    assert!(asked.contains("ttl_after_gone: None") && asked.contains("etag: \"\""), "{asked}");
    assert!(fake.seen("GetSchedule").is_empty());
    // The API replaces a policy as a whole. So the stored one is read first for values that are not given, and its etag
    // guards the update.
    let asked = update("--include-shared=false --workers 2 --pid 5");
    let paths = "paths: [\"spec.target\", \"spec.policy\", \"spec.limits\"]";
    for words in [
        paths,
        "include_shared: false",
        "target_ratio_percent: Some(95)",
        "qos_class: Be",
        "profile: Gentle",
        "order: Damon",
        "workers: Some(2)",
        "etag: \"e1\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    // Each option of the pace is one field; the other fields stay as they are.
    let changes = [
        ("--profile fast", "profile: Fast"),
        ("--max-stall 1s", "max_stall: Some(Duration { seconds: 1, nanos: 0 })"),
        ("--include-gigantic", "include_gigantic: true"),
        ("--node-cpu-max 100", "node_cpu_percent_max: Some(100)"),
        ("--node-bandwidth-max 80G/s", "node_bandwidth_max_bytes_per_second: Some(85899345920)"),
        ("--numa-balancing ignore", "numa_balancing: Ignore"),
        ("--offload require", "offload: Require"),
        ("--order address", "order: Address"),
    ];
    for (option, field) in changes {
        let asked = update(option);
        assert!(asked.contains(field) && asked.contains("paths: [\"spec.policy\"]"), "{asked}");
        let kept = ["profile: Gentle", "order: Damon", "include_shared: true"];
        assert_eq!(
            kept.iter().filter(|kept| asked.contains(**kept)).count(),
            match option {
                "--profile fast" | "--order address" => 2,
                _ => 3,
            }
        );
    }
    assert!(update("--etag mine --jitter 1s").contains("etag: \"mine\""));
    refused("update", &fake.run("schedules update 7"), 2, "nothing to change");
    assert_eq!(text(&fake.run("schedules pause 7"), 0), "schedules/7 waiting\n");
    let asked = fake.seen("UpdateSchedule").pop().unwrap();
    assert!(asked.contains("paths: [\"paused\"]") && asked.contains("paused: true"), "{asked}");
    text(&fake.run("schedules resume 7"), 0);
    let asked = fake.seen("UpdateSchedule").pop().unwrap();
    assert!(asked.contains("paths: [\"paused\"]") && asked.contains("paused: false"), "{asked}");
}

#[test]
fn schedules_are_listed_and_removed() {
    let fake = Fake::start(Script::default());
    assert_eq!(text(&fake.run("schedules ls -q"), 0).lines().count(), 1001);
    let line =
        "schedules ls -q --state paused,target-gone --creator uid:1 --label a=b --workload w";
    text(&fake.run(line), 0);
    let asked = fake.seen("ListSchedules").pop().expect("a call");
    for words in [
        "states: [Paused, TargetGone]",
        "creator: \"uid:1\"",
        "labels: {\"a\": \"b\"}",
        "workload: \"workloads/w\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    assert_eq!(text(&fake.run("schedules run 7"), 0), "jobs/43\n");
    assert!(fake.seen("RunSchedule")[0].contains("schedules/7"));
    assert_eq!(text(&fake.run("schedules run 7 --request-id r1"), 0), "jobs/43\n");
    assert!(fake.seen("RunSchedule")[1].contains("request_id: \"r1\""));
    refused("run", &fake.run("schedules run 7 8 --request-id r1"), 2, "one schedule");
    assert_eq!(fake.seen("RunSchedule").len(), 2);
    let shown = json(&fake.run("schedules get 7 -o json"), 0);
    assert_eq!(shown["schedules"][0]["interval"], "30s");
    let removed = text(&fake.run("schedules delete 7 schedules/8 --etag e1"), 0);
    assert_eq!(removed, "schedules/7 removed\nschedules/8 removed\n");
    assert!(fake.seen("DeleteSchedule")[1].contains("name: \"schedules/8\", etag: \"e1\""));
}

#[test]
fn workloads_are_registered_listed_and_forgotten() {
    let fake = Fake::start(Script::default());
    let line = "workloads register redis --cgroup system.slice/redis.service --container c1 --pod p1 \
        --label app=redis,tier=db --qos be";
    assert_eq!(text(&fake.run(line), 0), "workloads/redis\n");
    let asked = fake.seen("RegisterWorkload").remove(0);
    for words in
        ["\"/system.slice/redis.service\"", "\"c1\"", "\"p1\"", "\"tier\": \"db\"", "qos_class: Be"]
    {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    assert_eq!(text(&fake.run("workloads ls -q"), 0).lines().count(), 1001);
    let removed = json(&fake.run("workloads unregister redis -o json"), 0);
    assert_eq!(removed["removed"][0], "workloads/redis");
    let line = "workloads unregister redis --etag e1 --allow-missing";
    assert_eq!(text(&fake.run(line), 0), "workloads/redis removed\n");
    let asked = fake.seen("UnregisterWorkload").remove(1);
    assert!(asked.contains("etag: \"e1\", allow_missing: true"), "{asked}");
}

#[test]
fn workloads_are_changed_in_part_and_checked() {
    let fake = Fake::start(Script::default());
    let line = "workloads register redis --update --label app=redis --qos lsr --allow-missing --request-id r1";
    assert_eq!(text(&fake.run(line), 0), "workloads/redis\n");
    let taken = text(&fake.run("workloads register redis --cgroup /a --create-only --dry-run"), 0);
    assert!(taken.contains("nothing has changed"), "{taken}");
    let asked = fake.seen("RegisterWorkload");
    for words in ["paths: [\"labels\", \"qos_class\"]", "allow_missing: true", "request_id: \"r1\""]
    {
        assert!(asked[0].contains(words), "{words} is not in {}", asked[0]);
    }
    for words in ["update_mask: None", "create_only: true", "validate_only: true"] {
        assert!(asked[1].contains(words), "{words} is not in {}", asked[1]);
    }
    let nothing = fake.run("workloads register redis --update");
    refused("register", &nothing, 2, "nothing to change");
    let both = fake.run("workloads register redis --update --qos be --create-only");
    refused("register", &both, 2, "cannot be used with");
    let taken = text(&fake.run("workloads unregister redis --validate-only"), 0);
    assert!(taken.contains("nothing has changed"), "{taken}");
    assert!(fake.seen("UnregisterWorkload")[0].contains("validate_only: true"));
}

#[test]
fn workloads_may_be_named_by_their_container_and_leased() {
    let fake = Fake::start(Script::default());
    let line =
        "workloads register redis --container c1 --namespace prod --source me --ttl 5m --etag e1";
    assert_eq!(text(&fake.run(line), 0), "workloads/redis\n");
    let asked = fake.seen("RegisterWorkload").remove(0);
    for words in
        ["cgroup: \"\"", "\"c1\"", "\"prod\"", "source: \"me\"", "seconds: 300", "etag: \"e1\""]
    {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    refused("register", &fake.run("workloads register redis"), 2, "--cgroup");
    assert_eq!(text(&fake.run("workloads renew --source me"), 0), "7 renewed\n");
    assert!(fake.seen("RenewWorkloads")[0].contains("source: \"me\""));
    let shown = text(&fake.run("workloads get redis workloads/web"), 0);
    assert!(
        shown.starts_with("workloads/redis\n") && shown.contains("\nworkloads/web\n"),
        "{shown}"
    );
}

#[test]
fn workloads_are_listed_by_conditions() {
    let fake = Fake::start(Script::default());
    let line = "workloads ls -q -l app!=redis --selector tier --namespace prod --creator uid:7 --source me --prefix a-";
    text(&fake.run(line), 0);
    let asked = fake.seen("ListWorkloads").remove(0);
    for words in [
        "creator: \"uid:7\"",
        "source: \"me\"",
        "id_prefix: \"a-\"",
        "key: \"app\", operator: NotIn, values: [\"redis\"]",
        "key: \"tier\", operator: Exists",
        "namespace: \"prod\"",
    ] {
        assert!(asked.contains(words), "{words} is not in {asked}");
    }
    refused("ls", &fake.run("workloads ls -l app>1"), 2, "not a valid selector");
}

#[test]
fn a_file_declares_a_set() {
    let fake = Fake::start(Script::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("set.json");
    let all: Vec<_> =
        (0..1500).map(|n| format!(r#"{{"name": "w{n}", "cgroup": "/w{n}"}}"#)).collect();
    std::fs::write(&file, all.join("\n")).unwrap();
    let line = format!("workloads replace --source me --ttl 1m -f {}", file.display());
    let told = text(&fake.run(&line), 0);
    assert_eq!(told, "1500 written, 0 unchanged, 0 removed\n");
    let parts = fake.seen("ReplaceWorkloads");
    assert_eq!(parts.len(), 2);
    assert!(parts[0].contains("last: false") && parts[1].contains("last: true"));
    assert!(parts.iter().all(|part| part.starts_with("ReplaceWorkloadsRequest { source: \"me\"")));
    std::fs::write(&file, "{").unwrap();
    refused("replace", &fake.run(&line), 2, "not JSON");
    assert_eq!(fake.seen("ReplaceWorkloads").len(), 2, "what cannot be read is not declared");
}

#[test]
fn a_file_declares_schedules() {
    let fake = Fake::start(Script::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schedules.yaml");
    let spec = "spec: {target: {units: [redis-server.service]}}";
    std::fs::write(&file, format!("name: '7'\ninterval: 5s\n{spec}\n---\nname: nightly\n{spec}\n"))
        .unwrap();
    let line = format!("schedules apply -f {}", file.display());
    let checked = text(&fake.run(&format!("{line} --dry-run")), 0);
    assert_eq!(checked, "schedules/7 configured (dry run)\nschedules/nightly created (dry run)\n");
    let asked = || [fake.seen("CreateSchedule"), fake.seen("UpdateSchedule")].concat();
    assert_eq!(asked().len(), 2);
    assert!(asked().iter().all(|asked| asked.contains("validate_only: true")), "{:?}", asked());
    let applied = text(&fake.run(&line), 0);
    assert_eq!(applied, "schedules/7 configured\nschedules/nightly created\n");
    let [_, checked, changed] = &fake.seen("UpdateSchedule")[..] else { panic!("{:?}", asked()) };
    assert!(checked.contains("validate_only: true") && changed.contains("validate_only: false"));
    for words in ["paths: [\"*\"]", "etag: \"e1\"", "\"redis-server.service\"", "seconds: 5,"] {
        assert!(changed.contains(words), "{words} is not in {changed}");
    }
    std::fs::write(&file, format!("name: a\n{spec}\n---\nname: b\nspecs: 5\n")).unwrap();
    refused("apply", &fake.run(&line), 2, "record 2: ");
    assert_eq!(asked().len(), 6, "a mistake changes nothing");
    refused("apply", &fake.run(&format!("{line} --prune")), 2, "--label");
}

#[test]
fn a_file_declares_workloads() {
    let fake = Fake::start(Script::default());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("workloads.yaml");
    std::fs::write(&file, "name: w1\ncgroup: /other\n---\nname: new\ncgroup: /new\nttl: 1d 2h\n")
        .unwrap();
    let line = format!("workloads apply -f {}", file.display());
    let checked = text(&fake.run(&format!("{line} --dry-run")), 0);
    assert_eq!(checked, "workloads/new created (dry run)\nworkloads/w1 configured (dry run)\n");
    let asked = fake.seen("RegisterWorkload");
    assert!(asked.len() == 2 && asked.iter().all(|asked| asked.contains("validate_only: true")));
    assert_eq!(text(&fake.run(&line), 0), "workloads/new created\nworkloads/w1 configured\n");
    let [.., created, changed] = &fake.seen("RegisterWorkload")[..] else { panic!("calls") };
    assert!(
        created.contains("create_only: true") && created.contains("seconds: 93600"),
        "{created}"
    );
    assert!(changed.contains("cgroup: \"/other\"") && changed.contains("validate_only: false"));
    refused("apply", &fake.run(&format!("{line} --prune")), 2, "--label");
}

#[test]
fn schedules_and_workloads_are_watched() {
    let fake = Fake::start(Script::default());
    let first_lines = |line: &str| {
        let mut child = fake.command(line).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = [lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()];
        child.kill().unwrap();
        child.wait().unwrap();
        told
    };
    for (kind, record, call, name) in [
        ("schedules", "schedule", "WatchSchedules", "schedules/7"),
        ("workloads", "workload", "WatchWorkloads", "workloads/redis"),
    ] {
        let told = first_lines(&format!("{kind} ls -w -o json --creator uid:1"));
        let told = told.map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
        assert_eq!(told[0]["change"], "RECORD_CHANGE_PRESENT");
        assert_eq!(told[0][record]["name"], name);
        assert_eq!(told[1]["change"], "RECORD_CHANGE_CAUGHT_UP");
        let asked = fake.seen(call).remove(0);
        assert!(asked.contains("creator: \"uid:1\""), "{asked}");
        let told = first_lines(&format!("{kind} ls -w -o wide"));
        assert!(told[0].starts_with("NAME ") && told[1].starts_with(name), "{told:?}");
    }
}
