//! Changes that `numalocctl advise --apply` makes, and the way back.
//!
//! | module | what it has |
//! |---|---|
//! | `log` | the notes of all changes that have not been undone, in `/run/numalocctl` |
//! | `affinity` | CPUs of threads |
//! | this one | to note what an action replaces, to carry it out, and to undo it |
//!
//! All of these changes end with the boot at the latest, and so do the notes. The directory is not the daemon's: its user must not
//! write what root carries out.

mod affinity;
mod log;
#[cfg(test)]
mod tests;

pub use affinity::{ThreadCpus, Whom};
pub use log::ChangeLog;

use crate::{Error, Roots, files::read, journal, processes::unit};
use numaloc_core::{
    CpuSet,
    advise::{Action, action::set_property},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// A change of the host, with what it replaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A property of a systemd unit.
    #[expect(missing_docs, reason = "the variant names all four")]
    Property { unit: String, name: String, before: String, after: String },
    /// A file of a cgroup, or a setting of the kernel.
    #[expect(missing_docs, reason = "the variant names all three")]
    File { path: PathBuf, before: String, after: String },
    /// The CPU affinity of threads.
    #[expect(missing_docs, reason = "the variant names all three")]
    Affinity { whom: Whom, before: Vec<ThreadCpus>, after: String },
    /// Memory that a migration moves. Migrations are carried out, and undone, elsewhere.
    Memory {
        /// The owner of the memory.
        whose: Moved,
        /// Whether it goes against the application's own memory policy.
        bound: bool,
        /// Where it is before the migration: bytes by node.
        before: BTreeMap<u32, u64>,
    },
}

/// The owner of the memory that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// The memory of the processes of a cgroup, by its path below the mount point.
    Cgroup(String),
    /// The memory of one process.
    #[expect(missing_docs, reason = "as in Identity")]
    Process { pid: i32, start_time: u64 },
}

/// The result of undoing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// Restored to its former state.
    Done,
    /// The changed thing no longer exists.
    Gone,
    /// Another program has changed it since, so it was left as it is: its value.
    Changed(String),
}

/// Checks that an action works on what is meant by it.
///
/// # Errors
/// [`Error::OtherUnit`], [`Error::UnitProperty`].
pub fn check(action: &Action) -> Result<(), Error> {
    match action {
        Action::Property { unit, cgroup, .. } => unit::check_cgroup("systemctl", unit, cgroup),
        Action::Write { .. } | Action::Pin { .. } | Action::Migrate(_) => Ok(()),
    }
}

/// The state that an action replaces; `None` for a migration. Checks the action as [`check`] does.
///
/// # Errors
/// [`Error::Read`], and the errors of [`check`].
pub fn replaced(roots: &Roots, action: &Action) -> Result<Option<Change>, Error> {
    check(action)?;
    Ok(Some(match action {
        Action::Property { unit, name, value, .. } => Change::Property {
            unit: unit.clone(),
            name: (*name).to_owned(),
            before: property(unit, name)?,
            after: value.clone(),
        },
        Action::Write { path, value } => {
            let path = below(roots, path);
            Change::File { before: setting(&read::text(&path)?), path, after: value.clone() }
        }
        Action::Pin { whom, cpus } => {
            let whom = Whom::from(whom);
            let before = affinity::threads(roots, &whom);
            Change::Affinity { whom, before, after: cpus.to_string() }
        }
        Action::Migrate(_) => return Ok(None),
    }))
}

/// Makes a change that has been noted. Nothing is done for [`Change::Memory`].
///
/// # Errors
/// [`Error::Setting`], [`Error::UnitProperty`], [`Error::Affinity`].
pub fn make(roots: &Roots, change: &Change) -> Result<(), Error> {
    match change {
        Change::Property { unit, name, after, .. } => set(unit, name, after),
        Change::File { path, after, .. } => write(path, after),
        Change::Affinity { before, after, .. } => affinity::pin(roots, before, after),
        Change::Memory { .. } => Ok(()),
    }
}

/// Takes a change back, unless another program has changed the same since. Nothing is done for [`Change::Memory`].
///
/// # Errors
/// As [`make`] and [`replaced`].
pub fn undo(roots: &Roots, change: &Change) -> Result<Undone, Error> {
    match change {
        Change::Property { unit, name, before, after } => {
            let now = property(unit, name)?;
            put_back(&now, before, after, || set(unit, name, before))
        }
        Change::File { path, before, after } => match read::text(path) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Undone::Gone)
            }
            text => put_back(&setting(&text?), before, after, || write(path, before)),
        },
        Change::Affinity { whom, before, after } => affinity::undo(roots, whom, before, after),
        Change::Memory { .. } => Ok(Undone::Done),
    }
}

fn put_back(
    now: &str,
    before: &str,
    after: &str,
    set: impl FnOnce() -> Result<(), Error>,
) -> Result<Undone, Error> {
    match now {
        _ if same(now, before) => Ok(Undone::Done),
        _ if same(now, after) => set().map(|()| Undone::Done),
        _ => Ok(Undone::Changed(now.to_owned())),
    }
}

/// Whether two values mean the same. The kernel writes lists in its own way.
fn same(a: &str, b: &str) -> bool {
    let list = |text: &str| text.parse::<CpuSet>().ok();
    a == b || matches!((list(a), list(b)), (Some(a), Some(b)) if a == b)
}

/// systemd separates ranges by white space.
fn property(unit: &str, name: &str) -> Result<String, Error> {
    let said = unit::property(unit, name)?;
    Ok(said.split_whitespace().collect::<Vec<_>>().join(","))
}

fn set(unit: &str, name: &str, value: &str) -> Result<(), Error> {
    let failed = |source: io::Error| Error::UnitProperty {
        unit: unit.to_owned(),
        name: name.to_owned(),
        reason: source.to_string(),
    };
    journal::may_write().map_err(failed)?;
    unit::set_property(&set_property(unit, name, value), unit, name)
}

/// The value that a file shows: its text, or the word that is chosen among several (`always [madvise] never`).
fn setting(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text, |(word, _)| word).trim().to_owned()
}

/// Writes as echo does. An empty line is how a cpuset is emptied: the kernel sees nothing of a write without bytes.
fn write(path: &Path, value: &str) -> Result<(), Error> {
    let written = journal::write(path, &format!("{value}\n"));
    written.map_err(|source| Error::Setting { path: path.to_owned(), source })
}

/// The place of a file that advice names as on a real host.
fn below(roots: &Roots, path: &str) -> PathBuf {
    match path.strip_prefix("/proc/") {
        Some(rest) => roots.proc.join(rest),
        None => match path.strip_prefix("/sys/kernel/") {
            Some(rest) => roots.sys.join("kernel").join(rest),
            None => path.into(),
        },
    }
}
