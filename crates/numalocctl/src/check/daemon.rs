//! Whether the daemon can be used.

use super::Findings;
use crate::{doc::Check, exit::JOIN_GROUP, fields::short};
use numaloc_api::v1;

/// The result of asking the daemon.
#[derive(Clone, Debug)]
pub enum DaemonState {
    Reachable {
        version: String,
        /// The caller's role.
        role: String,
        /// The holds that keep moves from beginning.
        holds: v1::Holds,
        /// Problems of the daemon, a sentence each.
        problems: Vec<String>,
    },
    /// No daemon is named, and the default socket does not exist.
    NotRunning,
    /// The daemon was not asked, because of --standalone.
    NotAsked,
    /// It is named, or its socket exists, but it does not answer.
    Unreachable(String),
    /// Its socket may not be opened by this user.
    Forbidden(String),
    /// It answered with a refusal.
    Refused(String),
    /// The address or configuration that names it is wrong.
    Misnamed(String),
}

/// Whether the daemon answers and reports no problems.
pub fn daemon(found: &Findings) -> Check {
    const NAME: &str = "daemon";
    match &found.daemon {
        DaemonState::Reachable { version, role, holds, problems } => {
            let see_log = "see `numalocctl status` and the daemon's log";
            let problems = problems.iter().map(|problem| (problem.clone(), see_log));
            let (what, mut advice): (Vec<_>, Vec<_>) =
                held(holds).into_iter().chain(problems).unzip();
            if what.is_empty() {
                return Check::ok(NAME, format!("numalocd {version}, your role is {role}"));
            }
            advice.dedup();
            let text = format!("numalocd {version}: {}", what.join("; "));
            Check::warning(NAME, text, &advice.join("; "))
        }
        DaemonState::NotRunning => Check::ok(NAME, "not running: commands work without it"),
        DaemonState::NotAsked => Check::ok(NAME, "not asked, because of --standalone"),
        DaemonState::Unreachable(reason) => Check::warning(
            NAME,
            reason.as_str(),
            "start it (systemctl start numalocd), or work without it: --standalone",
        ),
        DaemonState::Forbidden(endpoint) => Check::warning(
            NAME,
            format!("no right to use {endpoint}"),
            &format!("{JOIN_GROUP}; or work without it: --standalone"),
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

/// The holds that keep moves from beginning, and the command that ends each.
fn held(holds: &v1::Holds) -> Vec<(String, &'static str)> {
    let drained = holds.drain_time.map(|time| {
        let text = format!("drained since {}, so no move begins", short(time));
        (text, "`numalocctl undrain` lets moves begin again")
    });
    let paused = holds.pause_time.map(|time| {
        let text = format!("all moves are paused since {}", short(time));
        (text, "`numalocctl resume-all` lets paused moves continue")
    });
    drained.into_iter().chain(paused).collect()
}
