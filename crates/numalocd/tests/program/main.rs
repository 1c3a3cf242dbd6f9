//! Tests of the whole program. Here: what it prints without serving anybody. `operators`: as operators use it. `accounts`: while
//! the user database hangs. `flood`: under a thousand connections. `resctrl`: with a resctrl group. `stores`: with stores of earlier versions. `tenants`:
//! beside clients that take all they can get.
//!
//! One binary, because each links the whole daemon.

mod accounts;
mod flood;
mod operators;
mod resctrl;
mod stores;
mod tenants;

use std::{
    fs,
    process::{Command, Output},
};

fn numalocd(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_numalocd"));
    command.args(args).env_remove("NOTIFY_SOCKET").output().expect("it starts")
}

#[test]
fn it_says_what_it_is() {
    let output = numalocd(&["--version"]);
    assert!(output.status.success(), "{output:?}");
    let version = format!("numalocd {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn a_configuration_is_checked_and_nothing_is_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("numalocd.toml");
    let path = file.to_str().expect("UTF-8");
    fs::write(&file, "[queue]\nmoves = 0\n").expect("written");
    let output = numalocd(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("moves"), "{output:?}");
    fs::write(&file, "").expect("written");
    let output = numalocd(&["--check-config", "--config", path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read_dir(directory.path()).expect("listed").count(), 1, "nothing was made");
}

#[test]
fn nonsense_is_refused_in_one_line() {
    let output = numalocd(&["--nope"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--nope"), "{output:?}");
}
