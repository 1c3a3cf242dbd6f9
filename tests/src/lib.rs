//! Common parts of the suites and the benchmarks: settings of the host, CPUs, files on the disk, file systems of a test's
//! own, and the kernel's own numbers of where pages are. Every function panics where a test or benchmark cannot continue.
#![forbid(unsafe_code)]

pub mod cpus;
pub mod disk;
pub mod fuse;
pub mod place;
pub mod resctrl;
pub mod settings;
pub mod truth;

use std::{
    ffi::OsStr,
    fmt::Debug,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Longest wait for anything. It is long because emulation is slow; only a hang takes longer.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Runs a command, whose output is not shown.
///
/// # Panics
/// If it fails, unless the test has failed already.
pub fn run(words: &[impl AsRef<OsStr> + Debug]) {
    let mut command = Command::new(&words[0]);
    let status = command.args(&words[1..]).stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success() || thread::panicking(), "{words:?}: {status}");
}

/// Polls `condition` until it holds.
///
/// # Panics
/// After two minutes.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}
