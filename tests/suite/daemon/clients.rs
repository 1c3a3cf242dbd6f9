//! Clients in other languages.

use super::*;
use crate::{app::Layout, scene::Scene, settings::Cgroup};
use serde_json::Value;

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is set by tests/vm/suite --daemon"))
}

/// grpcurl has no proto file: the daemon's reflection tells it all it needs.
#[test]
fn grpcurl_lists_describes_and_calls() {
    let daemon = Daemon::start();
    let scene = Scene::remote(&["anon:16M"]);
    let pid = scene.app.pid().to_string();
    let output = Command::new("grpcurl.sh").args([&daemon.endpoint(), &pid]).output();
    let output = output.expect("it starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
}

/// grpc-health-probe is what Kubernetes' probes run. Its exit codes: 0 serving, 2 no connection, 3 the call failed, 4 not serving.
#[test]
fn grpc_health_probe_sees_whether_it_serves() {
    let mut daemon = Daemon::start();
    let address = format!("-addr={}", daemon.endpoint());
    // By itself it waits for a second, in which a busy machine may not even have started it.
    let waits = ["-connect-timeout=30s", "-rpc-timeout=30s"];
    let probe = |service: &str, waits: &[&str]| {
        let service = format!("-service={service}");
        let mut program = Command::new("grpc-health-probe");
        let output = program.args([&address, &service]).args(waits).output();
        let output = output.expect("it starts");
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    for service in ["", "numaloc.v1.MigrationService", "numaloc.v1.DaemonService"] {
        let (code, said) = probe(service, &waits);
        assert_eq!(code, Some(0), "{service}: {said}");
        assert!(said.contains("status: SERVING"), "{service}: {said}");
    }
    assert_eq!(probe("numaloc.v1.NoService", &waits).0, Some(3));
    // A drained daemon answers, and takes jobs that wait.
    assert!(daemon.ctl(&["drain"]).status.success());
    assert_eq!(probe("", &waits).0, Some(0));
    daemon.stop();
    let (code, said) = probe("", &[]);
    assert_eq!(code, Some(2), "{said}");
}

/// The client's code is the package of examples/python, as pip has installed it.
#[test]
fn python_runs_a_job_to_its_end() {
    let daemon = Daemon::start();
    let scene = Scene::remote(&["anon:16M"]);
    let output = python(&variable("NUMALOC_CLIENT"))
        .args([daemon.endpoint(), scene.app.pid().to_string()])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert!(said["moved_bytes"].as_u64().is_some_and(|bytes| bytes >= 16 * MIB), "{said}");
    assert_eq!(said["events"].as_array().map(Vec::len), Some(1), "{said}");
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
}

/// Runs the examples that users are shown, one for each use. `example` is the command that runs one of them.
fn examples_work(example: impl Fn(&str) -> Command) {
    let daemon = Daemon::start();
    let says = |name: &str, arguments: &[&str]| {
        let output = example(name).arg(daemon.endpoint()).args(arguments).output();
        let output = output.expect("it starts");
        let said = text(&output.stdout);
        assert!(output.status.success(), "{name}: {said}{}", text(&output.stderr));
        said
    };
    let scene = Scene::remote(&["anon:16M"]);
    says("migrate", &[&scene.app.pid().to_string()]);
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
    // A pid that no process has, and above all that the kernel gives.
    let refused = example("migrate").arg(daemon.endpoint()).arg("999999999").output();
    let refused = refused.expect("it starts");
    let message = text(&refused.stderr);
    assert!(!refused.status.success() && message.contains("TARGET_NOT_FOUND: "), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    let cgroup = Cgroup::new("example");
    let scene = Scene::of(Layout::remote(&["anon:16M"]).within(cgroup.path()));
    let said = says("schedule", &["/numaloc-example"]);
    assert!(said.contains("1 workloads renewed"), "{said}");
    scene.assert_on("anon", 0, 16 * MIB);
    scene.finish();
    let said = says("events", &["events/0", "2"]);
    let of_job = |line: &&str| line.contains("EVENT_TYPE_COMPLETED jobs/");
    assert_eq!((said.lines().count(), said.lines().filter(of_job).count()), (2, 1), "{said}");
    let said = says("jobs", &["1"]);
    assert!(said.starts_with("2 jobs ") && said.contains("JOB_STATE_SUCCEEDED"), "{said}");
}

#[test]
fn the_examples_in_python_work() {
    let examples = variable("NUMALOC_EXAMPLES");
    examples_work(|name| python(&format!("{examples}/python/{name}.py")));
}

#[test]
fn the_examples_in_go_work() {
    examples_work(|name| Command::new(format!("example-{name}")));
}

/// Python runs from the files of the machine around this virtual one.
fn python(script: &str) -> Command {
    let mut command = Command::new("chroot");
    command.args(["/mnt/host".to_owned(), variable("NUMALOC_PYTHON"), script.to_owned()]);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
