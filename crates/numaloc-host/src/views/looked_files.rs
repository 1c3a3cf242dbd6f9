//! A look at the page cache of the files that a path names.

use super::cached_file::{CachedFile, FileId, files_of};
use crate::{Error, Roots, nodes::topology};
use numaloc_core::{CacheGoal, FileCache, Options, Topology};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Where a request says that the cache of files belongs, with the options as they are on this machine ([`Options::on`]).
///
/// # Errors
/// [`Error::BadNode`], [`Error::OneNode`], [`Error::NoBandwidth`], [`Error::BadGoal`].
pub fn cache_goal(
    roots: &Roots,
    topology: &Topology,
    options: &Options,
) -> Result<(Options, CacheGoal), Error> {
    topology::check_options(roots, topology, options)?;
    topology::check_several(topology)?;
    let options = options.on(topology);
    let options = options.map_err(|unknown| Error::NoBandwidth { nodes: unknown.0.to_string() })?;
    let all = topology.with_memory().minus(&topology.other_tiers());
    let goal = CacheGoal::new(options.to.as_ref(), &options.placement, &all)?;
    Ok((options, goal))
}

/// A file of which something is cached.
#[derive(Debug)]
pub struct LookedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it was under that path.
    pub id: FileId,
    /// Its length in bytes.
    pub bytes: u64,
    /// What was found.
    pub cache: FileCache,
}

/// What was found of the files that a path names.
#[derive(Debug, Default)]
pub struct LookedFiles {
    /// Those of which something is cached.
    pub files: Vec<LookedFile>,
    /// Number of files that were looked at.
    pub count: u64,
    /// Files and directories below the path that were left out, and why.
    pub left_out: Vec<(PathBuf, Error)>,
}

impl LookedFiles {
    /// Looks at a file, or at all files below a directory. Those in `seen` are left out and those that are looked at join it, because a
    /// file may have several names. `admits` refuses files once they are open. Ends early if `stop` returns true.
    ///
    /// # Errors
    /// The path cannot be looked at; of a directory what cannot be is left out. Those of [`CachedFile::open`] and `admits`;
    /// [`Error::Stopped`].
    pub fn of(
        roots: &Roots,
        path: &Path,
        seen: &mut BTreeSet<FileId>,
        admits: &dyn Fn(&CachedFile) -> Result<(), Error>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let named = files_of(path)?;
        let unread = named.unread.into_iter().map(|error| (path.to_owned(), error));
        let mut looked = Self { left_out: unread.collect(), ..Self::default() };
        for name in named.files {
            let found = CachedFile::open(roots, &name).and_then(|file| {
                admits(&file)?;
                let is_new = seen.insert(file.id());
                is_new.then(|| Ok((file.look(stop)?, file))).transpose()
            });
            match found {
                Ok(None) => {}
                Ok(Some((cache, file))) => {
                    looked.count += 1;
                    if cache.bytes() > 0 {
                        let (id, bytes) = (file.id(), file.bytes());
                        looked.files.push(LookedFile { path: name, id, bytes, cache });
                    }
                }
                Err(error @ Error::Stopped) => return Err(error),
                Err(error) if name == *path => return Err(error),
                Err(error) => looked.left_out.push((name, error)),
            }
        }
        Ok(looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::PAGE;
    use std::fs;

    fn look(
        path: &Path,
        admits: &dyn Fn(&CachedFile) -> Result<(), Error>,
    ) -> Result<LookedFiles, Error> {
        LookedFiles::of(&Roots::default(), path, &mut BTreeSet::new(), admits, &|| false)
    }

    #[test]
    fn a_file_with_several_names_counts_once_and_what_is_not_admitted_is_left_out() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = |name: &str| directory.path().join(name);
        for name in ["a", "b"] {
            fs::write(path(name), [7; PAGE as usize]).expect("a file");
        }
        fs::hard_link(path("a"), path("c")).expect("a link");
        let refuse = |file: &CachedFile| match file.path().ends_with("b") {
            true => Err(Error::FileRights { path: file.path().into() }),
            false => Ok(()),
        };
        let looked = look(directory.path(), &refuse).expect("a directory");
        let files: Vec<_> = looked.files.iter().map(|file| &file.path).collect();
        assert_eq!((files, looked.count), (vec![&path("a")], 1));
        assert_eq!(looked.files[0].cache.bytes(), PAGE);
        let [(left_out, Error::FileRights { .. })] = &looked.left_out[..] else {
            panic!("{looked:?}");
        };
        assert_eq!(left_out, &path("b"));
        // Named itself it is refused.
        assert!(matches!(look(&path("b"), &refuse), Err(Error::FileRights { .. })));
    }
}
