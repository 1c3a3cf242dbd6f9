//! Carries out `numalocctl status`: asks the daemon.

use super::shown;
use crate::{args::Cli, exit::Failure, output::CommandResult, remote::Daemon, text};
use std::time::SystemTime;

pub fn run(cli: &Cli, daemon: &Daemon) -> Result<CommandResult, Failure> {
    let status = daemon.status()?;
    shown(cli, &status, |status, _| text::status(status, daemon.endpoint(), SystemTime::now()))
}
