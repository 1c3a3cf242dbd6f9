//! The command line of the daemon.

mod check;
#[cfg(test)]
#[path = "../../../tests/docs/commands.rs"]
mod documented;
mod restore;
mod store;
#[cfg(test)]
mod tests;

pub use check::check_config;
pub use restore::restore_settings;
pub use store::maintain;

use crate::{
    config::{self, DEFAULT_PATH, DropIns, FileError, Loaded},
    log::Levels,
};
use clap::Parser;
use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

const STATE_DIRECTORY: &str = "/var/lib/numaloc";

const EXAMPLES: &str = "\
Examples:
  numalocd                                       as configured in /etc/numaloc/numalocd.toml
  numalocd --check-config                        report errors in the configuration
  numalocd --restore-settings                    restore settings that a killed daemon left changed
  numalocd --restore backup.redb                 replace the store by a backup (numalocctl backup)
  numalocd --socket /tmp/n.sock --state-dir /tmp/n --log-level debug
  NUMALOC_ENDPOINT=unix:///tmp/n.sock numalocctl status

Signals:
  HUP         read the configuration again; jobs continue
  TERM, INT   end the batches in hand, save the jobs, exit

Exit codes: 0 done, 1 failure, 2 usage.";

/// Move memory of running processes to their local NUMA nodes.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "numalocd", version, after_help = EXAMPLES)]
pub struct Args {
    /// Unix socket to listen on, instead of listen.socket in the configuration.
    #[arg(long, value_name = "PATH", value_parser = config::path)]
    pub socket: Option<PathBuf>,
    /// Directory of the job store [default: $STATE_DIRECTORY, or /var/lib/numaloc].
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Configuration file, which has to exist [default: /etc/numaloc/numalocd.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the *.toml files that are read after the configuration file, which has to exist [default: conf.d
    /// beside the configuration file, if it exists].
    #[arg(long, value_name = "DIR")]
    pub config_dir: Option<PathBuf>,
    /// Check the configuration and the files that it names, print a line for each problem, and exit.
    #[arg(long, group = "once")]
    pub check_config: bool,
    /// Put back host settings (kernel.numa_balancing, offload, work queues of DSA devices) that a daemon
    /// left changed when it died, and exit. The unit does it after each end of the daemon.
    #[arg(long, group = "once")]
    pub restore_settings: bool,
    /// Replace the store by this backup, keep the previous store beside it, and exit. The daemon must not run.
    #[arg(long, value_name = "FILE", group = "once")]
    pub restore: Option<PathBuf>,
    /// Write the store again without unused room, and exit. The daemon must not run.
    #[arg(long, group = "once")]
    pub compact: bool,
    /// Take records that cannot be read out of a damaged store, name them, keep the rest, and exit. The daemon must not
    /// run.
    #[arg(long, group = "once")]
    pub repair: bool,
    /// Log level, instead of log.level in the configuration: off, error, warn, info, debug or trace, or such as
    /// info,numalocd::dispatch=debug.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Levels>,
}

impl Args {
    /// The configuration file and whether it was asked for.
    pub fn config_path(&self) -> (&Path, bool) {
        match &self.config {
            Some(path) => (path, true),
            None => (Path::new(DEFAULT_PATH), false),
        }
    }

    /// Reads the configuration, at the start and for a reload. The command line overrides the files.
    ///
    /// # Errors
    /// A file cannot be read, or the contents are wrong.
    pub fn configuration(&self) -> Result<Loaded, FileError> {
        let (path, explicit) = self.config_path();
        let drop_ins = self.config_dir.as_deref().map_or(DropIns::Beside, DropIns::In);
        let mut loaded = Loaded::read(path, explicit, drop_ins)?;
        let config = &mut loaded.config;
        if let Some(socket) = &self.socket {
            config.listen.socket.clone_from(socket);
        }
        if let Some(levels) = &self.log_level {
            config.log.clone_from(levels);
        }
        Ok(loaded)
    }

    pub fn state_directory(&self) -> PathBuf {
        self.state_directory_or(env::var_os("STATE_DIRECTORY").as_deref())
    }

    /// systemd separates the directories by colons if the unit names several; the first is used.
    fn state_directory_or(&self, systemd: Option<&OsStr>) -> PathBuf {
        let first = systemd.and_then(|list| env::split_paths(list).next());
        let given = self.state_dir.clone().or(first.filter(|path| !path.as_os_str().is_empty()));
        given.unwrap_or_else(|| STATE_DIRECTORY.into())
    }
}
