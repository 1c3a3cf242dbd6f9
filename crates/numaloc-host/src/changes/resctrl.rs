//! The control group of the threads that move memory (Documentation/filesystems/resctrl.rst): what they may use of memory bandwidth and
//! of the L3 cache.
//!
//! The group is made by mkdir, and noted in the journal before. A thread enters it before it moves; threads and processes that it starts
//! from then on are in it, too, as the kernel copies a task's group in fork(2) and clone(2). So nothing has to leave it: these threads end
//! with their run. The end of the daemon, its next start, and `numalocd --restore-settings` remove the group (rmdir); tasks that are
//! still in it are in the root group then. A group of that name that is not the noted one is never written to.
//!
//! The formats differ by processor and by mount option, and are read from the host: [`format`]. Groups of others are never written.

mod error;
pub(crate) mod format;
#[cfg(test)]
mod tests;

pub use error::GroupError;
pub use format::Unit;

use crate::{
    Error, Roots,
    files::read,
    journal::{self, Journal},
};
use error::refused;
use format::ControlledResource;
use nix::unistd::gettid;
use numaloc_core::{GroupName, MoverGroup};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The name of the journal.
const NAME: &str = "resctrl";

/// A group that was made, or is about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GroupNote {
    /// Its name.
    group: String,
    /// The inode of its directory, by which it is known from another group of this name. `None`: it was about to be made.
    inode: Option<u64>,
}

type GroupJournal = Journal<GroupNote>;

/// A control group that this process has made. Dropping it removes it.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    /// The right to the group; `None` once it is removed.
    journal: Mutex<Option<GroupJournal>>,
    settings: Vec<String>,
}

/// Checks whether the host has what `group` asks for, as far as that is known without a new group. Changes nothing.
///
/// # Errors
/// [`GroupError::NotMounted`], [`GroupError::NoControl`], [`GroupError::NoResource`], [`GroupError::BadValue`].
pub fn check(roots: &Roots, group: &MoverGroup) -> Result<(), GroupError> {
    let root = mounted(roots)?;
    let wanted = format::wanted(group);
    for (resources, values) in ControlledResource::read(&root, &root, &wanted)? {
        resources.iter().try_for_each(|resource| resource.check(&values, false))?;
    }
    Ok(())
}

/// Removes the group that a process which was killed has left. Returns its name; `None`: there is none, or it belongs to a running
/// process.
///
/// # Errors
/// [`GroupError::Journal`], [`GroupError::Refused`]. The note is kept for another try.
pub fn recover(roots: &Roots) -> Result<Option<String>, GroupError> {
    if !journal::is_noted(roots, NAME) {
        return Ok(None);
    }
    let taken = GroupJournal::take(roots, NAME).map_err(GroupError::Journal)?;
    let Some(mut journal) = taken else { return Ok(None) };
    remove_noted(roots, &mut journal)
}

impl ControlGroup {
    /// Makes the group, and sets what its threads may use. Removes what a process that was killed has left before.
    ///
    /// # Errors
    /// The host does not have what is asked for, or the kernel refuses it. Nothing is left of the try.
    pub fn make(roots: &Roots, group: &MoverGroup) -> Result<Self, GroupError> {
        let root = mounted(roots)?;
        let taken = GroupJournal::take(roots, NAME).map_err(GroupError::Journal)?;
        let mut journal = taken.ok_or(GroupError::InUse)?;
        remove_noted(roots, &mut journal)?;
        let wanted = format::wanted(group);
        // Before anything is made: the resources that the host has.
        ControlledResource::read(&root, &root, &wanted)?;
        let name = group.name.as_str().to_owned();
        let path = root.join(&name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(GroupError::Foreign { path });
        }
        let mut note = GroupNote { group: name, inode: None };
        journal.note(&note).map_err(GroupError::Journal)?;
        let made = journal::may_write().and_then(|()| fs::create_dir(&path));
        if let Err(source) = made {
            let error = refused(&root, "make", &path, source);
            journal.forget().map_err(GroupError::Journal)?;
            return Err(error);
        }
        note.inode = inode(&path);
        let set = journal.note(&note).map_err(GroupError::Journal).and_then(|()| {
            let resources = ControlledResource::read(&root, &path, &wanted)?;
            set(&root, &path, &resources)
        });
        let mut made =
            Self { path: path.clone(), journal: Mutex::new(Some(journal)), settings: Vec::new() };
        // If it fails, dropping what was made removes it.
        made.settings = set?;
        Ok(made)
    }

    /// What is set in it, a line for each resource, for people.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the calling thread into the group, and with it all that it starts from now on.
    ///
    /// # Errors
    /// [`GroupError::Refused`]: only root and the owner of a thread may do so, or the group is gone.
    pub fn enter(&self) -> Result<(), GroupError> {
        let root = self.path.parent().unwrap_or(&self.path);
        let tasks = self.path.join("tasks");
        let entered = journal::write(&tasks, &format!("{}\n", gettid()));
        entered.map_err(|source| refused(root, "write to", &tasks, source))
    }

    /// Removes the group. Threads that are still in it are in the root group then.
    ///
    /// # Errors
    /// [`GroupError::Journal`], [`GroupError::Refused`]. The note is kept for another try.
    pub fn remove(&self) -> Result<(), GroupError> {
        let mut held = self.journal.lock();
        let Some(journal) = held.as_mut() else { return Ok(()) };
        let root = self.path.parent().unwrap_or(&self.path);
        let removed = remove_if_ours(root, journal);
        *held = None;
        removed.map(drop)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // If it cannot be removed now, it stays noted, and the next start of the daemon removes it.
        let _ = self.remove();
    }
}

/// The mount point, if resctrl is mounted there.
fn mounted(roots: &Roots) -> Result<PathBuf, GroupError> {
    let path = roots.resctrl();
    match path.join("info").is_dir() {
        true => Ok(path),
        false => Err(GroupError::NotMounted { path }),
    }
}

/// Checks the values by what the new group shows, writes them in one call, and returns what the kernel has made of them.
fn set(
    root: &Path,
    group: &Path,
    resources: &[format::WantedResources],
) -> Result<Vec<String>, GroupError> {
    let mut lines = String::new();
    for (resources, values) in resources {
        for resource in resources {
            resource.check(values, true)?;
            lines += &resource.line(values);
        }
    }
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let schemata = group.join("schemata");
    let written = journal::write(&schemata, &lines);
    written.map_err(|source| refused(root, "write to", &schemata, source))?;
    let text = read::text(&schemata).map_err(GroupError::Host)?;
    let resources = resources.iter().flat_map(|(resources, _)| resources);
    Ok(resources.filter_map(|resource| resource.described(&text)).collect())
}

fn remove_noted(roots: &Roots, journal: &mut GroupJournal) -> Result<Option<String>, GroupError> {
    remove_if_ours(&roots.resctrl(), journal)
}

/// Removes the noted group, if it is the one that was made, and forgets it.
fn remove_if_ours(root: &Path, journal: &mut GroupJournal) -> Result<Option<String>, GroupError> {
    let Some(note) = journal.noted().map_err(GroupError::Journal)? else { return Ok(None) };
    // The file may belong to another user than this process, which must stay among the groups.
    let name = GroupName::parse(&note.group)
        .map_err(|reason| GroupError::Host(Error::Parse { path: PathBuf::from(NAME), reason }))?;
    let path = root.join(name.as_str());
    let is_ours = match (note.inode, inode(&path)) {
        (Some(noted), Some(present)) => noted == present,
        // It was killed between mkdir and the note of the inode, or before mkdir. A group that is in use belongs to somebody else.
        (None, Some(_)) => is_unused(&path),
        (_, None) => false,
    };
    if is_ours {
        let removed = journal::may_write().and_then(|()| fs::remove_dir(&path));
        removed.map_err(|source| refused(root, "remove", &path, source))?;
    }
    journal.forget().map_err(GroupError::Journal)?;
    Ok(is_ours.then_some(note.group))
}

/// The inode of a directory; `None`: it does not exist.
fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|metadata| metadata.ino())
}

/// Whether a group has neither tasks nor CPUs nor monitoring groups.
fn is_unused(path: &Path) -> bool {
    let is_empty =
        |file: &str| read::text(&path.join(file)).is_ok_and(|text| text.trim().is_empty());
    let monitoring = read::entries(&path.join("mon_groups"), |name| Some(name.to_owned()));
    is_empty("tasks") && is_empty("cpus_list") && monitoring.is_empty()
}
