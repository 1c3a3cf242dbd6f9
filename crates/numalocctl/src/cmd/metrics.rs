//! `numalocctl metrics`.

use crate::{
    exit::{Code, Failure},
    output::Report,
    remote::Daemon,
};

/// Prints the daemon's metrics as they are, whatever --output says.
pub fn run(daemon: &Daemon) -> Result<Report, Failure> {
    Ok(Report { text: daemon.metrics()?, code: Code::Done })
}
