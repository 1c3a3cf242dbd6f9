//! Calls that do not return: they hold up neither clients nor the end of the daemon, and other calls are refused with the reason.

use super::*;
use crate::{
    app::Layout,
    hog::{Hog, companions},
    scene::Scene,
};
use prost_types::Duration as Span;

/// Far below the time for which a run waits for a call without a request to end.
const SOON: Duration = Duration::from_secs(20);

fn for_a_second() -> v1::Limits {
    v1::Limits { timeout: Some(Span { seconds: 1, nanos: 0 }), ..v1::Limits::default() }
}

/// Waits until a job has failed, which takes no longer than `SOON`. The message names the thread.
fn fails(client: &Client, job: &str, hog: &Hog) -> String {
    let begin = Instant::now();
    let message = client.reaches(job, v1::JobState::Failed).state_message;
    assert!(begin.elapsed() < SOON, "{:?}: {message}", begin.elapsed());
    assert!(message.contains("has not returned for "), "{message}");
    assert!(message.contains(&hog.name()), "{message}");
    message
}

#[test]
fn a_call_that_does_not_return_holds_up_only_itself() {
    let scene = Scene::remote(&["anon:16M"]);
    let other = Layout::remote(&["anon:8M"]).load("idle").start("other");
    let mut daemon = Daemon::start();
    let client = daemon.client();
    let hog = Hog::unlimited();

    // A cancel works.
    let job = client.create(scene.app.pid(), v1::Limits::default()).name;
    client.reaches(&job, v1::JobState::Running);
    until("it calls", || companions() > 0);
    let begin = Instant::now();
    client.cancel(&job).expect("it is taken");
    client.reaches(&job, v1::JobState::Cancelled);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    let warning = format!("{} without a pause: calls that move memory may not", hog.name());
    until("the run has looked for it", || daemon.log().contains(&warning));
    // Calls that would hang, too, are refused with the reason, and looks are not.
    let (begin, calls) = (Instant::now(), companions());
    let refused = client.create(other.pid(), v1::Limits::default()).name;
    let message = fails(&client, &refused, &hog);
    assert!(message.starts_with("no memory is moved now: "), "{message}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    let looked = daemon.ctl(&["locality", "--pid", &other.pid().to_string()]);
    assert!(looked.status.success(), "{looked:?}");
    // The probe is one more.
    let again = client.create(other.pid(), v1::Limits::default()).name;
    fails(&client, &again, &hog);
    assert!(companions() <= calls + 1, "each job leaves one behind");

    // So do a stop, a start on the same state, and both after a kill.
    let took = daemon.stop();
    assert!(took < SOON, "{took:?}");
    assert!(companions() > 0, "the calls have not returned");
    daemon.spawn();
    let client = daemon.client();
    assert_eq!(client.job(&refused).state(), v1::JobState::Failed);
    let job = client.create(other.pid(), for_a_second()).name;
    fails(&client, &job, &hog);
    let job = client.create(scene.app.pid(), v1::Limits::default()).name;
    fails(&client, &job, &hog);
    daemon.kill();
    daemon.spawn();
    let client = daemon.client();

    // Once the thread is gone all is as before, also in a daemon that has seen it.
    let job = client.create(other.pid(), for_a_second()).name;
    fails(&client, &job, &hog);
    drop(hog);
    until("the calls return", || companions() == 0);
    for pid in [other.pid(), scene.app.pid()] {
        let job = client.create(pid, v1::Limits::default()).name;
        client.reaches(&job, v1::JobState::Succeeded);
    }
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
}
