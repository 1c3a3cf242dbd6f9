//! Schedules on real processes.

use super::*;
use crate::{
    app::{App, Layout},
    cli::numalocctl,
    scene::Scene,
    settings::{Cgroup, Setting},
    truth::Truth,
};

fn every(pid: i32, seconds: i64) -> v1::CreateScheduleRequest {
    let schedule = v1::Schedule {
        spec: request(pid, v1::Limits::default()).spec,
        interval: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..v1::Schedule::default()
    };
    v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() }
}

#[test]
fn memory_that_is_pushed_away_comes_back_again_and_again() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid();
    let made = client.runtime.block_on(client.schedules().create_schedule(every(pid, 1)));
    let name = made.expect("it is taken").into_inner().schedule.unwrap().name;
    for round in 0..4 {
        until(&format!("it comes home, round {round}"), || {
            scene.nodes("anon").get(&0).copied() == Some(16 * MIB)
        });
        let pushed =
            numalocctl(&["migrate", "--standalone", "--pid", &pid.to_string(), "--to", "1"]);
        // The daemon may be moving it home at the same moment. Then not all of it is away.
        assert!(matches!(pushed.status.code(), Some(0 | 6)), "{pushed:?}");
    }
    until("it comes home at last", || scene.nodes("anon").get(&0).copied() == Some(16 * MIB));
    let get = v1::GetScheduleRequest { name: name.clone() };
    let schedule = client.runtime.block_on(client.schedules().get_schedule(get)).unwrap();
    let schedule = schedule.into_inner().schedule.unwrap();
    assert!(!schedule.last_job.is_empty() && schedule.last_run_time.is_some());
    let delete = v1::DeleteScheduleRequest { name, ..Default::default() };
    client.runtime.block_on(client.schedules().delete_schedule(delete)).unwrap();
    scene.finish();
}

/// An operator's schedule for the containers of Docker or Podman: the memory of each pinned one comes home, whenever
/// it is started, without a request of a client.
#[test]
fn a_schedule_of_a_file_follows_all_cgroups_that_match() {
    let _still = Setting::still_host();
    let config = r#"
        [[schedule]]
        name = "containers"
        interval = "1s"
        spec.target.cgroups = ["/numaloc-docker-*.scope"]
    "#;
    let daemon = Daemon::with(config);
    let cgroups = ["docker-1.scope", "docker-2.scope", "podman-1.scope"].map(Cgroup::new);
    let app = |cgroup: &Cgroup, name: &str, cpus: &str| {
        Layout::remote(&["anon:8M"]).on(cpus).within(cgroup.path()).start(name)
    };
    let nodes = |app: &App| Truth::of(app.pid()).region(app.range("anon"));
    let is_home = |app: &App| nodes(app).get(&0).copied() == Some(8 * MIB);
    let unpinned = app(&cgroups[0], "unpinned", "");
    let of_another = app(&cgroups[2], "of-another", "0");
    let first = app(&cgroups[0], "first", "0");
    until("the first comes home", || is_home(&first));
    let second = app(&cgroups[1], "second", "0");
    until("one that is started later comes home", || is_home(&second));
    for app in [&unpinned, &of_another] {
        assert_eq!(nodes(app), [(1, 8 * MIB)].into());
    }
    let output = numalocctl(&["--endpoint", &daemon.endpoint(), "schedules", "ls"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("/numaloc-docker-*.scope"), "{text}");
    for app in [unpinned, of_another, first, second] {
        drop(app);
    }
}

#[test]
fn a_schedule_waits_for_a_target_that_has_gone() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let mut scene = Scene::remote(&["anon:8M"]);
    let made =
        client.runtime.block_on(client.schedules().create_schedule(every(scene.app.pid(), 1)));
    let name = made.expect("it is taken").into_inner().schedule.unwrap().name;
    let get = || {
        let get = v1::GetScheduleRequest { name: name.clone() };
        let schedule = client.runtime.block_on(client.schedules().get_schedule(get)).unwrap();
        schedule.into_inner().schedule.unwrap()
    };
    until("it has run", || !get().last_job.is_empty());
    scene.app.kill();
    until("it says that the target is gone", || get().state() == v1::ScheduleState::TargetGone);
    let schedule = get();
    assert!(schedule.gone_time.is_some() && !schedule.state_message.is_empty(), "{schedule:?}");
}
