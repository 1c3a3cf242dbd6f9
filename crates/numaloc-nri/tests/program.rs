//! Tests of the whole program: what it prints without connecting to anybody. That they are there also has the program built for the
//! suites (`tests/built.sh`).

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn numaloc_nri(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_numaloc-nri")).args(args).output().expect("it starts")
}

#[test]
fn it_says_what_it_is() {
    let output = numaloc_nri(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    let version = format!("numaloc-nri {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn a_configuration_is_checked() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nri.toml");
    let path = file.to_str().expect("UTF-8");
    fs::write(&file, "lease_seconds = 1\n").expect("written");
    let output = numaloc_nri(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(path) && said.contains("lease_seconds"), "{output:?}");
    fs::write(&file, "lease_seconds = 30\n").expect("written");
    let output = numaloc_nri(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn nonsense_is_refused() {
    let output = numaloc_nri(&["--nope"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nope"), "{output:?}");
    let output = numaloc_nri(&["--source", "crio"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("auto, nri, containerd"), "{output:?}");
}
