//! Paths with globs in their components.

use numaloc_core::Glob;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Most paths that may match at once, and most files that a path may name.
pub(crate) const PATHS: usize = 1 << 16;
/// Most entries of directories that are looked at for one path: some seconds.
pub(super) const ENTRIES: usize = 1 << 20;

/// Why the paths that match are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmatched {
    /// They are too many, or the directories that they would be in are too large.
    TooMany,
    /// The caller stopped the search.
    Stopped,
}

/// The paths below `top` that match one with globs ([`Glob`]), in ascending order; none for a path without. `keep` says of each path that
/// matches a beginning whether it counts. A symbolic link that matches a glob counts as a path, and is not followed to match more: links to
/// directories above them would match without end. `stop` ends the search if it returns true.
///
/// # Errors
/// More than 65,536 paths match a beginning, or more than a million entries have been looked at; `stop` has returned true.
pub(crate) fn matches(
    top: &Path,
    relative: &Path,
    keep: impl Fn(&Path) -> bool,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<PathBuf>, Unmatched> {
    let parts: Vec<&str> = relative.iter().filter_map(|part| part.to_str()).collect();
    if !parts.iter().any(|part| Glob::is_pattern(part)) {
        return Ok(Vec::new());
    }
    let (mut paths, mut looked_at) = (vec![top.to_path_buf()], 0);
    for (number, part) in parts.iter().enumerate() {
        let (glob, is_last) = (Glob::new(part), number + 1 == parts.len());
        let mut below = Vec::new();
        for above in paths {
            if stop() {
                return Err(Unmatched::Stopped);
            }
            if !Glob::is_pattern(part) {
                below.extend(Some(above.join(part)).filter(|path| keep(path)));
                continue;
            }
            let mut names = Vec::new();
            for entry in fs::read_dir(&above).into_iter().flatten().filter_map(Result::ok) {
                looked_at += 1;
                if looked_at > ENTRIES {
                    return Err(Unmatched::TooMany);
                }
                let Ok(name) = entry.file_name().into_string() else { continue };
                let is_link = || entry.file_type().is_ok_and(|kind| kind.is_symlink());
                if glob.matches(&name) && (is_last || !is_link()) {
                    names.push(name);
                }
            }
            names.sort_unstable();
            let paths = names.into_iter().map(|name| above.join(name));
            below.extend(paths.filter(|path| keep(path)));
            if below.len() > PATHS {
                return Err(Unmatched::TooMany);
            }
        }
        paths = below;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, os::unix::fs::symlink};

    fn below(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, Unmatched> {
        matches(directory, Path::new(pattern), Path::exists, &|| false)
    }

    /// Sixty links to itself are 60^5 paths for five globs.
    #[test]
    fn links_are_not_followed_to_match_more() {
        let directory = tempfile::tempdir().expect("a directory");
        for number in 0..60 {
            symlink(".", directory.path().join(format!("link{number}"))).expect("a link");
        }
        fs::create_dir(directory.path().join("below")).expect("a directory");
        fs::write(directory.path().join("below/x"), "").expect("a file");
        let path = |name: &str| vec![directory.path().join(name)];
        assert_eq!(below(directory.path(), "*/*/*/*/*/x*"), Ok(Vec::new()));
        assert_eq!(below(directory.path(), "*/x*"), Ok(path("below/x")));
        assert_eq!(below(directory.path(), "link7*"), Ok(path("link7")), "a link is a path");
        assert_eq!(below(directory.path(), "link7/bel*/x"), Ok(path("link7/below/x")), "named");
    }

    #[test]
    fn what_matches_too_much_is_an_error_and_the_search_can_be_stopped() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        for one in 0..260 {
            let one = directory.path().join(one.to_string());
            fs::create_dir(&one).expect("a directory");
            (0..260).for_each(|other| {
                fs::write(one.join(other.to_string()), "").expect("a file");
            });
        }
        assert_eq!(below(directory.path(), "*/*"), Err(Unmatched::TooMany));
        assert_eq!(below(directory.path(), "*/7").map(|all| all.len()), Ok(260));
        let asked = Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 5;
        let stopped = matches(directory.path(), Path::new("*/*"), |_| true, &stop);
        assert_eq!((stopped, asked.get()), (Err(Unmatched::Stopped), 6));
    }
}
