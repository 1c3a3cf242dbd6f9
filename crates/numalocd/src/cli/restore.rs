//! `--restore-settings`.

use super::Args;
use crate::{
    balancing::Balancing,
    store::{self, OpenError},
};
use numaloc_host::Roots;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Puts back the host settings that a dead daemon has left changed. Waits for nothing. If a daemon is running, it does nothing:
/// that daemon puts back what it changes.
///
/// # Errors
/// `out` cannot be written to.
pub fn restore_settings(args: &Args, roots: Roots, out: &mut impl Write) -> io::Result<ExitCode> {
    let dir = args.state_directory();
    let lock = match dir.exists() {
        true => Some(store::lock(&dir)),
        false => None,
    };
    let _lock = match lock {
        None => return Ok(ExitCode::SUCCESS),
        Some(Err(OpenError::InUse { .. })) => {
            writeln!(
                out,
                "{} is in use: the numalocd that runs there puts back what it changes",
                dir.display()
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Err(error)) => {
            writeln!(out, "{error}")?;
            return Ok(ExitCode::FAILURE);
        }
        Some(Ok(lock)) => lock,
    };
    match Balancing::new(roots, &dir).put_back() {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(value)) => {
            writeln!(out, "kernel.numa_balancing = {value}, as it was before a job")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
