//! The files that a path names, by globs and below directories.

use super::{
    cached_file::unread,
    globs::{self, ENTRIES, PATHS, Unmatched},
};
use crate::Error;
use numaloc_core::Glob;
use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// The files that a path names.
#[derive(Debug, Default)]
pub(crate) struct FilesOf {
    /// In the order of their names.
    pub files: Vec<PathBuf>,
    /// Why some directories below the path could not be read.
    pub unread: Vec<Error>,
}

/// The paths that a path names: itself, or, if no such file exists, the paths that match it with `*` and `?` in its
/// components.
///
/// # Errors
/// [`Error::NoFile`]; [`Error::FileRefused`] for a pattern that matches too much, and for one in procfs or sysfs, where one file has any
/// number of paths; [`Error::Stopped`].
pub fn named_paths(path: &Path, stop: &dyn Fn() -> bool) -> Result<Vec<PathBuf>, Error> {
    if path.exists() {
        return Ok(vec![path.into()]);
    }
    let refused = |reason: &str| Error::FileRefused { path: path.into(), reason: reason.into() };
    let is_plain = |part: &OsStr| !part.to_str().is_some_and(Glob::is_pattern);
    let mut plain: PathBuf = path.iter().take_while(|part| is_plain(part)).collect();
    if plain.as_os_str().is_empty() {
        plain.push(".");
    }
    let Ok(top) = plain.canonicalize() else { return Err(Error::NoFile { path: path.into() }) };
    if ["/proc", "/sys"].iter().any(|root| top.starts_with(root)) {
        return Err(refused("it is a pattern in /proc or /sys: name single files there"));
    }
    let relative = path.strip_prefix(&plain).unwrap_or(path);
    match globs::matches(&plain, relative, Path::exists, stop) {
        Ok(found) if found.is_empty() => Err(Error::NoFile { path: path.into() }),
        Ok(found) => Ok(found),
        Err(Unmatched::Stopped) => Err(Error::Stopped),
        Err(Unmatched::TooMany) => {
            Err(refused("too much matches the pattern: name directories, or fewer files"))
        }
    }
}

/// The regular files that a path names ([`named_paths`]): itself, or all below a directory that are on its file system. Symbolic links
/// below it are not followed.
///
/// # Errors
/// The errors of [`named_paths`]; [`Error::Read`]: a path that is named cannot be read; [`Error::FileRefused`] if
/// there are more than 65,536 files, or a million entries of directories.
pub(crate) fn files_of(path: &Path, stop: &dyn Fn() -> bool) -> Result<FilesOf, Error> {
    let (mut all, mut looked_at) = (FilesOf::default(), 0);
    for below in named_paths(path, stop)? {
        let FilesOf { files, unread } = files_below(&below, &mut looked_at, stop)?;
        all.files.extend(files);
        all.unread.extend(unread);
        if all.files.len() > PATHS || looked_at > ENTRIES {
            let reason = format!("there are more than {PATHS} files below it: name some of them");
            return Err(Error::FileRefused { path: path.into(), reason });
        }
    }
    all.files.sort();
    Ok(all)
}

/// Adds the entries of directories to `looked_at`. Ends early where these or the files are too many.
fn files_below(
    path: &Path,
    looked_at: &mut usize,
    stop: &dyn Fn() -> bool,
) -> Result<FilesOf, Error> {
    let top = fs::metadata(path).map_err(|source| unread(path, source))?;
    if !top.is_dir() {
        return Ok(FilesOf { files: vec![path.into()], ..FilesOf::default() });
    }
    let (mut found, mut directories) = (FilesOf::default(), vec![path.to_owned()]);
    while let Some(directory) = directories.pop() {
        if stop() {
            return Err(Error::Stopped);
        }
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(source) if directory == path => return Err(unread(path, source)),
            Err(source) => {
                found.unread.push(unread(&directory, source));
                continue;
            }
        };
        for entry in entries.flatten() {
            *looked_at += 1;
            // It may have been removed since.
            let Ok(seen) = entry.metadata() else { continue };
            if seen.is_dir() && seen.dev() == top.dev() {
                directories.push(entry.path());
            } else if seen.is_file() && seen.len() > 0 {
                found.files.push(entry.path());
            }
        }
        if found.files.len() > PATHS || *looked_at > ENTRIES {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn written(path: &Path, bytes: usize) {
        fs::write(path, vec![7; bytes]).expect("a temporary file");
    }

    #[test]
    fn a_directory_stands_for_the_files_below_it() {
        let files = |path: &Path| files_of(path, &|| false);
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("below")).expect("a directory");
        for name in ["b", "a", "below/c"] {
            written(&path(name), 1);
        }
        written(&path("empty"), 0);
        symlink(path("a"), path("link")).expect("a link");
        assert_eq!(files(directory.path()).unwrap().files, ["a", "b", "below/c"].map(path));
        assert_eq!(files(&path("link")).unwrap().files, [path("link")]);
        assert!(matches!(files(&path("none")), Err(Error::NoFile { .. })));
        // A path that a pattern names may be empty, or a link.
        let all = ["a", "b", "below/c", "empty", "link"].map(path);
        assert_eq!(files(&path("*")).unwrap().files, all);
        assert_eq!(files(&path("b*/?")).unwrap().files, [path("below/c")]);
        assert!(matches!(files(&path("*.none")), Err(Error::NoFile { .. })));
        // A name is one before it is a pattern.
        written(&path("b*"), 1);
        assert_eq!(files(&path("b*")).unwrap().files, [path("b*")]);
    }

    #[test]
    fn patterns_in_procfs_and_sysfs_are_refused() {
        let refused = |pattern: &str| match named_paths(Path::new(pattern), &|| false) {
            Err(Error::FileRefused { reason, .. }) => reason,
            other => panic!("{pattern}: {other:?}"),
        };
        for pattern in ["/proc/*/root/proc/*/root/x*", "/sys/*", "/../proc/self/fd/*"] {
            assert!(refused(pattern).contains("/proc or /sys"), "{pattern}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let link = directory.path().join("link");
        symlink("/proc/self", &link).expect("a link");
        assert!(refused(&format!("{}/*", link.display())).contains("/proc or /sys"));
        assert!(named_paths(Path::new("/proc/self/stat"), &|| false).is_ok(), "a file");
    }

    #[test]
    fn a_search_that_is_stopped_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        written(&directory.path().join("a"), 1);
        assert!(matches!(files_of(directory.path(), &|| true), Err(Error::Stopped)));
        let pattern = directory.path().join("?");
        assert!(matches!(named_paths(&pattern, &|| true), Err(Error::Stopped)));
    }
}
