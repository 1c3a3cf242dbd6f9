//! Tests of the whole program: its output without any connection.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn numaloc_agent(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numaloc-agent"));
    command.args(args).env_remove("NODE_NAME").env_remove("KUBERNETES_SERVICE_HOST");
    command.env("KUBECONFIG", "/nowhere").output().expect("it starts")
}

#[test]
fn it_says_what_it_is() {
    let output = numaloc_agent(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    let version = format!("numaloc-agent {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn a_configuration_is_checked() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agent.toml");
    let path = file.to_str().expect("UTF-8");
    fs::write(&file, "lease = \"1s\"\n").expect("written");
    let output = numaloc_agent(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(path) && said.contains("lease"), "{output:?}");
    fs::write(&file, "lease = \"30s\"\n").expect("written");
    let output = numaloc_agent(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_is_missing_is_said() {
    for (args, expected) in [
        (&[][..], "set NODE_NAME"),
        (&["--node-name", "a"], "run in a pod with a service account, or set KUBECONFIG"),
    ] {
        let output = numaloc_agent(args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(expected), "{output:?}");
    }
    assert_eq!(numaloc_agent(&["--nope"]).status.code(), Some(2));
}
