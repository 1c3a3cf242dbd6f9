//! `numalocctl drain`, `undrain`, `pause-all` and `resume-all`.

use super::shown;
use crate::{args::Cli, exit::Failure, output::Report, remote::Daemon, text};

/// Lets no move begin, or lets them begin again.
pub fn drain(cli: &Cli, daemon: &Daemon, on: bool) -> Result<Report, Failure> {
    shown(cli, &daemon.drain(on)?, text::holds)
}

/// Holds all moves, or lets them go on.
pub fn pause_all(cli: &Cli, daemon: &Daemon, on: bool) -> Result<Report, Failure> {
    shown(cli, &daemon.pause_all(on)?, text::holds)
}
