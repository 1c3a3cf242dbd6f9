//! Why a group cannot be made, entered or removed.

use crate::{Error, files::read};
use std::{
    io,
    path::{Path, PathBuf},
};

/// Why a control group cannot be made, entered or removed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// resctrl is not mounted.
    #[error(
        "resctrl is not mounted at {}: mount it (mount -t resctrl resctrl /sys/fs/resctrl) if this processor has it, or unset resctrl.group",
        path.display()
    )]
    NotMounted {
        /// Where it is mounted normally.
        path: PathBuf,
    },
    /// The host can only monitor.
    #[error(
        "resctrl of this host monitors and controls nothing ({} has no num_closids): unset resctrl.group",
        path.display()
    )]
    NoControl {
        /// The directory of the resources.
        path: PathBuf,
    },
    /// A resource is to be set that the host does not have.
    #[error("this host cannot set {key}: {} has no {resource}; it has {available}", path.display())]
    NoResource {
        /// The key of the configuration.
        key: &'static str,
        /// The name of the resource.
        resource: &'static str,
        /// The directory of the resources.
        path: PathBuf,
        /// The resources that the host has.
        available: String,
    },
    /// The value is not one of this host.
    #[error("{key} '{value}' is not valid on this host: {reason}")]
    BadValue {
        /// The key of the configuration.
        key: &'static str,
        /// As it is configured.
        value: String,
        /// Why not, and what would be.
        reason: String,
    },
    /// There is a group of this name already.
    #[error(
        "{} exists already and numalocd has not made it: set another name (resctrl.group), or remove that group with rmdir", path.display()
    )]
    Foreign {
        /// Its directory.
        path: PathBuf,
    },
    /// The kernel refuses a step.
    #[error("cannot {step} {}: {source}{status}", path.display())]
    Refused {
        /// What was to be done: "make".
        step: &'static str,
        /// What it was to be done to.
        path: PathBuf,
        /// The error of the call.
        source: io::Error,
        /// What the kernel says of it (info/last_cmd_status), in parentheses; empty: nothing.
        status: String,
    },
    /// A file of the group cannot be read, or says what this version does not understand.
    #[error("{0}")]
    Host(Error),
    /// The group could not be noted, read again or forgotten.
    #[error("cannot keep a note of the resctrl group: {0}")]
    Journal(Error),
    /// Another process has the right to it.
    #[error("another numalocd has a resctrl group")]
    InUse,
}

/// The error of a step, with what the kernel says of it. `root` is where resctrl is mounted.
pub fn refused(root: &Path, step: &'static str, path: &Path, source: io::Error) -> GroupError {
    let told = read::text(&root.join("info/last_cmd_status")).unwrap_or_default();
    let told: Vec<&str> = told.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let status = match told.as_slice() {
        [] | ["ok"] => String::new(),
        lines => format!(" (last_cmd_status: {})", lines.join("; ")),
    };
    GroupError::Refused { step, path: path.to_owned(), source, status }
}
