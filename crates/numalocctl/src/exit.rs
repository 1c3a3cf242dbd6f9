//! How a run ends: errors and exit codes.

use numaloc_host::{Error, ErrorKind};
use std::{io, process::ExitCode};

/// Exit codes. 5 is kept for a daemon that cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Done, also when there was nothing to do.
    Done = 0,
    /// Failed.
    Failure = 1,
    /// The command line or the request makes no sense.
    Usage = 2,
    /// The thing named does not exist.
    NotFound = 3,
    /// Rights are missing.
    Permission = 4,
    /// Some of what was to move is still where it was.
    Partly = 6,
    /// The time given ran out.
    TimedOut = 124,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The host could not be read, or the target is not there.
    #[error(transparent)]
    Host(#[from] Error),
    /// Options that parse but make no sense on this machine.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C could not be caught.
    #[error("cannot install signal handlers: {0}")]
    Signals(#[source] io::Error),
    /// A document could not be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<&Failure> for Code {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Host(error) => match error.kind() {
                ErrorKind::Usage => Self::Usage,
                ErrorKind::NotFound => Self::NotFound,
                ErrorKind::Permission => Self::Permission,
                ErrorKind::Failure => Self::Failure,
            },
            Failure::Usage(_) => Self::Usage,
            Failure::Signals(_) | Failure::Json(_) => Self::Failure,
        }
    }
}
