//! Files whose page cache is meant, instead of processes.

use super::TargetArgs;
use crate::exit::Failure;
use clap::Args;
use numaloc_api::value;
use std::{
    fs,
    path::{self, PathBuf},
};

/// Names files. What else they exclude is refused by [`refuse_for_files`]: not all commands have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Target")]
pub struct FileArgs {
    /// Files whose page cache is meant, instead of processes: a file, a directory for all files below it, or a quoted pattern with * and ?
    /// (repeatable). It takes the rights of their owner or root's.
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

    /// The target for the daemon, which `processes` names as well: files by absolute paths, without symbolic links if
    /// they are on this host.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn target(&self, processes: &TargetArgs) -> Result<value::Target, Failure> {
        let name = |path: &PathBuf| {
            let whole = fs::canonicalize(path).or_else(|_| path::absolute(path));
            let name = whole.as_deref().unwrap_or(path).to_str().map(str::to_owned);
            name.ok_or_else(|| {
                Failure::Usage(format!("the daemon takes paths in UTF-8: {}", path.display()))
            })
        };
        let files = self.files.iter().map(name).collect::<Result<_, _>>()?;
        Ok(value::Target { files, ..processes.request() })
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
