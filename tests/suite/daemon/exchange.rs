//! Jobs that find room in exchange for memory of registered best-effort workloads.

use super::*;
use crate::{
    app::{App, Layout},
    exchange::{SIZE, fill_home, nodes},
    scene::{SLACK, Scene},
    settings::Cgroup,
    truth::on,
};

/// An application with memory on node 0 in this cgroup.
fn within(cgroup: &Cgroup) -> App {
    let app = Layout::remote(&["anon:128M"]).memory_on(0).on("").load("idle");
    app.within(cgroup.path()).start("be")
}

fn register(daemon: &Daemon, cgroup: &Cgroup, id: &str, class: &str) {
    let path = format!("/{}", cgroup.path().file_name().expect("a name").display());
    let asked = ["workloads", "register", id, "--cgroup", &path, "--qos", class];
    let output = daemon.ctl(&asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn exchange(client: &Client, scene: &Scene, class: v1::QosClass) -> v1::Job {
    let mut asked = request(scene.app.pid(), v1::Limits::default());
    asked.spec.as_mut().expect("a spec").policy = Some(v1::Policy {
        make_room: v1::MakeRoom::Exchange.into(),
        profile: v1::Profile::Fast.into(),
        qos_class: class.into(),
        ..v1::Policy::default()
    });
    client.try_create(asked).expect("it is taken")
}

#[test]
fn registered_best_effort_makes_room_and_others_do_not() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:96M"]);
    let (first, second) = (Cgroup::new("exchange-be"), Cgroup::new("exchange-ls"));
    let (mut other, mut spared) = (within(&first), within(&second));
    register(&daemon, &first, "be", "be");
    register(&daemon, &second, "ls", "ls");
    let mut ballast = fill_home();
    let job = exchange(&client, &scene, v1::QosClass::Ls);
    let done = client.reaches(&job.name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, SIZE);
    let plan = done.plan.expect("a plan");
    assert!(plan.expected_room[0].exchange_bytes as u64 > SIZE / 2, "{plan:?}");
    let outcome = done.outcome.expect("an outcome");
    let [partner] = &outcome.partners[..] else { panic!("{outcome:?}") };
    let cgroups = &partner.member.as_ref().expect("a name").cgroups;
    assert!(cgroups[0].ends_with("exchange-be"), "{partner:?}");
    let moved = partner.account.as_ref().expect("an account").moved_bytes as u64;
    // To where the waiting memory comes from, which is another node than 1 where there are more.
    let away: u64 =
        nodes(&other).iter().filter(|(node, _)| **node != 0).map(|(_, bytes)| bytes).sum();
    assert!(moved.abs_diff(away) <= SLACK, "{partner:?}");
    assert!(outcome.calls.expect("calls").exchanged_bytes as u64 > SIZE / 2);
    assert_eq!(on(&nodes(&spared), 0), 128 * MIB, "the better class stays");
    for app in [&mut other, &mut spared, &mut ballast] {
        app.check();
    }
    drop((ballast, other, spared));
    scene.finish();
}

#[test]
fn what_a_schedule_moves_makes_no_room() {
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::remote(&["anon:96M"]);
    let cgroup = Cgroup::new("exchange-own");
    let mut other = within(&cgroup);
    register(&daemon, &cgroup, "be", "be");
    let path = format!("/{}", cgroup.path().file_name().expect("a name").display());
    let schedule = ["schedules", "create", "--cgroup", &path, "--to", "0", "--interval", "1h"];
    let output = daemon.ctl(&schedule);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut ballast = fill_home();
    let job = exchange(&client, &scene, v1::QosClass::Ls);
    let done = client.reaches(&job.name, v1::JobState::Partial);
    assert!(done.outcome.expect("an outcome").partners.is_empty());
    assert_eq!(on(&nodes(&other), 0), 128 * MIB);
    for app in [&mut other, &mut ballast] {
        app.check();
    }
    drop((ballast, other));
    scene.finish();
}
