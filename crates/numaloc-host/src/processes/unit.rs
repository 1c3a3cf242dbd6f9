//! systemd units: their cgroup, as systemctl tells it.

mod similar;

use super::containers::container_of;
use crate::{Error, files::read};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    os::fd::AsFd,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Time that systemd has to answer; systemctl itself would wait for half a minute.
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

/// The unit of the system's service manager that has a cgroup, by its path: the outermost service or scope. The scope of a container
/// is a unit, too, but [`super::containers::container_of`] names it better. None for processes of a slice itself.
pub(crate) fn unit_of(cgroup: &str) -> Option<&str> {
    let is_unit = |name: &&str| name.ends_with(".service") || name.ends_with(".scope");
    cgroup.split('/').find(is_unit).filter(|name| container_of(name).is_none())
}

/// The paths of running units' cgroups below the mount point, in the order of `units`. systemd is asked once for all.
pub(crate) fn control_groups(units: &[&str]) -> Vec<Result<String, Error>> {
    look_up("systemctl", units, PATIENCE, Path::new(BOOTED).is_dir())
}

fn look_up(
    systemctl: &str,
    units: &[&str],
    patience: Duration,
    booted: bool,
) -> Vec<Result<String, Error>> {
    let names: Vec<Result<String, Error>> = units.iter().map(|unit| full_name(unit)).collect();
    let asked: BTreeSet<String> = names.iter().flatten().cloned().collect();
    let told =
        if asked.is_empty() { Ok(BTreeMap::new()) } else { ask(systemctl, &asked, patience) };
    let control_group = |name: &String| match &told {
        Ok(told) => parse(name, told.get(name.as_str()).map_or("", String::as_str)),
        Err(failure) => Err(failure.of(name.clone(), booted)),
    };
    let runs_not = |name: &&String| matches!(control_group(name), Err(Error::NoUnit { .. }));
    let stems = asked.iter().filter(runs_not).filter_map(|name| name.strip_suffix(".service"));
    let similar =
        if told.is_ok() { similar::running(systemctl, stems, patience) } else { BTreeMap::new() };
    let found =
        |name: String| control_group(&name).or_else(|error| similar::instead(error, &similar));
    names.into_iter().map(|name| found(name?)).collect()
}

/// The name as systemd wants it; a name without a suffix means `.service`. Names that are not valid are refused here,
/// because systemctl would fail for all units that are asked for with them (unit_name_is_valid in systemd's
/// src/basic/unit-name.c).
fn full_name(unit: &str) -> Result<String, Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let suffix = SUFFIXES.iter().find(|suffix| unit.ends_with(*suffix));
    let stem = suffix.map_or(unit, |suffix| &unit[..unit.len() - suffix.len()]);
    let length = stem.len() + suffix.map_or(".service".len(), |suffix| suffix.len());
    // A leading dash would be read as an option by tools that the name is handed on to; a template is not a unit.
    let is_one = !stem.is_empty() && !stem.starts_with(['-', '@']) && !stem.ends_with('@');
    if !is_one || length > NAME_MAX || !unit.chars().all(allowed) {
        let unit = unit.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect();
        return Err(Error::NoUnit { unit, reason: "this is not the name of a unit".into() });
    }
    Ok(if suffix.is_some() { unit.into() } else { format!("{unit}.service") })
}

/// Why nothing is known of any unit.
#[derive(Debug)]
struct UnitFailure {
    reason: String,
    /// Whether systemctl gave no usable answer, rather than an error of its own.
    silent: bool,
}

impl UnitFailure {
    fn refused(reason: String) -> Self {
        Self { reason, silent: false }
    }
    fn silent(reason: String) -> Self {
        Self { reason, silent: true }
    }
    fn of_property(self, unit: &str, name: &str) -> Error {
        Error::UnitProperty { unit: unit.into(), name: name.into(), reason: self.reason }
    }
    /// If systemctl gave no answer, the unit may well exist; the same if it failed where systemd runs. Without
    /// systemd no unit exists.
    fn of(&self, unit: String, booted: bool) -> Error {
        let reason = self.reason.clone();
        if self.silent || booted {
            Error::Systemd { unit, reason }
        } else {
            Error::NoUnit { unit, reason }
        }
    }
}

/// The properties that systemctl prints of each of these units.
fn ask<'a>(
    systemctl: &str,
    units: &'a BTreeSet<String>,
    patience: Duration,
) -> Result<BTreeMap<&'a str, String>, UnitFailure> {
    let options = ["show", "--no-pager", "--property=LoadState,ActiveState,ControlGroup", "--"];
    let words = options.into_iter().chain(units.iter().map(String::as_str));
    let said = run(systemctl, words, patience)?;
    // The answers are in the order of the names, with an empty line between two.
    let parts: Vec<&str> = said.trim_end().split("\n\n").collect();
    if parts.len() == units.len() {
        Ok(units.iter().map(String::as_str).zip(parts.into_iter().map(str::to_owned)).collect())
    } else {
        let (told, asked) = (parts.len(), units.len());
        Err(UnitFailure::silent(format!("{systemctl} lists {told} units instead of {asked}")))
    }
}

/// The value of a unit's property as systemctl(1) shows it.
pub(crate) fn property(unit: &str, name: &str) -> Result<String, Error> {
    let words = ["show", "--no-pager", "-P", name, "--", unit];
    let said =
        run("systemctl", words, PATIENCE).map_err(|failure| failure.of_property(unit, name))?;
    Ok(said.trim().to_owned())
}

/// Checks that a unit has this cgroup, by its path below the mount point. A unit is set by its name alone, and another one may have that.
///
/// # Errors
/// [`Error::OtherUnit`]; [`Error::UnitProperty`] if systemd does not say.
pub(crate) fn check_cgroup(systemctl: &str, unit: &str, cgroup: &str) -> Result<(), Error> {
    const NAME: &str = "ControlGroup";
    let words = ["show", "--no-pager", "-P", NAME, "--", unit];
    let said =
        run(systemctl, words, PATIENCE).map_err(|failure| failure.of_property(unit, NAME))?;
    let has = match said.trim() {
        path if path == cgroup => return Ok(()),
        "" => "no cgroup now".to_owned(),
        path => format!("the cgroup {path}"),
    };
    Err(Error::OtherUnit { unit: unit.into(), has, cgroup: cgroup.into() })
}

/// Runs a command line that sets a property of a unit; its first word is the program.
pub(crate) fn set_property(words: &[String], unit: &str, name: &str) -> Result<(), Error> {
    let (program, rest) = words.split_first().expect("a command line has a first word");
    let done = run(program, rest.iter().map(String::as_str), PATIENCE);
    done.map(drop).map_err(|failure| failure.of_property(unit, name))
}

/// The output of systemctl with these arguments.
fn run<'a>(
    systemctl: &str,
    words: impl IntoIterator<Item = &'a str>,
    patience: Duration,
) -> Result<String, UnitFailure> {
    let failed = |error: io::Error| UnitFailure::silent(format!("{systemctl}: {error}"));
    // Memory files and no pipes: no process reads while systemctl runs, and for many units it says more than fits
    // into a pipe.
    let file = || memfd_create(c"systemctl", MFdFlags::MFD_CLOEXEC).map(File::from);
    let said = file().map_err(|error| failed(error.into()))?;
    let complaints = file().map_err(|error| failed(error.into()))?;
    let mut command = Command::new(systemctl);
    command
        .args(words)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(said.try_clone().map_err(failed)?)
        .stderr(complaints.try_clone().map_err(failed)?);
    let child = command.spawn();
    let mut child =
        child.map_err(|error| UnitFailure::refused(format!("cannot run {systemctl} ({error})")))?;
    let status = match end_within(&child, patience) {
        Ok(true) => child.wait().map_err(failed)?,
        ended => {
            // The result does not matter: it may have ended on its own just now.
            let _ = child.kill().and_then(|()| child.wait());
            let late = io::Error::other(format!("no answer within {patience:?}"));
            return Err(failed(ended.err().unwrap_or(late)));
        }
    };
    if !status.success() {
        let complaints = read::kept(&complaints);
        let words = complaints.lines().next().unwrap_or("it failed without a message").trim();
        return Err(UnitFailure::refused(format!("{systemctl} reports: {words}")));
    }
    Ok(read::kept(&said))
}

/// Whether `child` ends in time.
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

/// A value of the `NAME=VALUE` lines of `systemctl show`; empty if there is none.
fn property_in<'a>(text: &'a str, name: &str) -> &'a str {
    let mut properties = text.lines().filter_map(|line| line.split_once('='));
    properties.find(|(property, _)| *property == name).map_or("", |(_, value)| value)
}

/// The cgroup of a unit.
fn parse(unit: &str, text: &str) -> Result<String, Error> {
    let property = |name| property_in(text, name);
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

    #[test]
    fn names_are_completed_or_refused() {
        let names = [("redis", "redis.service"), ("a.scope", "a.scope"), ("a.b", "a.b.service")];
        for (name, full) in names {
            assert_eq!(full_name(name).unwrap(), full);
        }
        assert_eq!(full_name(r"run-r\x2d1@2:x.slice").unwrap(), r"run-r\x2d1@2:x.slice");
        let long = [&"x".repeat(300), &"x".repeat(250)];
        for name in ["", "-x", "a/b", "a b", "*", "a\n", "é", "@a", "a@", ".service", "a@.service"]
            .into_iter()
            .chain(long.map(String::as_str))
        {
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

    /// Makes a systemctl for these tests, a script with these lines in this directory. Another process writes it: a child that another
    /// test starts meanwhile would hold our own descriptor for a moment, and the kernel runs no file that is open for writing (ETXTBSY).
    pub(super) fn script(directory: &Path, lines: &str) -> String {
        let script = directory.join("systemctl");
        let mut write = Command::new("sh");
        write.args(["-c", r#"printf '%s\n' "$1" > "$2" && chmod 700 "$2""#, "sh"]);
        write.arg(format!("#!/bin/sh\n{lines}")).arg(&script);
        assert!(write.status().expect("a shell").success());
        script.to_str().expect("text").to_owned()
    }

    #[test]
    fn many_are_asked_for_at_once_and_each_has_its_own_answer() {
        let directory = tempfile::tempdir().expect("a directory");
        let calls = directory.path().join("calls");
        // More than fits into a pipe.
        let lines = format!(
            "echo x >> {}; shift 4; for u; do \
             [ -z \"$n\" ] || echo; n=1; \
             case $u in gone*) l=not-found; g=;; *) l=loaded; g=/system.slice/{}/$u;; esac; \
             printf 'LoadState=%s\\nActiveState=active\\nControlGroup=%s\\n' $l $g; done",
            calls.display(),
            "y".repeat(200)
        );
        let systemctl = script(directory.path(), &lines);
        let mut units: Vec<String> = (0..500).map(|number| format!("u{number}")).collect();
        units.extend(["a b", "gone", "u7.service", "u7"].map(str::to_owned));
        let units: Vec<&str> = units.iter().map(String::as_str).collect();
        let told = look_up(&systemctl, &units, PATIENCE, true);
        assert_eq!(told.len(), units.len());
        for (unit, told) in units.iter().zip(told) {
            match told {
                Ok(path) => {
                    let name = unit.trim_end_matches(".service");
                    assert!(path.ends_with(&format!("/{name}.service")), "{unit}: {path}");
                }
                Err(error) => {
                    assert!(["a b", "gone"].contains(unit), "{unit}: {error}");
                    assert!(matches!(error, Error::NoUnit { .. }), "{error}");
                }
            }
        }
        // And once for what runs under a name like one that is not found.
        assert_eq!(std::fs::read_to_string(calls).expect("called"), "x\nx\n");
        // Invalid names are refused without systemd.
        let none = look_up("/nonexistent/systemctl", &["a b"], PATIENCE, true);
        assert!(matches!(none[..], [Err(Error::NoUnit { .. })]), "{none:?}");
    }

    #[test]
    fn an_answer_about_others_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let systemctl = script(directory.path(), "echo LoadState=loaded");
        let told = look_up(&systemctl, &["a", "b"], PATIENCE, false);
        assert!(told.iter().all(|told| matches!(told, Err(Error::Systemd { .. }))), "{told:?}");
    }

    fn one(systemctl: &str, patience: Duration, booted: bool) -> Error {
        let mut told = look_up(systemctl, &["a.service"], patience, booted);
        told.remove(0).expect_err("nothing is known")
    }

    #[test]
    fn no_systemctl_and_a_failing_one_are_reported() {
        for (systemctl, words) in [
            ("/nonexistent/systemctl", "cannot run /nonexistent/systemctl"),
            ("false", "failed without a message"),
        ] {
            let ask = |booted| one(systemctl, PATIENCE, booted);
            // Whether there is such a unit is not known if systemd is there; without it there is none.
            assert!(matches!(ask(true), Error::Systemd { .. }));
            assert!(matches!(ask(false), Error::NoUnit { .. }));
            assert!(
                ask(true).to_string().contains(words) && ask(false).to_string().contains(words)
            );
        }
    }

    #[test]
    fn a_property_is_set_by_the_words_that_are_given() {
        let directory = tempfile::tempdir().expect("a directory");
        let seen = directory.path().join("seen");
        let systemctl = script(directory.path(), &format!("echo \"$@\" > {}", seen.display()));
        let words = [&systemctl[..], "set-property", "a.service", "AllowedCPUs=0-3"];
        let words = words.map(str::to_owned);
        set_property(&words, "a.service", "AllowedCPUs").expect("it is set");
        let seen = std::fs::read_to_string(seen).expect("called");
        assert_eq!(seen, "set-property a.service AllowedCPUs=0-3\n");
        let failed = set_property(&["false".to_owned()], "a.service", "AllowedCPUs").unwrap_err();
        let message = failed.to_string();
        assert!(message.starts_with("cannot set AllowedCPUs of unit a.service: "), "{message}");
    }

    #[test]
    fn a_unit_that_has_another_cgroup_is_another_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let lines = r#"case "$*" in
            "show --no-pager -P ControlGroup -- redis.service") echo /system.slice/redis.service ;;
            "show --no-pager -P ControlGroup -- off.service") echo ;;
            *) exit 1 ;;
        esac"#;
        let systemctl = script(directory.path(), lines);
        let check = |unit: &str, cgroup: &str| {
            check_cgroup(&systemctl, unit, cgroup).map_err(|error| error.to_string())
        };
        assert_eq!(check("redis.service", "/system.slice/redis.service"), Ok(()));
        let inside = "/lxc.payload.c1/system.slice/redis.service";
        let refused = check("redis.service", inside).unwrap_err();
        assert!(
            refused.starts_with(&format!(
                "unit redis.service has the cgroup /system.slice/redis.service, and not the expected cgroup {inside}"
            )),
            "{refused}"
        );
        let refused = check("off.service", "/system.slice/off.service").unwrap_err();
        assert!(refused.starts_with("unit off.service has no cgroup now"), "{refused}");
        let unknown = check("no.service", "/system.slice/no.service").unwrap_err();
        assert!(unknown.starts_with("cannot set ControlGroup of unit no.service"), "{unknown}");
    }

    #[test]
    fn one_that_hangs_is_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let pid = directory.path().join("pid");
        let lines = format!("echo $$ > {}\nexec sleep 1000", pid.display());
        let systemctl = script(directory.path(), &lines);
        let error = one(&systemctl, Duration::from_secs(1), false);
        assert!(matches!(error, Error::Systemd { .. }), "{error}");
        assert!(error.to_string().contains("no answer within 1s"), "{error}");
        // On a busy machine it may have been ended before it could write.
        let pid = std::fs::read_to_string(pid).unwrap_or_default();
        let process = Path::new("/proc").join(pid.trim());
        assert!(pid.is_empty() || !process.exists(), "it is still there");
    }
}
