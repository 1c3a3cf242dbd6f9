//! Carries out `numalocctl version` for this program and the daemon.

use super::{Surroundings, daemon_within, shown};
use crate::{args::Cli, clean::clean, exit::Failure, output::CommandResult};
use serde::Serialize;
use std::time::Duration;

/// Longest wait for the daemon.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct VersionDoc {
    version: &'static str,
    daemon_version: Option<String>,
}

/// Shows the version, and the daemon's version if it answers soon.
pub fn run(cli: &Cli, around: &Surroundings) -> Result<CommandResult, Failure> {
    let daemon_version = daemon_version(cli, around);
    let document = VersionDoc { version: env!("CARGO_PKG_VERSION"), daemon_version };
    shown(cli, &document, |document, _| {
        let mut text = format!("numalocctl {}\n", document.version);
        if let Some(version) = &document.daemon_version {
            text += &format!("numalocd {}\n", clean(version));
        }
        text
    })
}

/// The daemon's version; `None` for any error, because this command never fails because of the daemon.
fn daemon_version(cli: &Cli, around: &Surroundings) -> Option<String> {
    Some(daemon_within(cli, around, PATIENCE)?.status().ok()?.version)
}
