//! Schedules on real processes.

use super::*;
use crate::{cli::numalocctl, scene::Scene};

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
