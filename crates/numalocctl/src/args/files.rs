//! Files whose page cache is meant, instead of processes.

use crate::exit::Failure;
use clap::Args;
use std::path::PathBuf;

/// Names files. What else they exclude is refused by [`refuse_for_files`]: not all commands have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Target")]
pub struct FileArgs {
    /// Files whose page cache is meant, instead of processes: a file, or a directory for all files below it (repeatable). It takes the
    /// rights of their owner or root's, and no daemon.
    #[arg(
        long = "file",
        value_name = "PATH",
        value_hint = clap::ValueHint::AnyPath,
        conflicts_with_all = ["process", "pid", "cgroup", "unit", "container", "pod", "vm", "selector", "namespace", "workloads_of"]
    )]
    pub files: Vec<PathBuf>,
}

impl FileArgs {
    /// Whether files are meant, and not processes.
    pub fn is_given(&self) -> bool {
        !self.files.is_empty()
    }
}

/// Refuses options that have no meaning for files, each with whether it is given.
///
/// # Errors
/// The first that is given.
pub fn refuse_for_files(given: &[(&str, bool)]) -> Result<(), Failure> {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::Usage(format!(
            "{option} has no meaning for files: leave it or --file out"
        ))),
        None => Ok(()),
    }
}
