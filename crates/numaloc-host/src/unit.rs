//! systemd units: their cgroup, as systemctl tells it.

use crate::Error;
use std::process::{Command, Stdio};

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
    ask("systemctl", &full_name(unit)?)
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

fn ask(systemctl: &str, unit: &str) -> Result<String, Error> {
    let refuse = |reason: String| Error::NoUnit { unit: unit.into(), reason };
    let mut command = Command::new(systemctl);
    command.args([
        "show",
        "--no-pager",
        "--property=LoadState,ActiveState,ControlGroup",
        "--",
        unit,
    ]);
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| refuse(format!("cannot run {systemctl} ({error})")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let words = words.lines().next().unwrap_or("it failed without a word").trim();
        return Err(refuse(format!("{systemctl} says: {words}")));
    }
    parse(unit, &String::from_utf8_lossy(&output.stdout))
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
        let missing = ask("/nonexistent/systemctl", "a.service").unwrap_err().to_string();
        assert!(missing.contains("cannot run /nonexistent/systemctl"), "{missing}");
        let failing = ask("false", "a.service").unwrap_err().to_string();
        assert!(failing.contains("failed without a word"), "{failing}");
    }
}
