//! systemd units: their cgroup, as systemctl tells it.

use crate::Error;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io,
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// How long systemd has to answer; systemctl itself would wait for half a minute.
const PATIENCE: Duration = Duration::from_secs(10);

/// This directory is there if systemd is the service manager (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";

/// Kinds of units that systemd knows (systemd.unit(5)).
const SUFFIXES: [&str; 11] = [
    ".service",
    ".socket",
    ".device",
    ".mount",
    ".automount",
    ".swap",
    ".target",
    ".path",
    ".timer",
    ".slice",
    ".scope",
];

/// The longest name that systemd takes (UNIT_NAME_MAX).
const NAME_MAX: usize = 255;

/// The path of a running unit's cgroup below the mount point.
pub(crate) fn control_group(unit: &str) -> Result<String, Error> {
    ask("systemctl", &full_name(unit)?, PATIENCE, Path::new(BOOTED).is_dir())
}

/// The name as systemd wants it; `.service` is what a name without a kind means.
fn full_name(unit: &str) -> Result<String, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let fits = !unit.is_empty() && unit.len() <= NAME_MAX && unit.chars().all(allowed);
    // A leading dash would be read as an option by tools that the name is handed on to.
    if !fits || unit.starts_with('-') {
        let unit = unit.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        return Err(Error::NoUnit { unit, reason: "this is no name of a unit".into() });
    }
    let complete = SUFFIXES.iter().any(|suffix| unit.ends_with(suffix));
    Ok(if complete { unit.into() } else { format!("{unit}.service") })
}

fn ask(systemctl: &str, unit: &str, patience: Duration, booted: bool) -> Result<String, Error> {
    // One that is silent may well have the unit, and one that fails, too; where there is no systemd there is none.
    let silent = |reason: String| Error::Systemd { unit: unit.into(), reason };
    let refuse = |reason: String| match booted {
        true => silent(reason),
        false => Error::NoUnit { unit: unit.into(), reason },
    };
    let mut command = Command::new(systemctl);
    command.args([
        "show",
        "--no-pager",
        "--property=LoadState,ActiveState,ControlGroup",
        "--",
        unit,
    ]);
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.map_err(|error| refuse(format!("cannot run {systemctl} ({error})")))?;
    let output = match end_within(&child, patience) {
        Ok(true) => child.wait_with_output(),
        ended => {
            // Whatever comes of it: it may have ended by itself just now.
            let _ = child.kill().and_then(|()| child.wait());
            let late = || io::Error::other(format!("no answer within {patience:?}"));
            ended.and_then(|_| Err::<Output, _>(late()))
        }
    };
    let output = output.map_err(|error| silent(format!("{systemctl}: {error}")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().next().unwrap_or("it failed without a word").trim();
        return Err(refuse(format!("{systemctl} says: {words}")));
    }
    parse(unit, &String::from_utf8_lossy(&output.stdout))
}

/// Whether `child` ends in time. Nobody reads meanwhile: what it has to say fits into its pipes.
fn end_within(child: &Child, patience: Duration) -> io::Result<bool> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let pidfd = numaloc_sys::pidfd_open(pid)?;
    let end = Instant::now() + patience;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout) {
            Err(Errno::EINTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

/// Reads `NAME=VALUE` lines.
fn parse(unit: &str, text: &str) -> Result<String, Error> {
    let property = |name| {
        let mut properties = text.lines().filter_map(|line| line.split_once('='));
        properties.find(|(property, _)| *property == name).map_or("", |(_, value)| value)
    };
    let reason = match (property("LoadState"), property("ActiveState"), property("ControlGroup")) {
        ("not-found", ..) => "systemd does not know it".to_owned(),
        (_, state, "") => format!("it has no processes, its state is {state}"),
        (.., path) => return Ok(path.to_owned()),
    };
    Err(Error::NoUnit { unit: unit.into(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_are_completed_or_refused() {
        let names = [("redis", "redis.service"), ("a.scope", "a.scope"), ("a.b", "a.b.service")];
        for (name, full) in names {
            assert_eq!(full_name(name).unwrap(), full);
        }
        assert_eq!(full_name(r"run-r\x2d1@2:x.slice").unwrap(), r"run-r\x2d1@2:x.slice");
        for name in ["", "-x", "a/b", "a b", "*", "a\n", "é", &"x".repeat(300)] {
            let error = full_name(name).unwrap_err();
            assert!(matches!(error, Error::NoUnit { .. }) && !error.to_string().contains('\n'));
        }
    }

    #[test]
    fn what_systemctl_says_is_understood() {
        let running =
            "LoadState=loaded\nActiveState=active\nControlGroup=/system.slice/a=b.service\n";
        assert_eq!(parse("a", running).unwrap(), "/system.slice/a=b.service");
        let dead =
            parse("a", "LoadState=loaded\nActiveState=inactive\nControlGroup=\n").unwrap_err();
        assert!(dead.to_string().contains("inactive"), "{dead}");
        let unknown = "LoadState=not-found\nActiveState=inactive\nControlGroup=\n";
        assert!(parse("a", unknown).unwrap_err().to_string().contains("does not know"));
    }

    #[test]
    fn no_systemctl_and_a_failing_one_are_told() {
        for (systemctl, words) in [
            ("/nonexistent/systemctl", "cannot run /nonexistent/systemctl"),
            ("false", "failed without a word"),
        ] {
            let ask = |booted| ask(systemctl, "a.service", PATIENCE, booted).unwrap_err();
            // Whether there is such a unit is not known if systemd is there; without it there is none.
            assert!(matches!(ask(true), Error::Systemd { .. }));
            assert!(matches!(ask(false), Error::NoUnit { .. }));
            assert!(
                ask(true).to_string().contains(words) && ask(false).to_string().contains(words)
            );
        }
    }

    #[test]
    fn one_that_hangs_is_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let (script, pid) = (directory.path().join("systemctl"), directory.path().join("pid"));
        let text = format!("#!/bin/sh\necho $$ > {}\nexec sleep 1000\n", pid.display());
        std::fs::write(&script, text).expect("a file");
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("ours");
        let script = script.to_str().expect("text");
        let error = ask(script, "a.service", Duration::from_secs(1), false).unwrap_err();
        assert!(matches!(error, Error::Systemd { .. }), "{error}");
        assert!(error.to_string().contains("no answer within 1s"), "{error}");
        // On a busy machine it may have been ended before it could write.
        let pid = std::fs::read_to_string(pid).unwrap_or_default();
        let process = Path::new("/proc").join(pid.trim());
        assert!(pid.is_empty() || !process.exists(), "it is still there");
    }
}
