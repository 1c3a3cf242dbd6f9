//! The packaged daemon and its service manager: socket activation, the journal, reloads, the watchdog, stops, and a step back to an
//! earlier version.

use super::*;
use crate::daemon::slow;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use redb::{Database, TableDefinition};

const SERVICE: &str = "numalocd.service";

fn installed() -> System {
    let system = System::new();
    system.install(1, &["numaloc"]);
    system
}

/// The entries of the journal of a unit that match.
fn journal(unit: &str, matches: &[&str]) -> Vec<Value> {
    done("journalctl", &["--sync"]);
    let all = ["-q", "--no-pager", "--boot", "-o", "json", "-u", unit];
    let text = done("journalctl", &[&all[..], matches].concat());
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn has(entry: &Value, fields: &[(&str, &str)]) -> bool {
    fields.iter().all(|&(name, value)| entry[name].as_str() == Some(value))
}

#[test]
fn a_client_starts_it_by_its_socket() {
    let system = installed();
    // Clients of before must not be what starts it.
    systemctl(&["stop", SERVICE]);
    assert_eq!(property(SERVICE, "ActiveState"), "inactive");
    assert_eq!(property("numalocd.socket", "ActiveState"), "active");
    assert!(ctl(&["status"]).contains("uid:0"));
    assert_eq!(property(SERVICE, "ActiveState"), "active");
    assert_ne!(system.pid(), 0);
}

#[test]
fn the_journal_has_a_field_for_each_value() {
    let system = installed();
    let scene = Scene::remote(&["anon:8M"]);
    let client = system.client();
    let name = client.create(scene.app.pid(), v1::Limits::default()).name;
    client.reaches(&name, v1::JobState::Succeeded);
    scene.finish();

    // Jobs of the services of other tests have had the same name.
    let this = format!("_PID={}", system.pid());
    let audit = journal(SERVICE, &[&this, "TARGET=audit"]);
    let told = [
        ("_SYSTEMD_UNIT", SERVICE),
        ("SYSLOG_IDENTIFIER", "numalocd"),
        ("PRIORITY", "6"),
        ("NUMALOC_CALLER", "uid:0"),
        ("NUMALOC_METHOD", "CreateJob"),
        ("NUMALOC_RESULT", "ok"),
    ];
    let entry = audit.iter().find(|entry| has(entry, &told)).unwrap_or_else(|| panic!("{audit:?}"));
    let subject = entry["NUMALOC_SUBJECT"].as_str().expect("text");
    assert!(subject.starts_with(&name), "{subject}");
    // What ships logs as text has the message alone.
    let message = entry["MESSAGE"].as_str().expect("text");
    for part in ["change ", r#"caller="uid:0""#, r#"method="CreateJob""#, &name] {
        assert!(message.contains(part), "{part}: {message}");
    }

    let of_job = journal(SERVICE, &[&this, &format!("NUMALOC_JOB={name}")]);
    let has_ended = |entry: &&Value| {
        entry["MESSAGE"].as_str().is_some_and(|message| message.starts_with("job ended "))
    };
    let ended = of_job.iter().find(has_ended);
    let ended = ended.unwrap_or_else(|| panic!("{of_job:?}"));
    let state = ended["NUMALOC_STATE"].as_str().expect("text");
    assert!(state.eq_ignore_ascii_case("succeeded"), "{ended}");
}

#[test]
fn a_reload_takes_grants_over_and_leaves_jobs_alone() {
    let system = installed();
    let scene = Scene::remote(&["anon:8M"]);
    let client = system.client();
    let name = client.create(scene.app.pid(), slow(4096)).name;
    let pid = system.pid();
    let shipped = fs::read_to_string(CONFIG).expect("a conffile");
    fs::write(CONFIG, format!("nonsense = 1\n{shipped}")).expect("written");
    // The unit checks the files before it asks the daemon to read them.
    assert!(!run("systemctl", &["reload", SERVICE]).status.success());
    let says = || journal(SERVICE, &[]).iter().any(|entry| entry.to_string().contains("nonsense"));
    until("the journal has what is wrong", says);
    assert_eq!(system.pid(), pid);

    let grant = "\n[[grants]]\ngroup = \"numaloc\"\nrole = \"viewer\"\n";
    fs::write(CONFIG, shipped + grant).expect("written");
    systemctl(&["reload", SERVICE]);
    // Not the user nobody, whom no grant reaches.
    let arguments = ["-u", "daemon", "-G", "numaloc", "--", "/usr/bin/numalocctl", "jobs", "ls"];
    until("the grant is in force", || run("runuser", &arguments).status.success());
    assert_eq!(system.pid(), pid);
    assert!(client.job(&name).end_time.is_none(), "jobs continue");
    client.cancel(&name).expect("it is cancelled");
    client.reaches(&name, v1::JobState::Cancelled);
    scene.finish();
}

/// Nothing of a process that is held runs, so its dispatcher does not serve the watchdog.
#[test]
fn one_whose_dispatcher_is_stuck_is_started_again_with_its_jobs() {
    let system = installed();
    drop_in("Service", "WatchdogSec=10");
    systemctl(&["restart", SERVICE]);
    let scene = Scene::remote(&["anon:64M"]);
    let name = resuming(&system.client(), scene.app.pid());
    let pid = system.pid();
    kill(Pid::from_raw(pid), Signal::SIGSTOP).expect("it is there");
    system.comes_back(pid);
    assert_eq!(property(SERVICE, "NRestarts"), "1");
    system.client().reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();
}

#[test]
fn a_stop_while_it_moves_leaves_nothing_half_done() {
    let system = installed();
    let scene = Scene::remote(&["anon:64M"]);
    let client = system.client();
    let name = resuming(&client, scene.app.pid());
    // No client may start it again at once.
    systemctl(&["stop", "numalocd.socket", SERVICE]);
    assert_eq!(property(SERVICE, "Result"), "success");
    let nodes = scene.nodes("anon");
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    assert_eq!(nodes.values().sum::<u64>(), 64 * MIB);
    systemctl(&["start", "numalocd.socket", SERVICE]);
    system.client().reaches(&name, v1::JobState::Succeeded);
    scene.assert_on("anon", 0, 64 * MIB);
    scene.finish();
}

/// A later version may write its store in another form. An earlier one then has to refuse it and leave it as it is.
#[test]
fn a_step_back_to_an_earlier_version_is_refused_clearly() {
    let system = System::new();
    system.install(2, &["numaloc"]);
    let when = ["--interval", "1h", "--paused", "--id", "kept"];
    ctl(&[&["schedules", "create", "--cgroup", "/numaloc-none"][..], &when].concat());
    systemctl(&["stop", "numalocd.socket", SERVICE]);
    form(2);
    let later = fs::read(STORE).expect("a store");

    // dpkg is done, whether the daemon starts or not.
    system.install(1, &["numaloc"]);
    systemctl(&["stop", "numalocd.socket", SERVICE]);
    let told = journal(SERVICE, &[]);
    let words = "has version 2 and this numalocd knows version 1";
    assert!(told.iter().any(|entry| entry.to_string().contains(words)), "{told:?}");
    let output = run("systemctl", &["start", SERVICE]);
    assert!(!output.status.success(), "{output:?}");
    systemctl(&["stop", SERVICE]);
    assert!(fs::read(STORE).expect("a store") == later, "the store was changed");

    form(1);
    systemctl(&["reset-failed"]);
    systemctl(&["start", "numalocd.socket", SERVICE]);
    assert!(ctl(&["schedules", "ls"]).contains("kept"));
}

/// Gives the store the number of another form.
fn form(number: u64) {
    let store = Database::open(STORE).expect("a store that is closed");
    let transaction = store.begin_write().expect("no other process writes");
    let meta = TableDefinition::<&str, u64>::new("meta");
    transaction.open_table(meta).expect("its table").insert("schema", number).expect("room");
    transaction.commit().expect("written");
}

#[test]
fn a_plugin_that_is_stuck_is_started_again() {
    const PLUGIN: &str = "numaloc-nri.service";
    let system = System::new();
    system.install(1, &["numaloc", "numaloc-nri"]);
    // No runtime exists. It waits for one, which is not to be stuck. systemd 252 shows the bound of running services.
    systemctl(&["start", PLUGIN]);
    assert_eq!(property(PLUGIN, "WatchdogUSec"), "30s");
    let directory = format!("/run/systemd/system/{PLUGIN}.d");
    fs::create_dir_all(&directory).expect("systemd's directory");
    fs::write(format!("{directory}/test.conf"), "[Service]\nWatchdogSec=10\n").expect("a drop-in");
    systemctl(&["daemon-reload"]);
    systemctl(&["restart", PLUGIN]);
    let pid = || property(PLUGIN, "MainPID").parse::<i32>().expect("a pid");
    let first = pid();
    for _ in 0..3 {
        let fed = || property(PLUGIN, "WatchdogTimestampMonotonic").parse::<u64>().unwrap_or(0);
        let before = fed();
        until("it serves the watchdog", || fed() > before);
    }
    assert_eq!((pid(), property(PLUGIN, "NRestarts")), (first, "0".into()));
    kill(Pid::from_raw(first), Signal::SIGSTOP).expect("it is there");
    until("systemd starts it again", || {
        ![0, first].contains(&pid()) && property(PLUGIN, "ActiveState") == "active"
    });
    assert_eq!(property(PLUGIN, "NRestarts"), "1");
    fs::remove_dir_all(directory).expect("the drop-in");
    drop(system);
}
