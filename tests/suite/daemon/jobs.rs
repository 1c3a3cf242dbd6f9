//! Jobs on real processes.

use super::*;
use crate::{
    app::Layout,
    forks::{assert_nearly_home, churn},
    scene::Scene,
    settings::Cgroup,
    spread::assert_spread,
};
use numaloc_core::{page_size, pmd_size};
use serde_json::Value;

#[test]
fn a_process_comes_home() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:32M"]);
    let job = client.create(scene.app.pid(), v1::Limits::default());
    let done = client.reaches(&job.name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 32 * MIB);
    let outcome = done.outcome.expect("an outcome");
    let account = outcome.account.expect("an account");
    assert!(account.moved_bytes as u64 >= 32 * MIB, "{account:?}");
    assert_eq!(outcome.processes.len(), 1);
    let [member] = &done.members[..] else { panic!("{:?}", done.members) };
    assert_eq!((member.state(), &member.home_node_ids[..]), (v1::MemberState::Succeeded, &[0][..]));
    assert!(member.flows.iter().all(|flow| (flow.from_node_id, flow.to_node_id) == (1, 0)));
    assert_eq!(member.account.as_ref(), Some(&account));
    assert_eq!(member.movable_after, outcome.movable_after);
    assert!(outcome.movable_after.expect("a look afterwards").local_percent > 99.0);
    // A second job has nothing to do.
    let job = client.create(scene.app.pid(), v1::Limits::default());
    until("the second one ends", || client.job(&job.name).end_time.is_some());
    let skipped = client.job(&job.name);
    assert_eq!(skipped.state(), v1::JobState::Skipped);
    // There are member results where nothing moved, too.
    assert_eq!(skipped.members[0].state(), v1::MemberState::Skipped);
    assert_eq!(skipped.members[0].home_node_ids, [0]);
    assert!(skipped.members[0].movable_after.is_some());
    let events = client.listed_events();
    let kinds: Vec<_> = events.iter().map(v1::Event::r#type).collect();
    assert_eq!(kinds, [v1::EventType::Completed, v1::EventType::Skipped]);
    assert_eq!((&events[0].from_node_ids[..], &events[0].to_node_ids[..]), (&[1][..], &[0][..]));
    scene.finish();
}

#[test]
fn memory_is_spread_over_nodes() {
    let daemon = Daemon::start();
    // Where they have 512 MiB, twelve have no room.
    let has_huge = pmd_size() <= 64 * MIB;
    let thp = format!("thp:{}", 12 * pmd_size());
    let regions = ["anon:24M", &thp];
    let scene = Scene::of(Layout::remote(&regions[..1 + usize::from(has_huge)]).on("0,1"));
    let pid = scene.app.pid().to_string();
    let spread = |arguments: &[&str]| {
        let output = daemon.ctl(&[&["migrate", "--pid", &pid][..], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    spread(&["--place", "interleave"]);
    assert_spread(&scene.app, "anon", page_size(), &[0, 1]);
    if has_huge {
        assert_spread(&scene.app, "thp", pmd_size(), &[0, 1]);
    }
    spread(&["--place", "weighted", "--weights", "0=1,1=3"]);
    assert_spread(&scene.app, "anon", page_size(), &[0, 1, 1, 1]);
    if has_huge {
        assert_spread(&scene.app, "thp", pmd_size(), &[0, 1, 1, 1]);
    }
    scene.finish();
    // One mapping alone.
    let scene = Scene::of(Layout::remote(&["anon:24M", "memfd:16M"]).on("0,1"));
    let pid = scene.app.pid().to_string();
    let map = ["migrate", "--pid", &pid, "--map", "memfd:*=weighted:0=1,1=3", "-o", "json"];
    let job: Value = serde_json::from_slice(&daemon.ctl(&map).stdout).expect("JSON");
    assert_spread(&scene.app, "memfd", page_size(), &[0, 1, 1, 1]);
    scene.assert_on("anon", 1, 24 * MIB);
    let named = &job["outcome"]["named"][0];
    assert_eq!(named["move_bytes"], 4 * MIB, "{job}");
    let output = daemon.ctl(&["migrate", "--pid", &pid, "--map", "sysv:7=interleave:0,1"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("'sysv:0x00000007'"), "{output:?}");
    scene.finish();
    // A process on one node has nowhere to be spread to.
    let scene = Scene::remote(&["anon:8M"]);
    let pid = scene.app.pid().to_string();
    let output = daemon.ctl(&["migrate", "--pid", &pid, "--place", "interleave"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("skipped: only one node"), "{output:?}");
    scene.assert_on("anon", 1, 8 * MIB);
    scene.finish();
}

#[test]
fn a_job_is_held_continues_and_is_watched_to_its_end() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:64M"]);
    let name = client.create(scene.app.pid(), slow(16 * MIB)).name;
    let watch = v1::WatchJobRequest { name: name.clone() };
    let mut watch =
        client.runtime.block_on(client.migrations().watch_job(watch)).unwrap().into_inner();
    client.moves(&name);
    client.pause(&name).expect("it is held");
    client.reaches(&name, v1::JobState::Paused);
    let (before, moved) =
        (scene.nodes("anon"), client.job(&name).outcome.unwrap().account.unwrap());
    let at_home = before.get(&0).copied().unwrap_or(0);
    assert!(at_home > 0 && at_home < 64 * MIB, "{before:?}");
    assert!(moved.moved_bytes > 0);
    // Nothing moves while the job is paused.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(scene.nodes("anon"), before);
    client.resume(&name).expect("it continues");
    let done = client.reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    let account = done.outcome.unwrap().account.unwrap();
    let left: i64 = account.left.iter().map(|left| left.bytes).sum();
    assert_eq!(
        account.found_bytes,
        account.moved_bytes + account.vanished_bytes + left,
        "{account:?}"
    );
    assert!(account.moved_bytes as u64 >= 64 * MIB);
    let mut states = Vec::new();
    while let Some(seen) = client.runtime.block_on(watch.message()).expect("it ends well") {
        let state = seen.job.expect("a job").state();
        if states.last() != Some(&state) {
            states.push(state);
        }
    }
    for state in [v1::JobState::Running, v1::JobState::Paused, v1::JobState::Succeeded] {
        assert!(states.contains(&state), "{states:?}");
    }
    assert_eq!(states.last(), Some(&v1::JobState::Succeeded));
    scene.finish();
}

#[test]
fn a_job_is_cancelled_on_the_way() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:64M"]);
    let name = client.create(scene.app.pid(), slow(8 * MIB)).name;
    client.moves(&name);
    // A second job on the same memory is refused, or joins the first.
    let mut second = request(scene.app.pid(), v1::Limits::default());
    assert_eq!(
        reason(client.try_create(second.clone())),
        (Code::Aborted, "CONFLICTING_JOB".into())
    );
    second.on_conflict = v1::ConflictAction::Join.into();
    assert_eq!(client.try_create(second).expect("it joins").name, name);
    client.cancel(&name).expect("it is cancelled");
    let done = client.reaches(&name, v1::JobState::Cancelled);
    let nodes = scene.nodes("anon");
    assert!(nodes.len() == 2, "{nodes:?}");
    let account = done.outcome.unwrap().account.unwrap();
    let left: i64 = account.left.iter().map(|left| left.bytes).sum();
    assert_eq!(account.found_bytes, account.moved_bytes + account.vanished_bytes + left);
    assert!(account.left.iter().any(|left| left.reason() == v1::LeftReason::Cancelled));
    // A new job brings the rest home.
    let name = client.create(scene.app.pid(), v1::Limits::default()).name;
    client.reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();
}

#[test]
fn a_target_that_goes_in_the_middle_is_reported() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let mut scene = Scene::remote(&["anon:64M"]);
    let name = client.create(scene.app.pid(), slow(8 * MIB)).name;
    client.moves(&name);
    scene.app.kill();
    until("the job ends", || client.job(&name).end_time.is_some());
    let job = client.job(&name);
    let account = job.outcome.as_ref().unwrap().account.clone().unwrap();
    let left: i64 = account.left.iter().map(|left| left.bytes).sum();
    assert_eq!(
        account.found_bytes,
        account.moved_bytes + account.moved_back_bytes + account.vanished_bytes + left
    );
    let answer = client.try_create(request(scene.app.pid(), v1::Limits::default()));
    assert_eq!(reason(answer), (Code::NotFound, "TARGET_NOT_FOUND".into()));
}

/// As Koordinator's contract has it: the event is Completed, and names the process with the error of the kernel.
#[test]
fn an_event_names_the_process_that_ended_in_the_middle() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let mut scene = Scene::remote(&["anon:64M"]);
    let other = Layout::remote(&["anon:16M"]).load("idle").start("other");
    let mut both = request(scene.app.pid(), slow(8 * MIB));
    let spec = both.spec.as_mut().expect("it has one");
    spec.target.as_mut().expect("it has one").pids.push(other.pid());
    let name = client.try_create(both).expect("it is taken").name;
    client.moves(&name);
    scene.app.kill();
    until("the job ends", || client.job(&name).end_time.is_some());
    let events = client.listed_events();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(event.r#type(), v1::EventType::Completed, "{event:?}");
    let failed = event.failed_processes.iter();
    let failed = failed.map(|each| (each.process.map(|it| it.pid), &*each.error));
    let gone = (Some(scene.app.pid()), "No such process (os error 3)");
    assert_eq!(failed.collect::<Vec<_>>(), [gone], "{event:?}");
}

#[test]
fn what_cannot_be_done_is_refused_with_its_reason() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::of(crate::app::Layout::remote(&["anon:8M"]).on("").load("idle"));
    // The process may run on all nodes, so no node is its target.
    let pid = scene.app.pid();
    let answer = client.try_create(request(pid, v1::Limits::default()));
    assert_eq!(reason(answer), (Code::FailedPrecondition, "NO_TARGET_NODE".into()));
    let mut nodes = request(pid, v1::Limits::default());
    let placement = v1::policy::Placement::Nodes(v1::NodesPlacement { node_ids: vec![7] });
    nodes.spec.as_mut().unwrap().policy =
        Some(v1::Policy { placement: Some(placement), ..v1::Policy::default() });
    assert_eq!(
        reason(client.try_create(nodes)),
        (Code::FailedPrecondition, "NO_TARGET_NODE".into())
    );
    for path in ["/../../etc", "relative", "/a/./b", "//"] {
        let mut tricky = request(pid, v1::Limits::default());
        let target = v1::Target { cgroups: vec![path.into()], ..v1::Target::default() };
        tricky.spec.as_mut().unwrap().target = Some(target);
        assert_eq!(
            reason(client.try_create(tricky)),
            (Code::InvalidArgument, "INVALID_FIELD".into())
        );
    }
    let mut many = request(pid, v1::Limits::default());
    many.spec.as_mut().unwrap().target.as_mut().unwrap().pids = (1..=100_000).collect();
    assert_eq!(reason(client.try_create(many)), (Code::InvalidArgument, "INVALID_FIELD".into()));
    assert_eq!(reason(client.try_job("jobs/1")), (Code::NotFound, "RESOURCE_NOT_FOUND".into()));
    scene.finish();
}

#[test]
fn the_command_line_is_a_client() {
    let daemon = Daemon::start();
    let scene = Scene::remote(&["anon:32M"]);
    let pid = scene.app.pid().to_string();
    let output = daemon.ctl(&["migrate", "--pid", &pid, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    scene.assert_on("anon", 0, 32 * MIB);
    for arguments in [
        &["status"][..],
        &["jobs", "ls"],
        &["jobs", "get", "1"],
        &["events"],
        &["topology"],
        &["metrics"],
    ] {
        let output = daemon.ctl(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(!output.stdout.is_empty());
    }
    let output = daemon.ctl(&["locality", "--pid", &pid, "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let output = daemon.ctl(&["jobs", "get", "99"]);
    assert_eq!(output.status.code(), Some(3));
    scene.finish();
}

#[test]
fn a_stop_saves_what_is_under_way() {
    let mut daemon = Daemon::start();
    let scene = Scene::remote(&["anon:64M"]);
    let name = {
        let client = daemon.client();
        let mut resuming = request(scene.app.pid(), slow(8 * MIB));
        let action = v1::InterruptAction::Resume.into();
        resuming.spec.as_mut().unwrap().policy =
            Some(v1::Policy { on_interrupt: action, ..v1::Policy::default() });
        let name = client.try_create(resuming).expect("it is taken").name;
        client.moves(&name);
        name
    };
    let took = daemon.stop();
    assert!(took < Duration::from_secs(10), "{took:?}");
    let nodes = scene.nodes("anon");
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert!(!daemon.socket().exists(), "the socket is left behind");
    daemon.spawn();
    let client = daemon.client();
    let done = client.reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    let account = done.outcome.unwrap().account.unwrap();
    assert!(account.moved_bytes as u64 >= 64 * MIB, "{account:?}");
    scene.finish();
}

#[test]
fn a_server_that_forks_comes_home() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let cgroup = Cgroup::new("jobs-forks");
    let layout = Layout::remote(&["memfd:32M", "anon:8M:cold"]).load("idle");
    let mut scene = Scene::of(layout.within(cgroup.path()));
    churn(&mut scene.app, "memfd");
    let target =
        v1::Target { cgroups: vec!["/numaloc-jobs-forks".into()], ..v1::Target::default() };
    let spec = v1::MigrationSpec { target: Some(target), ..v1::MigrationSpec::default() };
    let request = v1::CreateJobRequest { spec: Some(spec), ..v1::CreateJobRequest::default() };
    let job = client.try_create(request).expect("it is taken");
    let done = client.reaches(&job.name, v1::JobState::Succeeded);
    assert_nearly_home(&scene.nodes("memfd"), 32 * MIB, &done);
    assert_nearly_home(&scene.nodes("anon"), 8 * MIB, &done);
    let after = done.members[0].movable_after.as_ref().expect("a look afterwards");
    assert!(after.local_percent > 99.0, "{done:?}");
    drop(scene.finish());
}
