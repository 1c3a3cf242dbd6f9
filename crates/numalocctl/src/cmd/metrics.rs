//! Carries out `numalocctl metrics`: prints what the daemon would serve.

use crate::{
    exit::{Code, Failure},
    output::CommandResult,
    remote::Daemon,
};

/// Prints the daemon's metrics as they are, regardless of --output.
pub fn run(daemon: &Daemon) -> Result<CommandResult, Failure> {
    Ok(CommandResult { text: daemon.metrics()?, code: Code::Done })
}
