//! Memory that a caller may have moved, by its owner.

use crate::Error;
use numaloc_core::{Identity, Process};
use numaloc_host::{
    CachedFile, Error as HostError, FileOwner, Owner, Roots, Whose, file_owner, named_paths, owner,
};
use std::path::{Path, PathBuf};

/// Owners whose memory may be moved on behalf of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The memory of every process of the host.
    All,
    /// Memory of processes of one user, and of processes in some cgroups.
    Of {
        /// Processes whose real, effective and saved user id are this one.
        uid: Option<u32>,
        /// Processes in these cgroups and their children: absolute paths as in /proc/PID/cgroup.
        cgroups: Vec<String>,
        /// The page cache of the user's files, of these files, and of files below these directories: absolute paths.
        files: Vec<String>,
    },
}

impl Authority {
    /// No owner.
    pub const NONE: Self = Self::Of { uid: None, cgroups: Vec::new(), files: Vec::new() };

    /// Whether `cgroup` is one of the authority's cgroups, or below one of them.
    pub fn is_over(&self, cgroup: &str) -> bool {
        let below = |top: &String| {
            let rest = cgroup.strip_prefix(top.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        match self {
            Self::All => true,
            Self::Of { cgroups, .. } => cgroups.iter().any(below),
        }
    }
}

/// Checks that `authority` extends to each of `processes`. Processes that have ended meanwhile do not matter.
///
/// # Errors
/// Not permitted, with the first process that is out of bounds.
pub fn check<'a>(
    roots: &Roots,
    processes: impl IntoIterator<Item = &'a Process>,
    authority: &Authority,
) -> Result<(), Error> {
    if *authority == Authority::All {
        return Ok(());
    }
    for process in processes {
        match owner(roots, process.identity)? {
            Some(owner) if !extends_to(authority, &owner) => return Err(refuse(process, &owner)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether `authority` extends to a process. It does not extend to a process that has ended or is not readable.
pub fn includes(roots: &Roots, process: Identity, authority: &Authority) -> bool {
    let is_included = |owner: Owner| extends_to(authority, &owner);
    *authority == Authority::All || owner(roots, process).ok().flatten().is_some_and(is_included)
}

/// The owner whose page cache may be moved, of files that no other program uses.
pub fn whose(authority: &Authority) -> Whose {
    match authority.clone() {
        Authority::All => Whose::Anybody,
        Authority::Of { uid, cgroups, .. } => Whose::Of { uid, cgroups },
    }
}

/// Whether `authority` extends to the page cache of a file.
pub fn includes_file(authority: &Authority, file: &FileOwner) -> bool {
    match authority {
        Authority::All => true,
        Authority::Of { uid, files, .. } => {
            *uid == Some(file.uid) || files.iter().any(|top| file.path.starts_with(top))
        }
    }
}

/// Checks that `authority` extends to a file.
///
/// # Errors
/// [`HostError::NoFile`]: the same as if it was not there.
pub fn check_file(authority: &Authority, file: &CachedFile) -> Result<(), HostError> {
    match includes_file(authority, file.owner()) {
        true => Ok(()),
        false => Err(HostError::NoFile { path: file.path().into() }),
    }
}

/// Checks that a file or directory is there, or one that matches, and that `authority` extends to it. Does not say
/// which of the two is missing: the daemon sees files that the caller may not.
///
/// # Errors
/// Not found; [`HostError::FileRefused`] for a pattern that matches too much or is in procfs or sysfs;
/// [`HostError::Stopped`] if `stop` returns true.
pub fn check_path(
    roots: &Roots,
    path: &Path,
    authority: &Authority,
    stop: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let named = named_paths(path, stop);
    if *authority == Authority::All {
        return Ok(named.map(drop)?);
    }
    let is_included = |path: &PathBuf| {
        file_owner(roots, path).is_ok_and(|owner| includes_file(authority, &owner))
    };
    match named {
        Ok(named) if named.iter().any(is_included) => Ok(()),
        // A pattern that is refused whatever there is, or a search that has been given up.
        Err(error @ (HostError::FileRefused { .. } | HostError::Stopped)) => Err(error.into()),
        Ok(_) | Err(_) => Err(Error::NotFound {
            message: format!(
                "you own no file {}: check the path, or have it added to the files of your grant in the daemon's \
                 configuration",
                path.display()
            ),
        }),
    }
}

fn extends_to(authority: &Authority, owner: &Owner) -> bool {
    whose(authority).includes(owner)
}

fn refuse(process: &Process, owner: &Owner) -> Error {
    let (pid, comm, uid) = (process.identity.pid, &process.comm, owner.uids[0]);
    let cgroup = owner.cgroups.first().map_or("/", String::as_str);
    let message = format!(
        "process {pid} ({comm}) of user {uid} is neither yours nor in a cgroup that was given to you: \
         ask for its cgroup {cgroup}, or for the role of an admin, in the daemon's configuration"
    );
    Error::NotPermitted { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uids: [u32; 4], cgroup: &str) -> Owner {
        Owner { uids, cgroups: vec![cgroup.to_owned()] }
    }

    fn of(uid: Option<u32>, cgroups: &[&str]) -> Authority {
        Authority::Of {
            uid,
            cgroups: cgroups.iter().map(|&path| path.to_owned()).collect(),
            files: Vec::new(),
        }
    }

    #[test]
    fn own_processes_and_given_cgroups_are_within_it() {
        let mine = owner([7; 4], "/user.slice");
        assert!(extends_to(&Authority::All, &mine));
        assert!(extends_to(&of(Some(7), &[]), &mine));
        assert!(extends_to(&of(None, &["/x", "/user.slice"]), &mine));
        assert!(extends_to(&of(Some(8), &["/"]), &mine));
    }

    #[test]
    fn all_else_is_not() {
        let mine = owner([7; 4], "/user.slice/a");
        assert!(!extends_to(&of(None, &[]), &mine));
        assert!(!extends_to(&of(Some(8), &["/user", "/user.slice/a/b"]), &mine));
        // A process of this user that has set root's rights aside for now: its saved uid is still 0.
        assert!(!extends_to(&of(Some(7), &[]), &owner([7, 7, 0, 7], "/")));
    }
}
