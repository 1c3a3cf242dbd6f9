//! Jobs beside each other: what QoS classes and the daemon's own rate do on real processes. And who shares what stays.

use super::*;
use crate::{app::Layout, scene::Scene};
use serde_json::Value;

/// Allows two jobs to move to the same node.
const BESIDE: &str = "[queue]\nmoves_per_node = 2\n";

fn create(client: &Client, scene: &Scene, class: v1::QosClass, limits: v1::Limits) -> String {
    let mut request = request(scene.app.pid(), limits);
    let spec = request.spec.as_mut().expect("a spec");
    // Only the class may hold the job back.
    spec.policy = Some(v1::Policy {
        qos_class: class.into(),
        profile: v1::Profile::Fast.into(),
        ..v1::Policy::default()
    });
    client.try_create(request).expect("it is taken").name
}

fn held_back(client: &Client, name: &str) -> String {
    client.job(name).progress.expect("it moves").held_back
}

#[test]
fn best_effort_makes_room_and_continues() {
    let daemon = Daemon::with(BESIDE);
    let client = daemon.client();
    let (first, second) = (Scene::remote(&["anon:64M"]), Scene::remote(&["anon:24M"]));
    let best_effort = create(&client, &first, v1::QosClass::Be, slow(16 * MIB));
    client.moves(&best_effort);
    assert!(!held_back(&client, &best_effort).contains("class"));

    let other = create(&client, &second, v1::QosClass::Ls, slow(8 * MIB));
    client.moves(&other);
    assert!(held_back(&client, &best_effort).contains("higher class"));
    let listed = daemon.ctl(&["jobs", "ls", "-o", "wide"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("throttled: work of a higher class goes first"), "{listed}");
    let moved = |name: &str| client.job(name).progress.expect("it moves").moved_bytes as u64;
    let before = moved(&best_effort);
    client.reaches(&other, v1::JobState::Succeeded);
    // At half of its rate it would have moved 24 MiB in these three seconds.
    let meanwhile = moved(&best_effort) - before;
    assert!(meanwhile < 8 * MIB, "{meanwhile} bytes moved meanwhile");

    let done = client.reaches(&best_effort, v1::JobState::Succeeded);
    assert_eq!(done.progress.expect("how far it came").held_back, "");
    first.assert_on("anon", 0, 64 * MIB);
    second.assert_on("anon", 0, 24 * MIB);
    for scene in [first, second] {
        scene.finish();
    }
}

#[test]
fn all_jobs_together_keep_to_the_daemons_rate() {
    let daemon = Daemon::with(&format!("{BESIDE}rate_bytes_per_second = \"16M\"\n"));
    let client = daemon.client();
    let scenes = [Scene::remote(&["anon:32M"]), Scene::remote(&["anon:32M"])];
    let begin = Instant::now();
    let create = |scene| create(&client, scene, v1::QosClass::Ls, v1::Limits::default());
    let names = scenes.each_ref().map(create);
    for name in &names {
        client.reaches(name, v1::JobState::Succeeded);
    }
    // 64 MiB at 16 MiB a second take four seconds; a batch takes a tenth of a second.
    let took = begin.elapsed();
    assert!(took > Duration::from_millis(3_800), "{took:?}");
    for scene in scenes {
        scene.assert_on("anon", 0, 32 * MIB);
        scene.finish();
    }
}

#[test]
fn a_client_sees_those_processes_that_share_its_memory_which_it_may_move() {
    const USER: u32 = 4711;
    const FILE: &str = "/dev/shm/neighbours";
    let daemon = Daemon::with(&format!(
        "[listen]\nmode = \"0666\"\n[[grants]]\nuser = {USER}\nrole = \"operator\"\n"
    ));
    let segment = format!("segment=file:{FILE}:16M");
    let own = Layout::remote(&[&segment]).load("idle").owned_by(USER);
    let [target, sharer] = ["target", "sharer"].map(|name| own.start(name));
    let stranger = Layout::remote(&[&segment]).load("idle").start("stranger");
    let pid = target.pid().to_string();
    let planned = |output: std::process::Output| -> Value {
        assert!(output.status.success(), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        answer["plan"].clone()
    };
    let arguments = ["plan", "--pid", &pid, "-o", "json"];
    let by_root = planned(daemon.ctl(&arguments));
    let by_user = planned(daemon.ctl_as(USER, &arguments).output().expect("it starts"));
    let names = |plan: &Value, app: &crate::app::App| {
        let all = plan["sharing"].as_array().cloned().unwrap_or_default();
        all.iter().any(|one| one["process"]["pid"] == app.pid())
    };
    assert!(names(&by_root, &sharer) && names(&by_root, &stranger), "{by_root}");
    assert!(names(&by_user, &sharer) && !names(&by_user, &stranger), "{by_user}");
    assert_eq!(by_user["sharing_count"], by_root["sharing_count"]);
    drop((target, sharer, stranger));
    fs::remove_file(FILE).expect("it is there");
}
