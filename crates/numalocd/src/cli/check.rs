//! `--check-config`: reads the configuration and reports all problems in it.

use super::Args;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Writes a line for each problem of the configuration, or a line for each file without one, and notes. Changes
/// nothing.
///
/// # Errors
/// `out` cannot be written to.
pub fn check_config(args: &Args, out: &mut impl Write) -> io::Result<ExitCode> {
    match args.configuration() {
        Ok(loaded) => {
            let (path, _) = args.config_path();
            if !loaded.files.iter().any(|file| **file == *path) {
                writeln!(out, "{}: not there, so defaults hold", path.display())?;
            }
            for file in &loaded.files {
                writeln!(out, "{}: ok", file.display())?;
            }
            for note in &loaded.notes {
                writeln!(out, "note: {note}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
