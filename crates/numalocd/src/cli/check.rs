//! `--check-config`: reads the configuration and reports all problems in it.

use super::Args;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Writes a line for each problem of the configuration, or one line that says there is none. Changes nothing.
///
/// # Errors
/// `out` cannot be written to.
pub fn check_config(args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    match args.configuration() {
        Ok(_) => {
            let (path, explicit) = args.config_path();
            let note = if explicit || path.exists() { "ok" } else { "not there, so defaults hold" };
            writeln!(out, "{}: {note}", path.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
