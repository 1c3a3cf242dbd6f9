//! `--check-config`: reads the configuration and reports all problems in it.

use super::Args;
use crate::config::Config;
use std::{
    io::{self, Write},
    net::{Ipv4Addr, TcpListener},
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
            // The unit checks within its sandbox before it has the daemon read the files again.
            if let (Some(key), Err(error)) = (listens_on_network(&loaded.config), network()) {
                writeln!(
                    out,
                    "{key}: this process may not use the network ({error}): add the drop-in numalocd-network.conf to numalocd.service, or \
                     leave {key} out"
                )?;
                return Ok(ExitCode::FAILURE);
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            writeln!(out, "{error}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The key by which the daemon listens on the network, if it does.
fn listens_on_network(config: &Config) -> Option<&'static str> {
    let metrics = config.metrics.map(|_| "metrics.listen");
    metrics.or(config.listen.tcp.map(|_| "listen.tcp"))
}

/// Whether this process may use the network.
fn network() -> io::Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map(drop)
}
