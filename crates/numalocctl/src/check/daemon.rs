//! Whether the daemon can be used.

use super::Findings;
use crate::doc::Check;

/// The result of asking the daemon.
#[derive(Clone, Debug)]
pub enum DaemonState {
    /// It answered.
    Reachable {
        /// Its version.
        version: String,
        /// What the caller may do.
        role: String,
        /// What it cannot do.
        problems: Vec<String>,
    },
    /// No daemon is named, and the default socket does not exist.
    NotRunning,
    /// --standalone was given.
    NotAsked,
    /// It is named, or its socket exists, but it does not answer.
    Unreachable(String),
    /// It answered with a refusal.
    Refused(String),
    /// The address or configuration that names it is wrong.
    Misnamed(String),
}

/// Whether the daemon answers and reports no problems.
pub fn daemon(found: &Findings) -> Check {
    const NAME: &str = "daemon";
    match &found.daemon {
        DaemonState::Reachable { version, role, problems } => match &problems[..] {
            [] => Check::ok(NAME, format!("numalocd {version}, your role is {role}")),
            problems => Check::warning(
                NAME,
                format!("numalocd {version}: {}", problems.join("; ")),
                "see `numalocctl status` and the daemon's log",
            ),
        },
        DaemonState::NotRunning => Check::ok(NAME, "not running: commands work without it"),
        DaemonState::NotAsked => Check::ok(NAME, "not asked, because of --standalone"),
        DaemonState::Unreachable(reason) => Check::warning(
            NAME,
            reason.as_str(),
            "start it (systemctl start numalocd), or work without it: --standalone",
        ),
        DaemonState::Refused(reason) => Check::warning(
            NAME,
            reason.as_str(),
            "have a role given to you in /etc/numaloc/numalocd.toml, or work without it: --standalone",
        ),
        DaemonState::Misnamed(reason) => Check::warning(
            NAME,
            reason.as_str(),
            "correct --endpoint, NUMALOC_ENDPOINT or numalocctl.toml",
        ),
    }
}
