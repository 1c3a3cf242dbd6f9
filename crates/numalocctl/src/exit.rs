//! Errors and exit codes at the end of a run.

use numaloc_api::v1::MissingMember;
use numaloc_core::BadGoal;
use numaloc_engine::Error as EngineError;
use numaloc_host::{Error, ErrorKind};
use std::{io, path::PathBuf, process::ExitCode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// Done, also when there was nothing to do.
    Done = 0,
    /// The command failed, or failed for a part of the named targets.
    Failure = 1,
    /// The command line or the request is wrong.
    Usage = 2,
    /// Something that was named does not exist.
    NotFound = 3,
    /// The user of this program lacks a right on the host or at the daemon.
    Permission = 4,
    Unreachable = 5,
    /// Some of the memory that should have moved is still where it was, or some of the named processes are left out.
    Partly = 6,
    TimedOut = 124,
    /// Ctrl-C ended the waiting; the job continues.
    Left = 130,
}

impl Code {
    /// The code of an answer from which this is left out: a member that is named and left out as a whole counts as a
    /// mistake in its name, as in `kubectl get a b`.
    pub fn left_out(missing: &[MissingMember]) -> Self {
        match missing.iter().map(|missing| missing.process_count).min() {
            None => Self::Done,
            Some(0) => Self::Failure,
            Some(_) => Self::Partly,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// What a user may do who has no right to the daemon's socket.
pub const JOIN_GROUP: &str =
    "ask to become a member of the group that owns the socket (numaloc), and log in again";

/// The reason why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The host could not be read, or the target does not exist.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Options that can be parsed, but are wrong on this machine.
    #[error("{0}")]
    Usage(String),
    /// An option that only the daemon can carry out, with --standalone.
    #[error("{option} needs the daemon: leave out --standalone, or {option}")]
    NeedsDaemon { option: &'static str },
    /// An option that only the daemon can carry out, where none is named and its socket does not exist.
    #[error(
        "{option} needs the daemon, and none listens at {}: start it (systemctl start numalocd), name another one with --endpoint, or leave {option} out",
        socket.display()
    )]
    NoDaemon { option: &'static str, socket: PathBuf },
    /// An option for a picture, where the daemon would do the work.
    #[error(
        "{option} is for --standalone: a picture is drawn by numalocctl itself from the page maps of this host; add --standalone or leave {option} out"
    )]
    NeedsStandalone { option: &'static str },
    /// A configuration file cannot be read, or has invalid contents.
    #[error(transparent)]
    Settings(#[from] numaloc_config::FileError),
    /// A file that the command line or a configuration file names cannot be read, or has invalid contents.
    #[error("{}: {reason}", path.display())]
    Config {
        path: PathBuf,
        /// The error in the file.
        reason: String,
    },
    #[error("cannot reach numalocd at {endpoint}: {reason}; {advice}")]
    Unreachable { endpoint: String, reason: String, advice: String },
    /// The daemon's socket is there, and this user may not open it.
    #[error(
        "no right to use numalocd at {endpoint}: {}{}",
        JOIN_GROUP,
        if *is_optional { "; or work without the daemon: --standalone" } else { "" }
    )]
    SocketForbidden {
        endpoint: String,
        /// Whether the command can do without the daemon.
        is_optional: bool,
    },
    #[error("{message}")]
    Refused {
        /// The exit code for its status.
        code: Code,
        message: String,
    },
    /// The daemon refused a job because no process of the target has a node to go to.
    #[error("{0}")]
    NoTargetNode(String),
    /// Ctrl-C ended the waiting, and the job continues.
    #[error("{0}")]
    Left(String),
    /// Ctrl-C could not be caught.
    #[error("cannot install signal handlers: {0}")]
    Signals(#[source] io::Error),
    /// A document could not be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A document could not be written as YAML.
    #[error("cannot write YAML: {0}")]
    Yaml(#[from] serde_saphyr::SerializeError),
    /// Standard output could not be written.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// The kernel refused resources for talking to the daemon.
    #[error("cannot talk to a daemon: {0}")]
    Runtime(#[source] io::Error),
}

impl From<&Failure> for Code {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Engine(error) => match error {
                EngineError::Host(error) => match error.kind() {
                    ErrorKind::Usage => Self::Usage,
                    ErrorKind::NotFound => Self::NotFound,
                    ErrorKind::Permission => Self::Permission,
                    ErrorKind::Failure => Self::Failure,
                },
                EngineError::NotFound { .. } => Self::NotFound,
                EngineError::NotPermitted { .. } => Self::Permission,
                EngineError::NoTargetNode { .. }
                | EngineError::Late { .. }
                | EngineError::Balancing(_)
                | EngineError::Offload(_) => Self::Failure,
            },
            Failure::Usage(_) | Failure::NeedsDaemon { .. } => Self::Usage,
            Failure::NeedsStandalone { .. } | Failure::Config { .. } | Failure::Settings(_) => {
                Self::Usage
            }
            Failure::SocketForbidden { .. } => Self::Permission,
            Failure::Unreachable { .. } | Failure::NoDaemon { .. } => Self::Unreachable,
            Failure::Refused { code, .. } => *code,
            Failure::Left(_) => Self::Left,
            // The reader has closed the pipe, because it has seen enough.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Self::Done,
            Failure::Signals(_) | Failure::Json(_) | Failure::Yaml(_) | Failure::Output(_) => {
                Self::Failure
            }
            Failure::NoTargetNode(_) | Failure::Write { .. } | Failure::Runtime(_) => Self::Failure,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Failure {
    /// A request about files that does not say where their cache belongs.
    pub fn no_goal(bad: &BadGoal) -> Self {
        Self::Usage(format!("{bad}, on the command line with --to, or --place and --nodes"))
    }

    /// Whether the failure is not reported.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
