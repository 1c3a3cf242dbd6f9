//! `numalocctl drain`, `undrain`, `pause-all` and `resume-all`.

use super::shown;
use crate::{args::Cli, exit::Failure, output::CommandResult, remote::Daemon, text};

/// Drains the daemon (`on`), or ends draining.
pub fn drain(cli: &Cli, daemon: &Daemon, on: bool) -> Result<CommandResult, Failure> {
    shown(cli, &daemon.drain(on)?, text::holds)
}

/// Pauses all moves (`on`), or ends the pause.
pub fn pause_all(cli: &Cli, daemon: &Daemon, on: bool) -> Result<CommandResult, Failure> {
    shown(cli, &daemon.pause_all(on)?, text::holds)
}
