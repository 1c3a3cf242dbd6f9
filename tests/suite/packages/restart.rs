//! The machine starts again while jobs move, and keeps its disk: first in order, then as if its power had failed. Each boot has tests of
//! its own, which continue with what the boot before has left: `tests/vm/suite --packages --restart`.

use super::{
    real::{HELD_SAYS, Pinned, jvm_goes_round, jvm_on, redis, redis_on},
    *,
};
use crate::{
    app::Layout,
    daemon::{request, slow},
    settings::Setting,
    truth::{Truth, on},
};
use std::mem::ManuallyDrop;

/// The file in which the first boot leaves a digest for the others.
const DIGEST: &str = "/var/lib/numaloc-digest";

/// That this is the boot that a test is for.
fn assert_boot(number: &str) {
    let boot = std::env::var("NUMALOC_BOOT").unwrap_or_default();
    assert_eq!(boot, number, "each boot continues with what the last one has left: use --restart");
}

/// Has the machine start again once this test has ended; see tests/vm/init.
fn restart(how: &str) {
    // Records of the daemon do not need this: they are on the disk before the daemon answers.
    done("sync", &[]);
    fs::write("/run/numaloc-vm-restart", how).expect("written");
}

/// Begins a slow job for a unit, and waits until it moves.
fn begin(system: &System, id: &str, unit: &str, more: &[&str]) {
    let words = ["migrate", "--unit", unit, "--rate", "512K", "--detach", "--id", id];
    ctl(&[&words[..], more].concat());
    system.client().moves(&format!("jobs/{id}"));
}

/// Waits for the end of a job.
fn end(system: &System, id: &str) -> v1::Job {
    let (client, name) = (system.client(), format!("jobs/{id}"));
    until(&format!("{name} ends"), || client.job(&name).end_time.is_some());
    client.job(&name)
}

/// Asserts how two jobs for units that exist again after the restart ended: one continued, the other is interrupted.
fn assert_recovered(system: &System, resumed: &str, stopped: &str) {
    let stopped = end(system, stopped);
    assert_eq!(stopped.state(), v1::JobState::Interrupted, "{}", stopped.state_message);
    assert!(stopped.state_message.contains("the daemon"), "{}", stopped.state_message);
    let resumed = end(system, resumed);
    // The services are pinned at home from their start now, so there may be nothing left to do.
    let ends = [v1::JobState::Succeeded, v1::JobState::Partial, v1::JobState::Skipped];
    assert!(ends.contains(&resumed.state()), "{resumed:?}");
}

fn assert_data() {
    assert_eq!(redis(&["debug", "digest"]), fs::read_to_string(DIGEST).expect("noted"));
    jvm_goes_round();
}

/// Starts an application with remote memory that lives until the machine ends, and returns its pid.
fn of_this_boot() -> i32 {
    let command = Layout::remote(&["anon:32M"]).load("idle").command("of-this-boot");
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_str().expect("text")).collect();
    // It ends with its standard input.
    let line = format!("sleep infinity | {}", words.join(" "));
    done("systemd-run", &["--unit=of-this-boot", "--", "sh", "-c", &line]);
    let pid = || {
        let output = run("pgrep", &["-x", "numaloc-target"]);
        String::from_utf8_lossy(&output.stdout).trim().parse::<i32>().ok()
    };
    until("it runs", || pid().is_some());
    let pid = pid().expect("just seen");
    until("its memory is there", || on(&Truth::of(pid).all(), 1) >= 32 * MIB);
    pid
}

#[test]
fn boot_1_begins_jobs() {
    assert_boot("1");
    let _balancing = Setting::numa_balancing(false);
    let system = ManuallyDrop::new(System::new());
    system.install(1, &["numaloc"]);
    // More than one job at a time. And the daemon ends before the services, or their end would be that of its jobs.
    let config = fs::read_to_string(CONFIG).expect("a conffile");
    let config = config.replace("[queue]\n", "[queue]\nmoves = 4\nmoves_per_node = 4\n");
    fs::write(CONFIG, config).expect("written");
    drop_in("Unit", "After=redis-server.service held.service");
    let server = ManuallyDrop::new(redis_on(1));
    let jvm = ManuallyDrop::new(jvm_on(1));
    fs::write(DIGEST, redis(&["debug", "digest"])).expect("written");
    for service in [&server, &jvm] {
        service.pin(0);
        systemctl(&["enable", &service.unit]);
    }
    systemctl(&["restart", "numalocd.service"]);
    let when = ["--interval", "1h", "--paused", "--id", "kept"];
    ctl(&[&["schedules", "create", "--cgroup", "/numaloc-none"][..], &when].concat());
    begin(&system, "goes-on", &server.unit, &["--resume"]);
    begin(&system, "stops", &jvm.unit, &[]);
    restart("reboot");
}

#[test]
fn boot_2_continues_after_a_reboot() {
    assert_boot("2");
    let _balancing = Setting::numa_balancing(false);
    // It is not installed again: this boot has the one of before.
    let system = ManuallyDrop::new(System);
    until("the daemon is up", || property("numalocd.service", "ActiveState") == "active");
    assert_recovered(&system, "goes-on", "stops");
    assert!(ctl(&["schedules", "ls"]).contains("kept"));
    assert_data();

    // Once more, with memory on the wrong node. No service knows of the end this time.
    let services = ["redis-server.service", "held.service"]
        .map(|unit| ManuallyDrop::new(Pinned { unit: unit.to_owned() }));
    for service in &services {
        service.pin(1);
        systemctl(&["stop", &service.unit]);
    }
    fs::remove_file(HELD_SAYS).expect("what the JVM has said");
    services.iter().for_each(|service| drop(systemctl(&["start", &service.unit])));
    jvm_goes_round();
    services.iter().for_each(|service| service.pin(0));
    let client = system.client();
    let mut by_pid = request(of_this_boot(), slow(64 << 10));
    by_pid.job_id = "of-this-boot".to_owned();
    let on_interrupt = v1::InterruptAction::Resume.into();
    let policy = v1::Policy { on_interrupt, ..v1::Policy::default() };
    by_pid.spec.as_mut().expect("a spec").policy = Some(policy);
    client.try_create(by_pid).expect("it is taken");
    client.moves("jobs/of-this-boot");
    begin(&system, "goes-on-2", "redis-server.service", &["--resume"]);
    begin(&system, "stops-2", "held.service", &[]);
    restart("power");
}

#[test]
fn boot_3_continues_after_the_power_has_failed() {
    assert_boot("3");
    let _balancing = Setting::numa_balancing(false);
    let system = ManuallyDrop::new(System);
    until("the daemon is up", || property("numalocd.service", "ActiveState") == "active");
    assert_recovered(&system, "goes-on-2", "stops-2");
    // A pid means a process of the boot that it was named in, and no later one.
    let by_pid = end(&system, "of-this-boot");
    assert_eq!(by_pid.state(), v1::JobState::Failed, "{by_pid:?}");
    // A job that had ended before is as it was.
    assert_eq!(end(&system, "stops").state(), v1::JobState::Interrupted);
    assert!(ctl(&["schedules", "ls"]).contains("kept"));
    assert_data();
}
