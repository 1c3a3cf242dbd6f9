//! `numalocctl status`.

use super::shown;
use crate::{args::Cli, exit::Failure, output::Report, remote::Daemon, text};

/// Shows what the daemon is doing.
pub fn run(cli: &Cli, daemon: &Daemon) -> Result<Report, Failure> {
    shown(cli, &daemon.status()?, text::status)
}
