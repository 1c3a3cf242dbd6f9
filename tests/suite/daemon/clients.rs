//! Clients in other languages.

use super::*;
use crate::scene::Scene;
use serde_json::Value;

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is set by tests/vm/suite --daemon"))
}

/// It has no proto file at hand: the daemon tells it all it needs.
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

/// Its code is generated from the proto files.
#[test]
fn python_runs_a_job_to_its_end() {
    let daemon = Daemon::start();
    let scene = Scene::remote(&["anon:16M"]);
    let output = Command::new("chroot")
        .args(["/mnt/host", "env", &format!("PYTHONPATH={}", variable("NUMALOC_STUBS"))])
        .args([variable("NUMALOC_PYTHON"), variable("NUMALOC_CLIENT")])
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

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
