//! The daemon on kernels that cannot give copies to a DMA engine.

use super::*;
use crate::scene::Scene;
use numaloc_core::page_size;

/// A job for this process with this policy about offload.
fn job(client: &Client, scene: &Scene, offload: v1::Offload) -> v1::Job {
    let mut asked = request(scene.app.pid(), v1::Limits::default());
    let policy = v1::Policy { offload: offload.into(), ..v1::Policy::default() };
    asked.spec.as_mut().expect("a spec").policy = Some(policy);
    client.try_create(asked).expect("it is taken")
}

#[test]
fn auto_moves_by_cpu_and_says_why() {
    // Whether the operator allows it or not: the kernel is what keeps it from being used.
    for config in ["", "[offload]\nenable = true\npolling = true\n"] {
        let daemon = Daemon::with(config);
        let client = daemon.client();
        let scene = Scene::remote(&["anon:32M"]);
        let job = job(&client, &scene, v1::Offload::Unspecified);
        let done = client.reaches(&job.name, v1::JobState::Succeeded);
        let offload = done.outcome.expect("an outcome").offload.expect("an account of it");
        assert_eq!(offload.requested(), v1::Offload::Auto);
        assert!(!offload.used && !offload.failed, "{offload:?}");
        assert!(offload.reason.starts_with("unavailable: "), "{offload:?}");
        assert_eq!((offload.offloaded_folios, offload.failed_folios), (None, None));
        assert!(offload.cpu_folios >= Some(32 * MIB as i64 / page_size() as i64), "{offload:?}");
        assert!(!fs::exists("/run/numaloc/offload").expect("readable"));
        scene.assert_on("anon", 0, 32 * MIB);
        scene.finish();
    }
}

#[test]
fn require_fails_with_the_reason_and_moves_nothing() {
    let daemon = Daemon::with("[offload]\nenable = true\n");
    let client = daemon.client();
    let scene = Scene::remote(&["anon:16M"]);
    let job = job(&client, &scene, v1::Offload::Require);
    let failed = client.reaches(&job.name, v1::JobState::Failed);
    assert!(failed.state_message.contains("unavailable: this kernel"), "{failed:?}");
    assert!(failed.outcome.is_none(), "{failed:?}");
    scene.assert_on("anon", 1, 16 * MIB);
    // The same memory goes home as soon as CPUs may copy it.
    let job = self::job(&client, &scene, v1::Offload::Off);
    let done = client.reaches(&job.name, v1::JobState::Succeeded);
    let offload = done.outcome.expect("an outcome").offload.expect("an account of it");
    assert!(offload.requested() == v1::Offload::Off && offload.reason.is_empty(), "{offload:?}");
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
}
