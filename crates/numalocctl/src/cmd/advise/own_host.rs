//! The host's files and rights that `advise --apply` and `advise --undo` need.

use crate::{
    args::Cli,
    cmd::{Surroundings, chosen},
    exit::{Code, Failure},
};
use numaloc_host::{ErrorKind, advised::ChangeLog};

/// Checks that the changes here and the daemon's moves are on the same host.
///
/// # Errors
/// The daemon may be on another host.
pub fn check(cli: &Cli, around: &Surroundings, option: &str) -> Result<(), Failure> {
    chosen(cli, around)?.check_this_host(|uri| {
        format!(
            "{option} changes this host, and the daemon at {uri} may be on another one: add --standalone, or run it there"
        )
    })
}

/// The right to change this host.
///
/// # Errors
/// Another process has it, or there are no rights.
pub fn log(around: &Surroundings) -> Result<ChangeLog, Failure> {
    ChangeLog::take(&around.roots).map_err(|error| match error.kind() {
        ErrorKind::Permission => {
            Failure::Refused { code: Code::Permission, message: format!("{error}; run as root") }
        }
        _ => error.into(),
    })
}
