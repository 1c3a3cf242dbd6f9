//! The kernel's own balancing: the daemon mentions it, pauses it, and puts it back whatever happens. And a schedule whose work is
//! undone again and again.

use super::*;
use crate::{
    app::{App, Layout},
    engine::migrate,
    scene::Scene,
    settings::Setting,
};
use numaloc_core::Options;
use numaloc_host::Target;
use std::time::SystemTime;

const SYSCTL: &str = "/proc/sys/kernel/numa_balancing";
/// The note of the value to put back.
const NOTE: &str = "/run/numaloc/numa_balancing";

fn value() -> String {
    fs::read_to_string(SYSCTL).expect("the kernel has it").trim().to_owned()
}

/// A process that touches nothing, so that the kernel has no reason to move its pages.
fn idle(name: &str, region: &str) -> App {
    Layout::remote(&[region]).load("idle").start(name)
}

/// A request for a job with this action on balancing.
pub fn asking(
    pid: i32,
    limits: v1::Limits,
    action: v1::NumaBalancingAction,
) -> v1::CreateJobRequest {
    let mut request = request(pid, limits);
    let policy = v1::Policy { numa_balancing: action.into(), ..v1::Policy::default() };
    request.spec.as_mut().expect("a spec").policy = Some(policy);
    request
}

/// Creates a slow job that pauses balancing, and waits until it has moved something.
fn pausing(client: &Client, pid: i32) -> String {
    let request = asking(pid, slow(4 * MIB), v1::NumaBalancingAction::Pause);
    let name = client.try_create(request).expect("it is taken").name;
    client.moves(&name);
    name
}

#[test]
fn it_is_off_while_any_job_moves_that_asks_for_it() {
    let _on = Setting::numa_balancing(true);
    let daemon = Daemon::with("[queue]\nmoves_per_node = 2\n");
    let client = daemon.client();
    let (one, two) = (idle("paused1", "anon:64M"), idle("paused2", "anon:64M"));
    assert_eq!(value(), "1");
    let (first, second) = (pausing(&client, one.pid()), pausing(&client, two.pid()));
    assert_eq!(value(), "0");
    client.cancel(&first).expect("it is cancelled");
    client.reaches(&first, v1::JobState::Cancelled);
    assert_eq!(value(), "0", "the other one moves still");
    let done = client.reaches(&second, v1::JobState::Succeeded);
    assert_eq!((value().as_str(), done.state_message.as_str()), ("1", ""));
    assert_eq!(fs::read_to_string(NOTE).expect("readable"), "");
}

#[test]
fn what_a_kill_leaves_is_put_back_at_the_next_start() {
    let _on = Setting::numa_balancing(true);
    // Another value than 1, to see that exactly this one is put back. Bit 1 is for slower memory, which this machine does not
    // have.
    let _tiering = Setting::set(SYSCTL, "2");
    let mut daemon = Daemon::start();
    let app = idle("killed", "anon:64M");
    pausing(&daemon.client(), app.pid());
    daemon.kill();
    assert_eq!(value(), "0");
    daemon.spawn();
    // The daemon listens before it has put the setting back, but it answers only after that.
    let client = daemon.client();
    client
        .runtime
        .block_on(client.daemon().get_status(v1::GetStatusRequest {}))
        .expect("it serves");
    assert_eq!(value(), "2");

    // The setting can be put back without starting the daemon, too.
    pausing(&daemon.client(), app.pid());
    let restore = |daemon: &Daemon| {
        let program = env::var_os("NUMALOCD").unwrap_or_else(|| "numalocd".into());
        let mut command = Command::new(program);
        let output =
            command.arg("--restore-settings").arg("--state-dir").arg(&daemon.state).output();
        let output = output.expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = restore(&daemon);
    assert_eq!((code, value().as_str()), (Some(0), "0"), "a living daemon is left alone: {told}");
    daemon.kill();
    let (code, told) = restore(&daemon);
    assert_eq!((code, value().as_str()), (Some(0), "2"), "{told}");
    assert!(told.contains("kernel.numa_balancing = 2"), "{told}");
    assert_eq!(restore(&daemon), (Some(0), String::new()));
}

#[test]
fn a_stop_puts_it_back() {
    let _on = Setting::numa_balancing(true);
    let mut daemon = Daemon::start();
    let app = idle("stopped", "anon:64M");
    pausing(&daemon.client(), app.pid());
    daemon.stop();
    assert_eq!(value(), "1");
    assert_eq!(fs::read_to_string(NOTE).expect("readable"), "");
}

#[test]
fn a_job_says_that_it_is_on_if_that_is_wanted() {
    let _on = Setting::numa_balancing(true);
    let daemon = Daemon::start();
    let client = daemon.client();
    for (action, said) in
        [(v1::NumaBalancingAction::Unspecified, true), (v1::NumaBalancingAction::Ignore, false)]
    {
        let app = idle("warned", "anon:8M");
        let request = asking(app.pid(), v1::Limits::default(), action);
        let name = client.try_create(request).expect("it is taken").name;
        let message = client.reaches(&name, v1::JobState::Succeeded).state_message;
        assert_eq!(message.contains("kernel.numa_balancing is 1"), said, "{message}");
        assert_eq!(value(), "1");
    }
    assert_eq!(
        daemon.log().matches("kernel.numa_balancing is 1").count(),
        2,
        "line and end of one job"
    );
}

#[test]
fn a_schedule_whose_pages_are_pushed_away_reports_it_and_slows_down() {
    /// Long enough for the test to push the pages away in between.
    const INTERVAL: Duration = Duration::from_secs(6);
    let daemon = Daemon::start();
    let client = daemon.client();
    let scene = Scene::of(Layout::remote(&["anon:16M"]).load("idle"));
    let pid = scene.app.pid();
    let schedule = v1::Schedule {
        spec: request(pid, v1::Limits::default()).spec,
        interval: Some(prost_types::Duration { seconds: INTERVAL.as_secs() as i64, nanos: 0 }),
        ..v1::Schedule::default()
    };
    let request = v1::CreateScheduleRequest { schedule: Some(schedule), ..Default::default() };
    let made = client.runtime.block_on(client.schedules().create_schedule(request));
    let name = made.expect("it is taken").into_inner().schedule.expect("a schedule").name;
    let get = || {
        let get = v1::GetScheduleRequest { name: name.clone() };
        let got = client.runtime.block_on(client.schedules().get_schedule(get));
        got.expect("it is there").into_inner().schedule.expect("a schedule")
    };
    // Waits until the schedule has had another run than `last`, and that run has ended.
    let runs = |last: &str| {
        until("it runs", || {
            std::thread::sleep(Duration::from_millis(50));
            let schedule = get();
            schedule.last_job != last && schedule.state() == v1::ScheduleState::Waiting
        });
        get()
    };
    let wait = |schedule: &v1::Schedule| {
        let next =
            SystemTime::try_from(schedule.next_run_time.expect("it repeats")).expect("a time");
        next.duration_since(SystemTime::now()).unwrap_or_default()
    };
    let away = Options { to: "1".parse().ok(), ..Options::default() };
    let mut schedule = runs("");
    for undone in 0..3 {
        assert_eq!(schedule.state_message, "", "after {undone}");
        assert!(wait(&schedule) <= INTERVAL);
        migrate(&[Target::Pid(pid)], &away);
        schedule = runs(&schedule.last_job);
        let outcome = client.job(&schedule.last_job).outcome.expect("an outcome");
        let returned = outcome.returned_bytes.expect("it has looked") as u64;
        assert!(returned > 15 * MIB, "{returned}");
    }
    let message = &schedule.state_message;
    assert!(message.starts_with("placement contested by an unknown mover"), "{message}");
    assert!(message.contains("3 times in a row"), "{message}");
    assert!(wait(&schedule) > INTERVAL, "{:?}", wait(&schedule));
    assert_eq!(daemon.log().matches("placement contested").count(), 1, "once");
    // Once the pages are no longer moved away, it is as before.
    schedule = runs(&schedule.last_job);
    assert_eq!(schedule.state_message, "");
    assert!(wait(&schedule) <= INTERVAL);
    scene.finish();
}
